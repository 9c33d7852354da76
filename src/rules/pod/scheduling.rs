//! Pods that no node takes.

use std::time::Duration;

use super::{
    condition, minutes, of_job, since,
    text::{Line, push},
};
use crate::{
    alert::Severity,
    cluster::{KindId, Pod},
    rules::{Evaluation, Finding, Rule, Since},
};

/// A pod is not scheduled.
pub(super) static PENDING: Rule = Rule {
    name: "KubePodPending",
    kind: KindId::Pod,
    severity: Severity::Warning,
    r#for: minutes(5),
    hold: minutes(1),
    description: "A pod finds no node, or no scheduler looks at it.",
    ..Rule::DEFAULTS
};

/// With a node named for it: preemption makes room, or an autoscaler brings the node.
const NOMINATED: Duration = minutes(10);
/// Pods of Jobs can wait for their turn.
const OF_JOB: Duration = minutes(15);

pub(super) fn pending(pod: &Pod, evaluation: &mut Evaluation<'_>) {
    if &*pod.status.phase != "Pending"
        || !pod.spec.node_name.is_empty()
        || pod.spec.scheduling_gates > 0
    {
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
        Some(_) => return,
        None => {
            let summary = "no scheduler has looked at it".to_owned();
            Finding::new(&PENDING, "NotSeenByScheduler", since(created), summary)
        }
    };
    if !pod.status.nominated_node_name.is_empty() {
        finding.r#for = Some(NOMINATED);
    }
    if of_job(pod) {
        finding.r#for = Some(OF_JOB);
    }
    evaluation.push(finding);
}
