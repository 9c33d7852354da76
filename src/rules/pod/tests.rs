use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::{
    cluster::Object,
    rules::{Finding, Memo, cases},
};

fn decode(value: &Value) -> Option<Object> {
    let text = |name: &str| value[name].as_str().unwrap_or_default();
    Object::decode(text("apiVersion"), text("kind"), value)
        .ok()
        .flatten()
        .map(|(object, _)| object)
}

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn look(object: &Object, now: Timestamp, memo: &mut Memo) -> Vec<Finding> {
    let mut findings = Vec::new();
    object.evaluate(&mut Evaluation::new(now, memo, &mut findings));
    findings
}

/// A pod whose container `app` is as given, seen through the whole path from JSON.
fn mk_pod(status: Value) -> Object {
    let mut status = status;
    status["name"] = json!("app");
    decode(&json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop", "creationTimestamp": "2026-11-20T06:00:00Z"},
        "spec": {"nodeName": "node-a", "containers": [{"name": "app"}]},
        "status": {"phase": "Running", "containerStatuses": [status]},
    }))
    .unwrap()
}

fn mk_restarted(count: i64, finished: Timestamp, run: Duration) -> Object {
    mk_pod(json!({
        "ready": true,
        "restartCount": count,
        "state": {"running": {"startedAt": after(finished, Duration::from_secs(1))}},
        "lastState": {"terminated": {
            "exitCode": 1,
            "reason": "Error",
            "startedAt": before(finished, run),
            "finishedAt": finished,
        }},
    }))
}

#[test]
fn a_rule_has_a_name_of_its_own_and_says_what_it_means() {
    let names: BTreeSet<_> = RULES.iter().map(|rule| rule.name).collect();
    assert_eq!(names.len(), RULES.len());
    for rule in RULES {
        assert!(
            rule.description.ends_with('.') && rule.quorum >= 1,
            "{}",
            rule.name
        );
    }
}

#[test]
fn a_summary_is_one_short_line_that_ends_in_a_word() {
    for value in cases::objects() {
        let object = decode(&value).unwrap();
        for finding in look(&object, time("2026-11-20T10:00:00Z"), &mut Memo::default()) {
            let summary = finding.summary;
            assert!(
                !summary.contains(char::is_control) && summary.len() < 500,
                "{summary}"
            );
            assert!(
                !summary.ends_with([' ', ':', ',']) && !finding.reason.is_empty(),
                "{summary}"
            );
        }
    }
}

