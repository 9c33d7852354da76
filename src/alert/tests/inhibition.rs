//! Nothing is silenced without anybody being told, whatever comes first.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    causes::{DOWN, UNREACHABLE, decode, deployment, look, mk_engine, node, on_node_a},
    *,
};
use crate::{
    alert::Severity,
    cluster::Subject,
    rules::{self, Setting, Tuning},
    shard::{ShardKey, ownership::Shard},
};

const PULL: &str = "KubePodImagePullFailing";
const WAITING: &str = "KubeContainerWaiting";
const NODES_DOWN: &str = "KubeNodesDown";

/// A node of one of many, whose kubelet is silent since a time, or not.
fn mk_node(number: usize, silent_since: Option<Timestamp>) -> Object {
    let status = silent_since.map_or("True", |_| "Unknown");
    let since = silent_since.unwrap_or_else(|| at(-864_000));
    decode(&json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": format!("node-{number}"), "uid": format!("node-{number}"), "creationTimestamp": at(-864_000)},
        "status": {"conditions": [
            {"type": "Ready", "status": status, "reason": "NodeStatusUnknown", "lastTransitionTime": since},
        ]},
    }))
}

/// An engine that has seen so many nodes, all of them well.
fn mk_nodes(count: usize) -> Engine {
    let mut engine = mk_engine();
    for number in 0..count {
        engine.observe(&mk_node(number, None), at(0));
    }
    engine.advance(at(0));
    engine
}

/// What was told, sorted, for what happens at one moment has no order.
fn sorted(mut told: Vec<(&'static str, Transition)>) -> Vec<(&'static str, Transition)> {
    told.sort_by_key(|(name, _)| *name);
    told
}

/// A pod of the Deployment whose container is made for a long time: it pages after 15 minutes, of its own.
fn mk_waiting_pod(name: &str, since: Timestamp) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "shop", "uid": format!("uid-{name}"), "creationTimestamp": since,
            "labels": {"pod-template-hash": "5d4f8c7b9d"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d4f8c7b9d", "controller": true}],
        },
        "spec": {"nodeName": "node-1", "containers": [{"name": "app"}]},
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
    })
}

#[test]
fn what_is_seen_at_one_moment_is_told_the_same_in_whatever_order() {
    let pull = || {
        mk_pod("web-1")
            .image_failing("ImagePullBackOff", at(0))
            .object()
    };
    let on_dead_node = || on_node_a(mk_pod("web-2").not_ready(at(0))).object();
    let cases: [(Vec<Object>, &[&str]); 3] = [
        (vec![pull(), deployment(true, at(0))], &[PULL]),
        (vec![on_dead_node(), node(true, at(0))], &[UNREACHABLE]),
        // The node explains the pod, which explains the Deployment.
        (
            vec![on_dead_node(), node(true, at(0)), deployment(true, at(0))],
            &[UNREACHABLE],
        ),
    ];
    for (objects, paged) in cases {
        for rotated in 0..objects.len() {
            for reversed in [false, true] {
                let mut order = objects.clone();
                order.rotate_left(rotated);
                if reversed {
                    order.reverse();
                }
                let mut engine = mk_engine();
                // All of it is overdue when it is seen first, as at a start.
                run_until(&mut engine, at(3600));
                for object in &order {
                    engine.observe(object, at(3600));
                }
                engine.advance(at(3600));
                let told: Vec<_> = names(&mut engine)
                    .into_iter()
                    .map(|(name, _)| name)
                    .collect();
                assert_eq!(told, paged, "{rotated} {reversed}");
            }
        }
    }
}

#[test]
fn fewer_nodes_than_it_takes_in_a_large_cluster_page_one_by_one() {
    let mut engine = mk_nodes(100);
    for number in 0..5 {
        let seen = i64::try_from(number).unwrap();
        let told = look(&mut engine, &mk_node(number, Some(at(0))), at(seen));
        assert_eq!(told, []);
        // Its controllers go on writing to it.
        let told = look(&mut engine, &mk_node(number, Some(at(0))), at(seen));
        assert_eq!(told, []);
    }
    assert_eq!(
        wait(&mut engine, at(3600)),
        [(UNREACHABLE, Transition::Fired); 5]
    );
    assert_eq!(
        look(&mut engine, &mk_node(0, Some(at(0))), at(3601)),
        [],
        "they go on"
    );
}

