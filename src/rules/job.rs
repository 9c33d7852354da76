//! The rules on Jobs.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    DELETED, Evaluation, Finding, Lasts, Rule, Since, Threshold, minutes, since,
    text::{Count, Line, or, push},
};
use crate::{
    alert::Severity,
    cluster::{Condition, Job, Kind, KindId, Meta},
    time::after,
};

/// Every rule on Jobs.
pub const RULES: &[&Rule] = &[&FAILED, &NOT_COMPLETED, &NOT_STARTED];

/// A Job has failed for good.
static FAILED: Rule = Rule {
    name: "KubeJobFailed",
    kind: KindId::Job,
    severity: Severity::Warning,
    r#for: Duration::ZERO,
    thresholds: &[&WINDOW],
    description: "A Job has failed for good within the last day: its retries are used up, its deadline has passed, or its policy says so.",
    ..Rule::DEFAULTS
};

/// A Job does not end. The time is kubernetes-mixin's.
static NOT_COMPLETED: Rule = Rule {
    name: "KubeJobNotCompleted",
    kind: KindId::Job,
    severity: Severity::Warning,
    r#for: minutes(12 * 60),
    thresholds: &[&DEADLINE_GRACE],
    description: "A Job runs, and has not ended for half a day, or for longer than it may run.",
    ..Rule::DEFAULTS
};

/// A Job has no pods.
static NOT_STARTED: Rule = Rule {
    name: "KubeJobNotStarted",
    kind: KindId::Job,
    severity: Severity::Warning,
    r#for: minutes(5),
    // Tries that follow each other closely must not count as one long wait.
    thresholds: &[&FOR_FURTHER_PODS],
    description: "A Job is to run, and no pod of it is made: a quota, a webhook or a missing service account may be in the way.",
    ..Rule::DEFAULTS
};

/// How long a failed Job counts, if it stays.
static WINDOW: Threshold = Threshold::duration(
    "window",
    minutes(24 * 60),
    "For how long a failed Job counts, if it stays.",
);

/// After its own deadline, a Job is about to be ended by its controller.
static DEADLINE_GRACE: Threshold = Threshold::duration(
    "deadline_grace",
    minutes(5),
    "How long after its own deadline a Job may take to end, if that deadline is later than this rule's.",
);

/// Between two tries there are up to 10 minutes (`MaxJobPodFailureBackOff` in Kubernetes).
static FOR_FURTHER_PODS: Threshold = Threshold::duration(
    "for_further_pods",
    minutes(15),
    "How long no further pod may be made after others have ended.",
);

impl Kind for Job {
    const ID: KindId = KindId::Job;
    const GROUP: &'static str = "batch";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Job";
    const PLURAL: &'static str = "jobs";
    const LABEL: Option<&'static str> = Some("job_name");
    const IS_WORKLOAD: bool = true;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }

    /// A Job ends once; only what makes Jobs does so over and over.
    fn succeeded_at(&self) -> Option<Timestamp> {
        let owner = self.metadata.owner.as_ref()?;
        (&*owner.kind == "CronJob" && self.is_true("Complete"))
            .then_some(self.status.completion_time)?
    }

    fn evaluate(&self, evaluation: &mut Evaluation<'_>) {
        if self.metadata.deletion_timestamp.is_some() {
            evaluation.quiet_all(RULES, DELETED);
            return;
        }
        if self.is_true("Failed") || self.is_true("FailureTarget") {
            failed(self, evaluation);
            evaluation.quiet_all(&[&NOT_COMPLETED, &NOT_STARTED], "it has failed");
            return;
        }
        evaluation.quiet(&FAILED, "it has not failed for good");
        if !self.is_true("Complete") && !self.is_true("SuccessCriteriaMet") && !self.spec.suspend {
            not_completed(self, evaluation);
            not_started(self, evaluation);
        } else if self.spec.suspend {
            evaluation.quiet_all(&[&NOT_COMPLETED, &NOT_STARTED], "it is suspended");
        } else {
            evaluation.quiet_all(&[&NOT_COMPLETED, &NOT_STARTED], "it has succeeded");
        }
    }
}

