//! What is read of a pod, and that nothing in one can stop the reading.

use kube::core::{ObjectList, WatchEvent};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::cluster::{Object, Owner, Wire};

/// A pod that uses every field that is read, and many that are not.
fn full_pod() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-7d9fbc8b5-x2x4z",
            "generateName": "web-7d9fbc8b5-",
            "namespace": "shop",
            "uid": "6c1b6c06-3a43-4d7d-9f1c-6ef6c6b2b0a4",
            "resourceVersion": "81234",
            "generation": 2,
            "creationTimestamp": "2026-11-03T09:00:00Z",
            "deletionTimestamp": "2026-11-03T10:00:30Z",
            "finalizers": ["example.com/hold"],
            "labels": {
                "app": "web",
                "pod-template-hash": "7d9fbc8b5",
                "rollouts-pod-template-hash": "6f8b"
            },
            "annotations": {
                "kubernetes.io/config.mirror": "d41d8cd98f",
                "cronjob.kubernetes.io/instantiate": "manual",
                "note": "true"
            },
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "1"},
                {
                    "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d9fbc8b5", "uid": "2",
                    "controller": true, "blockOwnerDeletion": true
                }
            ],
            "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {".": {}}}}]
        },
        "spec": {
            "nodeName": "node-1",
            "priority": -10,
            "restartPolicy": "Always",
            "schedulingGates": [{"name": "example.com/a"}, {"name": "example.com/b"}],
            "initContainers": [{"name": "proxy", "image": "proxy", "restartPolicy": "Always"}],
            "containers": [{
                "name": "app",
                "env": [{"name": "A", "value": "b"}],
                "restartPolicy": "Never",
                "restartPolicyRules": [
                    {"action": "Restart", "exitCodes": {"operator": "In", "values": [42, 43]}}
                ],
                "startupProbe": {"initialDelaySeconds": 5, "periodSeconds": 3, "failureThreshold": 60},
                "readinessProbe": {"httpGet": {"path": "/", "port": 80}, "initialDelaySeconds": 7}
            }],
            "volumes": [{"name": "tmp", "emptyDir": {}}]
        },
        "status": {
            "phase": "Running",
            "reason": "Evicted",
            "message": "low on memory",
            "startTime": "2026-11-03T09:00:01Z",
            "nominatedNodeName": "node-2",
            "conditions": [{
                "type": "Ready", "status": "False", "reason": "ContainersNotReady",
                "message": "containers with unready status: [app]", "lastTransitionTime": "2026-11-03T09:00:02Z"
            }],
            "containerStatuses": [{
                "name": "app",
                "restartCount": 3,
                "ready": false,
                "started": true,
                "imageID": "sha256:1",
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}},
                "lastState": {"terminated": {
                    "exitCode": 137, "signal": 9, "reason": "OOMKilled", "message": "last words",
                    "startedAt": "2026-11-03T09:10:00Z", "finishedAt": "2026-11-03T09:11:00.5Z",
                    "containerID": "containerd://1"
                }}
            }],
            "initContainerStatuses": [{
                "name": "proxy", "ready": true, "restartCount": 0,
                "state": {"running": {"startedAt": "2026-11-03T09:00:04Z"}}
            }]
        }
    })
}

