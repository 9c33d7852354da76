//! One cause, one page: causes and effects that name or select each other.

use serde_json::{Value, json};

use super::{
    causes::{DOWN, decode, deployment, look, mk_engine},
    *,
};

const API_DOWN: &str = "KubeAggregatedAPIDown";
const NOT_SCALING: &str = "KubeHpaNotScaling";
const STUCK: &str = "KubeNamespaceStuckTerminating";
const BUDGET: &str = "KubePdbNotEnoughHealthyPods";

/// What was told until a time, by name.
fn told_until(engine: &mut Engine, until: Timestamp) -> Vec<&'static str> {
    let mut told: Vec<_> = wait(engine, until)
        .into_iter()
        .filter(|(_, transition)| *transition == Transition::Fired)
        .map(|(name, _)| name)
        .collect();
    told.sort_unstable();
    told
}

/// An engine that has seen these at `START`, in this order or the other.
fn mk_seen(objects: &[Object], reversed: bool) -> Engine {
    let mut engine = mk_engine();
    let mut objects: Vec<_> = objects.iter().collect();
    if reversed {
        objects.reverse();
    }
    for object in objects {
        look(&mut engine, object, at(0));
    }
    engine
}

/// An API that a Service adds, and that is down or not.
fn api(name: &str, down: bool) -> Object {
    let status = if down { "False" } else { "True" };
    decode(&json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": name, "uid": name, "creationTimestamp": at(-864_000)},
        "spec": {"service": {"namespace": "kube-system", "name": "metrics"}},
        "status": {"conditions": [
            {"type": "Available", "status": status, "reason": "MissingEndpoints", "lastTransitionTime": at(0)},
        ]},
    }))
}

/// The autoscaler of the Deployment `shop/web`, or of another, that does not scale for a reason.
fn autoscaler(of: &str, reason: &str) -> Object {
    decode(&json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "shop", "uid": "hpa-web", "creationTimestamp": at(-864_000)},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": of},
            "minReplicas": 1, "maxReplicas": 5,
        },
        "status": {"currentReplicas": 1, "desiredReplicas": 1, "conditions": [
            {"type": "AbleToScale", "status": "True", "reason": "SucceededGetScale", "lastTransitionTime": at(-864_000)},
            {"type": "ScalingActive", "status": "False", "reason": reason, "lastTransitionTime": at(0)},
        ]},
    }))
}

/// Namespace `old`, which was deleted, and whose controller says this.
fn terminating(condition: &str) -> Object {
    decode(&json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "old", "uid": "old", "creationTimestamp": at(-864_000), "deletionTimestamp": at(0)},
        "status": {"phase": "Terminating", "conditions": [
            {"type": condition, "status": "True", "reason": "Failed", "lastTransitionTime": at(10)},
        ]},
    }))
}

#[test]
fn an_api_that_is_down_explains_the_autoscalers_that_get_their_metrics_from_it() {
    for (name, reason, explained) in [
        ("v1beta1.metrics.k8s.io", "FailedGetResourceMetric", true),
        (
            "v1beta1.metrics.k8s.io",
            "FailedGetContainerResourceMetric",
            true,
        ),
        ("v1beta1.metrics.k8s.io", "FailedGetExternalMetric", false),
        ("v1beta1.metrics.k8s.io", "FailedGetPodsMetric", false),
        ("v1beta1.metrics.k8s.io", "InvalidSelector", false),
        ("v1beta2.custom.metrics.k8s.io", "FailedGetPodsMetric", true),
        (
            "v1beta2.custom.metrics.k8s.io",
            "FailedGetObjectMetric",
            true,
        ),
        (
            "v1beta2.custom.metrics.k8s.io",
            "FailedGetResourceMetric",
            false,
        ),
        (
            "v1beta1.external.metrics.k8s.io",
            "FailedGetExternalMetric",
            true,
        ),
        ("v1.packages.example.com", "FailedGetResourceMetric", false),
    ] {
        for reversed in [false, true] {
            let objects = [api(name, true), autoscaler("web", reason)];
            let mut engine = mk_seen(&objects, reversed);
            let told = told_until(&mut engine, at(3600));
            let all: &[_] = if explained {
                &[API_DOWN]
            } else {
                &[API_DOWN, NOT_SCALING]
            };
            assert_eq!(told, all, "{name} {reason} {reversed}");
        }
    }
}

