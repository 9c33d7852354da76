//! Replicas that die, stop, stand still, or are cut off.

use std::time::Duration;

use fastrand::Rng;
use tokio::time::sleep;

use super::{LEASE, any, bounds, chosen, pause, seed, wait_all_ready, wait_restarted};
use crate::{
    bed::{ALERTKUBE, Bed, name},
    oracle::Flow,
    support::{Flow as Network, Node, PATIENCE, eventually},
};

/// Enough for a Lease to run out, and to be taken.
const LONGER_THAN_A_LEASE: Duration = LEASE.saturating_add(Duration::from_secs(8));

/// So many, that another two are left when one is gone.
const REPLICAS: u32 = 3;

/// A cluster with replicas, a flow of failures under this title, and what the scenario chooses by.
async fn begin(title: &'static str) -> (Bed, Flow, Rng) {
    let bed = Bed::with_replicas(REPLICAS).await;
    let flow = Flow::start(&bed, title, seed()).await;
    (bed, flow, Rng::with_seed(seed()))
}

#[tokio::test]
async fn a_replica_that_is_killed_loses_nothing() {
    let bed = Bed::with_replicas(2).await;
    let flow = Flow::start(&bed, "one kill", seed()).await;
    flow.wait_for_more(20).await;
    let pod = bed.kubelet.pod(&name(1));
    flow.fault("kill -9 of alertkube-1", async {
        assert!(pod.kill());
        wait_restarted(&pod, 1).await;
    })
    .await;
    flow.wait_for_more(20).await;
    flow.finish(bounds(1)).await;
}

#[tokio::test]
#[ignore = "long: 10 minutes"]
async fn kills_at_random_moments_lose_nothing() {
    let (bed, flow, mut rng) = begin("kill -9 at random moments").await;
    let kills = chosen("SHARDED_KILLS").unwrap_or(120);
    for kill in 1..=kills {
        let pod = any(&bed, &mut rng, REPLICAS);
        flow.fault(format!("kill {kill}: {}", pod.name()), async {
            pod.kill();
            // Often in the middle of what the last kill has begun, and from time to time not.
            pause(&mut rng, 0..6_000).await;
        })
        .await;
        if kill % 10 == 0 {
            wait_all_ready(&bed, REPLICAS).await;
            flow.wait_for_more(10).await;
        }
    }
    wait_all_ready(&bed, REPLICAS).await;
    flow.finish(bounds(4)).await;
}

#[tokio::test]
#[ignore = "long: 4 minutes"]
async fn replicas_that_are_stopped_lose_nothing() {
    let (bed, flow, mut rng) = begin("SIGTERM").await;
    for _ in 0..20 {
        let old = any(&bed, &mut rng, REPLICAS);
        flow.fault(format!("SIGTERM of {}", old.name()), async {
            bed.delete_pod(old.name(), None).await;
            bed.kubelet.wait_replaced(&old).await;
        })
        .await;
        pause(&mut rng, 0..5_000).await;
    }
    // A clean stop is no fault to wait a Lease for.
    flow.finish(bounds(0)).await;
}

#[tokio::test]
#[ignore = "long: 6 minutes"]
async fn a_replica_that_stood_still_for_longer_than_its_lease_starts_nothing() {
    let (bed, flow, mut rng) = begin("SIGSTOP for longer than the Lease").await;
    for _ in 0..8 {
        let pod = any(&bed, &mut rng, REPLICAS);
        flow.fault(format!("SIGSTOP of {}", pod.name()), async {
            assert!(pod.signal("STOP"));
            sleep(LONGER_THAN_A_LEASE).await;
            assert!(pod.signal("CONT"));
            wait_all_ready(&bed, REPLICAS).await;
        })
        .await;
        pause(&mut rng, 0..5_000).await;
    }
    flow.finish(bounds(1)).await;
}

#[tokio::test]
#[ignore = "long: 8 minutes"]
async fn a_replica_that_is_cut_off_from_the_api_only_tells_nothing() {
    let (bed, flow, mut rng) = begin("cut off from the API").await;
    for network in [Network::Cut, Network::AnswersCut]
        .into_iter()
        .cycle()
        .take(8)
    {
        let pod = any(&bed, &mut rng, REPLICAS);
        flow.fault(format!("{network:?} of {}", pod.name()), async {
            pod.network(network);
            sleep(LONGER_THAN_A_LEASE).await;
            pod.network(Network::Open);
            wait_all_ready(&bed, REPLICAS).await;
        })
        .await;
        pause(&mut rng, 0..5_000).await;
    }
    flow.finish(bounds(1)).await;
}

