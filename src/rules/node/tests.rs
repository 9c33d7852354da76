use serde_json::{Value, json};

use super::*;
use crate::{
    cluster::Object,
    rules::{Lasts, Memo, Since, cases},
    time::before,
};

fn decode(value: &Value) -> Object {
    let decoded = Object::decode("v1", "Node", value);
    decoded.unwrap().unwrap().0
}

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn look(object: &Object, now: Timestamp, memo: &mut Memo) -> Vec<Finding> {
    let mut findings = Vec::new();
    object.evaluate(&mut Evaluation::new(now, memo, &mut findings));
    findings
}

/// A node of which this is known: conditions, by type, status and time.
fn mk_node(conditions: &[(&str, &str, Timestamp)]) -> Object {
    let conditions: Vec<_> = conditions
        .iter()
        .map(|(r#type, status, at)| json!({"type": r#type, "status": status, "lastTransitionTime": at}))
        .collect();
    decode(&json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "node-a", "creationTimestamp": "2026-11-02T08:00:00Z"},
        "spec": {"taints": [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]},
        "status": {"conditions": conditions, "nodeInfo": {"bootID": "1c9f6e0b"}},
    }))
}

fn objects() -> impl Iterator<Item = Value> {
    let objects = cases::objects().into_iter();
    objects.filter(|object| object["kind"] == "Node")
}

#[test]
fn nothing_is_built_or_remembered_of_a_healthy_node() {
    let long_ago = time("2026-11-02T08:01:00Z");
    let object = mk_node(&[
        ("KernelDeadlock", "False", long_ago),
        ("KernelReady", "True", long_ago),
        ("MemoryPressure", "False", long_ago),
        ("Ready", "True", long_ago),
    ]);
    let mut memo = Memo::default();
    // Also when it has just become ready.
    for now in [time("2026-11-20T10:00:00Z"), after(long_ago, minutes(1))] {
        let findings = look(&object, now, &mut memo);
        // A Vec that was never pushed to has no room.
        assert_eq!((findings.capacity(), memo.is_empty()), (0, true));
    }
}

#[test]
fn all_is_forgotten_of_a_node_that_is_well_again() {
    let start = time("2026-11-20T09:00:00Z");
    let at = |minute| after(start, minutes(minute));
    let mut memo = Memo::default();
    look(
        &mk_node(&[("Ready", "False", start), ("KernelDeadlock", "True", start)]),
        start,
        &mut memo,
    );
    look(
        &mk_node(&[
            ("Ready", "Unknown", at(2)),
            ("KernelDeadlock", "True", start),
        ]),
        at(2),
        &mut memo,
    );
    let well = mk_node(&[("Ready", "True", at(5)), ("KernelDeadlock", "False", at(5))]);
    look(&well, at(5), &mut memo);
    assert!(!memo.is_empty(), "its changes count for a while");
    look(&well, at(34), &mut memo);
    assert!(!memo.is_empty());
    look(&well, at(35), &mut memo);
    assert!(memo.is_empty());
}

#[test]
fn the_changes_of_a_day_are_remembered_in_four_marks() {
    let start = time("2026-11-20T00:00:00Z");
    let mut memo = Memo::default();
    let mut findings = Vec::new();
    let mut now = start;
    for change in 0..1_000 {
        now = after(start, Duration::from_secs(change * 60));
        let status = if change % 2 == 0 { "False" } else { "True" };
        findings = look(&mk_node(&[("Ready", status, now)]), now, &mut memo);
    }
    assert_eq!(memo.marks("ready").count(), 4);
    let lasts: Vec<_> = findings.iter().map(|finding| finding.lasts).collect();
    assert_eq!(lasts, [Lasts::Until(after(now, minutes(30)))]);
    // The same once more is no change.
    look(
        &mk_node(&[("Ready", "True", now)]),
        after(now, minutes(1)),
        &mut memo,
    );
    assert_eq!(memo.marks("ready").next_back(), Some((now, 1)));
}

