//! What the rules on workloads share: a controller that does not follow, pods that cannot be made, and counts in words.

use std::fmt;

use super::{
    Evaluation, Finding, Rule, Since, since,
    text::{self, Line},
};
use crate::cluster::{Condition, Meta};

// === generations ===

/// What the memo calls the generation that the controller has seen last.
const OBSERVED: &str = "observedGeneration";

/// Whether the status is of an earlier spec, or of none: then it says nothing about this one. An object in a cluster has generation 1 at least.
pub(super) const fn is_stale(meta: &Meta, observed_generation: i64) -> bool {
    observed_generation == 0 || observed_generation < meta.generation
}

/// Why nothing is said of a status that [`is_stale`].
pub(super) const STALE: &str = "its controller has not seen its newest generation yet";

/// The controller does not follow the spec. Where specs change all the time, it is always a little late: as long as what it has seen moves, it works.
pub(super) fn generation_mismatch(
    rule: &'static Rule,
    meta: &Meta,
    observed_generation: i64,
    evaluation: &mut Evaluation<'_>,
) {
    if observed_generation == meta.generation {
        evaluation.memo.forget_value(OBSERVED);
        let because = "its controller has seen the newest generation of it";
        evaluation.quiet(rule, because);
        return;
    }
    let observed = observed_generation.to_string();
    let since = evaluation.memo.since(OBSERVED, &observed, evaluation.now);
    let summary = format!(
        "its controller has seen generation {observed}, not {}: changes to it have no effect",
        meta.generation
    );
    let finding = Finding::new(rule, "GenerationNotObserved", Since::At(since), summary);
    evaluation.push(finding);
}

// === pods that cannot be made ===

/// Pods cannot be made, or not deleted: condition `ReplicaFailure`. Its message is that of the first failure: the controller keeps it until one attempt succeeds.
pub(super) fn replica_failure(
    rule: &'static Rule,
    conditions: &[Condition],
    evaluation: &mut Evaluation<'_>,
) {
    let Some(failure) =
        Condition::find(conditions, "ReplicaFailure").filter(|failure| failure.is_true())
    else {
        let because = "its controller tells of no pod that it could not create or delete";
        evaluation.quiet(rule, because);
        return;
    };
    let what = if &*failure.reason == "FailedDelete" {
        "pods cannot be deleted"
    } else {
        "pods cannot be created"
    };
    let message = Line(text::or(&failure.message, &failure.reason));
    evaluation.push(Finding::new(
        rule,
        refusal(&failure.message).unwrap_or_else(|| text::or(&failure.reason, "ReplicaFailure")),
        since(failure.last_transition_time),
        format!("{what}: {message}"),
    ));
}

/// Who refused to make a pod, by the API server's message; the condition's own reason is always `FailedCreate`.
pub(super) fn refusal(message: &str) -> Option<&'static str> {
    // A full quota forbids as well, and a webhook's words are its author's: the more precise goes first.
    if message.contains("failed calling webhook") {
        Some("AdmissionWebhookFailed")
    } else if message.contains("admission webhook") && message.contains("denied the request") {
        Some("AdmissionWebhookDenied")
    } else if message.contains("exceeded quota") {
        Some("ExceededQuota")
    } else if message.contains("is forbidden") {
        Some("Forbidden")
    } else {
        None
    }
}

// === counts ===

/// How many replicas of a workload are available, in words.
#[derive(Debug, Clone, Copy)]
pub(super) struct Replicas {
    /// How many are.
    pub available: i32,
    /// How many should be.
    pub desired: i32,
    /// How many pods there are.
    pub pods: i32,
}

impl fmt::Display for Replicas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            available,
            desired,
            pods,
        } = self;
        write!(f, "{available} of {desired} replicas are available")?;
        match pods {
            _ if pods >= desired => Ok(()),
            0 => f.write_str(", and there are no pods"),
            1 => f.write_str(", and there is 1 pod"),
            pods => write!(f, ", and there are {pods} pods"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_refuses_pods_is_told_by_the_message() {
        for (message, class) in [
            (
                r#"pods "web-x" is forbidden: exceeded quota: compute, requested: pods=1, used: pods=10, limited: pods=10"#,
                Some("ExceededQuota"),
            ),
            (
                r#"admission webhook "policy.example.com" denied the request: image is forbidden"#,
                Some("AdmissionWebhookDenied"),
            ),
            (
                r#"Internal error occurred: failed calling webhook "inject.example.com": failed to call webhook: Post "https://inject": context deadline exceeded"#,
                Some("AdmissionWebhookFailed"),
            ),
            (
                r#"pods "web-x" is forbidden: violates PodSecurity "restricted:latest""#,
                Some("Forbidden"),
            ),
            ("etcdserver: request timed out", None),
            ("", None),
        ] {
            assert_eq!(refusal(message), class, "{message}");
        }
    }
}
