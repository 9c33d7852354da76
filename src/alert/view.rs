//! An alert as others see it: receivers, `scan`, the API.

use std::{fmt::Write as _, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, ser::SerializeStruct as _};

use super::{Fingerprint, Labels, Severity};
use crate::{
    cluster::{ObjectRef, Subject},
    rules::{self, Rule},
    shard::ShardKey,
    time::between,
};

/// The labels that are no part of an alert's identity: they may change while it stands.
const NOT_IDENTITY: [&str; 2] = ["severity", "reason"];

/// An alert at one moment. It is a copy: nothing that happens later changes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    /// The rule that it comes from.
    pub rule: &'static Rule,
    /// What it is about.
    pub subject: Subject,
    /// The key by which its owner is found.
    pub shard_key: ShardKey,
    /// Its labels, `severity` and `reason` included.
    pub labels: Labels,
    /// Its annotations: `summary` (one line), `description`, and `runbook_url` if it has one.
    pub annotations: Labels,
    /// Its severity.
    pub severity: Severity,
    /// The exact Kubernetes reason.
    pub reason: Box<str>,
    /// Where it is in its life.
    pub state: State,
    /// Since when its condition stands.
    pub starts_at: Timestamp,
    /// When it fires, or fired.
    pub fires_at: Timestamp,
    /// When its condition was over; only if resolved.
    pub ends_at: Option<Timestamp>,
    /// The objects that show the condition (if resolved: that showed it last), in order of their names.
    pub members: Vec<Member>,
}

/// Where an alert is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Its condition does not stand long enough yet.
    Pending,
    /// It pages.
    Firing,
    /// It would fire, but another alert explains it.
    Inhibited,
    /// It fired, and its condition is over.
    Resolved,
}

impl State {
    /// The state in lower case, as in JSON and in the values of a label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Firing => "firing",
            Self::Inhibited => "inhibited",
            Self::Resolved => "resolved",
        }
    }
}

/// One object that shows an alert's condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// The object.
    #[serde(flatten)]
    pub object: ObjectRef,
    /// The node that it runs on; empty if none.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub node: Box<str>,
    /// Since when it shows the condition.
    pub since: Timestamp,
    /// The exact Kubernetes reason.
    pub reason: Box<str>,
    /// What is wrong with it, in one line.
    pub summary: String,
}

/// What has just become of an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transition {
    /// It fires.
    Fired,
    /// It still fires, with another severity or reason.
    Changed,
    /// It fired, and is over.
    Resolved(Resolution),
}

/// Why an alert is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Resolution {
    /// The objects are well again.
    Recovered,
    /// The objects are gone.
    Deleted,
}

/// A transition, and the alert as it was right after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// What happened.
    pub transition: Transition,
    /// The alert.
    pub alert: Alert,
    /// When it happened, by the API server's clock.
    pub at: Timestamp,
}

/// An alert for programs: the fields of Alertmanager's API v2 (`labels`, `annotations`, `startsAt`, `endsAt`, `fingerprint`), and ours. `scan -o json` and the lines
/// on standard output are made of it.
impl Serialize for Alert {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut alert = serializer.serialize_struct("Alert", 10)?;
        alert.serialize_field("labels", &self.labels)?;
        alert.serialize_field("annotations", &self.annotations)?;
        alert.serialize_field("startsAt", &self.starts_at)?;
        match self.ends_at {
            Some(ends_at) => alert.serialize_field("endsAt", &ends_at)?,
            None => alert.skip_field("endsAt")?,
        }
        alert.serialize_field("fingerprint", &self.fingerprint())?;
        alert.serialize_field("subject", &self.subject)?;
        alert.serialize_field("state", &self.state)?;
        alert.serialize_field("firesAt", &self.fires_at)?;
        alert.serialize_field("reason", &self.reason)?;
        alert.serialize_field("members", &self.members)?;
        alert.end()
    }
}

/// Reads what [`Serialize`] writes: what this program has written down itself.
impl<'de> Deserialize<'de> for Alert {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Written {
            labels: Labels,
            annotations: Labels,
            starts_at: Timestamp,
            ends_at: Option<Timestamp>,
            subject: Subject,
            state: State,
            fires_at: Timestamp,
            reason: Box<str>,
            members: Vec<Member>,
        }

        let written = Written::deserialize(deserializer)?;
        let label = |name| written.labels.get(name).unwrap_or_default();
        let rule = rules::named(label("alertname")).unwrap_or(&rules::RETIRED);
        Ok(Self {
            rule,
            shard_key: ShardKey::of(&written.subject),
            severity: label("severity").parse().unwrap_or(rule.severity),
            subject: written.subject,
            labels: written.labels,
            annotations: written.annotations,
            reason: written.reason,
            state: written.state,
            starts_at: written.starts_at,
            fires_at: written.fires_at,
            ends_at: written.ends_at,
            members: written.members,
        })
    }
}

impl Alert {
    /// Alertmanager's fingerprint of the label set.
    pub fn fingerprint(&self) -> Fingerprint {
        self.labels.fingerprint()
    }

    /// The labels that make it the same alert over time: all but `severity` and `reason`.
    pub fn identity(&self) -> Labels {
        identity(&self.labels)
    }

    /// The deduplication key for receivers that have one: SHA-256 of the identity, 64 hex digits. It is not the fingerprint, because nobody
    /// must be able to craft a name in their own namespace that closes another's incident.
    pub fn dedup_key(&self) -> String {
        let mut context = ring::digest::Context::new(&ring::digest::SHA256);
        for (name, value) in self.identity().iter() {
            // 0xff occurs in no UTF-8 text, so no two label sets give the same bytes.
            context.update(name.as_bytes());
            context.update(&[0xff]);
            context.update(value.as_bytes());
            context.update(&[0xff]);
        }
        let mut key = String::with_capacity(64);
        for byte in context.finish().as_ref() {
            // Writing to a String cannot fail.
            let _ = write!(key, "{byte:02x}");
        }
        key
    }

    /// What is wrong, in one line, without the subject: for where the subject is named already. Else there is the annotation `summary`.
    pub fn headline(&self) -> &str {
        let summary = self.annotations.get("summary").unwrap_or_default();
        summary
            .strip_prefix(&format!("{}: ", self.subject.title()))
            .unwrap_or(summary)
    }

    /// How long the condition stood, at most until `now`.
    pub fn duration(&self, now: Timestamp) -> Duration {
        let end = self.ends_at.unwrap_or(now);
        between(self.starts_at, end)
    }
}

/// The labels of an alert that make it the same alert over time.
fn identity(labels: &Labels) -> Labels {
    let mut identity = labels.clone();
    for name in NOT_IDENTITY {
        identity.set(name, "");
    }
    identity
}