#[test]
fn an_autoscaler_that_does_not_scale_when_its_api_is_back_is_paged() {
    let hpa = autoscaler("web", "FailedGetResourceMetric");
    let mut engine = mk_seen(&[api("v1beta1.metrics.k8s.io", true), hpa], false);
    assert_eq!(told_until(&mut engine, at(3600)), [API_DOWN]);
    let back = api("v1beta1.metrics.k8s.io", false);
    assert_eq!(look(&mut engine, &back, at(3600)), []);
    assert_eq!(wait(&mut engine, at(3719)), []);
    assert_eq!(told_until(&mut engine, at(3720)), [NOT_SCALING]);
}

#[test]
fn an_autoscaler_whose_reason_changes_is_looked_at_again() {
    let hpa = autoscaler("web", "FailedGetResourceMetric");
    let mut engine = mk_seen(&[api("v1beta1.metrics.k8s.io", true), hpa], false);
    assert_eq!(told_until(&mut engine, at(3600)), [API_DOWN]);
    let other = autoscaler("web", "InvalidMetricSourceType");
    assert_eq!(look(&mut engine, &other, at(3600)), []);
    assert_eq!(told_until(&mut engine, at(3630)), [NOT_SCALING]);
}

#[test]
fn an_api_that_is_down_explains_a_namespace_whose_content_cannot_be_listed() {
    for (condition, told) in [
        ("NamespaceDeletionDiscoveryFailure", &[API_DOWN][..]),
        ("NamespaceFinalizersRemaining", &[API_DOWN, STUCK]),
        ("NamespaceDeletionContentFailure", &[API_DOWN, STUCK]),
    ] {
        for reversed in [false, true] {
            let api = api("v1alpha1.packages.example.com", true);
            let objects = [api, terminating(condition)];
            let mut engine = mk_seen(&objects, reversed);
            assert_eq!(told_until(&mut engine, at(3600)), told, "{condition}");
        }
    }
    // And it pages when the API is back.
    let name = "v1alpha1.packages.example.com";
    let failure = terminating("NamespaceDeletionDiscoveryFailure");
    let mut engine = mk_seen(&[api(name, true), failure], false);
    told_until(&mut engine, at(3600));
    look(&mut engine, &api(name, false), at(3600));
    assert_eq!(told_until(&mut engine, at(3720)), [STUCK]);
}

#[test]
fn a_workload_that_is_down_explains_its_autoscaler_that_gets_no_metrics_of_its_pods() {
    for (of, reason, told) in [
        ("web", "FailedGetResourceMetric", &[DOWN][..]),
        ("other", "FailedGetResourceMetric", &[DOWN, NOT_SCALING]),
        ("web", "FailedGetScale", &[DOWN, NOT_SCALING]),
        ("web", "FailedGetExternalMetric", &[DOWN, NOT_SCALING]),
    ] {
        for reversed in [false, true] {
            let objects = [deployment(true, at(0)), autoscaler(of, reason)];
            let mut engine = mk_seen(&objects, reversed);
            assert_eq!(told_until(&mut engine, at(3600)), told, "{of} {reason}");
        }
    }
    let hpa = autoscaler("web", "FailedGetResourceMetric");
    let mut engine = mk_seen(&[deployment(true, at(0)), hpa], false);
    told_until(&mut engine, at(3600));
    look(&mut engine, &deployment(false, at(3600)), at(3600));
    assert_eq!(told_until(&mut engine, at(3660)), [NOT_SCALING]);
}

/// The Deployment `shop/web` with these labels of its pods.
fn labelled(down: bool, labels: &Value) -> Object {
    let Object::Deployment(mut deployment) = deployment(down, at(0)) else {
        unreachable!()
    };
    let template = json!({"metadata": {"labels": labels}});
    deployment.spec.template = serde_json::from_value(template).unwrap();
    deployment.into()
}

/// A budget whose pods are not enough.
fn budget(namespace: &str, labels: &Value) -> Object {
    decode(&json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "front", "namespace": namespace, "uid": "pdb", "generation": 1, "creationTimestamp": at(-864_000)},
        "spec": {"selector": {"matchLabels": labels}},
        "status": {
            "observedGeneration": 1, "currentHealthy": 0, "desiredHealthy": 1, "expectedPods": 1,
            "disruptionsAllowed": 0,
        },
    }))
}