#[test]
fn a_node_that_goes_down_after_many_others_were_is_paged() {
    let mut engine = mk_nodes(10);
    for number in 0..3 {
        look(&mut engine, &mk_node(number, Some(at(0))), at(0));
    }
    assert_eq!(
        wait(&mut engine, at(600)),
        [(NODES_DOWN, Transition::Fired)]
    );
    // Two are back, and one is forgotten for days.
    for number in 1..3 {
        assert_eq!(look(&mut engine, &mk_node(number, None), at(700)), []);
    }
    assert_eq!(wait(&mut engine, at(200_000)), []);
    let other = mk_node(7, Some(at(200_000)));
    assert_eq!(look(&mut engine, &other, at(200_000)), []);
    assert_eq!(
        wait(&mut engine, at(201_000)),
        [(UNREACHABLE, Transition::Fired)]
    );
}

#[test]
fn nodes_that_join_many_others_are_told_with_them() {
    let mut engine = mk_nodes(10);
    for number in 0..3 {
        look(&mut engine, &mk_node(number, Some(at(0))), at(0));
    }
    assert_eq!(
        wait(&mut engine, at(600)),
        [(NODES_DOWN, Transition::Fired)]
    );
    assert_eq!(look(&mut engine, &mk_node(5, Some(at(600))), at(600)), []);
    assert_eq!(wait(&mut engine, at(2000)), []);
    // The others are back: it is still one of those that were told.
    for number in 0..3 {
        assert_eq!(look(&mut engine, &mk_node(number, None), at(2000)), []);
    }
    assert_eq!(wait(&mut engine, at(4000)), []);
    assert_eq!(look(&mut engine, &mk_node(5, None), at(4000)), []);
    assert_eq!(wait(&mut engine, at(5000)), [(NODES_DOWN, RECOVERED)]);
}

#[test]
fn another_cause_that_is_left_when_the_first_ends_fires_at_once() {
    let mut engine = mk_engine();
    let pull = mk_pod("web-1").image_failing("ImagePullBackOff", at(0));
    look(&mut engine, &pull.object(), at(0));
    look(&mut engine, &deployment(true, at(0)), at(0));
    assert_eq!(wait(&mut engine, at(400)), [(PULL, Transition::Fired)]);
    // Another pod takes its time, which explains the Deployment, too: somebody sees to it already.
    let waiting = decode(&mk_waiting_pod("web-2", at(400)));
    assert_eq!(look(&mut engine, &waiting, at(400)), []);
    assert_eq!(wait(&mut engine, at(500)), []);
    engine.gone("uid-web-1", at(500));
    engine.advance(at(500));
    assert_eq!(
        sorted(wait(&mut engine, at(620))),
        [(WAITING, Transition::Fired), (PULL, DELETED)]
    );
    let waiting = &engine.alerts(at(620))[0];
    assert_eq!(
        (waiting.rule.name, waiting.severity),
        (WAITING, Severity::Critical)
    );
}

#[test]
fn a_cause_beside_one_that_was_told_keeps_its_own_time() {
    let mut engine = mk_engine();
    let dead = on_node_a(mk_pod("web-1").not_ready(at(0))).object();
    look(&mut engine, &dead, at(0));
    look(&mut engine, &node(true, at(0)), at(0));
    look(&mut engine, &deployment(true, at(0)), at(0));
    // The Deployment is due at 180.
    assert_eq!(
        wait(&mut engine, at(400)),
        [(UNREACHABLE, Transition::Fired)]
    );
    // Its replacement only takes a while.
    let waiting = decode(&mk_waiting_pod("web-2", at(400)));
    assert_eq!(look(&mut engine, &waiting, at(400)), []);
    assert_eq!(wait(&mut engine, at(1299)), []);
    assert_eq!(wait(&mut engine, at(1300)), [(WAITING, Transition::Fired)]);
}

