//! The rules on `DaemonSets`.
//!
//! Their controller sets no conditions, and counts nodes: those that should run a pod, and what became of it there. Pods on dead nodes count as unavailable.

use std::fmt;

use super::{
    DELETED, Evaluation, Finding, Rule, Since, Threshold, minutes, probes,
    progress::{self, STILL},
    text::{Count, push},
    workload,
};
use crate::{
    alert::Severity,
    cluster::{DaemonSet, Kind, KindId, LabelSet, Meta},
    time::after,
};

/// Every rule on `DaemonSets`.
pub const RULES: &[&Rule] = &[&DOWN, &ROLLOUT_STUCK, &NOT_SCHEDULED, &MIS_SCHEDULED];

/// No pod is available.
static DOWN: Rule = Rule {
    name: "KubeDaemonSetDown",
    kind: KindId::DaemonSet,
    severity: Severity::Critical,
    r#for: minutes(3),
    hold: minutes(1),
    thresholds: &[&FOR_NEW],
    description: "None of a DaemonSet's pods is available.",
    ..Rule::DEFAULTS
};

/// Some nodes are without a working pod, or with an old one.
static ROLLOUT_STUCK: Rule = Rule {
    name: "KubeDaemonSetRolloutStuck",
    kind: KindId::DaemonSet,
    severity: Severity::Warning,
    r#for: minutes(10),
    hold: minutes(2),
    thresholds: &[&STILL],
    description: "A DaemonSet's pod is not available, or not updated, on some nodes, and that does not change.",
    ..Rule::DEFAULTS
};

/// Pods are missing.
static NOT_SCHEDULED: Rule = Rule {
    name: "KubeDaemonSetNotScheduled",
    kind: KindId::DaemonSet,
    severity: Severity::Warning,
    r#for: minutes(10),
    hold: minutes(1),
    description: "A DaemonSet has no pod on some nodes that should run one: pods cannot be created.",
    ..Rule::DEFAULTS
};

/// Pods are where they should not be.
static MIS_SCHEDULED: Rule = Rule {
    name: "KubeDaemonSetMisScheduled",
    kind: KindId::DaemonSet,
    severity: Severity::Info,
    r#for: minutes(60),
    description: "A DaemonSet has pods on nodes that should not run them.",
    ..Rule::DEFAULTS
};

/// How long [`DOWN`] waits for the first start, besides what the pods may take to become available: images are pulled everywhere.
static FOR_NEW: Threshold = Threshold::duration(
    "for_new",
    minutes(5),
    "How long none may be available after it was made, besides what its probes allow for.",
);

impl Kind for DaemonSet {
    const ID: KindId = KindId::DaemonSet;
    const GROUP: &'static str = "apps";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "DaemonSet";
    const PLURAL: &'static str = "daemonsets";
    const LABEL: Option<&'static str> = Some("daemonset");
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
        let is_stale = workload::is_stale(meta, self.status.observed_generation);
        if meta.deletion_timestamp.is_some() {
            evaluation.quiet_all(RULES, DELETED);
        } else if is_stale {
            evaluation.quiet_all(RULES, workload::STALE);
        } else {
            unavailable(self, evaluation);
            not_scheduled(self, evaluation);
            mis_scheduled(self, evaluation);
        }
    }
}