#[test]
fn a_clock_that_is_behind_makes_no_changes() {
    let now = time("2026-11-20T10:00:00Z");
    let mut memo = Memo::default();
    look(&mk_node(&[("Ready", "Unknown", now)]), now, &mut memo);
    // The kubelet's clock is behind the node controller's.
    let back = mk_node(&[("Ready", "True", before(now, minutes(1)))]);
    for minute in 1..=20 {
        assert_eq!(look(&back, after(now, minutes(minute)), &mut memo), []);
    }
    assert_eq!(memo.marks("ready").count(), 2);
}

#[test]
fn a_node_is_not_ready_since_it_was_first_so() {
    let start = time("2026-11-20T09:00:00Z");
    let mut memo = Memo::default();
    let statuses = ["Unknown", "False", "Unknown"];
    for (at, status) in (0..)
        .map(|minute| after(start, minutes(minute)))
        .zip(statuses)
    {
        let findings = look(&mk_node(&[("Ready", status, at)]), at, &mut memo);
        let since: Vec<_> = findings.iter().map(|finding| finding.since).collect();
        // Of the node, and of the cluster.
        assert_eq!(since, [Since::At(start); 2]);
    }
}

/// A node on which all is wrong, with this taint and this condition.
fn mk_wreck(taint: &str, condition: &str) -> Object {
    let mut conditions = vec![json!({"type": condition, "status": "True"})];
    let wrong = [
        ("Ready", "False"),
        ("DiskPressure", "True"),
        ("NetworkUnavailable", "True"),
        ("KernelDeadlock", "True"),
        ("NTPProblem", "True"),
    ];
    conditions.extend(wrong.map(|(r#type, status)| json!({"type": r#type, "status": status})));
    decode(&json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "node-a", "creationTimestamp": "2026-11-02T08:00:00Z"},
        "spec": {"taints": [{"key": taint, "effect": "NoSchedule"}]},
        "status": {"conditions": conditions},
    }))
}

#[test]
fn nothing_is_said_of_a_node_that_is_leaving_or_worked_on() {
    let now = time("2026-11-20T10:00:00Z");
    let leaving = LEAVING.iter().copied();
    let leaving = leaving.chain(["aws-node-termination-handler/scheduled-maintenance"]);
    let leaving = leaving.map(|taint| mk_wreck(taint, "Fine"));
    let worked_on = LIFECYCLE.iter();
    let worked_on = worked_on.map(|condition| mk_wreck("dedicated", condition));
    for object in leaving.chain(worked_on) {
        assert_eq!(look(&object, now, &mut Memo::default()), [], "{object:?}");
    }
    let soft = mk_wreck("DeletionCandidateOfClusterAutoscaler", "MaintenancePlanned");
    assert_eq!(look(&soft, now, &mut Memo::default()).len(), 6);
}

#[test]
fn a_node_knows_its_zone() {
    for value in objects() {
        assert!(decode(&value).zone().is_some_and(|zone| !zone.is_empty()));
    }
    assert_eq!(mk_wreck("dedicated", "Fine").zone(), Some(""));
}

#[test]
fn a_summary_is_one_short_line_that_ends_in_a_word() {
    for value in objects() {
        for finding in look(
            &decode(&value),
            time("2026-11-20T10:00:00Z"),
            &mut Memo::default(),
        ) {
            let Finding {
                summary, reason, ..
            } = finding;
            assert!(
                !summary.contains(char::is_control) && summary.len() < 500,
                "{summary}"
            );
            assert!(
                !summary.ends_with([' ', ':', ',']) && !reason.is_empty(),
                "{summary}"
            );
        }
    }
}

#[test]
fn any_time_is_judged_without_a_panic() {
    let moments = [Timestamp::MIN, time("2026-11-20T10:00:00Z"), Timestamp::MAX];
    for value in objects() {
        let text = value.to_string();
        for at in moments {
            let mut memo = Memo::default();
            let object = decode(
                &serde_json::from_str(&text.replace("2026-11-20T09:54:00Z", &at.to_string()))
                    .unwrap(),
            );
            for now in moments {
                look(&object, now, &mut memo);
            }
        }
    }
}
