//! The rules on `ReplicaSets` that nothing controls. Those of a Deployment are judged by it.

use super::{
    DELETED, Evaluation, Finding, Rule, Since, Threshold, minutes, probes,
    progress::{self, Standstill, due_at},
    workload::{self, Replicas},
};
use crate::{
    alert::Severity,
    cluster::{Kind, KindId, LabelSet, Meta, ReplicaSet},
    time::after,
};

/// Every rule on `ReplicaSets`.
pub const RULES: &[&Rule] = &[&REPLICAS_MISMATCH, &REPLICA_FAILURE];

/// Some of it, or all, is not available.
static REPLICAS_MISMATCH: Rule = Rule {
    name: "KubeReplicaSetReplicasMismatch",
    kind: KindId::ReplicaSet,
    severity: Severity::Warning,
    r#for: minutes(10),
    hold: minutes(2),
    thresholds: &[&STILL, &FOR_NONE, &FOR_NEW],
    description: "A ReplicaSet that nothing controls has fewer available replicas than it should, and it does not get better.",
    ..Rule::DEFAULTS
};

/// Nothing has moved for so long: a scale-up that moves is well.
static STILL: Threshold = progress::still(minutes(5));

/// How long it takes with no replica at all, which is critical.
static FOR_NONE: Threshold = Threshold::duration(
    "for_none",
    minutes(3),
    "How long none of its replicas may be available.",
);

/// How long a new one may take until its first replica is available, and what its probes allow for.
static FOR_NEW: Threshold = Threshold::duration(
    "for_new",
    minutes(5),
    "How long none may be available after it was made, besides what its probes allow for.",
);

/// Pods cannot be made.
static REPLICA_FAILURE: Rule = Rule {
    name: "KubeReplicaSetReplicaFailure",
    kind: KindId::ReplicaSet,
    severity: Severity::Warning,
    r#for: minutes(2),
    hold: minutes(1),
    description: "Pods of a ReplicaSet that nothing controls cannot be created or deleted: the API server refuses.",
    ..Rule::DEFAULTS
};

/// What the memo calls a set that has too few replicas.
const SHORT: &str = "short";

/// What the memo calls a set that has none.
const NONE: &str = "none";

impl Kind for ReplicaSet {
    const ID: KindId = KindId::ReplicaSet;
    const GROUP: &'static str = "apps";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "ReplicaSet";
    const PLURAL: &'static str = "replicasets";
    const LABEL: Option<&'static str> = Some("replicaset");
    const IS_WORKLOAD: bool = true;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }

    fn pod_labels(&self) -> Option<&LabelSet> {
        Some(&self.spec.template.labels)
    }

    fn evaluate(&self, evaluation: &mut Evaluation<'_>) {
        let meta = &self.metadata;
        if meta.owner.is_some() {
            // It may have been adopted.
            Standstill::over(&[SHORT, NONE], evaluation.memo);
            evaluation.quiet_all(RULES, "what controls it is judged instead");
            return;
        }
        if meta.deletion_timestamp.is_some() {
            evaluation.quiet_all(RULES, DELETED);
            return;
        }
        if workload::is_stale(meta, self.status.observed_generation) {
            evaluation.quiet_all(RULES, workload::STALE);
            return;
        }
        replicas_mismatch(self, evaluation);
        workload::replica_failure(&REPLICA_FAILURE, &self.status.conditions, evaluation);
    }
}

fn replicas_mismatch(set: &ReplicaSet, evaluation: &mut Evaluation<'_>) {
    let status = &set.status;
    let (desired, available) = (set.spec.replicas.unwrap_or(1), status.available_replicas);
    let counts = Replicas {
        available,
        desired,
        pods: status.replicas,
    };
    if available >= desired {
        evaluation.quiet(&REPLICAS_MISMATCH, counts);
        Standstill::over(&[SHORT, NONE], evaluation.memo);
        return;
    }
    let now = evaluation.now;
    let standstill = Standstill::seen(
        SHORT,
        format_args!(
            "{}/{}/{available}/{desired}",
            status.replicas, status.ready_replicas
        ),
        evaluation.memo,
        now,
    );
    let min_ready = probes::min_ready(set.spec.min_ready_seconds);
    let rule = &REPLICAS_MISMATCH;
    let summary = counts.to_string();
    let finding = |reason| Finding::new(rule, reason, Since::FirstSeen, summary);
    let finding = if available == 0 {
        let since = evaluation.memo.since(NONE, "", now);
        let new = evaluation
            .duration(rule, &FOR_NEW)
            .saturating_add(probes::startup_allowance(&set.spec.template))
            .saturating_add(min_ready);
        let started = set.metadata.creation_timestamp.unwrap_or(since);
        let down = evaluation.duration(rule, &FOR_NONE);
        let due = after(since, down).max(after(started, new));
        Finding {
            severity: Severity::Critical,
            ..due_at(finding("NoReplicasAvailable"), since, due)
        }
    } else {
        evaluation.memo.forget_value(NONE);
        let still = evaluation.duration(rule, &STILL);
        let due = standstill.due(evaluation.r#for(rule), still.saturating_add(min_ready));
        due_at(finding("ReplicasUnavailable"), standstill.since, due)
    };
    evaluation.push(finding);
}
