//! One cause, one page: causes beyond the object.

use serde_json::{Value, json};

use super::*;
use crate::alert::Severity;

/// An engine that has seen an empty cluster of every kind at `START`.
pub(super) fn mk_engine() -> Engine {
    let mut engine = Engine::new("test");
    for &kind in KindId::ALL {
        engine.list_started(kind);
        engine.list_done(kind, at(0));
    }
    engine
}

pub(super) fn decode(value: &Value) -> Object {
    let text = |name: &str| value[name].as_str().unwrap_or_default();
    let decoded = Object::decode(text("apiVersion"), text("kind"), value).unwrap();
    decoded.unwrap().0
}

/// Lets the engine see an object at a time, and everything that came due before it.
pub(super) fn look(
    engine: &mut Engine,
    object: &Object,
    now: Timestamp,
) -> Vec<(&'static str, Transition)> {
    run_until(engine, now);
    engine.observe(object, now);
    engine.advance(now);
    names(engine)
}

/// Node `node-a`, whose kubelet is silent, or not.
pub(super) fn node(silent: bool, since: Timestamp) -> Object {
    let status = if silent { "Unknown" } else { "True" };
    decode(&json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "node-a", "uid": "node-a", "creationTimestamp": at(-864_000)},
        "status": {"conditions": [
            {"type": "Ready", "status": status, "reason": "NodeStatusUnknown", "lastTransitionTime": since},
        ]},
    }))
}

/// The Deployment `shop/web`, without any available replica, or with all.
pub(super) fn deployment(down: bool, since: Timestamp) -> Object {
    let available = i32::from(!down);
    decode(&json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "uid": "web", "generation": 1, "creationTimestamp": at(-864_000)},
        "spec": {"replicas": 1},
        "status": {
            "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1,
            "availableReplicas": available, "readyReplicas": available,
            "conditions": [
                {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable", "lastTransitionTime": at(-864_000), "lastUpdateTime": at(-864_000)},
                {"type": "Available", "status": if down { "False" } else { "True" }, "lastTransitionTime": since},
            ],
        },
    }))
}

pub(super) fn on_node_a(mut pod: Pod) -> Pod {
    pod.spec.node_name = "node-a".into();
    pod
}

pub(super) const UNREACHABLE: &str = "KubeNodeUnreachable";
pub(super) const DOWN: &str = "KubeDeploymentDown";

#[test]
fn a_node_that_is_down_explains_its_pods_and_what_stands_after_it_pages() {
    let mut engine = mk_engine();
    let pod = on_node_a(mk_pod("web-1").not_ready(at(0))).object();
    assert_eq!(look(&mut engine, &node(true, at(0)), at(1)), []);
    assert_eq!(look(&mut engine, &pod, at(1)), []);
    assert_eq!(wait(&mut engine, at(299)), []);
    assert_eq!(
        wait(&mut engine, at(3600)),
        [(UNREACHABLE, Transition::Fired)]
    );
    let states: Vec<_> = engine
        .alerts(at(3600))
        .iter()
        .map(|alert| (alert.rule.name, alert.state))
        .collect();
    assert_eq!(
        states,
        [(UNREACHABLE, State::Firing), (NOT_READY, State::Inhibited)]
    );
    // The node is back; the pod is not, for longer than the node's hold.
    assert_eq!(look(&mut engine, &node(false, at(3600)), at(3600)), []);
    assert_eq!(wait(&mut engine, at(3719)), []);
    assert_eq!(
        wait(&mut engine, at(3720)),
        [(UNREACHABLE, RECOVERED), (NOT_READY, Transition::Fired)]
    );
}

#[test]
fn a_node_that_is_down_explains_no_pods_of_other_nodes() {
    let mut engine = mk_engine();
    let pod = mk_pod("web-1").not_ready(at(0)).object();
    look(&mut engine, &node(true, at(0)), at(1));
    look(&mut engine, &pod, at(1));
    let mut told = wait(&mut engine, at(600));
    told.sort_by_key(|(name, _)| *name);
    assert_eq!(
        told,
        [
            (UNREACHABLE, Transition::Fired),
            (NOT_READY, Transition::Fired)
        ]
    );
}

#[test]
fn why_a_workload_is_down_is_one_page_as_soon_and_as_severe() {
    let mut engine = mk_engine();
    // The order in which they are seen does not matter.
    for pod_first in [true, false] {
        let mut engine_ = mk_engine();
        let pod = mk_pod("web-1")
            .image_failing("ImagePullBackOff", at(100))
            .object();
        let objects = [pod, deployment(true, at(0))];
        let order = if pod_first { [0, 1] } else { [1, 0] };
        for object in order {
            look(&mut engine_, &objects[object], at(110));
        }
        assert_eq!(wait(&mut engine_, at(179)), []);
        // The pull alone would have had until 280.
        assert_eq!(
            wait(&mut engine_, at(3600)),
            [("KubePodImagePullFailing", Transition::Fired)]
        );
        let [down, pull] = &engine_.alerts(at(3600))[..2] else {
            panic!("{:?}", engine_.alerts(at(3600)))
        };
        assert_eq!((down.rule.name, down.state), (DOWN, State::Inhibited));
        assert_eq!(
            (pull.severity, pull.fires_at),
            (Severity::Critical, at(180))
        );
        engine = engine_;
    }
    // It stays down, for another reason, and that nobody has been told.
    engine.gone("uid-web-1", at(3600));
    engine.advance(at(3600));
    let told = wait(&mut engine, at(3800));
    assert_eq!(
        told,
        [
            ("KubePodImagePullFailing", DELETED),
            (DOWN, Transition::Fired)
        ]
    );
}

#[test]
fn a_claim_without_a_volume_explains_the_pods_that_wait_for_it() {
    let claim = |name: &str| {
        decode(&json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": name, "namespace": "shop", "uid": name, "creationTimestamp": at(0),
                "annotations": {"volume.kubernetes.io/storage-provisioner": "csi.example.com"},
            },
            "spec": {"storageClassName": "fast"},
            "status": {"phase": "Pending"},
        }))
    };
    for (name, paged) in [
        ("data", &["KubePersistentVolumeClaimPending"][..]),
        (
            "other",
            &["KubePersistentVolumeClaimPending", "KubePodPending"],
        ),
    ] {
        let mut engine = mk_engine();
        let pod = decode(&json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "db-0", "namespace": "shop", "uid": "db-0", "creationTimestamp": at(0)},
            "spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
            "status": {"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": at(0)},
            ]},
        }));
        look(&mut engine, &pod, at(1));
        look(&mut engine, &claim(name), at(1));
        let mut told: Vec<_> = wait(&mut engine, at(3600))
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        told.sort_unstable();
        assert_eq!(told, paged);
    }
}

#[test]
fn a_namespace_that_is_deleted_explains_what_breaks_in_it_and_fires_only_for_itself() {
    let mut engine = mk_engine();
    let namespace = decode(&json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "shop", "uid": "shop", "creationTimestamp": at(-864_000), "deletionTimestamp": at(0)},
        "status": {"phase": "Terminating"},
    }));
    look(
        &mut engine,
        &mk_pod("web-1").not_ready(at(0)).object(),
        at(1),
    );
    look(&mut engine, &namespace, at(1));
    assert_eq!(wait(&mut engine, at(899)), []);
    assert_eq!(
        wait(&mut engine, at(3600)),
        [("KubeNamespaceStuckTerminating", Transition::Fired)]
    );
}
