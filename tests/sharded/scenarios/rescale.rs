//! Other totals, as real rollouts: one edit of `manifests/sharded`, and one apply.

use std::{collections::BTreeSet, future::pending};

use fastrand::Rng;

use super::{PATIENCE, any, bounds, eventually, pause, say, seed};
use crate::{
    bed::{ALERTKUBE, Bed, name},
    oracle::Flow,
    support::{Happening, watched},
};

/// Kills during one rollout, at most.
const KILLS: usize = 8;

/// Rescales, and waits until the rollout is over and nothing of the old total is left.
async fn rescale(bed: &Bed, flow: &Flow, from: u32, to: u32) {
    let started = tokio::time::Instant::now();
    flow.fault(format!("rescale {from} to {to}"), async {
        bed.apply(to).await;
        bed.wait_rolled_out(to).await;
        wait_handed_over(bed, to).await;
    })
    .await;
    say(format_args!(
        "  {from} to {to}: {:.0} s",
        started.elapsed().as_secs_f64()
    ));
}

/// Waits until no Lease and no state is of another total: what was in them was taken over.
async fn wait_handed_over(bed: &Bed, total: u32) {
    let of_others = format!("alertkube.io/shard-total,alertkube.io/shard-total!={total}");
    let what = format!("Leases and states of other totals than {total} to go");
    eventually(what, PATIENCE, async || {
        let objects = ["-n", crate::bed::ALERTKUBE, "get", "leases,configmaps"];
        let arguments = [&objects[..], &["-o", "name", "-l", &of_others]].concat();
        let names = bed.plane.kubectl(&arguments).await;
        names.lines().all(|line| !line.contains('/')).then_some(())
    })
    .await;
}

#[tokio::test]
async fn one_replica_becomes_three_under_a_steady_flow() {
    let bed = Bed::with_replicas(1).await;
    let flow = Flow::start(&bed, "1 to 3", seed()).await;
    flow.wait_for_more(20).await;
    rescale(&bed, &flow, 1, 3).await;
    flow.wait_for_more(20).await;
    flow.finish(bounds(0)).await;
    // By then it has done all that it ever does.
    let user = format!("system:serviceaccount:{ALERTKUBE}:{ALERTKUBE}");
    let (mut asked, granted) = (bed.plane.requests_of(&user), granted());
    // Granted by nobody: that anybody may ask what it may do is the API server's own default (`system:basic-user`).
    asked.remove("create selfsubjectaccessreviews");
    assert!(asked.is_subset(&granted), "{asked:?}");
    // Granted for what is not here: a pod that finds the API server without a kubeconfig, whose context names the cluster, and an API server without
    // streaming lists.
    let unused: BTreeSet<_> = granted.difference(&asked).cloned().collect();
    let lists = watched()
        .into_iter()
        .map(|resource| format!("list {resource}"));
    assert_eq!(unused, lists.chain(["get namespaces".to_owned()]).collect());
    assert_eq!(bed.plane.refusals_of(&user), Vec::<String>::new());
}

/// What the manifests grant: a verb and a resource each.
fn granted() -> BTreeSet<String> {
    let file = include_str!("../../../manifests/base/rbac.yaml");
    let word = |line: &str, key: &str| {
        let list = line.trim().strip_prefix(key)?.trim();
        let list = list.strip_prefix('[')?.strip_suffix(']')?;
        Some(list.split(", ").map(str::to_owned).collect::<Vec<_>>())
    };
    let mut granted = BTreeSet::new();
    let mut resources = Vec::new();
    for line in file.lines() {
        if let Some(found) = word(line, "resources:") {
            resources = found;
        } else if let Some(verbs) = word(line, "verbs:") {
            for resource in &resources {
                granted.extend(verbs.iter().map(|verb| format!("{verb} {resource}")));
            }
        }
    }
    granted
}

#[tokio::test]
#[ignore = "long: 10 minutes"]
async fn rollouts_to_other_totals_lose_nothing() {
    let steps = [1, 3, 4, 3, 4, 8, 5, 3, 1];
    let bed = Bed::with_replicas(steps[0]).await;
    let flow = Flow::start(&bed, "rescaling", seed()).await;
    for step in steps.windows(2) {
        flow.wait_for_more(20).await;
        rescale(&bed, &flow, step[0], step[1]).await;
    }
    flow.wait_for_more(20).await;
    // A rescale alone takes no owner away for longer than the hand-over itself.
    flow.finish(bounds(0)).await;
}

#[tokio::test]
#[ignore = "long: 15 minutes"]
async fn rollouts_to_other_totals_with_kills_on_top_lose_nothing() {
    let steps = [1, 3, 4, 3, 4, 8, 5, 3, 1];
    let bed = Bed::with_replicas(steps[0]).await;
    let mut rng = Rng::with_seed(seed());
    let flow = Flow::start(&bed, "rescaling, with kills", seed()).await;
    for step in steps.windows(2) {
        flow.wait_for_more(20).await;
        let kills = async {
            for _ in 0..KILLS {
                pause(&mut rng, 1_000..8_000).await;
                let most = step[0].max(step[1]);
                let pods = bed.kubelet.pods();
                if pods.contains_key(&name(most - 1)) {
                    any(&bed, &mut rng, most).kill();
                } else {
                    any(&bed, &mut rng, step[0].min(step[1])).kill();
                }
            }
            // Of one replica that is killed again and again, none lives for as long as it takes to get the Lease of the one before.
            pending::<()>().await;
        };
        tokio::select! {
            () = rescale(&bed, &flow, step[0], step[1]) => {}
            () = kills => {}
        }
    }
    flow.wait_for_more(20).await;
    flow.finish(bounds(4)).await;
}

#[tokio::test]
#[ignore = "long: 5 minutes"]
async fn a_rollback_in_the_middle_of_a_hand_over_loses_nothing() {
    let bed = Bed::with_replicas(3).await;
    let flow = Flow::start(&bed, "rollbacks", seed()).await;
    for other in [4, 2, 5] {
        flow.wait_for_more(20).await;
        flow.fault(format!("3 to {other} and back"), async {
            let before = bed.kubelet.events().len();
            bed.apply(other).await;
            // The first pod of the new template is ready: of the old total there are some, of the new one there are some.
            eventually("the rollout to be half-way", PATIENCE, async || {
                let events = bed.kubelet.events().split_off(before);
                let is_new = |event: &crate::support::Event| event.what == Happening::Ready;
                events.iter().any(is_new).then_some(())
            })
            .await;
            bed.apply(3).await;
            bed.wait_rolled_out(3).await;
            wait_handed_over(&bed, 3).await;
        })
        .await;
    }
    flow.wait_for_more(20).await;
    flow.finish(bounds(1)).await;
}

#[tokio::test]
#[ignore = "long: 5 minutes"]
async fn two_changes_of_the_total_in_a_row_lose_nothing() {
    let bed = Bed::with_replicas(2).await;
    let flow = Flow::start(&bed, "2 to 3 to 5 at once", seed()).await;
    flow.wait_for_more(20).await;
    flow.fault("2 to 3 to 5", async {
        bed.apply(3).await;
        bed.apply(5).await;
        bed.wait_rolled_out(5).await;
        wait_handed_over(&bed, 5).await;
    })
    .await;
    flow.wait_for_more(20).await;
    flow.finish(bounds(1)).await;
}