#[tokio::test]
#[ignore = "long: 3 minutes"]
async fn of_two_processes_of_one_pod_one_tells() {
    let (bed, flow, _) = begin("two processes of one pod").await;
    // The second one stands by, and takes over; the first one comes back, and stands by.
    let pod = bed.kubelet.pod(&name(1));
    pod.start_twin();
    flow.wait_for_more(40).await;
    flow.fault("kill -9 of the one with a twin", async {
        assert!(pod.kill());
        // It, or the first one's next life, which was started by then and stands by as it does.
        eventually("one of the two to take over", PATIENCE, async || {
            let twin = matches!(pod.get_of_twin("/readyz").await, Some((200, _)));
            (twin || pod.restarts() > 0 && pod.is_ready()).then_some(())
        })
        .await;
    })
    .await;
    flow.wait_for_more(40).await;
    flow.fault("the end of the twin", async {
        pod.end_twin();
        wait_all_ready(&bed, REPLICAS).await;
    })
    .await;
    flow.wait_for_more(20).await;
    flow.finish(bounds(1)).await;
}

#[tokio::test]
#[ignore = "long: 4 minutes"]
async fn of_two_pods_with_one_ordinal_one_tells() {
    let (bed, flow, _) = begin("two pods with one ordinal").await;
    flow.wait_for_more(20).await;
    let old = bed.kubelet.pod(&name(1));
    // The kubelet learns of nothing, but the process still reaches the API server, until its token is no longer taken: its pod is gone. Somebody has
    // deleted it by force, so another one comes.
    flow.fault("alertkube-1 twice", async {
        old.node(Node::CutOff);
        bed.delete_pod(old.name(), Some(0)).await;
        bed.kubelet.wait_replaced(&old).await;
    })
    .await;
    flow.wait_for_more(60).await;
    flow.fault("the node of the old alertkube-1 is back", async {
        old.node(Node::Up);
        eventually("the old pod to end", PATIENCE, async || {
            old.is_gone().then_some(())
        })
        .await;
    })
    .await;
    flow.finish(bounds(1)).await;
}

#[tokio::test]
#[ignore = "long: 4 minutes"]
async fn the_shard_of_a_node_that_is_gone_is_served_by_another_replica() {
    let (bed, flow, _) = begin("a node without power").await;
    flow.wait_for_more(20).await;
    let dead = bed.kubelet.pod(&name(0));
    // Nobody deletes the pod, so the StatefulSet does not replace it.
    flow.fault("alertkube-0 without power", async {
        dead.node(Node::Off);
        sleep(LONGER_THAN_A_LEASE).await;
    })
    .await;
    flow.wait_for_more(60).await;
    flow.fault("alertkube-0 with power", async {
        dead.node(Node::Up);
        wait_all_ready(&bed, REPLICAS).await;
    })
    .await;
    flow.wait_for_more(20).await;
    flow.finish(bounds(1)).await;
}

#[tokio::test]
#[ignore = "long: 4 minutes"]
async fn an_api_server_that_is_down_for_a_minute_loses_nothing() {
    let (mut bed, flow, _) = begin("no API server for a minute").await;
    flow.wait_for_more(20).await;
    flow.fault("the API server is down", async {
        bed.plane.kill_apiserver();
        sleep(Duration::from_secs(60)).await;
        bed.plane.start_apiserver().await;
        // Whoever ends because of it has ended by now.
        wait_all_ready(&bed, REPLICAS).await;
    })
    .await;
    flow.wait_for_more(40).await;
    flow.finish(bounds(2)).await;
}

#[tokio::test]
#[ignore = "long: 4 minutes"]
async fn without_rights_on_leases_and_states_nothing_is_told_falsely() {
    let (bed, flow, _) = begin("no rights on Leases and states").await;
    flow.wait_for_more(20).await;
    flow.fault("no rights in the own namespace", async {
        bed.plane
            .kubectl(&["-n", ALERTKUBE, "delete", "rolebinding", ALERTKUBE])
            .await;
        sleep(LONGER_THAN_A_LEASE).await;
        bed.apply(REPLICAS).await;
        wait_all_ready(&bed, REPLICAS).await;
    })
    .await;
    flow.wait_for_more(40).await;
    flow.finish(bounds(2)).await;
}
