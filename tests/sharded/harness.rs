//! The bed itself: what the other tests rely on is so.

use serde_json::json;
use tokio::time::Instant;

use crate::{
    bed::{ALERTKUBE, Bed, name, names},
    support::{Flow as Network, Happening, Node, PATIENCE, create_namespace, eventually, mk_pod},
};

#[tokio::test]
async fn the_manifests_become_replicas_that_are_replaced_and_rolled_from_the_top() {
    let bed = Bed::with_replicas(3).await;
    for (ordinal, pod) in (0..3).map(|ordinal| (ordinal, bed.kubelet.pod(&name(ordinal)))) {
        let label = pod.label("apps.kubernetes.io/pod-index");
        assert_eq!(label, ordinal.to_string());
    }

    // A pod that is deleted stops as it is asked to, and comes back.
    let old = bed.kubelet.pod(&name(1));
    bed.delete_pod(old.name(), None).await;
    bed.kubelet.wait_replaced(&old).await;
    assert!(old.is_gone());
    // One that crashes stays, and its process comes back.
    let crashed = bed.kubelet.pod(&name(2));
    assert!(crashed.kill());
    eventually("a process to be started again", PATIENCE, async || {
        (crashed.restarts() == 1 && crashed.is_ready()).then_some(())
    })
    .await;
    assert_eq!(bed.kubelet.pod(&name(2)).uid(), crashed.uid());

    // Another template goes from the highest ordinal to the lowest.
    let before = bed.kubelet.events().len();
    bed.plane
        .kubectl(&[
            "-n",
            ALERTKUBE,
            "rollout",
            "restart",
            "statefulset",
            ALERTKUBE,
        ])
        .await;
    bed.wait_rolled_out(3).await;
    let events = bed.kubelet.events().split_off(before);
    let started: Vec<_> = events
        .iter()
        .filter(|event| event.what == Happening::Started)
        .map(|event| event.pod.as_str())
        .collect();
    let mut from_the_top = names(3);
    from_the_top.reverse();
    assert_eq!(started, from_the_top, "{events:#?}");
}

#[tokio::test]
async fn the_level_of_pod_security_is_the_restricted_one() {
    let bed = Bed::with_replicas(1).await;
    let privileged = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "privileged", "namespace": ALERTKUBE },
        "spec": { "containers": [{ "name": "app", "image": "app" }] },
    });
    let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::fs::write(file.path(), privileged.to_string()).unwrap();
    let refused = bed
        .plane
        .try_kubectl(&["create", "-f", file.path().to_str().unwrap()])
        .await;
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && said.contains("restricted"),
        "{said}"
    );
}

#[tokio::test]
async fn the_rights_of_a_replica_are_those_of_its_service_account() {
    let bed = Bed::with_replicas(1).await;
    // It sees pods of all namespaces.
    create_namespace(&bed.client, "shop").await;
    mk_pod("web")
        .crash_looping()
        .create(&bed.client, "shop")
        .await;
    bed.webhook
        .wait_for_page("firing", "KubePodCrashLooping", "shop", "web")
        .await;
    let user = format!("system:serviceaccount:{ALERTKUBE}:{ALERTKUBE}");
    let asked = bed.plane.requests_of(&user);
    assert!(asked.contains("watch pods"), "{asked:?}");
    // Nothing that it asked for was refused.
    assert_eq!(bed.plane.refusals_of(&user), Vec::<String>::new());
}

#[tokio::test]
async fn a_network_that_is_cut_delivers_late() {
    let bed = Bed::with_replicas(1).await;
    create_namespace(&bed.client, "shop").await;
    let pod = bed.kubelet.pod(&name(0));
    for (network, broken) in [(Network::Cut, "web"), (Network::AnswersCut, "db")] {
        pod.network(network);
        mk_pod(broken)
            .crash_looping()
            .create(&bed.client, "shop")
            .await;
        // It takes a while, which is all that is wanted of it.
        bed.plane.kubectl(&["get", "pods", "-A"]).await;
        let opened = Instant::now();
        pod.network(Network::Open);
        bed.webhook
            .wait_for_page("firing", "KubePodCrashLooping", "shop", broken)
            .await;
        let messages = bed.webhook.delivered();
        let told = messages
            .iter()
            .find(|message| message.alerts[0].label("workload") == broken);
        assert!(told.unwrap().at >= opened, "{network:?}");
    }
}

#[tokio::test]
async fn a_node_that_is_cut_off_keeps_its_pod_and_one_without_power_does_not() {
    let bed = Bed::with_replicas(1).await;
    let old = bed.kubelet.pod(&name(0));
    // A kubelet that is cut off ends nothing, and confirms nothing: a pod that is deleted stays.
    old.node(Node::CutOff);
    bed.delete_pod(old.name(), None).await;
    bed.plane.kubectl(&["get", "pods", "-A"]).await;
    assert!(old.is_ready() && bed.kubelet.pods().len() == 1);
    // By force it goes, and is replaced; now there are two, but the token of the first is not taken any more.
    bed.delete_pod(old.name(), Some(0)).await;
    let new = bed.kubelet.wait_replaced(&old).await;
    assert!(old.get("/livez").await.is_some());
    old.node(Node::Up);
    eventually("the old pod to end", PATIENCE, async || {
        old.is_gone().then_some(())
    })
    .await;

    new.node(Node::Off);
    eventually("the process to end", PATIENCE, async || {
        new.get("/livez").await.is_none().then_some(())
    })
    .await;
    new.node(Node::Up);
    bed.kubelet.wait_ready(PATIENCE, &names(1)).await;
    assert_eq!(bed.kubelet.pod(&name(0)).uid(), new.uid());

    new.start_twin();
    eventually("the twin to answer", PATIENCE, async || {
        new.get_of_twin("/livez").await
    })
    .await;
    new.end_twin();
    assert!(new.get_of_twin("/livez").await.is_none());
}
