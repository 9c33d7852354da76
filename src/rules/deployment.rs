//! The rules on Deployments.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    DELETED, Evaluation, Finding, Rule, Since, Threshold, minutes, probes,
    progress::{self, Standstill, due_at},
    since,
    text::{self, Line},
    workload::{self, Replicas},
};
use crate::{
    alert::Severity,
    cluster::{Condition, Deployment, Kind, KindId, LabelSet, Meta},
    text::duration,
    time::{after, between},
};

/// Every rule on Deployments.
pub const RULES: &[&Rule] = &[
    &DOWN,
    &REPLICAS_MISMATCH,
    &ROLLOUT_STUCK,
    &REPLICA_FAILURE,
    &GENERATION_MISMATCH,
    &PAUSED,
];

/// Nothing of it is available.
static DOWN: Rule = Rule {
    name: "KubeDeploymentDown",
    kind: KindId::Deployment,
    severity: Severity::Critical,
    r#for: minutes(3),
    hold: minutes(1),
    thresholds: &[&FOR_IN_ROLLOUT],
    description: "A Deployment has no available replica.",
    ..Rule::DEFAULTS
};

/// How long [`DOWN`] takes in a rollout, and what its probes allow for: pods are being started.
static FOR_IN_ROLLOUT: Threshold = Threshold::duration(
    "for_in_rollout",
    minutes(5),
    "How long a rollout may leave it without a replica, besides what its probes allow for.",
);

/// Some of it is not available.
static REPLICAS_MISMATCH: Rule = Rule {
    name: "KubeDeploymentReplicasMismatch",
    kind: KindId::Deployment,
    severity: Severity::Warning,
    r#for: minutes(15),
    hold: minutes(2),
    thresholds: &[&FOR_BELOW_MINIMUM, &RECOVERING, &STILL],
    description: "A Deployment has fewer available replicas than it should, and it does not get better.",
    ..Rule::DEFAULTS
};

/// How long [`REPLICAS_MISMATCH`] takes below the minimum that the Deployment asks for, and what its probes allow for.
static FOR_BELOW_MINIMUM: Threshold = Threshold::duration(
    "for_below_minimum",
    minutes(5),
    "How long it may have fewer replicas than its maxUnavailable allows, besides what its probes allow for.",
);

/// It is not yet due below the minimum, when something moved so little ago: it may be coming back.
static RECOVERING: Threshold = Threshold::duration(
    "recovering",
    minutes(2),
    "Below that minimum: how long nothing may have moved. It may be coming back.",
);

/// Above the minimum, nothing has moved for so long: a rollout or a scale-up that moves is well.
static STILL: Threshold = progress::still(minutes(10));

/// The controller has given a rollout up.
static ROLLOUT_STUCK: Rule = Rule {
    name: "KubeDeploymentRolloutStuck",
    kind: KindId::Deployment,
    severity: Severity::Warning,
    // The progress deadline has passed already.
    r#for: Duration::ZERO,
    // With every change of the spec, nothing is known for the moment until the controller has seen it.
    hold: minutes(1),
    description: "A rollout of a Deployment has made no progress within its deadline.",
    ..Rule::DEFAULTS
};

/// Pods cannot be made.
static REPLICA_FAILURE: Rule = Rule {
    name: "KubeDeploymentReplicaFailure",
    kind: KindId::Deployment,
    severity: Severity::Warning,
    r#for: minutes(2),
    hold: minutes(1),
    description: "Pods of a Deployment cannot be created or deleted: the API server refuses.",
    ..Rule::DEFAULTS
};

/// The controller does not follow.
static GENERATION_MISMATCH: Rule = Rule {
    name: "KubeDeploymentGenerationMismatch",
    kind: KindId::Deployment,
    severity: Severity::Warning,
    r#for: minutes(10),
    description: "The controller of Deployments does not act on changes to a Deployment.",
    ..Rule::DEFAULTS
};

/// Somebody has paused it, and may have forgotten.
static PAUSED: Rule = Rule {
    name: "KubeDeploymentPaused",
    kind: KindId::Deployment,
    severity: Severity::Info,
    r#for: minutes(24 * 60),
    hold: minutes(1),
    description: "A Deployment is paused for so long that it may be forgotten: changes of its template wait.",
    ..Rule::DEFAULTS
};

/// What the memo calls a Deployment that has too few replicas.
const SHORT: &str = "short";

impl Kind for Deployment {
    const ID: KindId = KindId::Deployment;
    const GROUP: &'static str = "apps";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Deployment";
    const PLURAL: &'static str = "deployments";
    const LABEL: Option<&'static str> = Some("deployment");
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
        evaluate(self, evaluation);
    }
}

