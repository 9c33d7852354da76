//! One cause, one page: `DaemonSets`, and StatefulSets, on nodes that are down or young.

use serde_json::json;

use super::{
    causes::{UNREACHABLE, decode, look, mk_engine, node},
    *,
};

const DOWN: &str = "KubeDaemonSetDown";
const STUCK: &str = "KubeDaemonSetRolloutStuck";
const WAITING: &str = "KubeContainerWaiting";

/// The `DaemonSet` `shop/agent`, old enough, with so many pods available of those that there should be.
fn daemon_set(available: i32, desired: i32) -> Object {
    decode(&json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "shop", "uid": "agent", "generation": 1, "creationTimestamp": at(-864_000)},
        "spec": {"updateStrategy": {"type": "RollingUpdate"}},
        "status": {
            "observedGeneration": 1, "desiredNumberScheduled": desired, "currentNumberScheduled": desired,
            "updatedNumberScheduled": desired, "numberReady": available, "numberAvailable": available,
        },
    }))
}

/// Its pod on `node-a`, that was ready until a time.
fn not_ready(since: Timestamp) -> Object {
    let mut pod = mk_pod("agent-1").not_ready(since);
    pod.spec.node_name = "node-a".into();
    let owner = pod.metadata.owner.as_mut().unwrap();
    (owner.kind, owner.name) = ("DaemonSet".into(), "agent".into());
    pod.object()
}

/// Its pod on `node-a`, that pulls its image since a time.
fn pulling(since: Timestamp) -> Object {
    decode(&json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "agent-1", "namespace": "shop", "uid": "uid-agent-1", "creationTimestamp": since,
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "controller": true}],
        },
        "spec": {"nodeName": "node-a", "containers": [{"name": "app"}]},
        "status": {
            "phase": "Pending", "startTime": since,
            "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": since},
                {"type": "PodReadyToStartContainers", "status": "True", "lastTransitionTime": since},
                {"type": "Initialized", "status": "True", "lastTransitionTime": since},
                {"type": "Ready", "status": "False", "lastTransitionTime": since},
            ],
            "containerStatuses": [{"name": "app", "state": {"waiting": {"reason": "ContainerCreating"}}}],
        },
    }))
}

/// Node `node-a`, well, and made at a time.
fn made(at_: Timestamp) -> Object {
    let Object::Node(mut node) = node(false, at_) else {
        unreachable!()
    };
    node.metadata.creation_timestamp = Some(at_);
    node.into()
}

#[test]
fn a_node_that_is_down_explains_the_daemon_set_that_lacks_its_pod_there() {
    for (available, desired) in [(9, 10), (0, 1)] {
        let mut engine = mk_engine();
        look(&mut engine, &daemon_set(available, desired), at(1));
        look(&mut engine, &not_ready(at(0)), at(1));
        look(&mut engine, &node(true, at(0)), at(1));
        assert_eq!(
            wait(&mut engine, at(7200)),
            [(UNREACHABLE, Transition::Fired)]
        );
        // The node is back, and the pod, too; but the DaemonSet is not.
        let ready = mk_pod("agent-1").with_uid("uid-agent-1").object();
        assert_eq!(look(&mut engine, &node(false, at(7200)), at(7200)), []);
        assert_eq!(look(&mut engine, &ready, at(7200)), []);
        let mut told = wait(&mut engine, at(7500));
        told.sort_by_key(|(name, _)| *name);
        let short = if available == 0 { DOWN } else { STUCK };
        assert_eq!(told, [(short, Transition::Fired), (UNREACHABLE, RECOVERED)]);
    }
}

#[test]
fn a_daemon_set_whose_only_node_is_young_waits_for_it() {
    let mut engine = mk_engine();
    look(&mut engine, &made(at(0)), at(0));
    look(&mut engine, &pulling(at(30)), at(30));
    look(&mut engine, &daemon_set(0, 1), at(30));
    assert_eq!(wait(&mut engine, at(599)), []);
    // Its pod would have until 930.
    assert_eq!(wait(&mut engine, at(600)), [(WAITING, Transition::Fired)]);
    assert_eq!(wait(&mut engine, at(3600)), []);
}

#[test]
fn a_daemon_set_that_starts_on_a_young_node_in_time_is_silent() {
    let mut engine = mk_engine();
    look(&mut engine, &made(at(0)), at(0));
    look(&mut engine, &pulling(at(30)), at(30));
    look(&mut engine, &daemon_set(0, 1), at(30));
    assert_eq!(wait(&mut engine, at(500)), []);
    let mut ready = mk_pod("agent-1").with_uid("uid-agent-1");
    ready.spec.node_name = "node-a".into();
    look(&mut engine, &ready.object(), at(500));
    look(&mut engine, &daemon_set(1, 1), at(500));
    assert_eq!(wait(&mut engine, at(7200)), []);
    assert!(engine.alerts(at(7200)).is_empty());
}

#[test]
fn a_daemon_set_that_is_down_on_a_node_that_is_not_young_does_not_wait() {
    for young in [None, Some(at(-570)), Some(at(-600))] {
        let mut engine = mk_engine();
        if let Some(young) = young {
            look(&mut engine, &made(young), at(0));
        }
        look(&mut engine, &pulling(at(0)), at(0));
        look(&mut engine, &daemon_set(0, 1), at(0));
        assert_eq!(wait(&mut engine, at(179)), [], "{young:?}");
        let told = wait(&mut engine, at(180));
        assert_eq!(told, [(WAITING, Transition::Fired)], "{young:?}");
    }
}

#[test]
fn a_node_that_is_down_explains_the_stateful_set_whose_pod_cannot_leave_it() {
    let set = |ready: i32| {
        decode(&json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": {"name": "db", "namespace": "shop", "uid": "db", "generation": 1, "creationTimestamp": at(-864_000)},
            "spec": {"replicas": 1},
            "status": {"observedGeneration": 1, "replicas": 1, "readyReplicas": ready},
        }))
    };
    let pod = || {
        let mut pod = mk_pod("db-0").not_ready(at(40));
        pod.spec.node_name = "node-a".into();
        let owner = pod.metadata.owner.as_mut().unwrap();
        (owner.kind, owner.name) = ("StatefulSet".into(), "db".into());
        pod
    };
    let mut engine = mk_engine();
    look(&mut engine, &node(true, at(40)), at(40));
    look(&mut engine, &pod().object(), at(41));
    look(&mut engine, &set(0), at(42));
    assert_eq!(wait(&mut engine, at(221)), []);
    // It is down for three minutes, and so the node fires early.
    assert_eq!(
        wait(&mut engine, at(330)),
        [(UNREACHABLE, Transition::Fired)]
    );
    // After five minutes, the pod is told to go, which nobody there hears.
    let going = pod().terminating(at(370)).object();
    assert_eq!(look(&mut engine, &going, at(340)), []);
    assert_eq!(wait(&mut engine, at(20_000)), []);
    // The node is back, and the pod is not.
    look(&mut engine, &node(false, at(20_000)), at(20_000));
    let told = wait(&mut engine, at(20_200));
    assert_eq!(
        told,
        [
            (UNREACHABLE, RECOVERED),
            ("KubePodStuckTerminating", Transition::Fired)
        ]
    );
}
