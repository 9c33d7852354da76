//! Pods that no node takes.

use super::{
    condition, minutes, of_job, since,
    text::{self, Line, push},
};
use crate::{
    alert::Severity,
    cluster::{KindId, Pod},
    rules::{Evaluation, Finding, Rule, Since, Threshold},
};

/// A pod is not scheduled.
pub(super) static PENDING: Rule = Rule {
    name: "KubePodPending",
    kind: KindId::Pod,
    severity: Severity::Warning,
    r#for: minutes(5),
    hold: minutes(1),
    thresholds: &[&FOR_NOMINATED, &FOR_JOBS],
    description: "A pod finds no node, or no scheduler looks at it.",
    ..Rule::DEFAULTS
};

/// With a node named for it: preemption makes room, or an autoscaler brings the node.
static FOR_NOMINATED: Threshold = Threshold::duration(
    "for_nominated",
    minutes(10),
    "How long a pod may wait for the node that was named for it.",
);

/// Pods of Jobs can wait for their turn.
static FOR_JOBS: Threshold =
    Threshold::duration("for_jobs", minutes(15), "How long a pod of a Job may wait.");

pub(super) fn pending(pod: &Pod, evaluation: &mut Evaluation<'_>) {
    if &*pod.status.phase != "Pending" {
        let because = format_args!("its phase is {}, not Pending", Line(&pod.status.phase));
        evaluation.quiet(&PENDING, because);
        return;
    }
    if !pod.spec.node_name.is_empty() {
        let because = format_args!("it was given to node {}", pod.spec.node_name);
        evaluation.quiet(&PENDING, because);
        return;
    }
    if pod.spec.scheduling_gates > 0 {
        evaluation.quiet(&PENDING, "a scheduling gate holds it back on purpose");
        return;
    }
    let created = pod.metadata.creation_timestamp;
    let mut finding = match condition(pod, "PodScheduled") {
        Some(scheduled)
            if &*scheduled.status == "False"
                && matches!(&*scheduled.reason, "Unschedulable" | "SchedulerError") =>
        {
            let waits = scheduled.last_transition_time.or(created);
            let since = match waits {
                // A pod that was changed may have had a scheduling gate. The condition was False then too, and keeps the time.
                Some(waits) if pod.metadata.generation > 1 => Since::FirstSeenAfter(waits),
                waits => since(waits),
            };
            let mut summary = format!("no node takes it: {}", Line(&scheduled.message));
            if !pod.status.nominated_node_name.is_empty() {
                let node = &pod.status.nominated_node_name;
                push(&mut summary, format_args!("; it waits for node {node}"));
            }
            Finding::new(&PENDING, &scheduled.reason, since, summary)
        }
        // Gated, scheduled a moment ago, or a reason of some scheduler's own.
        Some(scheduled) => {
            let because = format_args!(
                "condition PodScheduled is {} for {}, which is no failure to schedule it",
                scheduled.status,
                Line(text::or(&scheduled.reason, "no reason"))
            );
            evaluation.quiet(&PENDING, because);
            return;
        }
        None => {
            let summary = "no scheduler has looked at it".to_owned();
            Finding::new(&PENDING, "NotSeenByScheduler", since(created), summary)
        }
    };
    if !pod.status.nominated_node_name.is_empty() {
        finding.r#for = Some(evaluation.duration(&PENDING, &FOR_NOMINATED));
    }
    if of_job(pod) {
        finding.r#for = Some(evaluation.duration(&PENDING, &FOR_JOBS));
    }
    evaluation.push(finding);
}