fn evaluate(deployment: &Deployment, evaluation: &mut Evaluation<'_>) {
    let meta = &deployment.metadata;
    if meta.deletion_timestamp.is_some() {
        evaluation.quiet_all(RULES, DELETED);
        return;
    }
    let observed = deployment.status.observed_generation;
    workload::generation_mismatch(&GENERATION_MISMATCH, meta, observed, evaluation);
    if workload::is_stale(meta, observed) {
        evaluation.quiet_rest(RULES, workload::STALE);
        return;
    }
    down(deployment, evaluation);
    replicas_mismatch(deployment, evaluation);
    if deployment.spec.paused {
        paused(deployment, evaluation);
        evaluation.quiet_rest(RULES, "it is paused");
    } else {
        evaluation.quiet(&PAUSED, "it is not paused");
        rollout_stuck(deployment, evaluation);
        workload::replica_failure(&REPLICA_FAILURE, &deployment.status.conditions, evaluation);
    }
}

fn down(deployment: &Deployment, evaluation: &mut Evaluation<'_>) {
    let status = &deployment.status;
    if desired(deployment) <= 0 {
        evaluation.quiet(&DOWN, "it is to have no replicas");
        return;
    }
    if status.available_replicas != 0 {
        let because = available_of(deployment);
        evaluation.quiet(&DOWN, because);
        return;
    }
    let r#for = if in_rollout(deployment) {
        evaluation
            .duration(&DOWN, &FOR_IN_ROLLOUT)
            .saturating_add(startup_allowance(deployment))
    } else if status.ready_replicas > 0 {
        // They are back, and have to prove themselves.
        evaluation
            .r#for(&DOWN)
            .saturating_add(min_ready(deployment))
    } else {
        evaluation.r#for(&DOWN)
    };
    let mut summary = available_of(deployment).to_string();
    if status.ready_replicas > 0 {
        text::push(
            &mut summary,
            format_args!(", {} ready", status.ready_replicas),
        );
    }
    let since = since(unavailable_since(deployment));
    let finding = Finding::new(&DOWN, "NoReplicasAvailable", since, summary);
    evaluation.push(finding.after(r#for));
}

fn replicas_mismatch(deployment: &Deployment, evaluation: &mut Evaluation<'_>) {
    let status = &deployment.status;
    let (desired, available) = (desired(deployment), status.available_replicas);
    if available >= desired {
        Standstill::over(&[SHORT], evaluation.memo);
        evaluation.quiet(&REPLICAS_MISMATCH, available_of(deployment));
        return;
    }
    // Also while it is down: that it comes back is a movement.
    let standstill = Standstill::seen(
        SHORT,
        format_args!(
            "{}/{}/{}/{available}/{desired}",
            status.replicas, status.updated_replicas, status.ready_replicas
        ),
        evaluation.memo,
        evaluation.now,
    );
    if available == 0 {
        let because = "none is available: KubeDeploymentDown speaks of it";
        evaluation.quiet(&REPLICAS_MISMATCH, because);
        return;
    }
    if deployment.spec.paused {
        evaluation.quiet(&REPLICAS_MISMATCH, "it is paused");
        return;
    }
    let (below, progress) = (unavailable_since(deployment), rollout_progress(deployment));
    let rule = &REPLICAS_MISMATCH;
    let still = evaluation
        .duration(rule, &STILL)
        .saturating_add(min_ready(deployment));
    // In a rollout, the API tells of the last progress, which may be long before it was seen.
    let slow = Standstill {
        still_since: progress.unwrap_or(standstill.still_since),
        ..standstill
    }
    .due(evaluation.r#for(rule), still);
    let (since, due) = match below {
        Some(below) => {
            let allowed = evaluation
                .duration(rule, &FOR_BELOW_MINIMUM)
                .saturating_add(startup_allowance(deployment));
            let recovering = evaluation.duration(rule, &RECOVERING);
            let moved = progress.max(standstill.moved_at());
            let settled = moved.map_or(below, |moved| after(moved, recovering));
            let due = after(below, allowed).max(settled).min(slow);
            (below.min(standstill.since), due)
        }
        None => (standstill.since, slow),
    };
    let summary = available_of(deployment).to_string();
    let reason = if below.is_some() {
        "MinimumReplicasUnavailable"
    } else {
        "ReplicasUnavailable"
    };
    let finding = Finding::new(rule, reason, Since::FirstSeen, summary);
    evaluation.push(due_at(finding, since, due));
}

fn rollout_stuck(deployment: &Deployment, evaluation: &mut Evaluation<'_>) {
    let Some(progressing) =
        condition(deployment, "Progressing").filter(|progressing| progressing.is_false())
    else {
        rollout_goes_well(deployment, evaluation);
        return;
    };
    let status = &deployment.status;
    let mut summary = format!(
        "the rollout is stuck with {} of {} replicas updated and {} available",
        status.updated_replicas,
        desired(deployment),
        status.available_replicas,
    );
    if !progressing.message.is_empty() {
        text::push(
            &mut summary,
            format_args!(": {}", Line(&progressing.message)),
        );
    }
    evaluation.push(Finding::new(
        &ROLLOUT_STUCK,
        text::or(&progressing.reason, "NotProgressing"),
        since(progressing.last_transition_time),
        summary,
    ));
}

fn rollout_goes_well(deployment: &Deployment, evaluation: &mut Evaluation<'_>) {
    match rollout_progress(deployment) {
        Some(progress) => {
            let because = format_args!(
                "its rollout goes on: {} of {} replicas are updated, and the last change was {} ago",
                deployment.status.updated_replicas,
                desired(deployment),
                duration(between(progress, evaluation.now))
            );
            evaluation.quiet(&ROLLOUT_STUCK, because);
        }
        None => evaluation.quiet(
            &ROLLOUT_STUCK,
            "its controller tells of no rollout that is stuck",
        ),
    }
}

fn paused(deployment: &Deployment, evaluation: &mut Evaluation<'_>) {
    // A rollout that was stuck when it was paused keeps its condition, and a second pause its time: the time of the update is that of this pause.
    let since_paused = condition(deployment, "Progressing")
        .filter(|progressing| &*progressing.reason == "DeploymentPaused")
        .and_then(|progressing| {
            progressing
                .last_update_time
                .or(progressing.last_transition_time)
        });
    let status = &deployment.status;
    let summary = format!(
        "paused, with {} of {} replicas updated",
        status.updated_replicas,
        desired(deployment)
    );
    let finding = Finding::new(&PAUSED, "DeploymentPaused", since(since_paused), summary);
    evaluation.push(finding);
}

// === what several rules ask of a Deployment ===

/// How many replicas of it are available.
fn available_of(deployment: &Deployment) -> Replicas {
    Replicas {
        available: deployment.status.available_replicas,
        desired: desired(deployment),
        pods: deployment.status.replicas,
    }
}

/// How many replicas there should be.
fn desired(deployment: &Deployment) -> i32 {
    deployment.spec.replicas.unwrap_or(1)
}

fn condition<'a>(deployment: &'a Deployment, r#type: &str) -> Option<&'a Condition> {
    Condition::find(&deployment.status.conditions, r#type)
}

/// Since when there are fewer available replicas than `maxUnavailable` allows for. With one replica that may be unavailable, none is enough.
fn unavailable_since(deployment: &Deployment) -> Option<Timestamp> {
    condition(deployment, "Available")
        .filter(|available| available.is_false())
        .and_then(|available| available.last_transition_time)
}

/// Whether pods are being replaced. After a finished rollout, the controller never says so again, however many pods are lost.
fn in_rollout(deployment: &Deployment) -> bool {
    match condition(deployment, "Progressing") {
        Some(progressing) => is_moving(progressing),
        // Without a deadline, nobody watches the progress.
        None => deployment.status.replicas != deployment.status.updated_replicas,
    }
}

/// When the rollout has moved last; nothing if there is none.
fn rollout_progress(deployment: &Deployment) -> Option<Timestamp> {
    condition(deployment, "Progressing")
        .filter(|progressing| is_moving(progressing))
        .and_then(|progressing| progressing.last_update_time)
}

/// Whether condition `Progressing` is about a rollout that goes on.
fn is_moving(progressing: &Condition) -> bool {
    progressing.is_true()
        && matches!(
            &*progressing.reason,
            "NewReplicaSetCreated" | "FoundNewReplicaSet" | "ReplicaSetUpdated"
        )
}

/// How long new pods may take to be available.
fn startup_allowance(deployment: &Deployment) -> Duration {
    probes::startup_allowance(&deployment.spec.template).saturating_add(min_ready(deployment))
}

fn min_ready(deployment: &Deployment) -> Duration {
    probes::min_ready(deployment.spec.min_ready_seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cluster::Object, rules::Memo};

    #[test]
    fn nothing_is_kept_of_a_deployment_once_it_is_healthy() {
        let mut memo = Memo::default();
        let mut findings = Vec::new();
        let mut look = |available: i32| {
            let value = serde_json::json!({
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "web", "namespace": "shop", "generation": 2},
                "spec": {"replicas": 3},
                "status": {
                    "observedGeneration": 2, "replicas": 3, "updatedReplicas": 3,
                    "readyReplicas": available, "availableReplicas": available,
                },
            });
            let object = Object::decode("apps/v1", "Deployment", &value);
            let (object, malformed) = object.unwrap().unwrap();
            assert_eq!(malformed, 0);
            findings.clear();
            object.evaluate(&mut Evaluation::new(
                Timestamp::UNIX_EPOCH,
                &mut memo,
                &mut findings,
            ));
            (findings.len(), memo.is_empty())
        };
        assert_eq!(look(2), (1, false));
        assert_eq!(look(3), (0, true));
        assert_eq!(look(0), (1, false));
        assert_eq!(look(4), (0, true));
    }
}
