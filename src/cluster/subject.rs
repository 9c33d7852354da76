//! Subjects: what an alert is about, found from an object alone.

mod parse;

use std::{borrow::Cow, fmt, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Meta, Owner};
use crate::time::{after, before};

pub use parse::SubjectError;

/// What an alert is about, and what is sharded: a workload, a node, a claim, ...
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Subject {
    /// The kind, as Kubernetes spells it (`Deployment`).
    pub kind: Box<str>,
    /// The namespace; empty for a cluster-scoped kind.
    pub namespace: Box<str>,
    /// The name.
    pub name: Box<str>,
}

impl Subject {
    /// One that is in no namespace.
    pub fn cluster_scoped(kind: &str, name: &str) -> Self {
        Self {
            kind: kind.into(),
            namespace: "".into(),
            name: name.into(),
        }
    }

    /// The subject as people write it: `Deployment shop/web`, `Node node-1`. What follows a `#`, which no name in Kubernetes has, only decides on the shard.
    pub fn title(&self) -> String {
        let Self {
            kind,
            namespace,
            name,
        } = self;
        let name = name.split_once('#').map_or(&**name, |(name, _)| name);
        if name.is_empty() {
            // The cluster, if nobody knows what it is called.
            kind.to_string()
        } else if namespace.is_empty() {
            format!("{kind} {name}")
        } else {
            format!("{kind} {namespace}/{name}")
        }
    }
}

impl fmt::Display for Subject {
    /// `Kind/namespace/name`: the text whose hash is the shard key. The namespace is empty for a cluster-scoped kind (`Node//node-1`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.kind, self.namespace, self.name)
    }
}

/// What a subject's label `workload_type` says: the kind in lower case, but `barepod` and `staticpod` for pods without a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WorkloadType {
    /// A controller's kind.
    Controller,
    /// A pod that nothing controls.
    BarePod,
    /// The mirror of a pod that a kubelet runs from a file on its node.
    StaticPod,
}

impl WorkloadType {
    /// The value of the label `workload_type` for a subject of this type.
    pub fn as_label(self, subject: &Subject) -> Cow<'static, str> {
        match self {
            Self::BarePod => "barepod".into(),
            Self::StaticPod => "staticpod".into(),
            Self::Controller => match &*subject.kind {
                "CronJob" => "cronjob".into(),
                "DaemonSet" => "daemonset".into(),
                "Deployment" => "deployment".into(),
                "Job" => "job".into(),
                "ReplicaSet" => "replicaset".into(),
                "Rollout" => "rollout".into(),
                "StatefulSet" => "statefulset".into(),
                other => other.to_ascii_lowercase().into(),
            },
        }
    }
}

impl Subject {
    /// The subject of an object: its topmost owner that can be told from the object alone, else itself. So every replica finds the same one,
    /// without a look at any other object.
    ///
    /// - A pod belongs to its controller, and to the controller of that if the controller's name shows it (a `ReplicaSet` named after the hash
    ///   on the pod, a Job named after its minute). The name of the pod itself is never parsed: long ones are cut.
    /// - A `ReplicaSet` or a Job belongs to its controller if its own name shows the same one: so it agrees with its pods.
    /// - The mirror of a static pod is owned by its Node, but is its own subject: else all static pods of a node would share one alert.
    /// - Any other object is its own subject.
    pub fn of(kind: &str, meta: &Meta) -> (Self, WorkloadType) {
        let subject = |kind: &str, name: &str| Self {
            kind: kind.into(),
            namespace: meta.namespace.clone(),
            name: name.into(),
        };
        match (kind, &meta.owner) {
            ("Pod", _) if meta.mirror => (subject(kind, &meta.name), WorkloadType::StaticPod),
            ("Pod", None) => (subject(kind, &meta.name), WorkloadType::BarePod),
            ("Pod", Some(owner)) => {
                let (kind, name) = Some(owner)
                    .filter(|owner| is_kubernetes_own(owner))
                    .and_then(|owner| parent(&owner.kind, &owner.name, meta))
                    .unwrap_or((&owner.kind, &owner.name));
                (subject(kind, name), WorkloadType::Controller)
            }
            (_, owner) => {
                let (kind, name) = parent(kind, &meta.name, meta)
                    .filter(|&(kind, name)| {
                        owner
                            .as_ref()
                            .is_some_and(|owner| *owner.kind == *kind && *owner.name == *name)
                    })
                    .unwrap_or((kind, &meta.name));
                (subject(kind, name), WorkloadType::Controller)
            }
        }
    }
}

/// Whether a `ReplicaSet` or Job is Kubernetes' own: others have kinds of these names too (Volcano's Job), with other ways to name things.
fn is_kubernetes_own(owner: &Owner) -> bool {
    let group = owner.api_version.split('/').next().unwrap_or_default();
    matches!(
        (group, &*owner.kind),
        ("apps", "ReplicaSet") | ("batch", "Job") | ("", _)
    )
}

/// The controller of a `ReplicaSet` or a Job, as its name shows it. `meta` is its own, or that of a pod of it.
fn parent<'a>(kind: &str, name: &'a str, meta: &Meta) -> Option<(&'static str, &'a str)> {
    match kind {
        "ReplicaSet" => {
            // Argo's label goes first: templates copied from a Deployment bring the other one along.
            let of_hash = |hash: &Option<Box<str>>| without_hash(name, hash.as_deref()?);
            of_hash(&meta.rollouts_pod_template_hash)
                .map(|name| ("Rollout", name))
                .or_else(|| of_hash(&meta.pod_template_hash).map(|name| ("Deployment", name)))
        }
        "Job" if !meta.manual => {
            without_minute(name, meta.creation_timestamp?).map(|name| ("CronJob", name))
        }
        _ => None,
    }
}

/// The name minus `-hash`. What a hash looks like is not checked: who imitates one only groups under a wrong name in their own namespace,
/// while a change of its alphabet would make a new subject of every rollout.
fn without_hash<'a>(name: &'a str, hash: &str) -> Option<&'a str> {
    let name = name.strip_suffix(hash)?.strip_suffix('-')?;
    (!hash.is_empty() && !name.is_empty()).then_some(name)
}

/// A Job is made at most this long after its minute, and a pod of it at most this long after that (`startingDeadlineSeconds`, a suspended
/// Job, late retries), for its name to count as a `CronJob`'s.
const JOB_LATE: Duration = Duration::from_secs(32 * 24 * 3600);
/// Clocks differ: how far a minute may lie in the object's future.
const JOB_EARLY: Duration = Duration::from_secs(3600);
/// The longest name of a `CronJob` (`validateCronJobName` in Kubernetes): a Job's 63 characters less `-` and the digits.
const CRON_JOB_NAME_MAX: usize = 52;

/// The name minus `-minute`, the scheduled Unix time in minutes that the `CronJob` controller appends (`getJobName` in Kubernetes). The
/// object's creation must fit it: `report-20260101` is nobody's minute.
fn without_minute(name: &str, created: Timestamp) -> Option<&str> {
    let (name, minute) = name.rsplit_once('-')?;
    if name.is_empty() || name.len() > CRON_JOB_NAME_MAX || minute.starts_with(['0', '+']) {
        return None;
    }
    let scheduled = Timestamp::from_second(minute.parse::<i64>().ok()?.checked_mul(60)?).ok()?;
    let earliest = before(created, JOB_LATE);
    let latest = after(created, JOB_EARLY);
    (earliest..=latest).contains(&scheduled).then_some(name)
}

#[cfg(test)]
mod tests;
