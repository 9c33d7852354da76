//! The rules on StatefulSets.
//!
//! Their controller sets no conditions: that pods cannot be created shows only in there being too few of them.

use super::{
    DELETED, Evaluation, Finding, Rule, Since, Threshold, minutes, probes,
    progress::{self, STILL},
    workload,
};
use crate::{
    alert::Severity,
    cluster::{Kind, KindId, LabelSet, Meta, StatefulSet},
    time::after,
};

/// Every rule on StatefulSets.
pub const RULES: &[&Rule] = &[
    &DOWN,
    &REPLICAS_MISMATCH,
    &UPDATE_NOT_ROLLED_OUT,
    &GENERATION_MISMATCH,
];

/// No pod is ready.
static DOWN: Rule = Rule {
    name: "KubeStatefulSetDown",
    kind: KindId::StatefulSet,
    severity: Severity::Critical,
    r#for: minutes(3),
    hold: minutes(1),
    thresholds: &[&FOR_IN_ROLLOUT],
    description: "None of a StatefulSet's pods is ready.",
    ..Rule::DEFAULTS
};

/// Too few pods are ready.
static REPLICAS_MISMATCH: Rule = Rule {
    name: "KubeStatefulSetReplicasMismatch",
    kind: KindId::StatefulSet,
    severity: Severity::Warning,
    r#for: minutes(10),
    hold: minutes(2),
    thresholds: &[&STILL],
    description: "Fewer pods of a StatefulSet are ready than there should be, and their number does not change.",
    ..Rule::DEFAULTS
};

/// An update stands still.
static UPDATE_NOT_ROLLED_OUT: Rule = Rule {
    name: "KubeStatefulSetUpdateNotRolledOut",
    kind: KindId::StatefulSet,
    severity: Severity::Warning,
    r#for: minutes(10),
    hold: minutes(1),
    thresholds: &[&STILL],
    description: "The update of a StatefulSet has not reached all of its pods, and comes no further.",
    ..Rule::DEFAULTS
};

/// The controller does not look.
static GENERATION_MISMATCH: Rule = Rule {
    name: "KubeStatefulSetGenerationMismatch",
    kind: KindId::StatefulSet,
    severity: Severity::Warning,
    r#for: minutes(10),
    description: "The controller of StatefulSets does not act on changes to a StatefulSet.",
    ..Rule::DEFAULTS
};

/// How long [`DOWN`] waits while an update or the first start goes on, besides what the startup probes allow.
static FOR_IN_ROLLOUT: Threshold = Threshold::duration(
    "for_in_rollout",
    minutes(5),
    "How long an update or the first start may leave it without a ready pod, besides what its probes allow for.",
);

impl Kind for StatefulSet {
    const ID: KindId = KindId::StatefulSet;
    const GROUP: &'static str = "apps";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "StatefulSet";
    const PLURAL: &'static str = "statefulsets";
    const LABEL: Option<&'static str> = Some("statefulset");
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
        let (meta, observed) = (&self.metadata, self.status.observed_generation);
        if meta.deletion_timestamp.is_some() {
            evaluation.quiet_all(RULES, DELETED);
            return;
        }
        workload::generation_mismatch(&GENERATION_MISMATCH, meta, observed, evaluation);
        if workload::is_stale(meta, observed) {
            evaluation.quiet_rest(RULES, workload::STALE);
        } else {
            shortfall(self, evaluation);
            quiet(self, evaluation);
        }
    }
}