#[test]
fn what_recovers_a_moment_after_its_cause_is_not_told() {
    let claim = |phase: &str| {
        decode(&json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": "data", "namespace": "shop", "uid": "data", "creationTimestamp": at(0),
                "annotations": {"volume.kubernetes.io/storage-provisioner": "csi.example.com"},
            },
            "spec": {"storageClassName": "fast"},
            "status": {"phase": phase},
        }))
    };
    let pod = |scheduled: bool| {
        let status = if scheduled { "True" } else { "False" };
        let node = if scheduled { "node-1" } else { "" };
        decode(&json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "db-0", "namespace": "shop", "uid": "db-0", "creationTimestamp": at(0)},
            "spec": {
                "nodeName": node,
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
            },
            "status": {"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": status, "reason": "Unschedulable", "lastTransitionTime": at(0)},
            ]},
        }))
    };
    for recovers in [true, false] {
        let mut engine = mk_engine();
        look(&mut engine, &pod(false), at(0));
        look(&mut engine, &claim("Pending"), at(0));
        let told = wait(&mut engine, at(399));
        assert_eq!(
            told,
            [("KubePersistentVolumeClaimPending", Transition::Fired)]
        );
        let told = look(&mut engine, &claim("Bound"), at(400));
        assert_eq!(told, [("KubePersistentVolumeClaimPending", RECOVERED)]);
        assert_eq!(wait(&mut engine, at(420)), []);
        if recovers {
            assert_eq!(look(&mut engine, &pod(true), at(420)), []);
            assert_eq!(wait(&mut engine, at(431)), []);
        } else {
            assert_eq!(wait(&mut engine, at(429)), []);
            let told = wait(&mut engine, at(430));
            assert_eq!(told, [("KubePodPending", Transition::Fired)]);
        }
    }
}

#[test]
fn a_pod_that_is_replaced_goes_on_explaining_until_its_alert_is_over() {
    let mut engine = mk_engine();
    let pull = |name: &str, since| mk_pod(name).image_failing("ImagePullBackOff", since);
    look(&mut engine, &pull("web-1", at(0)).object(), at(0));
    look(&mut engine, &deployment(true, at(0)), at(0));
    assert_eq!(wait(&mut engine, at(400)), [(PULL, Transition::Fired)]);
    let going = pull("web-1", at(0)).terminating(at(430)).object();
    assert_eq!(look(&mut engine, &going, at(400)), []);
    assert_eq!(wait(&mut engine, at(405)), []);
    let next = pull("web-2", at(410)).object();
    assert_eq!(look(&mut engine, &next, at(410)), []);
    engine.gone("uid-web-1", at(430));
    assert_eq!(wait(&mut engine, at(3600)), []);
    // Without another, it is over when the alert is.
    engine.gone("uid-web-2", at(3600));
    engine.advance(at(3600));
    assert_eq!(wait(&mut engine, at(3719)), []);
    let told = sorted(wait(&mut engine, at(3720)));
    assert_eq!(told, [(DOWN, Transition::Fired), (PULL, DELETED)]);
}

#[test]
fn a_cause_explains_only_while_its_shard_is_served() {
    let mut engine = mk_engine();
    look(&mut engine, &node(true, at(0)), at(0));
    let pod = on_node_a(mk_pod("web-1").not_ready(at(0))).object();
    look(&mut engine, &pod, at(0));
    assert_eq!(
        wait(&mut engine, at(600)),
        [(UNREACHABLE, Transition::Fired)]
    );
    let own = |total: u32, subject| [Shard::of(&ShardKey::of(&subject), total)].into();
    let of_node = Subject::cluster_scoped("Node", "node-a");
    // Of so many shards, the pod's is another one.
    engine.set_unserved(&own(1000, pod.subject().0), at(600));
    assert_eq!(wait(&mut engine, at(700)), []);
    engine.set_unserved(&own(1000, of_node), at(700));
    assert_eq!(wait(&mut engine, at(730)), [(NOT_READY, Transition::Fired)]);
    // It is served again: what was told goes on, and what comes is explained.
    engine.set_unserved(&BTreeSet::new(), at(730));
    assert_eq!(wait(&mut engine, at(800)), []);
    let mut api = on_node_a(mk_pod("api-1").not_ready(at(800)));
    api.metadata.owner.as_mut().unwrap().name = "api-5d4f8c7b9d".into();
    look(&mut engine, &api.object(), at(800));
    assert_eq!(wait(&mut engine, at(3600)), []);
}

#[test]
fn a_cause_of_a_shard_that_nobody_serves_is_not_made_to_fire_in_place_of_its_effect() {
    let mut engine = mk_engine();
    let subject = Subject::cluster_scoped("Node", "node-a");
    engine.set_unserved(&[Shard::of(&ShardKey::of(&subject), 1000)].into(), at(0));
    look(&mut engine, &node(true, at(100)), at(100));
    let pod = on_node_a(mk_pod("web-1").not_ready(at(0))).object();
    look(&mut engine, &pod, at(100));
    assert_eq!(wait(&mut engine, at(300)), [(NOT_READY, Transition::Fired)]);
    assert_eq!(
        wait(&mut engine, at(400)),
        [(UNREACHABLE, Transition::Fired)],
        "in its own time"
    );
}

