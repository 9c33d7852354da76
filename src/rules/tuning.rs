//! How rules are set: what people change of their defaults.

use std::{collections::BTreeMap, time::Duration};

use super::Rule;
use crate::{
    alert::Severity,
    cluster::KindId,
    policy::{Matcher, Matchers},
};

/// A number that a rule goes by, besides its `for`, and that people may change.
#[derive(Debug, PartialEq, Eq)]
pub struct Threshold {
    /// What people call it, as a key in YAML: in `snake_case`, as all keys of Alertmanager's language. Times that stand in for the rule's `for` begin with `for_`.
    pub name: &'static str,
    /// What it is if nobody has changed it.
    pub default: Value,
    /// What it decides, in a sentence.
    pub description: &'static str,
}

impl Threshold {
    /// A time.
    pub(super) const fn duration(
        name: &'static str,
        default: Duration,
        description: &'static str,
    ) -> Self {
        Self {
            name,
            default: Value::Duration(default),
            description,
        }
    }

    /// How many of something.
    pub(super) const fn count(name: &'static str, default: u32, description: &'static str) -> Self {
        Self {
            name,
            default: Value::Count(default),
            description,
        }
    }

    /// A part of something, in percent.
    pub(super) const fn percent(
        name: &'static str,
        default: u32,
        description: &'static str,
    ) -> Self {
        Self {
            name,
            default: Value::Percent(default),
            description,
        }
    }
}

/// What a [`Threshold`] is set to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// A time.
    Duration(Duration),
    /// How many of something.
    Count(u32),
    /// A part of something, in percent.
    Percent(u32),
}

/// What is changed of a rule. What is absent stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Setting {
    /// Whether there are alerts of it at all.
    pub enabled: Option<bool>,
    /// The severity of all its alerts, whatever the rule makes of an object.
    pub severity: Option<Severity>,
    /// How long the condition stands before the alert fires.
    pub r#for: Option<Duration>,
    /// Its thresholds, by name.
    pub thresholds: BTreeMap<&'static str, Value>,
}

/// A setting for some of a rule's alerts only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    /// Which alerts: all of them must match.
    pub matchers: Matchers,
    /// What is different for them.
    pub setting: Setting,
}

impl Override {
    /// Whether it takes a finding to know if it applies, and so it can only change what becomes of the finding.
    pub fn needs_finding(&self) -> bool {
        let mut names = self.matchers.iter().map(Matcher::name);
        names.any(|name| FINDING_LABELS.contains(&name))
    }
}

/// The labels of an alert that come from what is found in an object, and not from the object. Where findings are reported, an assertion holds that these are all.
pub const FINDING_LABELS: &[&str] = &[
    "condition",
    "container",
    "reason",
    "resource",
    "service",
    "severity",
];

/// The labels that an alert of the rule may have, those of [`FINDING_LABELS`] included.
pub fn labels_of(rule: &Rule) -> impl Iterator<Item = &'static str> {
    let workload: &[&str] = if rule.kind.is_workload() {
        &["workload", "workload_type"]
    } else {
        &[]
    };
    // A pod that nothing controls is its own workload, and that of a kubelet has a node.
    let pod: &[&str] = if rule.kind == KindId::Pod {
        &["pod", "node"]
    } else {
        &[]
    };
    ["alertname", "cluster", "namespace"]
        .iter()
        .chain(workload)
        .chain(pod)
        .chain(FINDING_LABELS)
        .copied()
        .filter(|label| *label != "service" || rule.kind == KindId::EndpointSlice)
        .chain(rule.kind.label())
}

/// What people have changed of the rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tuning {
    rules: BTreeMap<&'static str, Setting>,
    overrides: BTreeMap<&'static str, Vec<Override>>,
}

impl Tuning {
    /// Changes a rule.
    pub fn set(&mut self, rule: &'static Rule, setting: Setting) {
        self.rules.insert(rule.name, setting);
    }

    /// Changes a rule for some of its alerts. Of several that apply, the later ones win.
    pub fn add(&mut self, rule: &'static Rule, changed: Override) {
        self.overrides.entry(rule.name).or_default().push(changed);
    }

    /// What is changed of a rule for some of its alerts, in order.
    pub fn overrides(&self, rule: &Rule) -> &[Override] {
        self.overrides.get(rule.name).map_or(&[], Vec::as_slice)
    }

    /// What is changed of a rule.
    pub fn of(&self, rule: &Rule) -> Option<&Setting> {
        self.rules.get(rule.name)
    }
}