fn unavailable(set: &DaemonSet, evaluation: &mut Evaluation<'_>) {
    let status = &set.status;
    let desired = status.desired_number_scheduled;
    let is_short = status.number_available < desired;
    if !is_short && !is_updating(set) {
        progress::forget(evaluation.memo);
        let because = Available(status.number_available, desired);
        evaluation.quiet_all(&[&DOWN, &ROLLOUT_STUCK], because);
        return;
    }
    let counters = format!(
        "{desired} {} {} {} {} {}",
        status.current_number_scheduled,
        status.updated_number_scheduled,
        status.number_ready,
        status.number_available,
        set.metadata.generation,
    );
    let moved = progress::since(evaluation.memo, &counters, evaluation.now);
    if status.number_available <= 0 && is_short {
        evaluation.push(down(set, evaluation));
        let because = "none is available: KubeDaemonSetDown speaks of it";
        evaluation.quiet(&ROLLOUT_STUCK, because);
        return;
    }
    evaluation.quiet(&DOWN, Available(status.number_available, desired));
    let mut summary = String::new();
    if is_short {
        let unavailable = desired.saturating_sub(status.number_available);
        push(
            &mut summary,
            format_args!("not available on {unavailable} of {}", nodes(desired)),
        );
    }
    if is_updating(set) {
        let separator = if is_short { "; " } else { "" };
        let updated = status.updated_number_scheduled;
        push(
            &mut summary,
            format_args!(
                "{separator}the update has reached {updated} of {}",
                nodes(desired)
            ),
        );
    }
    let reason = if is_updating(set) {
        "UpdateStuck"
    } else {
        "PodsUnavailable"
    };
    // Between two counters that move, a pod ends, starts, and becomes available.
    let allowance = progress::replacement(&set.spec.template, set.spec.min_ready_seconds);
    let finding = Finding::new(&ROLLOUT_STUCK, reason, Since::FirstSeen, summary);
    let finding = progress::unless_moving(finding, moved, allowance, evaluation);
    evaluation.push(finding);
}

fn down(set: &DaemonSet, evaluation: &Evaluation<'_>) -> Finding {
    let startup = evaluation
        .duration(&DOWN, &FOR_NEW)
        .saturating_add(probes::startup_allowance(&set.spec.template))
        .saturating_add(probes::min_ready(set.spec.min_ready_seconds));
    let created = set.metadata.creation_timestamp;
    let is_new = created.is_some_and(|created| evaluation.now < after(created, startup));
    let desired = set.status.desired_number_scheduled;
    let summary = format!("available on none of {}", nodes(desired));
    let finding = Finding::new(&DOWN, "PodsUnavailable", Since::FirstSeen, summary);
    finding.after(if is_new {
        startup
    } else {
        evaluation.r#for(&DOWN)
    })
}

fn not_scheduled(set: &DaemonSet, evaluation: &mut Evaluation<'_>) {
    let desired = set.status.desired_number_scheduled;
    let missing = desired.saturating_sub(set.status.current_number_scheduled);
    if missing <= 0 {
        let because = format_args!("it has a pod on all {} that should run one", nodes(desired));
        evaluation.quiet(&NOT_SCHEDULED, because);
        return;
    }
    let summary = format!("no pod on {missing} of {}: see its events", nodes(desired));
    evaluation.push(Finding::new(
        &NOT_SCHEDULED,
        "PodsNotCreated",
        Since::FirstSeen,
        summary,
    ));
}

fn mis_scheduled(set: &DaemonSet, evaluation: &mut Evaluation<'_>) {
    let surplus = set.status.number_misscheduled;
    if surplus <= 0 {
        let because = "it runs on no node that should not run it";
        evaluation.quiet(&MIS_SCHEDULED, because);
        return;
    }
    let summary = format!("runs on {} that should not run it", nodes(surplus));
    evaluation.push(Finding::new(
        &MIS_SCHEDULED,
        "PodsMisscheduled",
        Since::FirstSeen,
        summary,
    ));
}

/// Whether there are old pods that the controller replaces by itself. A node that has no pod at all waits for none.
fn is_updating(set: &DaemonSet) -> bool {
    let status = &set.status;
    matches!(&*set.spec.update_strategy, "" | "RollingUpdate")
        && status.updated_number_scheduled < status.current_number_scheduled
}

/// On how many of how many nodes it is available, in words.
struct Available(i32, i32);

impl fmt::Display for Available {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it is available on {} of {}", self.0, nodes(self.1))
    }
}

const fn nodes(count: i32) -> Count {
    Count(count, "node")
}