fn shortfall(set: &StatefulSet, evaluation: &mut Evaluation<'_>) {
    let desired = replicas(set);
    let status = &set.status;
    let is_short = status.ready_replicas < desired;
    let is_outdated = is_updating(set) && status.updated_replicas < to_update(set);
    if !is_short && !is_outdated {
        progress::forget(evaluation.memo);
        return;
    }
    let counters = format!(
        "{desired} {} {} {} {} {} {}",
        status.replicas,
        status.ready_replicas,
        status.available_replicas,
        status.current_replicas,
        status.updated_replicas,
        status.update_revision,
    );
    let moved = progress::since(evaluation.memo, &counters, evaluation.now);
    if is_outdated {
        // Between two counters that move, a pod ends, starts, and becomes available.
        let allowance = progress::replacement(&set.spec.template, set.spec.min_ready_seconds);
        let finding = Finding::new(
            &UPDATE_NOT_ROLLED_OUT,
            "UpdateStuck",
            Since::FirstSeen,
            format!(
                "the update has reached {} of {} pods, and comes no further",
                status.updated_replicas,
                to_update(set)
            ),
        );
        let finding = progress::unless_moving(finding, moved, allowance, evaluation);
        evaluation.push(finding);
    }
    if is_short && status.ready_replicas <= 0 {
        evaluation.push(down(set, evaluation));
    } else if is_short {
        let allowance = progress::replacement(&set.spec.template, 0);
        let (reason, summary) = words(set);
        let finding = Finding::new(&REPLICAS_MISMATCH, reason, Since::FirstSeen, summary);
        let finding = progress::unless_moving(finding, moved, allowance, evaluation);
        evaluation.push(finding);
    }
}

/// Why the rules on shortfalls that have found nothing have not.
fn quiet(set: &StatefulSet, evaluation: &mut Evaluation<'_>) {
    let (desired, ready) = (replicas(set), set.status.ready_replicas);
    let pods = format_args!("{ready} of {desired} pods are ready");
    evaluation.quiet_rest(&[&DOWN], pods);
    if ready < desired {
        let because = "none is ready: KubeStatefulSetDown speaks of it";
        evaluation.quiet_rest(&[&REPLICAS_MISMATCH], because);
    } else {
        evaluation.quiet_rest(&[&REPLICAS_MISMATCH], pods);
    }
    if is_updating(set) {
        let because = format_args!(
            "the update has reached {} of the {} pods that it is for",
            set.status.updated_replicas,
            to_update(set)
        );
        evaluation.quiet_rest(&[&UPDATE_NOT_ROLLED_OUT], because);
    } else {
        let because = "its controller has no pods to replace by itself";
        evaluation.quiet_rest(&[&UPDATE_NOT_ROLLED_OUT], because);
    }
}

fn down(set: &StatefulSet, evaluation: &Evaluation<'_>) -> Finding {
    let startup = evaluation
        .duration(&DOWN, &FOR_IN_ROLLOUT)
        .saturating_add(probes::startup_allowance(&set.spec.template));
    let created = set.metadata.creation_timestamp;
    let is_starting =
        is_updating(set) || created.is_some_and(|created| evaluation.now < after(created, startup));
    let (reason, summary) = words(set);
    let finding = Finding::new(&DOWN, reason, Since::FirstSeen, summary);
    finding.after(if is_starting {
        startup
    } else {
        evaluation.r#for(&DOWN)
    })
}

/// What is wrong with the pods, in a word and in a sentence.
fn words(set: &StatefulSet) -> (&'static str, String) {
    let desired = replicas(set);
    let (existing, ready) = (set.status.replicas, set.status.ready_replicas);
    let mut summary = format!("{ready} of {desired} pods are ready");
    // While one is not ready, the next one is not created, unless the pods are managed in parallel.
    if existing < desired && existing <= ready {
        summary.push_str(", and the others are not created: see its events");
        return ("PodsNotCreated", summary);
    }
    if existing < desired {
        summary.push_str(", and only ");
        summary.push_str(&existing.to_string());
        summary.push_str(if existing == 1 { " exists" } else { " exist" });
    }
    ("PodsNotReady", summary)
}

/// How many pods there should be.
fn replicas(set: &StatefulSet) -> i32 {
    set.spec.replicas.unwrap_or(1)
}

/// Whether the controller replaces pods by itself, and has not yet replaced all, or not all of those are ready.
fn is_updating(set: &StatefulSet) -> bool {
    matches!(&*set.spec.update_strategy, "" | "RollingUpdate")
        && set.status.update_revision != set.status.current_revision
}

/// How many pods the update is for: those within the partition stay.
fn to_update(set: &StatefulSet) -> i32 {
    replicas(set)
        .saturating_sub(set.spec.partition.max(0))
        .max(0)
}
