//! The rules on Pods. Here: which of them look at a pod at all; the rules themselves are in one file a subject.
//!
//! Nothing is allocated before a condition holds: a finding, its texts included, is built last.

mod container;
mod ending;
mod readiness;
mod restarts;
mod scheduling;
mod text;
mod waiting;

use std::time::Duration;

use jiff::Timestamp;

use super::{Evaluation, Rule, Threshold, minutes, since};
use crate::{
    cluster::{Condition, Kind, KindId, Meta, Pod},
    time::{after, before, between},
};

/// Every rule on Pods.
pub const RULES: &[&Rule] = &[
    &restarts::CRASH_LOOPING,
    &restarts::RESTARTING,
    &restarts::OOM_KILLED,
    &waiting::IMAGE_PULL_FAILING,
    &waiting::CONFIG_ERROR,
    &scheduling::PENDING,
    &waiting::CONTAINER_WAITING,
    &readiness::INIT_STUCK,
    &readiness::NOT_READY,
    &ending::EVICTED,
    &ending::REJECTED,
    &ending::STUCK_TERMINATING,
];

/// The window in which events count: restarts, OOM kills, evictions, rejections.
static WINDOW: Threshold = Threshold::duration(
    "window",
    minutes(60),
    "For how long what has happened counts.",
);

impl Kind for Pod {
    const ID: KindId = KindId::Pod;
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Pod";
    const PLURAL: &'static str = "pods";
    const LABEL: Option<&'static str> = None;
    const IS_WORKLOAD: bool = true;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }

    fn node(&self) -> &str {
        &self.spec.node_name
    }

    fn claims(&self) -> &[Box<str>] {
        &self.spec.claims
    }

    fn evaluate(&self, evaluation: &mut Evaluation<'_>) {
        evaluate(self, evaluation);
    }

    fn well_since(&self, rule: &Rule, part: Option<&str>) -> Option<Timestamp> {
        if rule.name == restarts::CRASH_LOOPING.name {
            restarts::well_since(self, part)
        } else {
            None
        }
    }
}

fn evaluate(pod: &Pod, evaluation: &mut Evaluation<'_>) {
    let window = evaluation.duration(&restarts::RESTARTING, &WINDOW);
    evaluation.memo.forget(before(evaluation.now, window));
    // A placeholder: an autoscaler's users run it to be preempted.
    if pod.spec.priority.is_some_and(|priority| priority < 0) {
        let because = "its priority is below 0, so it is a placeholder that others may preempt";
        evaluation.quiet_rest(RULES, because);
        return;
    }
    // Rollouts, scale-downs and drains end here: what a pod does while it is being stopped is no fault.
    if let Some(deletion) = pod.metadata.deletion_timestamp {
        ending::stuck_terminating(pod, deletion, evaluation);
        evaluation.quiet_rest(RULES, "the pod is being deleted");
        return;
    }
    // A status of False is a stale mark that was taken back.
    let disrupted = condition(pod, "DisruptionTarget").is_some_and(Condition::is_true);
    match &*pod.status.phase {
        "Succeeded" => evaluation.quiet_rest(RULES, "the pod has succeeded"),
        "Failed" => {
            ending::evicted(pod, evaluation);
            if !disrupted {
                ending::rejected(pod, evaluation);
                restarts::oom_killed(pod, evaluation);
            }
            evaluation.quiet_rest(
                RULES,
                if disrupted {
                    DISRUPTED
                } else {
                    "the pod has ended, and failed"
                },
            );
        }
        _ if disrupted => evaluation.quiet_rest(RULES, DISRUPTED),
        _ => {
            scheduling::pending(pod, evaluation);
            restarts::crash_looping(pod, evaluation);
            restarts::restarting(pod, evaluation);
            restarts::oom_killed(pod, evaluation);
            waiting::image_pull_failing(pod, evaluation);
            waiting::config_error(pod, evaluation);
            waiting::container_waiting(pod, evaluation);
            readiness::init_stuck(pod, evaluation);
            readiness::not_ready(pod, evaluation);
            evaluation.quiet_rest(ENDED, "the pod has not failed");
            evaluation.quiet_rest(RULES, "the pod is not being deleted");
        }
    }
}

/// What is said of pods that have come to a bad end, and are still there.
const ENDED: &[&Rule] = &[&ending::EVICTED, &ending::REJECTED];

/// Why little is said of a pod with the condition `DisruptionTarget`.
const DISRUPTED: &str =
    "the pod is being evicted, preempted, or ended with its node (condition DisruptionTarget)";

// === what several rules ask of a pod ===

fn condition<'a>(pod: &'a Pod, r#type: &str) -> Option<&'a Condition> {
    Condition::find(&pod.status.conditions, r#type)
}

/// When the condition became True; nothing if it is not.
fn true_since(pod: &Pod, r#type: &str) -> Option<Timestamp> {
    condition(pod, r#type)
        .filter(|condition| condition.is_true())
        .and_then(|condition| condition.last_transition_time)
}

/// Whether a Job runs it. Its retries are the Job's business; they end in `KubeJobFailed`.
fn of_job(pod: &Pod) -> bool {
    pod.metadata
        .owner
        .as_ref()
        .is_some_and(|owner| &*owner.kind == "Job" && owner.api_version.starts_with("batch/"))
}

// === times ===

/// When an event no longer counts; `None` if that is over, or if it is so far ahead that its clock must be wrong. It follows from the event's own time
/// alone: were it cut to now, because a clock is a little ahead, another look could revive an alert that has ended.
fn window_end(event: Timestamp, window: Duration, now: Timestamp) -> Option<Timestamp> {
    let end = after(event, window);
    (end > now && event < after(now, window)).then_some(end)
}

#[cfg(test)]
mod tests;
