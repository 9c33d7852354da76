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

const SERVICE: &str = "KubeServiceNoEndpoints";
const NOT_READY: &str = "KubePodNotReady";

/// A slice of the Service `shop/web`, with one endpoint for each of these pods, ready or not.
fn slice(name: &str, pods: &[(&Pod, bool)], changed: Timestamp) -> Object {
    let endpoints: Vec<Value> = pods
        .iter()
        .map(|(pod, ready)| {
            json!({
                "conditions": {"ready": ready, "serving": ready, "terminating": false},
                "targetRef": {"kind": "Pod", "name": pod.metadata.name, "uid": pod.metadata.uid},
            })
        })
        .collect();
    decode(&json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": name, "namespace": "shop", "uid": name, "generation": 2,
            "creationTimestamp": at(-864_000),
            "labels": {
                "kubernetes.io/service-name": "web",
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            },
            "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": changed},
        },
        "endpoints": endpoints,
    }))
}

#[test]
fn a_pod_explains_the_service_that_it_is_the_endpoint_of_for_as_long_as_it_says_so() {
    let mut engine = mk_engine();
    let pod = mk_pod("web-1").not_ready(at(0));
    let other = mk_pod("web-2");
    let idle = slice("a", &[(&pod, false)], at(0));
    assert_eq!(look(&mut engine, &idle, at(1)), []);
    assert_eq!(look(&mut engine, &pod.clone().object(), at(2)), []);
    assert_eq!(wait(&mut engine, at(600)), [(NOT_READY, Transition::Fired)]);
    // The pod is gone, and one takes its place of which no rule has anything to say.
    engine.gone(&pod.metadata.uid, at(600));
    let idle = slice("a", &[(&other, false)], at(600));
    assert_eq!(look(&mut engine, &idle, at(601)), []);
    assert_eq!(wait(&mut engine, at(629)), []);
    assert_eq!(wait(&mut engine, at(631)), [(SERVICE, Transition::Fired)]);
}

#[test]
fn a_service_that_nothing_explains_fires_once_its_pods_are_silent() {
    let mut engine = mk_engine();
    let pod = mk_pod("web-1").not_ready(at(0));
    look(&mut engine, &slice("a", &[(&pod, false)], at(0)), at(1));
    look(&mut engine, &pod.clone().object(), at(2));
    assert_eq!(wait(&mut engine, at(600)), [(NOT_READY, Transition::Fired)]);
    // Ready, as the kubelet says, and still not an endpoint that is.
    look(&mut engine, &mk_pod("web-1").object(), at(600));
    assert_eq!(
        wait(&mut engine, at(3600)),
        [
            (NOT_READY, Transition::Resolved(Resolution::Recovered)),
            (SERVICE, Transition::Fired)
        ]
    );
}

#[test]
fn one_slice_with_a_ready_endpoint_ends_the_alert_of_all() {
    let mut engine = mk_engine();
    let (one, two) = (mk_pod("web-1"), mk_pod("web-2"));
    let idle = |name: &str, pod: &Pod| slice(name, &[(pod, false)], at(0));
    look(&mut engine, &idle("a", &one), at(0));
    look(&mut engine, &idle("b", &two), at(0));
    assert_eq!(wait(&mut engine, at(400)), [(SERVICE, Transition::Fired)]);
    look(&mut engine, &slice("b", &[(&two, true)], at(400)), at(400));
    assert_eq!(
        wait(&mut engine, at(1000)),
        [(SERVICE, Transition::Resolved(Resolution::Recovered))]
    );
    // The slice that was enough goes: what is left has nothing.
    engine.gone("b", at(1000));
    assert_eq!(wait(&mut engine, at(2000)), [(SERVICE, Transition::Fired)]);
}

#[test]
fn a_new_list_of_slices_is_judged_as_a_whole() {
    let mut engine = mk_engine();
    let (one, two) = (mk_pod("web-1"), mk_pod("web-2"));
    look(&mut engine, &slice("b", &[(&two, true)], at(0)), at(0));
    look(&mut engine, &slice("a", &[(&one, false)], at(0)), at(0));
    // What served is gone, and something else serves, which comes last.
    engine.list_started(KindId::EndpointSlice);
    look(&mut engine, &slice("a", &[(&one, false)], at(0)), at(1000));
    look(&mut engine, &slice("c", &[(&two, true)], at(0)), at(1000));
    engine.list_done(KindId::EndpointSlice, at(1000));
    assert_eq!(wait(&mut engine, at(2000)), []);
    // Another list has neither.
    engine.list_started(KindId::EndpointSlice);
    look(&mut engine, &slice("a", &[(&one, false)], at(0)), at(2000));
    engine.list_done(KindId::EndpointSlice, at(2000));
    assert_eq!(wait(&mut engine, at(3000)), [(SERVICE, Transition::Fired)]);
}

#[test]
fn a_service_is_without_endpoints_since_the_last_slice_lost_them() {
    let mut engine = mk_engine();
    let (one, two) = (mk_pod("web-1"), mk_pod("web-2"));
    // One of them has had nothing for an hour, and that was no matter.
    look(&mut engine, &slice("b", &[(&two, true)], at(0)), at(3600));
    look(&mut engine, &slice("a", &[(&one, false)], at(0)), at(3600));
    assert_eq!(wait(&mut engine, at(3600)), []);
    look(
        &mut engine,
        &slice("b", &[(&two, false)], at(3700)),
        at(3701),
    );
    // The same again does not change since when.
    look(&mut engine, &slice("a", &[(&one, false)], at(0)), at(3800));
    assert_eq!(wait(&mut engine, at(3999)), []);
    assert_eq!(wait(&mut engine, at(4000)), [(SERVICE, Transition::Fired)]);
    // Deleted with its Service, it is over.
    engine.gone("a", at(5000));
    engine.gone("b", at(5000));
    assert_eq!(
        wait(&mut engine, at(6000)),
        [(SERVICE, Transition::Resolved(Resolution::Deleted))]
    );
}

#[test]
fn a_list_that_takes_its_time_does_not_set_back_the_clock_of_a_service() {
    let mut engine = mk_engine();
    let pod = mk_pod("web-1");
    let idle = slice("a", &[(&pod, false)], at(0));
    look(&mut engine, &idle, at(0));
    engine.list_started(KindId::EndpointSlice);
    look(&mut engine, &idle, at(100));
    assert_eq!(wait(&mut engine, at(250)), []);
    engine.list_done(KindId::EndpointSlice, at(250));
    assert_eq!(wait(&mut engine, at(299)), []);
    assert_eq!(wait(&mut engine, at(300)), [(SERVICE, Transition::Fired)]);
    // Nor does it end the alert.
    engine.list_started(KindId::EndpointSlice);
    look(&mut engine, &idle, at(400));
    assert_eq!(wait(&mut engine, at(1000)), []);
    engine.list_done(KindId::EndpointSlice, at(1000));
    assert_eq!(wait(&mut engine, at(2000)), []);
    engine.list_started(KindId::EndpointSlice);
    engine.list_done(KindId::EndpointSlice, at(2000));
    assert_eq!(
        wait(&mut engine, at(3000)),
        [(SERVICE, Transition::Resolved(Resolution::Deleted))]
    );
}
