//! A total that is not the number of replicas: a template of which only a part was changed, and `kubectl scale`.

use std::time::Duration;

use super::{PATIENCE, bounds, eventually, seed, wait_all_ready};
use crate::{
    bed::{ALERTKUBE, Bed, name},
    oracle::Flow,
};

/// Changes the StatefulSet by the command line, as somebody in a hurry does.
async fn by_hand(bed: &Bed, command: &[&str]) {
    let target = ["-n", ALERTKUBE];
    bed.plane.kubectl(&[&target[..], command].concat()).await;
}

/// Waits until a replica says this of itself.
async fn wait_to_say(bed: &Bed, pod: u32, path: &str, wanted: &str) {
    let name = name(pod);
    eventually(format!("{name} to say {wanted:?}"), PATIENCE, async || {
        let pods = bed.kubelet.pods();
        let (_, text) = pods.get(&name)?.get(path).await?;
        text.contains(wanted).then_some(())
    })
    .await;
}

#[tokio::test]
#[ignore = "long: 2 minutes"]
async fn a_wrong_total_stops_at_its_first_pod_and_loses_nothing() {
    let bed = Bed::with_replicas(3).await;
    let flow = Flow::start(&bed, "a wrong total", seed()).await;
    flow.wait_for_more(10).await;
    flow.fault("a total of 5 for 3 replicas", async {
        let total = "ALERTKUBE_SHARD_TOTAL=5";
        by_hand(&bed, &["set", "env", "statefulset/alertkube", total]).await;
        // The first pod of the rollout does not become ready, and says why; so it is the last.
        wait_to_say(&bed, 2, "/readyz", "ALERTKUBE_SHARD_TOTAL is 5").await;
        flow.wait_for_more(20).await;
        let ready = (0..3).map(|pod| bed.kubelet.pod(&name(pod)).is_ready());
        assert_eq!(ready.collect::<Vec<_>>(), [true, true, false]);
        // What it does not take has an heir.
        wait_to_say(&bed, 0, "/readyz?verbose", "shard 2-of-3 served by an heir").await;
        by_hand(
            &bed,
            &[
                "set",
                "env",
                "statefulset/alertkube",
                "ALERTKUBE_SHARD_TOTAL=3",
            ],
        )
        .await;
        bed.wait_rolled_out(3).await;
    })
    .await;
    flow.wait_for_more(10).await;
    flow.finish(bounds(2)).await;
}

#[tokio::test]
#[ignore = "long: 2 minutes"]
async fn a_scale_without_the_total_leaves_a_working_generation_as_it_is() {
    let bed = Bed::with_replicas(3).await;
    let flow = Flow::start(&bed, "kubectl scale", seed()).await;
    flow.wait_for_more(10).await;
    flow.fault("scaled to 2, with the total as it was", async {
        by_hand(&bed, &["scale", "statefulset/alertkube", "--replicas=2"]).await;
        wait_to_say(&bed, 0, "/readyz?verbose", "shard 2-of-3 served by an heir").await;
        wait_to_say(
            &bed,
            0,
            "/metrics",
            "alertkube_statefulset_replicas_differ 1",
        )
        .await;
        // Restarts included.
        let pod = bed.kubelet.pod(&name(1));
        assert!(pod.kill());
        tokio::time::sleep(Duration::from_secs(1)).await;
        wait_all_ready(&bed, 2).await;
        flow.wait_for_more(20).await;
    })
    .await;
    flow.finish(bounds(2)).await;
}