#[test]
fn a_cause_explains_only_while_its_rule_is_on() {
    for (off, paged) in [
        (None, &[UNREACHABLE][..]),
        (Some(UNREACHABLE), &[NOT_READY]),
        // Many nodes at once are then one by one.
        (Some(NODES_DOWN), &[UNREACHABLE]),
    ] {
        let mut tuning = Tuning::default();
        if let Some(rule) = off.and_then(rules::named) {
            let enabled = Some(false);
            tuning.set(
                rule,
                Setting {
                    enabled,
                    ..Setting::default()
                },
            );
        }
        let mut engine = mk_engine().tuned(tuning);
        look(&mut engine, &node(true, at(0)), at(0));
        let pod = on_node_a(mk_pod("web-1").not_ready(at(0))).object();
        look(&mut engine, &pod, at(0));
        let told = wait(&mut engine, at(3600));
        let told: Vec<_> = told.into_iter().map(|(name, _)| name).collect();
        assert_eq!(told, paged, "{off:?}");
    }
}

#[test]
fn a_cause_whose_rule_was_turned_off_explains_nothing_that_it_was_remembered_to() {
    let mut engine = mk_engine();
    look(&mut engine, &node(true, at(0)), at(0));
    let pod = on_node_a(mk_pod("web-1").not_ready(at(0))).object();
    look(&mut engine, &pod, at(0));
    wait(&mut engine, at(600));
    let subject = Subject::cluster_scoped("Node", "node-a");
    let memory = engine.memory(&subject);

    let mut tuning = Tuning::default();
    let enabled = Some(false);
    let unreachable = rules::named(UNREACHABLE).unwrap();
    tuning.set(
        unreachable,
        Setting {
            enabled,
            ..Setting::default()
        },
    );
    let mut engine = mk_engine().tuned(tuning);
    for object in [node(true, at(0)), pod] {
        engine.observe(&object, at(700));
    }
    engine.restore(&subject, &memory, &[], at(700));
    engine.advance(at(700));
    // What was told of it ends when its hold is over, and the pod is told then.
    assert_eq!(
        sorted(wait(&mut engine, at(1000))),
        [(UNREACHABLE, RECOVERED), (NOT_READY, Transition::Fired)]
    );
}

#[test]
fn a_restart_does_not_take_back_how_bad_a_cause_was_said_to_be() {
    let claim = || {
        decode(&json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": "data-db-0", "namespace": "shop", "uid": "data-db-0", "creationTimestamp": at(0),
                "annotations": {"volume.kubernetes.io/storage-provisioner": "csi.example.com"},
            },
            "spec": {"storageClassName": "fast"},
            "status": {"phase": "Pending"},
        }))
    };
    let pod = || {
        decode(&json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "db-0", "namespace": "shop", "uid": "db-0", "creationTimestamp": at(0),
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "controller": true}],
            },
            "spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}]},
            "status": {"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": at(0)},
            ]},
        }))
    };
    let set = || {
        decode(&json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": {"name": "db", "namespace": "shop", "uid": "db", "generation": 1, "creationTimestamp": at(-864_000)},
            "spec": {"replicas": 1},
            "status": {"observedGeneration": 1, "replicas": 1},
        }))
    };
    let see = |engine: &mut Engine, now| {
        for object in [claim(), pod(), set()] {
            engine.observe(&object, now);
        }
    };
    let mut engine = mk_engine();
    see(&mut engine, at(0));
    wait(&mut engine, at(900));
    let told = &engine.alerts(at(900))[0];
    assert_eq!(
        (told.rule.name, told.severity),
        ("KubePersistentVolumeClaimPending", Severity::Critical)
    );

    // What is remembered comes before anything is decided.
    let subjects: Vec<_> = engine.remembered().cloned().collect();
    let memories: Vec<_> = subjects
        .into_iter()
        .map(|subject| (engine.memory(&subject), subject))
        .collect();
    let mut engine = mk_engine();
    see(&mut engine, at(1000));
    for (memory, subject) in &memories {
        let memory = serde_json::from_value(serde_json::to_value(memory).unwrap()).unwrap();
        engine.restore(subject, &memory, &[], at(1000));
    }
    engine.advance(at(1000));
    assert_eq!(names(&mut engine), []);
    assert_eq!(engine.alerts(at(1000))[0].severity, Severity::Critical);
}
