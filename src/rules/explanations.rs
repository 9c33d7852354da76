//! Tests of what all rules owe to people: why they are quiet, and that what can be set is heeded.

use std::{collections::HashMap, path::Path, time::Duration};

use jiff::Timestamp;
use serde_json::Value as Json;

use super::{
    Evaluation, Finding, Memo, Quiet, Rule, Setting, Threshold, Tuning, Value, all,
    cases::{decode, sights, turned_on},
};
use crate::cluster::{KindId, Object};

/// What is found of objects that are seen one after the other, and why rules are quiet, look by look.
fn looks(objects: &[(Timestamp, Object)], tuning: &Tuning) -> Vec<(Vec<Finding>, Vec<Quiet>)> {
    let mut memos: HashMap<Box<str>, Memo> = HashMap::new();
    let look = |(at, object): &(Timestamp, Object)| {
        let memo = memos.entry(object.meta().uid.clone()).or_default();
        let (mut findings, mut quiet) = (Vec::new(), Vec::new());
        let evaluation = Evaluation::new(*at, memo, &mut findings);
        object.evaluate(&mut evaluation.tuned(tuning).explained(&mut quiet));
        (findings, quiet)
    };
    objects.iter().map(look).collect()
}

fn histories() -> Vec<Vec<(Timestamp, Object)>> {
    let decode = |(at, object): (Timestamp, Json)| (at, decode(&object).unwrap());
    sights()
        .into_iter()
        .map(|history| history.into_iter().map(decode).collect())
        .collect()
}

/// The healthy object of each kind.
fn healthy() -> Vec<(Timestamp, Object)> {
    let now = Timestamp::constant(1_790_000_000, 0);
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/healthy");
    let object = |&kind: &KindId| {
        let object = if kind == KindId::Pod {
            crate::sim::pods::mk_pod("shop", "web-7d9c5b8f6-x2x4q").build()
        } else {
            let file = directory.join(format!("{}.json", kind.as_str()));
            serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
        };
        (now, decode(&object).unwrap())
    };
    KindId::ALL.iter().map(object).collect()
}

#[test]
fn every_rule_finds_something_or_says_why_not() {
    let mut silent = Vec::new();
    let mut histories = histories();
    histories.extend(healthy().into_iter().map(|object| vec![object]));
    for history in &histories {
        let looks = looks(history, &Tuning::default());
        for ((at, object), (findings, quiet)) in history.iter().zip(&looks) {
            let rules = all().filter(|rule| rule.kind == object.kind());
            for rule in rules {
                let is_found = findings.iter().any(|finding| finding.rule == rule);
                if !is_found && !quiet.iter().any(|quiet| quiet.rule == rule) {
                    silent.push(format!("{} of {} at {at}", rule.name, object.meta().name));
                }
            }
            for Quiet { rule, because, .. } in quiet {
                assert_eq!(rule.kind, object.kind(), "{}: {because}", rule.name);
                assert!(!because.is_empty() && !because.ends_with('.'), "{because}");
            }
        }
    }
    silent.sort();
    assert!(silent.is_empty(), "{silent:#?}");
}

#[test]
fn nothing_changes_because_somebody_asks_why() {
    for history in histories() {
        let mut memos: HashMap<Box<str>, Memo> = HashMap::new();
        let asked = looks(&history, &Tuning::default());
        for ((at, object), (expected, _)) in history.iter().zip(asked) {
            let memo = memos.entry(object.meta().uid.clone()).or_default();
            let mut findings = Vec::new();
            object.evaluate(&mut Evaluation::new(*at, memo, &mut findings));
            assert_eq!(findings, expected, "{}", object.meta().name);
        }
    }
}

/// Other values of a threshold than its default.
fn others(threshold: &Threshold) -> Vec<Value> {
    match threshold.default {
        Value::Duration(default) => {
            let minute = Duration::from_secs(60);
            vec![
                Value::Duration(minute / 60),
                Value::Duration(default / 2),
                Value::Duration(default + minute),
                Value::Duration(4 * default),
            ]
        }
        Value::Count(default) => vec![Value::Count(default - 1), Value::Count(default + 1)],
        Value::Percent(default) => vec![Value::Percent(default / 2), Value::Percent(99)],
    }
}

fn with(rule: &'static Rule, threshold: &Threshold, value: Value) -> Tuning {
    let mut tuning = Tuning::default();
    let setting = Setting {
        thresholds: [(threshold.name, value)].into(),
        ..Setting::default()
    };
    tuning.set(rule, setting);
    tuning
}

#[test]
fn every_threshold_changes_what_its_rule_finds_and_no_other_rule() {
    let histories = histories();
    for rule in all().filter(|rule| !rule.thresholds.is_empty()) {
        let about = |history: &&Vec<(Timestamp, Object)>| {
            history.iter().any(|(_, object)| object.kind() == rule.kind)
        };
        let histories: Vec<_> = histories.iter().filter(about).collect();
        for threshold in rule.thresholds {
            let mut is_heeded = false;
            for value in others(threshold) {
                let tuning = with(rule, threshold, value);
                for history in &histories {
                    let found = |tuning| {
                        let found = looks(history, tuning).into_iter().map(|(found, _)| found);
                        found.partition_of(rule)
                    };
                    let (before, after) = (found(&Tuning::default()), found(&tuning));
                    is_heeded |= before.0 != after.0;
                    assert_eq!(before.1, after.1, "{}: {}", rule.name, threshold.name);
                }
            }
            assert!(
                is_heeded,
                "{}: {} changes nothing",
                rule.name, threshold.name
            );
        }
    }
}

/// Tells the findings of a rule from those of others.
trait Partition {
    fn partition_of(self, rule: &Rule) -> (Vec<Vec<Finding>>, Vec<Vec<Finding>>);
}

impl<L: Iterator<Item = Vec<Finding>>> Partition for L {
    fn partition_of(self, rule: &Rule) -> (Vec<Vec<Finding>>, Vec<Vec<Finding>>) {
        self.map(|found| found.into_iter().partition(|finding| finding.rule == rule))
            .unzip()
    }
}

#[test]
fn thresholds_have_names_of_their_own_that_are_keys_in_yaml() {
    for rule in all() {
        let mut names: Vec<_> = rule
            .thresholds
            .iter()
            .map(|threshold| threshold.name)
            .collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), rule.thresholds.len(), "{}", rule.name);
        for threshold in rule.thresholds {
            let name = threshold.name;
            let is_key = name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            assert!(
                is_key && !["for", "enabled", "severity"].contains(&name),
                "{name}"
            );
            assert!(threshold.description.ends_with('.'), "{name}");
        }
    }
}

#[test]
fn a_rule_that_is_off_finds_nothing_until_it_is_turned_on() {
    let histories = histories();
    for rule in all().filter(|rule| !rule.enabled) {
        let finds = |tuning: &Tuning| {
            let mut looks = histories.iter().flat_map(|history| looks(history, tuning));
            looks.any(|(found, _)| found.iter().any(|finding| finding.rule == rule))
        };
        assert!(!finds(&Tuning::default()), "{}", rule.name);
        assert!(finds(&turned_on(rule)), "{}", rule.name);
    }
}
