//! How rules are set: what people change of their defaults.

use std::{collections::BTreeMap, time::Duration};

use super::Rule;
use crate::alert::Severity;

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

/// What people have changed of the rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tuning {
    rules: BTreeMap<&'static str, Setting>,
}

impl Tuning {
    /// Changes a rule.
    pub fn set(&mut self, rule: &'static Rule, setting: Setting) {
        self.rules.insert(rule.name, setting);
    }

    /// What is changed of a rule.
    pub fn of(&self, rule: &Rule) -> Option<&Setting> {
        self.rules.get(rule.name)
    }
}
