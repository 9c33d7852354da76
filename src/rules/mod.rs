//! Rules: what an object says about itself at a given time. One file a kind; pure; no memory but the [`Memo`] that is handed in.

mod api_service;
#[cfg(test)]
pub(crate) mod cases;
mod cron_job;
mod daemon_set;
mod deployment;
mod endpoint_slice;
mod evaluation;
#[cfg(test)]
mod explanations;
mod finding;
mod help;
mod horizontal_pod_autoscaler;
mod identity;
mod job;
mod memo;
mod namespace;
mod node;
mod persistent_volume;
mod persistent_volume_claim;
mod pod;
mod pod_disruption_budget;
mod probes;
mod progress;
mod quantity;
mod replica_set;
mod resource_quota;
mod stateful_set;
mod text;
mod tuning;
mod workload;

pub use evaluation::{Evaluation, Quiet};
pub use finding::{Finding, Lasts, Rule, Scope, Since};
pub use help::{Help, QUIET, TO_DO, runbook_url};
pub use memo::Memo;
pub use tuning::{FINDING_LABELS, Override, Setting, Threshold, Tuning, Value, labels_of};

use std::time::Duration;

use jiff::Timestamp;

use crate::{alert::Severity, cluster::KindId};

/// Every rule that looks at objects, kind by kind.
pub const RULES: &[&[&Rule]] = &[
    pod::RULES,
    node::RULES,
    deployment::RULES,
    stateful_set::RULES,
    daemon_set::RULES,
    replica_set::RULES,
    job::RULES,
    cron_job::RULES,
    persistent_volume_claim::RULES,
    persistent_volume::RULES,
    horizontal_pod_autoscaler::RULES,
    pod_disruption_budget::RULES,
    resource_quota::RULES,
    namespace::RULES,
    api_service::RULES,
    endpoint_slice::RULES,
];

/// Stands for a rule that there is no more, in what another version of this program has written down.
pub static RETIRED: Rule = Rule {
    name: "retired",
    kind: KindId::Pod,
    severity: Severity::Warning,
    r#for: Duration::ZERO,
    description: "A rule that this version does not have.",
    ..Rule::DEFAULTS
};

/// A shard that nobody serves: see [`Unserved`](crate::unserved::Unserved). It looks at no object, so it is none of [`all`], and the metrics that count what
/// rules find in objects do not have it.
pub static SHARD_NOT_SERVED: Rule = Rule {
    name: "AlertkubeShardNotServed",
    // No object is of it: it has to be one.
    kind: KindId::Pod,
    severity: Severity::Critical,
    // With the default lease duration: that, and a little.
    r#for: Duration::from_secs(20),
    description: "Nobody serves a shard: no alerts leave for its part of the cluster.",
    ..Rule::DEFAULTS
};

/// Every rule that looks at objects.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    RULES.iter().copied().flatten().copied()
}

/// The rule of this name.
pub fn named(name: &str) -> Option<&'static Rule> {
    all()
        .chain([&SHARD_NOT_SERVED])
        .find(|rule| rule.name == name)
}

/// Why nothing is said of an object that is about to go.
const DELETED: &str = "it is being deleted";

const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(minutes * 60)
}

/// From this time if the API told one, else from when it was first seen.
fn since(time: Option<Timestamp>) -> Since {
    time.map_or(Since::FirstSeen, Since::At)
}
