//! Pods that were thrown out, refused, or do not go.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    WINDOW, before, between, condition, container, minutes,
    text::{self, Line, List, push},
    window_end,
};
use crate::{
    alert::Severity,
    cluster::{KindId, Pod},
    rules::{Evaluation, Finding, Lasts, Rule, Since, Threshold},
};

/// A kubelet threw the pod out.
pub(super) static EVICTED: Rule = Rule {
    name: "KubePodEvicted",
    kind: KindId::Pod,
    severity: Severity::Warning,
    r#for: Duration::ZERO,
    quorum: 3,
    thresholds: &[&PODS, &WINDOW],
    description: "A pod used more local storage than it may, or at least 3 pods were evicted within an hour because their nodes ran short.",
    ..Rule::DEFAULTS
};

/// A kubelet refused the pod.
pub(super) static REJECTED: Rule = Rule {
    name: "KubePodRejected",
    kind: KindId::Pod,
    severity: Severity::Warning,
    r#for: Duration::ZERO,
    quorum: 3,
    thresholds: &[&PODS, &WINDOW],
    description: "Kubelets refused at least 3 pods within an hour.",
    ..Rule::DEFAULTS
};

/// How many pods of a subject make an alert of what is harmless alone.
static PODS: Threshold = Threshold::count(
    "pods",
    3,
    "How many pods it must have happened to within the window.",
);

/// A deleted pod does not go.
pub(super) static STUCK_TERMINATING: Rule = Rule {
    name: "KubePodStuckTerminating",
    kind: KindId::Pod,
    severity: Severity::Warning,
    r#for: minutes(10),
    description: "A pod was deleted, its grace period is over, and it is still there.",
    ..Rule::DEFAULTS
};

/// Why an event that no time of the pod tells is no finding.
const NO_TIME: &str = "nothing tells when that was";

pub(super) fn evicted(pod: &Pod, evaluation: &mut Evaluation<'_>) {
    if &*pod.status.reason != "Evicted" {
        evaluation.quiet(&EVICTED, "no kubelet has evicted it");
        return;
    }
    let disruption = condition(pod, "DisruptionTarget").filter(|condition| condition.is_true());
    let ends = container::all(pod).filter_map(|view| view.status.state.terminated.as_ref());
    let Some(at) = disruption
        .and_then(|disruption| disruption.last_transition_time)
        .or_else(|| ends.filter_map(|end| end.finished_at).max())
        // No container had started.
        .or(pod.status.start_time)
        .or(pod.metadata.creation_timestamp)
    else {
        evaluation.quiet(&EVICTED, NO_TIME);
        return;
    };
    // A pod over its own limits gets no mark; that is its own fault, and once is enough. Before Kubernetes 1.26 no pod got one.
    let of_node = disruption.is_some()
        || pod
            .status
            .message
            .starts_with("The node was low on resource");
    let whose = if of_node { " under node pressure" } else { "" };
    let message = Line(text::or(&pod.status.message, "no message"));
    push_event(&EVICTED, at, evaluation, pod, |finding| {
        finding.summary = format!("evicted{whose}: {message}");
        if !of_node {
            finding.quorum = 1;
        }
    });
}

pub(super) fn rejected(pod: &Pod, evaluation: &mut Evaluation<'_>) {
    if !is_refusal(&pod.status.reason) {
        let because = "its kubelet did not refuse it: it failed by itself, or other rules tell why";
        evaluation.quiet(&REJECTED, because);
        return;
    }
    if container::all(pod).any(|view| has_run(&view)) {
        evaluation.quiet(&REJECTED, "a container of it has run");
        return;
    }
    let Some(at) = pod.status.start_time.or(pod.metadata.creation_timestamp) else {
        evaluation.quiet(&REJECTED, NO_TIME);
        return;
    };
    push_event(&REJECTED, at, evaluation, pod, |finding| {
        finding.summary = format!("refused by the kubelet of node {}", pod.spec.node_name);
        if !pod.status.message.is_empty() {
            push(
                &mut finding.summary,
                format_args!(": {}", Line(&pod.status.message)),
            );
        }
    });
}

/// Whether a pod that failed with this reason, before any container ran, was refused by its kubelet: `OutOfcpu`, `NodeAffinity`,
/// `UnexpectedAdmissionError`, ... The list is open: device plugins and runtimes have reasons of their own.
fn is_refusal(reason: &str) -> bool {
    !matches!(
        reason,
        // Ended in error, of itself.
        ""
        // Told by other rules, or by design: room for a more important pod, a node that shuts down (by all its names so far).
        | "Evicted" | "Preempting" | "Terminated" | "NodeShutdown" | "Shutdown"
        // `activeDeadlineSeconds` passed.
        | "DeadlineExceeded"
    )
}

fn has_run(view: &container::View<'_>) -> bool {
    let state = &view.status.state;
    state.running.is_some() || state.terminated.is_some() || view.last().is_some()
}

/// Adds a finding that counts in the window after `at`, also when its pod is gone by then; nothing if the window is over.
fn push_event(
    rule: &'static Rule,
    at: Timestamp,
    evaluation: &mut Evaluation<'_>,
    pod: &Pod,
    complete: impl FnOnce(&mut Finding),
) {
    let window = evaluation.duration(rule, &WINDOW);
    let Some(until) = window_end(at, window, evaluation.now) else {
        let because = format_args!("it happened at {at}, which no longer counts");
        evaluation.quiet(rule, because);
        return;
    };
    let mut finding = Finding::new(rule, &pod.status.reason, Since::At(at), String::new());
    let pods = evaluation.number(rule, &PODS);
    finding.quorum = usize::try_from(pods).unwrap_or(usize::MAX);
    finding.lasts = Lasts::UntilEvenIfGone(until);
    complete(&mut finding);
    evaluation.push(finding);
}

pub(super) fn stuck_terminating(pod: &Pod, deletion: Timestamp, evaluation: &mut Evaluation<'_>) {
    // The deletion's time is the end of the grace period. It may be ahead, so `for` starts when the deletion was asked for, and is longer by
    // the grace period.
    let asked = pod.metadata.deletion_grace_period_seconds;
    let grace = match asked.and_then(|seconds| u64::try_from(seconds).ok()) {
        Some(seconds) => Duration::from_secs(seconds),
        None if deletion > evaluation.now => {
            let created = pod.metadata.creation_timestamp;
            between(created.unwrap_or(evaluation.now), deletion)
        }
        None => Duration::ZERO,
    };

    let mut summary = String::from("still terminating");
    if !pod.spec.node_name.is_empty() {
        push(
            &mut summary,
            format_args!(" on node {}", pod.spec.node_name),
        );
    }
    if pod.metadata.finalizers.is_empty() {
        summary.push_str(": the kubelet has not finished with it");
    } else {
        let finalizers = List(&pod.metadata.finalizers);
        push(&mut summary, format_args!(": finalizers {finalizers}"));
    }
    let since = Since::At(before(deletion, grace));
    let finding = Finding::new(&STUCK_TERMINATING, "Terminating", since, summary);
    let r#for = evaluation.r#for(&STUCK_TERMINATING).saturating_add(grace);
    evaluation.push(finding.after(r#for));
}
