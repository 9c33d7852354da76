//! The cases under `tests/rules/`: real objects, a time, and what must be known of them then.
//!
//! A document of a file is a case: `case` (a sentence), `at`, `expect` (nothing: silence), and the objects as `kubectl get -o yaml` prints them,
//! either all seen `at` that time (`objects`), or one after the other (`steps`).

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::{Evaluation, Finding, Lasts, Memo, Since, all};
use crate::{alert::Severity, cluster::Object};

/// How many cases of each kind a rule must have.
const CASES: usize = 3;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    #[serde(rename = "case")]
    sentence: String,
    at: Timestamp,
    expect: Vec<Expected>,
    #[serde(default)]
    objects: Vec<Value>,
    #[serde(default)]
    steps: Vec<Step>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    at: Timestamp,
    object: Value,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Expected {
    alert: String,
    container: Option<String>,
    reason: String,
    severity: Severity,
    state: State,
    /// Missing as long as too few objects show it.
    fires_at: Option<Timestamp>,
    /// A part of the summary.
    summary: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Pending,
    Firing,
}

#[test]
fn every_rule_keeps_to_its_cases() {
    let mut failures = String::new();
    for rule in all() {
        let file = directory().join(format!("{}.yaml", rule.name));
        let cases = match read(&file) {
            Ok(cases) => cases,
            Err(error) => {
                writeln!(failures, "{error}").unwrap();
                continue;
            }
        };
        for case in &cases {
            for failure in judge(case) {
                writeln!(failures, "{}: {:?}: {failure}", rule.name, case.sentence).unwrap();
            }
        }
        let fires = |case: &&Case| {
            let mut expected = case.expect.iter();
            expected.any(|expected| expected.alert == rule.name && expected.state == State::Firing)
        };
        let firing = cases.iter().filter(fires).count();
        if firing < CASES || cases.len() - firing < CASES {
            let silent = cases.len() - firing;
            writeln!(
                failures,
                "{}: {firing} cases must fire and {silent} must not: at least {CASES} each",
                rule.name
            )
            .unwrap();
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
}

#[test]
fn every_file_of_cases_is_about_a_rule() {
    let rules: BTreeSet<PathBuf> = all()
        .map(|rule| directory().join(format!("{}.yaml", rule.name)))
        .collect();
    for file in fs::read_dir(directory()).unwrap() {
        let file = file.unwrap().path();
        assert!(
            rules.contains(&file) || file.ends_with("common.yaml"),
            "{} is of no rule",
            file.display()
        );
    }
}

#[test]
fn what_no_rule_may_speak_of_stays_silent() {
    let mut failures = String::new();
    for case in read(&directory().join("common.yaml")).unwrap() {
        for failure in judge(&case) {
            writeln!(failures, "{:?}: {failure}", case.sentence).unwrap();
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rules")
}

/// Every object of every case, for tests that need all kinds of pods.
pub(super) fn objects() -> Vec<Value> {
    let mut objects = Vec::new();
    for file in fs::read_dir(directory()).unwrap() {
        for case in read(&file.unwrap().path()).unwrap() {
            objects.extend(case.objects);
            objects.extend(case.steps.into_iter().map(|step| step.object));
        }
    }
    objects
}

fn read(file: &Path) -> Result<Vec<Case>, String> {
    let error = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let text = fs::read_to_string(file).map_err(|e| error(&e))?;
    serde_saphyr::from_multiple(&text).map_err(|e| error(&e))
}

/// What is wrong with the case, or with the rules.
fn judge(case: &Case) -> Vec<String> {
    let mut failures = Vec::new();
    let at_once = case.objects.iter().map(|object| (case.at, object));
    let in_turn = case.steps.iter().map(|step| (step.at, &step.object));
    let mut known = Known::default();
    for (at, value) in at_once.chain(in_turn) {
        failures.extend(unknown_fields(value));
        match decode(value) {
            Ok(object) => known.look(at, &object),
            Err(error) => failures.push(error),
        }
    }
    if case.objects.is_empty() == case.steps.is_empty() {
        failures.push("needs either objects or steps".to_owned());
    }
    let mut found = known.alerts(case.at);
    for expected in &case.expect {
        let same = |alert: &Expected| {
            let part = expected.summary.as_deref().unwrap_or_default();
            let summary = alert.summary.as_deref().unwrap_or_default();
            let but_summary = Expected {
                summary: expected.summary.clone(),
                ..alert.clone()
            };
            but_summary == *expected && summary.contains(part)
        };
        match found.iter().position(same) {
            Some(position) => drop(found.swap_remove(position)),
            None => failures.push(format!("missing {expected:?}")),
        }
    }
    failures.extend(found.iter().map(|alert| format!("unexpected {alert:?}")));
    failures
}

fn decode(value: &Value) -> Result<Object, String> {
    let text = |name: &str| value[name].as_str().unwrap_or_default();
    match Object::decode(text("apiVersion"), text("kind"), value) {
        Ok(Some((object, 0))) => Ok(object),
        Ok(Some((_, malformed))) => Err(format!("{malformed} malformed fields")),
        Ok(None) => Err("an object of no watched kind".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// The fields that Kubernetes' own type does not have: the trimmed types skip what they do not know, so that a misspelt field would pass.
fn unknown_fields(value: &Value) -> Vec<String> {
    let full: k8s_openapi::api::core::v1::Pod = match serde_json::from_value(value.clone()) {
        Ok(full) => full,
        Err(error) => return vec![format!("no Pod: {error}")],
    };
    let mut unknown = Vec::new();
    compare(
        "",
        value,
        &serde_json::to_value(full).unwrap(),
        &mut unknown,
    );
    unknown
}

fn compare(path: &str, value: &Value, full: &Value, unknown: &mut Vec<String>) {
    match (value, full) {
        (Value::Object(fields), Value::Object(full)) => {
            for (name, value) in fields {
                let path = format!("{path}.{name}");
                match full.get(name) {
                    Some(full) => compare(&path, value, full, unknown),
                    // Empty values are left out when the full type is written.
                    None if is_empty(value) => {}
                    None => unknown.push(format!("unknown field {path}")),
                }
            }
        }
        (Value::Array(items), Value::Array(full)) => {
            for (item, full) in items.iter().zip(full) {
                compare(&format!("{path}[]"), item, full, unknown);
            }
        }
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

// === what an engine would know, as far as the cases need it ===

#[derive(Default)]
struct Known {
    memos: BTreeMap<String, Memo>,
    members: BTreeMap<(String, &'static str, Option<String>), Member>,
}

struct Member {
    finding: Finding,
    first_seen: Timestamp,
    since: Timestamp,
    well_since: Option<Timestamp>,
}

impl Member {
    fn due(&self) -> Timestamp {
        self.since.saturating_add(self.finding.r#for).unwrap()
    }

    fn is_over(&self, now: Timestamp) -> bool {
        match self.finding.lasts {
            Lasts::WhileSeen => self
                .well_since
                .is_some_and(|well| well.saturating_add(self.finding.rule.hold).unwrap() <= now),
            Lasts::Until(until) | Lasts::UntilEvenIfGone(until) => until <= now,
        }
    }
}

impl Known {
    fn look(&mut self, now: Timestamp, object: &Object) {
        let name = object.meta().name.to_string();
        let mut findings = Vec::new();
        object.evaluate(&mut Evaluation {
            now,
            memo: self.memos.entry(name.clone()).or_default(),
            findings: &mut findings,
        });
        let terminating = object.meta().deletion_timestamp.is_some();
        self.members.retain(|(member_of, _, part), member| {
            if *member_of == name {
                let rule = member.finding.rule;
                let well = || object.well_since(rule, part.as_deref()).unwrap_or(now);
                member.well_since.get_or_insert_with(well);
            }
            let departed = *member_of == name && terminating;
            !departed && !member.is_over(now)
        });
        for finding in findings {
            let part = finding.part.as_ref().map(|(_, value)| value.to_string());
            let key = (name.clone(), finding.rule.name, part);
            let known = self.members.get(&key);
            let first_seen = known.map_or(now, |member| member.first_seen);
            let since = match finding.since {
                Since::At(time) => time.min(now),
                Since::FirstSeen => first_seen,
                Since::FirstSeenOr(time) => time.min(first_seen),
                Since::FirstSeenAfter(time) => time.min(now).max(first_seen),
            };
            let member = Member {
                since: known.map_or(since, |member| member.since.min(since)),
                finding,
                first_seen,
                well_since: None,
            };
            self.members.insert(key, member);
        }
    }

    /// The alerts at that time. All objects of a case are of one subject.
    fn alerts(&self, now: Timestamp) -> Vec<Expected> {
        let mut groups: BTreeMap<_, Vec<&Member>> = BTreeMap::new();
        for ((_, rule, part), member) in &self.members {
            // What was well before it was due does not fire.
            let in_time = member.well_since.is_none_or(|well| member.due() <= well);
            if in_time && !member.is_over(now) {
                groups.entry((rule, part)).or_default().push(member);
            }
        }
        groups
            .into_iter()
            .map(|((rule, part), members)| {
                let finding = &members.last().unwrap().finding;
                let quorum = members.iter().map(|member| member.finding.quorum).min();
                let due =
                    |member: &&Member| member.since.saturating_add(member.finding.r#for).unwrap();
                let mut due: Vec<_> = members.iter().map(due).collect();
                due.sort();
                let fires_at = due.get(quorum.unwrap() - 1).copied();
                let firing = fires_at.is_some_and(|fires_at| fires_at <= now);
                Expected {
                    alert: (*rule).to_owned(),
                    container: part.clone(),
                    reason: finding.reason.to_string(),
                    severity: finding.severity,
                    state: if firing {
                        State::Firing
                    } else {
                        State::Pending
                    },
                    fires_at,
                    summary: Some(finding.summary.clone()),
                }
            })
            .collect()
    }
}