impl Job {
    fn is_true(&self, r#type: &str) -> bool {
        Condition::find(&self.status.conditions, r#type).is_some_and(Condition::is_true)
    }
}

/// `FailureTarget` is there from the decision on, `Failed` once its last pod has ended: the earlier one tells when it failed. `status.failed` tells nothing: it counts tries.
fn failed(job: &Job, evaluation: &mut Evaluation<'_>) {
    let mut told = ["FailureTarget", "Failed"]
        .into_iter()
        .filter_map(|r#type| Condition::find(&job.status.conditions, r#type))
        .filter(|condition| condition.is_true());
    let at: Option<Timestamp> = told
        .clone()
        .filter_map(|condition| condition.last_transition_time)
        .min();
    let lasts = match at {
        Some(at) => {
            let window = evaluation.duration(&FAILED, &WINDOW);
            let end = after(at, window);
            // Over; or so far ahead that its clock must be wrong.
            if end <= evaluation.now || at >= after(evaluation.now, window) {
                let because = format_args!("it failed at {at}, which no longer counts");
                evaluation.quiet(&FAILED, because);
                return;
            }
            Lasts::Until(end)
        }
        None => Lasts::WhileSeen,
    };
    let Some(condition) = told.next_back() else {
        return;
    };
    let mut summary = "failed".to_owned();
    if job.status.failed > 0 {
        push(
            &mut summary,
            format_args!(" after {}", Count(job.status.failed, "failed pod")),
        );
    }
    if !condition.message.is_empty() {
        push(&mut summary, format_args!(": {}", Line(&condition.message)));
    }
    let reason = or(&condition.reason, "JobFailed");
    let mut finding = Finding::new(&FAILED, reason, since(at), summary);
    finding.lasts = lasts;
    evaluation.push(finding);
}

fn not_completed(job: &Job, evaluation: &mut Evaluation<'_>) {
    let (Some(started), 1..) = (job.status.start_time, job.status.active) else {
        evaluation.quiet(&NOT_COMPLETED, "no pod of it is active");
        return;
    };
    let summary = format!(
        "has run since {started} without an end, {} active",
        Count(job.status.active, "pod")
    );
    let mut finding = Finding::new(&NOT_COMPLETED, "NotCompleted", Since::At(started), summary);
    // Whoever gives it a deadline has said how long it may take.
    let deadline = job.spec.active_deadline_seconds.unwrap_or_default();
    let deadline = Duration::from_secs(deadline.try_into().unwrap_or_default());
    if deadline >= evaluation.r#for(&NOT_COMPLETED) {
        let grace = evaluation.duration(&NOT_COMPLETED, &DEADLINE_GRACE);
        finding = finding.after(deadline.saturating_add(grace));
    }
    evaluation.push(finding);
}

/// No condition tells that pods are refused.
fn not_started(job: &Job, evaluation: &mut Evaluation<'_>) {
    let status = &job.status;
    let Some(started) = status.start_time else {
        evaluation.quiet(&NOT_STARTED, "its controller has not begun with it");
        return;
    };
    // Pods that another controller makes may be elsewhere.
    let is_own = matches!(&*job.spec.managed_by, "" | "kubernetes.io/job-controller");
    if !is_own {
        let because = "another controller than Kubernetes' own makes its pods";
        evaluation.quiet(&NOT_STARTED, because);
        return;
    }
    if job.spec.parallelism == Some(0) {
        let because = "its parallelism is 0, so that it is to have no pods now";
        evaluation.quiet(&NOT_STARTED, because);
        return;
    }
    if status.active > 0 || status.terminating > 0 || status.uncounted_terminated_pods > 0 {
        evaluation.quiet(&NOT_STARTED, "it has pods");
        return;
    }
    let ended = status.failed.saturating_add(status.succeeded);
    evaluation.push(if ended == 0 {
        let summary = "no pod of it has been made".to_owned();
        Finding::new(&NOT_STARTED, "NoPods", Since::At(started), summary)
    } else {
        // Since when it has none is not told.
        let summary = format!(
            "no pod of it is left, and no further one is made ({} ended)",
            Count(ended, "pod")
        );
        let r#for = evaluation.duration(&NOT_STARTED, &FOR_FURTHER_PODS);
        Finding::new(&NOT_STARTED, "NoPods", Since::FirstSeen, summary).after(r#for)
    });
}