#[test]
fn a_workload_that_is_short_of_pods_explains_the_budget_that_selects_them() {
    let web = json!({"app": "web", "tier": "front"});
    for (namespace, selected, told) in [
        ("shop", json!({"app": "web"}), &[DOWN][..]),
        ("shop", json!({"app": "api"}), &[DOWN, BUDGET]),
        ("shop", json!({}), &[DOWN, BUDGET]),
        ("other", json!({"app": "web"}), &[DOWN, BUDGET]),
    ] {
        for reversed in [false, true] {
            let objects = [labelled(true, &web), budget(namespace, &selected)];
            let mut engine = mk_seen(&objects, reversed);
            let all = told_until(&mut engine, at(3600));
            assert_eq!(all, told, "{namespace} {selected} {reversed}");
        }
    }
    // It pages when the workload is well again, and the budget is not; and when the workload is gone.
    for is_gone in [false, true] {
        let objects = [labelled(true, &web), budget("shop", &json!({"app": "web"}))];
        let mut engine = mk_seen(&objects, false);
        assert_eq!(told_until(&mut engine, at(3600)), [DOWN]);
        if is_gone {
            engine.gone("web", at(3600));
            engine.advance(at(3600));
        } else {
            look(&mut engine, &labelled(false, &web), at(3600));
        }
        assert_eq!(told_until(&mut engine, at(3660)), [BUDGET]);
    }
}

#[test]
fn why_a_workload_is_short_of_pods_explains_the_budget_too() {
    let web = json!({"app": "web"});
    let pull = mk_pod("web-1").image_failing("ImagePullBackOff", at(0));
    let objects = [labelled(true, &web), budget("shop", &web), pull.object()];
    for reversed in [false, true] {
        let mut engine = mk_seen(&objects, reversed);
        assert_eq!(
            told_until(&mut engine, at(7200)),
            ["KubePodImagePullFailing"]
        );
    }
}

/// A claim that is bound, whose volume is in this state of health.
fn claim(health: &str) -> Object {
    decode(&json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "shop", "uid": "data", "creationTimestamp": at(-864_000)},
        "spec": {"volumeName": "pv-1"},
        "status": {
            "phase": "Bound",
            "healthStatus": {
                "lastTransitionTime": at(0),
                "healthConditions": [{"status": health, "reason": "Disk"}],
            },
        },
    }))
}

/// A pod that waits for the claim.
fn waiting() -> Object {
    decode(&json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "db-0", "namespace": "shop", "uid": "db-0", "creationTimestamp": at(0)},
        "spec": {
            "nodeName": "node-1", "containers": [{"name": "db"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        },
        "status": {
            "phase": "Pending", "startTime": at(0),
            "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(0)},
                {"type": "PodReadyToStartContainers", "status": "False", "lastTransitionTime": at(0)},
            ],
            "containerStatuses": [{"name": "db", "state": {"waiting": {"reason": "ContainerCreating"}}}],
        },
    }))
}

#[test]
fn a_volume_explains_pods_if_it_is_lost_or_out_of_reach_but_not_if_it_is_degraded() {
    const UNHEALTHY: &str = "KubePersistentVolumeUnhealthy";
    const WAITING: &str = "KubeContainerWaiting";
    for (health, told) in [
        ("DataLoss", &[UNHEALTHY][..]),
        ("Inaccessible", &[UNHEALTHY]),
        ("Degraded", &[WAITING, UNHEALTHY]),
    ] {
        for reversed in [false, true] {
            let mut engine = mk_seen(&[claim(health), waiting()], reversed);
            assert_eq!(told_until(&mut engine, at(3600)), told, "{health}");
        }
    }
    // It gets worse, or better.
    let mut engine = mk_seen(&[claim("Degraded"), waiting()], false);
    assert_eq!(
        look(&mut engine, &claim("Inaccessible"), at(100)),
        [(UNHEALTHY, Transition::Fired)]
    );
    assert_eq!(wait(&mut engine, at(3600)), []);
    assert_eq!(look(&mut engine, &claim("Degraded"), at(3600)), []);
    assert_eq!(told_until(&mut engine, at(3630)), [WAITING]);
}