#[test]
fn what_is_over_is_not_found() {
    use crate::rules::Lasts;
    let case = time("2026-11-20T10:00:00Z");
    for value in cases::objects() {
        let object = decode(&value).unwrap();
        for now in [
            case,
            after(case, minutes(30)),
            after(case, minutes(60 * 72)),
        ] {
            for finding in look(&object, now, &mut Memo::default()) {
                match finding.lasts {
                    Lasts::WhileSeen => {}
                    Lasts::Until(until) | Lasts::UntilEvenIfGone(until) => {
                        assert!(until > now, "{finding:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn nothing_is_built_for_a_healthy_pod() {
    let object = mk_pod(
        json!({"ready": true, "started": true, "state": {"running": {"startedAt": "2026-11-20T06:00:05Z"}}}),
    );
    let mut memo = Memo::default();
    let findings = look(&object, time("2026-11-20T10:00:00Z"), &mut memo);
    // A Vec that was never pushed to has no room.
    assert_eq!((findings.capacity(), memo.is_empty()), (0, true));
}

#[test]
fn nonsense_is_judged_without_a_panic() {
    let moments = [Timestamp::MIN, time("2026-11-20T10:00:00Z"), Timestamp::MAX];
    for value in cases::objects() {
        for nonsense in NONSENSE {
            let sane = &value;
            let mut value = value.clone();
            alter(&mut value, nonsense);
            // Without its kind an object is not looked at, and without its phase hardly.
            for kept in ["/apiVersion", "/kind", "/status/phase"] {
                if let (Some(to), Some(from)) = (value.pointer_mut(kept), sane.pointer(kept)) {
                    to.clone_from(from);
                }
            }
            // Some of it is refused, which is another matter.
            if let Some(object) = decode(&value) {
                let mut memo = Memo::default();
                for now in moments {
                    for finding in look(&object, now, &mut memo) {
                        object.well_since(finding.rule, Some("app"));
                    }
                }
            }
        }
    }
}

#[test]
fn the_restarts_of_an_hour_are_remembered_in_three_marks() {
    let mut memo = Memo::default();
    let start = time("2026-11-20T08:00:00Z");
    let every = Duration::from_secs(2);
    let mut now = start;
    for count in 1..=1_000 {
        now = after(now, every);
        look(&mk_restarted(count, now, every), now, &mut memo);
    }
    assert_eq!(memo.marks("app").count(), 3);
    let healthy = mk_pod(json!({"ready": true, "state": {"running": {}}}));
    look(&healthy, after(now, minutes(59)), &mut memo);
    assert!(!memo.is_empty());
    look(&healthy, after(now, minutes(60)), &mut memo);
    assert!(memo.is_empty());
}

#[test]
fn the_same_look_twice_is_no_second_restart() {
    let mut memo = Memo::default();
    let now = time("2026-11-20T10:00:00Z");
    for _ in 0..5 {
        assert_eq!(look(&mk_restarted(1, now, minutes(30)), now, &mut memo), []);
    }
    assert_eq!(memo.marks("app").count(), 1);
}

#[test]
fn restarts_are_over_when_the_third_last_is_an_hour_old() {
    let mut memo = Memo::default();
    let first = time("2026-11-20T08:00:00Z");
    let mut findings = Vec::new();
    for (count, minute) in [(1, 0), (2, 12), (3, 24), (4, 36)] {
        let finished = after(first, minutes(minute));
        findings = look(
            &mk_restarted(count, finished, minutes(12)),
            finished,
            &mut memo,
        );
    }
    let lasts: Vec<_> = findings.iter().map(|finding| finding.lasts).collect();
    assert_eq!(
        lasts,
        [crate::rules::Lasts::Until(time("2026-11-20T09:12:00Z"))]
    );
}

#[test]
fn a_crash_loop_is_well_from_the_moment_that_the_container_tells() {
    let running = mk_restarted(3, time("2026-11-20T09:00:00Z"), minutes(1));
    let rule = &restarts::CRASH_LOOPING;
    assert_eq!(
        running.well_since(rule, Some("app")),
        Some(time("2026-11-20T09:00:01Z"))
    );
    assert_eq!(running.well_since(rule, Some("other")), None);
    assert_eq!(
        running.well_since(rule, None),
        Some(time("2026-11-20T09:00:01Z"))
    );
    assert_eq!(running.well_since(&readiness::NOT_READY, Some("app")), None);

    let ended = json!({"terminated": {"exitCode": 1, "finishedAt": "2026-11-20T09:00:00Z"}});
    let ended = mk_pod(json!({"state": ended, "restartCount": 3}));
    assert_eq!(
        ended.well_since(rule, Some("app")),
        Some(time("2026-11-20T09:00:00Z"))
    );

    let waiting = json!({"waiting": {"reason": "ContainerCreating"}});
    let waiting = mk_pod(json!({"state": waiting, "restartCount": 3}));
    assert_eq!(waiting.well_since(rule, Some("app")), None);
    assert_eq!(waiting.well_since(rule, None), None);
    // It was never in a crash loop.
    let new = mk_restarted(0, time("2026-11-20T09:00:00Z"), minutes(1));
    assert_eq!(new.well_since(rule, None), None);
}

// === nonsense ===

/// What a time, a number or a text is replaced by, everywhere at once.
const NONSENSE: &[Nonsense] = &[
    Nonsense::Time(Timestamp::MIN),
    Nonsense::Time(Timestamp::MAX),
    Nonsense::Number(i32::MIN as i64),
    Nonsense::Number(-1),
    Nonsense::Number(i32::MAX as i64),
    Nonsense::Number(i64::MAX),
    Nonsense::NoTime,
    Nonsense::NoText,
    Nonsense::NoList,
];

enum Nonsense {
    Time(Timestamp),
    Number(i64),
    NoTime,
    NoText,
    NoList,
}

fn alter(value: &mut Value, nonsense: &Nonsense) {
    let is_time = |text: &str| text.parse::<Timestamp>().is_ok();
    match (value, nonsense) {
        (Value::Object(fields), _) => fields.values_mut().for_each(|value| alter(value, nonsense)),
        (Value::Array(items), Nonsense::NoList) => items.clear(),
        (Value::Array(items), _) => items.iter_mut().for_each(|value| alter(value, nonsense)),
        (value, Nonsense::Time(time)) if value.as_str().is_some_and(is_time) => {
            *value = json!(time);
        }
        (value, Nonsense::NoTime) if value.as_str().is_some_and(is_time) => *value = Value::Null,
        (value @ Value::Number(_), Nonsense::Number(number)) => *value = json!(number),
        (Value::String(text), Nonsense::NoText) if !is_time(text) => {
            text.clear();
        }
        _ => {}
    }
}
