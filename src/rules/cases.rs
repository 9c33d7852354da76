//! The cases under `tests/rules/`: real objects, a time, and what must be known of them then.
//!
//! A document of a file is a case: `case` (a sentence), `at`, `expect` (nothing: silence), and the objects as `kubectl get -o yaml` prints them,
//! either all seen `at` that time (`objects`), or one after the other (`steps`).

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use k8s_openapi::{
    api::{apps::v1 as apps, autoscaling, batch::v1 as batch, core::v1 as core, discovery, policy},
    kube_aggregator::pkg::apis::apiregistration::v1::APIService as ApiService,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{Rule, Setting, Tuning, all};
use crate::{
    alert::{Alert, Engine, Severity},
    cluster::{KindId, Object},
};

/// How many cases of each kind a rule must have.
const CASES: usize = 3;

/// The state of an alert that pages.
const FIRING: &str = "firing";

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
    condition: Option<String>,
    resource: Option<String>,
    reason: String,
    severity: Severity,
    /// As the engine's own state is written.
    state: String,
    fires_at: Timestamp,
    /// A part of the summary.
    summary: Option<String>,
}

impl Expected {
    /// The alert, in the words of a case.
    fn of(alert: &Alert) -> Self {
        let text = |label: Option<&str>| label.map(str::to_owned);
        Self {
            alert: alert.rule.name.to_owned(),
            container: text(alert.labels.get("container")),
            condition: text(alert.labels.get("condition")),
            resource: text(alert.labels.get("resource")),
            reason: alert.reason.to_string(),
            severity: alert.severity,
            state: serde_json::to_value(alert.state)
                .unwrap()
                .as_str()
                .unwrap()
                .to_owned(),
            fires_at: alert.fires_at,
            summary: text(alert.annotations.get("summary")),
        }
    }
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
            for failure in judge(case, turned_on(rule)) {
                writeln!(failures, "{}: {:?}: {failure}", rule.name, case.sentence).unwrap();
            }
        }
        let fires = |case: &&Case| {
            let mut expected = case.expect.iter();
            expected.any(|expected| expected.alert == rule.name && expected.state == FIRING)
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
        for failure in judge(&case, Tuning::default()) {
            writeln!(failures, "{:?}: {failure}", case.sentence).unwrap();
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rules")
}

/// The objects of every case in turn, with the times at which they are seen.
pub(super) fn sights() -> Vec<Vec<(Timestamp, Value)>> {
    let mut sights = Vec::new();
    for file in fs::read_dir(directory()).unwrap() {
        for case in read(&file.unwrap().path()).unwrap() {
            let at_once = case.objects.into_iter().map(|object| (case.at, object));
            let in_turn = case.steps.into_iter().map(|step| (step.at, step.object));
            sights.push(at_once.chain(in_turn).collect());
        }
    }
    sights
}

/// Every object of every case, for tests that need all kinds of pods.
pub(crate) fn objects() -> Vec<Value> {
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

/// How rules are set so that this one, which may be off by default, finds what it can.
pub(super) fn turned_on(rule: &'static Rule) -> Tuning {
    let mut tuning = Tuning::default();
    let enabled = Some(true);
    let setting = Setting {
        enabled,
        ..Setting::default()
    };
    tuning.set(rule, setting);
    tuning
}

/// What is wrong with the case, or with the rules.
fn judge(case: &Case, tuning: Tuning) -> Vec<String> {
    let mut failures = Vec::new();
    let at_once = case.objects.iter().map(|object| (case.at, object));
    let in_turn = case.steps.iter().map(|step| (step.at, &step.object));
    let mut engine = Engine::new("").tuned(tuning);
    for &kind in KindId::ALL {
        engine.list_started(kind);
        engine.list_done(kind, Timestamp::MIN);
    }
    for (at, value) in at_once.chain(in_turn) {
        failures.extend(unknown_fields(value));
        match decode(value) {
            Ok(object) => {
                // What is seen at once is decided at once.
                if !case.steps.is_empty() {
                    engine.advance(at);
                }
                engine.observe(&object, at);
            }
            Err(error) => failures.push(error),
        }
    }
    if case.objects.is_empty() == case.steps.is_empty() {
        failures.push("needs either objects or steps".to_owned());
    }
    engine.advance(case.at);
    let mut found: Vec<Expected> = engine.alerts(case.at).iter().map(Expected::of).collect();
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

/// The object, of which nothing may be malformed.
pub(crate) fn decode(value: &Value) -> Result<Object, String> {
    let text = |name: &str| value[name].as_str().unwrap_or_default();
    match Object::decode(text("apiVersion"), text("kind"), value) {
        Ok(Some((object, 0))) => Ok(object),
        Ok(Some((_, malformed))) => Err(format!("{malformed} malformed fields")),
        Ok(None) => Err("an object of no watched kind".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// The fields that Kubernetes' own type does not have: the trimmed types skip what they do not know, so that a misspelt field would pass.
pub(crate) fn unknown_fields(value: &Value) -> Vec<String> {
    let kind = value["kind"].as_str().and_then(KindId::named);
    let full = match kind {
        None => return vec![format!("no watched kind: {}", value["kind"])],
        Some(KindId::Pod) => whole::<core::Pod>(value),
        Some(KindId::Node) => whole::<core::Node>(value),
        Some(KindId::Deployment) => whole::<apps::Deployment>(value),
        Some(KindId::StatefulSet) => whole::<apps::StatefulSet>(value),
        Some(KindId::DaemonSet) => whole::<apps::DaemonSet>(value),
        Some(KindId::ReplicaSet) => whole::<apps::ReplicaSet>(value),
        Some(KindId::Job) => whole::<batch::Job>(value),
        Some(KindId::CronJob) => whole::<batch::CronJob>(value),
        Some(KindId::PersistentVolumeClaim) => whole::<core::PersistentVolumeClaim>(value),
        Some(KindId::PersistentVolume) => whole::<core::PersistentVolume>(value),
        Some(KindId::HorizontalPodAutoscaler) => {
            whole::<autoscaling::v2::HorizontalPodAutoscaler>(value)
        }
        Some(KindId::PodDisruptionBudget) => whole::<policy::v1::PodDisruptionBudget>(value),
        Some(KindId::ResourceQuota) => whole::<core::ResourceQuota>(value),
        Some(KindId::Namespace) => whole::<core::Namespace>(value),
        Some(KindId::ApiService) => whole::<ApiService>(value),
        Some(KindId::EndpointSlice) => whole::<discovery::v1::EndpointSlice>(value),
    };
    let mut unknown = Vec::new();
    match full {
        Ok(full) => compare("", value, &full, &mut unknown),
        Err(error) => unknown.push(format!("no object of its kind: {error}")),
    }
    unknown
}

/// The object as Kubernetes' own type reads and writes it.
fn whole<K: DeserializeOwned + Serialize>(value: &Value) -> serde_json::Result<Value> {
    serde_json::to_value(serde_json::from_value::<K>(value.clone())?)
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