fn decode(value: &Value) -> Wire<Pod> {
    serde_json::from_str(&value.to_string()).unwrap()
}

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[test]
fn every_field_of_interest_is_read() {
    let Wire {
        object, malformed, ..
    } = decode(&full_pod());
    assert_eq!(malformed, 0);
    let Pod {
        metadata,
        spec,
        status,
    } = object;

    assert_eq!(&*metadata.name, "web-7d9fbc8b5-x2x4z");
    assert_eq!(&*metadata.namespace, "shop");
    assert_eq!(&*metadata.uid, "6c1b6c06-3a43-4d7d-9f1c-6ef6c6b2b0a4");
    assert_eq!(&*metadata.resource_version, "81234");
    assert_eq!(metadata.generation, 2);
    assert_eq!(
        metadata.creation_timestamp,
        Some(time("2026-11-03T09:00:00Z"))
    );
    assert_eq!(
        metadata.deletion_timestamp,
        Some(time("2026-11-03T10:00:30Z"))
    );
    assert_eq!(metadata.finalizers, [Box::from("example.com/hold")]);
    assert_eq!(metadata.pod_template_hash.as_deref(), Some("7d9fbc8b5"));
    assert_eq!(metadata.rollouts_pod_template_hash.as_deref(), Some("6f8b"));
    assert!(metadata.mirror && metadata.manual);
    let owner = Owner {
        api_version: "apps/v1".into(),
        kind: "ReplicaSet".into(),
        name: "web-7d9fbc8b5".into(),
    };
    assert_eq!(metadata.owner, Some(owner));

    assert_eq!(&*spec.node_name, "node-1");
    assert_eq!(spec.priority, Some(-10));
    assert_eq!(&*spec.restart_policy, "Always");
    assert_eq!(spec.scheduling_gates, 2);
    assert_eq!(&*spec.init_containers[0].name, "proxy");
    assert_eq!(
        spec.init_containers[0].restart_policy.as_deref(),
        Some("Always")
    );
    let [container] = &*spec.containers else {
        panic!("{:?}", spec.containers)
    };
    assert_eq!(&*container.name, "app");
    assert_eq!(container.restart_policy.as_deref(), Some("Never"));
    let rule = &container.restart_policy_rules[0];
    assert_eq!((&*rule.action, &*rule.operator), ("Restart", "In"));
    assert_eq!(rule.values, [42, 43]);
    let startup = container.startup_probe.unwrap();
    assert_eq!(startup.initial_delay_seconds, Some(5));
    assert_eq!(startup.period_seconds, Some(3));
    assert_eq!(startup.failure_threshold, Some(60));
    assert_eq!(
        container.readiness_probe.unwrap().initial_delay_seconds,
        Some(7)
    );

    assert_eq!(&*status.phase, "Running");
    assert_eq!(&*status.reason, "Evicted");
    assert_eq!(&*status.message, "low on memory");
    assert_eq!(status.start_time, Some(time("2026-11-03T09:00:01Z")));
    assert_eq!(&*status.nominated_node_name, "node-2");
    let condition = &status.conditions[0];
    assert_eq!((&*condition.r#type, &*condition.status), ("Ready", "False"));
    assert_eq!(&*condition.reason, "ContainersNotReady");
    assert_eq!(&*condition.message, "containers with unready status: [app]");
    assert_eq!(
        condition.last_transition_time,
        Some(time("2026-11-03T09:00:02Z"))
    );
    let app = &status.container_statuses[0];
    assert_eq!(
        (&*app.name, app.restart_count, app.ready, app.started),
        ("app", 3, false, Some(true))
    );
    let waiting = app.state.waiting.as_ref().unwrap();
    assert_eq!(&*waiting.reason, "CrashLoopBackOff");
    assert_eq!(&*waiting.message, "back-off 40s");
    assert!(app.state.running.is_none() && app.state.terminated.is_none());
    let last = app.last_state.terminated.as_ref().unwrap();
    assert_eq!((last.exit_code, last.signal), (137, Some(9)));
    assert_eq!((&*last.reason, &*last.message), ("OOMKilled", "last words"));
    assert_eq!(last.started_at, Some(time("2026-11-03T09:10:00Z")));
    assert_eq!(last.finished_at, Some(time("2026-11-03T09:11:00.5Z")));
    let proxy = &status.init_container_statuses[0];
    assert!(proxy.ready);
    assert_eq!(
        proxy.state.running.as_ref().unwrap().started_at,
        Some(time("2026-11-03T09:00:04Z"))
    );
}

#[test]
fn all_formats_read_the_same() {
    let text = full_pod().to_string();
    let from_text = format!("{:?}", decode(&full_pod()));
    let from_slice: Wire<Pod> = serde_json::from_slice(text.as_bytes()).unwrap();
    let from_value: Wire<Pod> = serde_json::from_value(full_pod()).unwrap();
    let from_reader: Wire<Pod> = serde_json::from_reader(text.as_bytes()).unwrap();
    // JSON is YAML.
    let from_yaml: Wire<Pod> = serde_saphyr::from_str(&text).unwrap();
    for wire in [from_slice, from_value, from_reader, from_yaml] {
        assert_eq!(format!("{wire:?}"), from_text);
    }
}

#[test]
fn yaml_scalars_are_read_by_their_quotes() {
    let wire: Wire<Pod> = serde_saphyr::from_str(
        r#"
apiVersion: v1
kind: Pod
metadata:
  name: web
  uid: "123"
  creationTimestamp: 2026-11-03T09:00:00Z     # by hand
  deletionTimestamp: "2026-11-03T10:00:00Z"   # by kubectl
  annotations:
    kubernetes.io/config.mirror: "true"
  labels:
    1: odd key
    pod-template-hash: "5955"
spec:
  priority: 0
status:
  startTime: null
  message: |
    two
    lines
  phase: ~
  containerStatuses:
  - name: app
    restartCount: "3"
    ready: true
    state:
      running: {}
"#,
    )
    .unwrap();
    let pod = wire.object;
    // The number in quotes.
    assert_eq!(wire.malformed, 1);
    assert_eq!(pod.status.container_statuses[0].restart_count, 0);

    assert_eq!(&*pod.metadata.uid, "123");
    assert_eq!(
        pod.metadata.creation_timestamp,
        Some(time("2026-11-03T09:00:00Z"))
    );
    assert_eq!(
        pod.metadata.deletion_timestamp,
        Some(time("2026-11-03T10:00:00Z"))
    );
    assert!(pod.metadata.mirror);
    assert_eq!(pod.metadata.pod_template_hash.as_deref(), Some("5955"));
    assert_eq!(pod.spec.priority, Some(0));
    assert_eq!(pod.status.start_time, None);
    assert_eq!(&*pod.status.phase, "");
    assert_eq!(&*pod.status.message, "two\nlines\n");
    assert!(pod.status.container_statuses[0].ready);
    assert!(pod.status.container_statuses[0].state.running.is_some());
}

#[test]
fn odd_yaml_is_skipped() {
    let wire: Wire<Pod> = serde_saphyr::from_str(
        "metadata: {name: web, generation: !odd [1], ? [a, b] : c, null: d, 1.5: e, ? {a: b} : c}\n\
         spec: {nodeName: 5, priority: 1.5, restartPolicy: !!binary aGk=}\n\
         status: {phase: !mine {a: b}, reason: Evicted}\n",
    )
    .unwrap();
    assert!(wire.malformed >= 4, "{wire:?}");
    assert_eq!(&*wire.object.metadata.name, "web");
    assert_eq!(&*wire.object.status.reason, "Evicted");
}

/// A change of a pod, as a JSON pointer and a value, and what it makes of the pod.
type Fault = (&'static str, Value, fn(&Pod) -> bool);

#[test]
fn a_malformed_field_is_its_default_and_is_counted() {
    let faults: [Fault; 14] = [
        (
            "/status/containerStatuses/0/restartCount",
            json!("three"),
            |pod| pod.status.container_statuses[0].restart_count == 0,
        ),
        (
            "/status/containerStatuses/0/restartCount",
            json!(3.5),
            |pod| pod.status.container_statuses[0].restart_count == 0,
        ),
        (
            "/status/containerStatuses/0/restartCount",
            json!(u64::MAX),
            |pod| pod.status.container_statuses[0].restart_count == 0,
        ),
        ("/status/containerStatuses/0/started", json!("yes"), |pod| {
            pod.status.container_statuses[0].started.is_none()
        }),
        (
            "/status/containerStatuses/0/state/waiting",
            json!("CrashLoopBackOff"),
            |pod| pod.status.container_statuses[0].state.waiting.is_none(),
        ),
        ("/status/startTime", json!("yesterday"), |pod| {
            pod.status.start_time.is_none()
        }),
        ("/status/startTime", json!(1_700_000_000), |pod| {
            pod.status.start_time.is_none()
        }),
        ("/status/startTime", json!("99999-01-01T00:00:00Z"), |pod| {
            pod.status.start_time.is_none()
        }),
        ("/status/containerStatuses", json!({}), |pod| {
            pod.status.container_statuses.is_empty()
        }),
        // By position it would be a struct, to serde.
        ("/status/conditions/0", json!(["Ready", "True"]), |pod| {
            pod.status.conditions.is_empty()
        }),
        ("/metadata/labels/pod-template-hash", json!(5955), |pod| {
            pod.metadata.pod_template_hash.is_none()
                && pod.metadata.rollouts_pod_template_hash.is_some()
        }),
        (
            "/metadata/ownerReferences/1/controller",
            json!("true"),
            |pod| pod.metadata.owner.is_none(),
        ),
        ("/spec/schedulingGates", json!(2), |pod| {
            pod.spec.scheduling_gates == 0
        }),
        ("/spec", json!("none"), |pod| pod.spec.containers.is_empty()),
    ];
    for (pointer, value, holds) in faults {
        let mut pod = full_pod();
        *pod.pointer_mut(pointer).unwrap() = value.clone();
        let wire = decode(&pod);
        assert_eq!(wire.malformed, 1, "{pointer}: {value}");
        assert!(holds(&wire.object), "{pointer}: {value}: {wire:?}");
    }
}

#[test]
fn null_is_absent_and_not_malformed() {
    let mut pod = full_pod();
    for pointer in [
        "/metadata/labels",
        "/metadata/ownerReferences/0",
        "/spec/priority",
        "/spec/schedulingGates",
        "/status/containerStatuses/0/restartCount",
        "/status/initContainerStatuses",
        "/status/conditions/0",
    ] {
        *pod.pointer_mut(pointer).unwrap() = Value::Null;
    }
    let wire = decode(&pod);
    assert_eq!(wire.malformed, 0);
    assert_eq!(wire.object.spec.priority, None);
    assert!(wire.object.status.conditions.is_empty());
    assert!(wire.object.metadata.owner.is_some());
}

#[test]
fn what_is_no_object_is_a_malformed_one() {
    for value in [
        json!(null),
        json!(5),
        json!("pod"),
        json!([1, [2]]),
        json!({}),
        json!({"metadata": "web"}),
        json!({"metadata": {}, "status": {"phase": "Running"}}),
    ] {
        assert!(decode(&value).malformed >= 1, "{value}");
    }
}

#[test]
fn a_name_that_occurs_twice_counts_as_its_last() {
    let wire: Wire<Pod> = serde_json::from_str(
        r#"{"metadata": {"name": "a", "name": "b"}, "spec": {"nodeName": "x", "priority": 1}, "spec": {"nodeName": "y"}}"#,
    )
    .unwrap();
    assert_eq!((&*wire.object.metadata.name, wire.malformed), ("b", 0));
    assert_eq!(&*wire.object.spec.node_name, "y");
    assert_eq!(wire.object.spec.priority, None);
}

#[test]
fn depth_alone_stops_nothing() {
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    for field in ["phase", "containerStatuses", "foreign"] {
        let text = format!(
            r#"{{"metadata": {{"name": "a"}}, "status": {{"{field}": {deep}, "reason": "Evicted"}}}}"#
        );
        let wire: Wire<Pod> = serde_json::from_str(&text).unwrap();
        assert_eq!(&*wire.object.status.reason, "Evicted", "{field}");
    }
}

#[test]
fn objects_written_by_hand_stay_distinct() {
    let uid = |metadata: Value| decode(&json!({ "metadata": metadata })).object.metadata.uid;
    assert_eq!(
        &*uid(json!({"name": "a", "namespace": "shop"})),
        "Pod/shop/a"
    );
    assert_eq!(&*uid(json!({"name": "a", "uid": ""})), "Pod//a");
    assert_eq!(&*uid(json!({"name": "a", "uid": "7"})), "7");
}

#[test]
fn one_malformed_pod_of_a_page_hides_no_other() {
    let mut broken = full_pod();
    broken["status"]["containerStatuses"] = json!({"app": "down"});
    let page = json!({
        "kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "5", "continue": "more"},
        "items": [full_pod(), broken, 7, full_pod()]
    });
    let page: ObjectList<Wire<Pod>> = serde_json::from_str(&page.to_string()).unwrap();
    let malformed: Vec<_> = page.items.iter().map(|wire| wire.malformed).collect();
    assert_eq!(malformed, [0, 1, 2, 0]);
    assert_eq!(page.items[1].object.spec.containers.len(), 1);
    assert_eq!(page.metadata.continue_.as_deref(), Some("more"));
}

#[test]
fn a_malformed_pod_ends_no_watch() {
    let mut broken = full_pod();
    broken["metadata"]["creationTimestamp"] = json!({});
    let event = |object: &Value| {
        // The tag comes first on the wire.
        let line = format!(r#"{{"type":"MODIFIED","object":{object}}}"#);
        match serde_json::from_str(&line).unwrap() {
            WatchEvent::<Wire<Pod>>::Modified(wire) => wire,
            other => panic!("{other:?}"),
        }
    };
    let wire = event(&broken);
    assert_eq!(wire.malformed, 1);
    assert_eq!(
        kube::Resource::meta(&wire).resource_version.as_deref(),
        Some("81234")
    );
    assert!(event(&json!(7)).malformed >= 1);
}

#[test]
fn an_object_is_decoded_by_its_group_and_kind() {
    let pod = full_pod();
    let (object, malformed) = Object::decode("v1", "Pod", &pod).unwrap().unwrap();
    assert_eq!((&*object.meta().namespace, malformed), ("shop", 0));
    assert_eq!(object.node(), "node-1");
    assert!(Object::decode("v1", "ConfigMap", &pod).unwrap().is_none());
    assert!(
        Object::decode("example.com/v1", "Pod", &pod)
            .unwrap()
            .is_none()
    );
}

// === Properties ===

/// Any JSON value.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        let key = prop_oneof![
            Just("metadata".to_owned()),
            Just("name".to_owned()),
            Just("spec".to_owned()),
            Just("status".to_owned()),
            Just("labels".to_owned()),
            Just("ownerReferences".to_owned()),
            Just("containers".to_owned()),
            Just("containerStatuses".to_owned()),
            Just("state".to_owned()),
            Just("exitCodes".to_owned()),
            ".{0,6}",
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..6)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

/// The pointers to everything below a value.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    let mut visit = |key: &str, value: &Value| {
        let at = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
        pointers(value, &at, found);
        found.push(at);
    };
    match value {
        Value::Object(object) => object.iter().for_each(|(key, value)| visit(key, value)),
        Value::Array(list) => list
            .iter()
            .enumerate()
            .for_each(|(index, value)| visit(&index.to_string(), value)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The pod without what the pointer points to.
fn without(mut pod: Value, pointer: &str) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let key = key.replace("~1", "/").replace("~0", "~");
    match pod.pointer_mut(parent).unwrap() {
        Value::Object(object) => drop(object.remove(&key)),
        Value::Array(list) => drop(list.remove(key.parse().unwrap())),
        other => panic!("{other}"),
    }
    pod
}

/// Values of every other type than the given one's, but null.
fn others(value: &Value) -> impl Iterator<Item = Value> {
    let kind = std::mem::discriminant(value);
    [
        json!({"a": [1]}),
        json!([{"name": 1}]),
        json!("text"),
        json!(7),
        json!(true),
    ]
    .into_iter()
    .filter(move |other| std::mem::discriminant(other) != kind)
}

#[test]
fn a_value_of_another_type_counts_as_absent_wherever_it_is() {
    let pod = full_pod();
    let shown = |wire: &Wire<Pod>| format!("{:?}", wire.object);
    let whole = shown(&decode(&pod));
    let mut places = Vec::new();
    pointers(&pod, "", &mut places);
    // Gates are counted, whatever they are.
    places.retain(|place| !place.starts_with("/spec/schedulingGates/"));
    for place in places {
        let removed = decode(&without(pod.clone(), &place));
        // Without a name there is one more.
        let expected = removed.malformed + u32::from(shown(&removed) != whole);
        for other in others(pod.pointer(&place).unwrap()) {
            let mut changed = pod.clone();
            *changed.pointer_mut(&place).unwrap() = other.clone();
            let changed = decode(&changed);
            assert_eq!(shown(&changed), shown(&removed), "{place}: {other}");
            // What a field of no interest is, does not matter; of one whose default it had anyway, it does.
            if shown(&removed) == whole {
                assert!(changed.malformed <= 1, "{place}: {other}");
            } else {
                assert_eq!(changed.malformed, expected, "{place}: {other}");
            }
        }
    }
}

proptest! {
    #[test]
    fn no_value_at_all_fails_to_decode(value in any_value()) {
        let wire = decode(&value);
        prop_assert!(wire.malformed >= 1 || !wire.object.metadata.name.is_empty());
        let from_value: Wire<Pod> = serde_json::from_value(value).unwrap();
        prop_assert_eq!(format!("{wire:?}"), format!("{from_value:?}"));
    }
}
