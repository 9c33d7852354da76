//! A rule, and its verdict on one object.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Threshold;
use crate::{alert::Severity, cluster::KindId};

/// A rule as it is defined: the name under which people know its alert, and its defaults.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// The label `alertname`; kubernetes-mixin's name where it has the alert.
    pub name: &'static str,
    /// The kind that it looks at.
    pub kind: KindId,
    /// The default severity.
    pub severity: Severity,
    /// How long the condition stands before the alert fires (the default; a rule may give a finding a longer one).
    pub r#for: Duration,
    /// How long the condition must be over before the alert resolves. Zero: at once.
    pub hold: Duration,
    /// How many findings must be due at once before the alert fires; more than 1 for events that are harmless alone.
    pub quorum: usize,
    /// What else it goes by.
    pub thresholds: &'static [&'static Threshold],
    /// Whether there are alerts of it unless it is turned on.
    pub enabled: bool,
    /// The condition in a sentence, for people.
    pub description: &'static str,
}

impl Rule {
    /// What most rules have in common.
    pub(crate) const DEFAULTS: Self = Self {
        name: "",
        kind: KindId::Pod,
        severity: Severity::Warning,
        r#for: Duration::ZERO,
        hold: Duration::ZERO,
        quorum: 1,
        thresholds: &[],
        enabled: true,
        description: "",
    };
}

/// A rule's verdict on one object now: its condition stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: &'static Rule,
    /// The part of the object that it is about, as a label: `("container", "app")`. Part of the alert's identity.
    pub part: Option<(&'static str, Box<str>)>,
    /// What the alert is about.
    pub scope: Scope,
    /// The exact Kubernetes reason, such as `CrashLoopBackOff`.
    pub reason: Box<str>,
    /// The severity.
    pub severity: Severity,
    /// Where `for` starts.
    pub since: Since,
    /// How long the condition must stand before it fires, if that is not simply the rule's `for`.
    pub r#for: Option<Duration>,
    /// How many findings of the alert must be due before it fires; [`Rule::quorum`] unless this one counts for more.
    pub quorum: usize,
    /// When the condition is over.
    pub lasts: Lasts,
    /// What is wrong, in one line, without naming the subject or the object.
    pub summary: String,
}

impl Finding {
    /// A finding with the rule's defaults, about the object as a whole, that lasts as long as it is seen.
    pub fn new(rule: &'static Rule, reason: &str, since: Since, summary: String) -> Self {
        Self {
            rule,
            part: None,
            scope: Scope::Subject,
            reason: reason.into(),
            severity: rule.severity,
            since,
            r#for: None,
            quorum: rule.quorum,
            lasts: Lasts::WhileSeen,
            summary,
        }
    }

    /// How long the condition must stand before it fires.
    pub fn r#for(&self) -> Duration {
        self.r#for.unwrap_or(self.rule.r#for)
    }

    /// The same, with a `for` of its own.
    #[must_use]
    pub const fn after(mut self, r#for: Duration) -> Self {
        self.r#for = Some(r#for);
        self
    }

    /// Whether the condition began at this time at the latest, by what the API tells.
    pub fn began_by(&self, time: Option<Timestamp>) -> bool {
        match self.since {
            Since::At(since) => Some(since) <= time,
            Since::FirstSeen | Since::FirstSeenOr(_) | Since::FirstSeenAfter(_) => false,
        }
    }

    /// The same, about the cluster, of which the object is one of many.
    #[must_use]
    pub const fn of_cluster(mut self) -> Self {
        self.scope = Scope::Cluster;
        self
    }

    /// The same, about a part of the object: `("container", "app")`.
    #[must_use]
    pub fn about(mut self, label: &'static str, value: &str) -> Self {
        self.part = Some((label, value.into()));
        self
    }
}

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The object's subject.
    Subject,
    /// The cluster: so many of its nodes show it that it is one fault. How many that takes, the engine decides, since it counts them.
    Cluster,
}

/// Where `for` starts. A time in the future counts as the time of the first look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Since {
    /// At a time that the API tells.
    At(Timestamp),
    /// When it was first seen: the API tells no time.
    FirstSeen,
    /// When it was first seen, or at this time if that is earlier.
    FirstSeenOr(Timestamp),
    /// When it was first seen, or at this time if that is later.
    FirstSeenAfter(Timestamp),
}

impl Since {
    /// The same, but not from before this time as far as the API tells.
    #[must_use]
    pub fn not_before(self, time: Timestamp) -> Self {
        match self {
            Self::At(at) => Self::At(at.max(time)),
            Self::FirstSeen => Self::FirstSeen,
            Self::FirstSeenOr(at) => Self::FirstSeenOr(at.max(time)),
            Self::FirstSeenAfter(at) => Self::FirstSeenAfter(at.max(time)),
        }
    }
}

/// When a condition is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Lasts {
    /// With the object that no longer shows it, plus [`Rule::hold`].
    WhileSeen,
    /// At this time, whatever the object shows by then: an event. It ends early with its object.
    Until(Timestamp),
    /// At this time, even if its object is gone by then: an event that is counted.
    UntilEvenIfGone(Timestamp),
}
