//! The rules on `PodDisruptionBudgets`.

use super::{
    Evaluation, Finding, Rule, Since, minutes,
    text::{Count, Line},
};
use crate::{
    alert::Severity,
    cluster::{Condition, Kind, KindId, Meta, PodDisruptionBudget, Selector},
};

/// Every rule on `PodDisruptionBudgets`.
pub const RULES: &[&Rule] = &[&NOT_ENOUGH_HEALTHY_PODS, &SYNC_FAILED];

/// Fewer pods are healthy than the budget demands.
static NOT_ENOUGH_HEALTHY_PODS: Rule = Rule {
    name: "KubePdbNotEnoughHealthyPods",
    kind: KindId::PodDisruptionBudget,
    severity: Severity::Warning,
    r#for: minutes(15),
    hold: minutes(2),
    description: "Fewer pods are healthy than a PodDisruptionBudget demands, so that none of them can be evicted and drains of nodes wait.",
    ..Rule::DEFAULTS
};

/// The budget cannot be worked out.
static SYNC_FAILED: Rule = Rule {
    name: "KubePdbSyncFailed",
    kind: KindId::PodDisruptionBudget,
    severity: Severity::Warning,
    r#for: minutes(15),
    description: "The controller cannot work out what a PodDisruptionBudget allows, so that it allows nothing and drains of nodes wait.",
    ..Rule::DEFAULTS
};

impl Kind for PodDisruptionBudget {
    const ID: KindId = KindId::PodDisruptionBudget;
    const GROUP: &'static str = "policy";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "PodDisruptionBudget";
    const PLURAL: &'static str = "poddisruptionbudgets";
    const LABEL: Option<&'static str> = Some("poddisruptionbudget");
    const IS_WORKLOAD: bool = false;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }

    fn selector(&self) -> Option<&Selector> {
        Some(&self.spec.selector)
    }

    fn evaluate(&self, evaluation: &mut Evaluation<'_>) {
        if self.metadata.deletion_timestamp.is_some() {
            return;
        }
        let failed = Condition::find(&self.status.conditions, "DisruptionAllowed")
            .filter(|allowed| allowed.is_false() && &*allowed.reason == "SyncFailed");
        match failed {
            Some(failed) => sync_failed(failed, evaluation),
            None => not_enough_healthy_pods(self, evaluation),
        }
    }
}

/// Whatever `observedGeneration` is: the controller does not write it when it fails.
fn sync_failed(failed: &Condition, evaluation: &mut Evaluation<'_>) {
    // The condition is False, and keeps its time, also while just enough pods are up: for months, with one replica.
    let since = failed
        .last_transition_time
        .map_or(Since::FirstSeen, Since::FirstSeenAfter);
    let summary = format!("cannot be worked out: {}", Line(&failed.message));
    evaluation.push(Finding::new(&SYNC_FAILED, &failed.reason, since, summary));
}

/// Only of counts that are the controller's last word: they are left as they were when it fails.
fn not_enough_healthy_pods(budget: &PodDisruptionBudget, evaluation: &mut Evaluation<'_>) {
    let status = &budget.status;
    if status.observed_generation < budget.metadata.generation
        || status.expected_pods <= 0
        || status.current_healthy >= status.desired_healthy
    {
        return;
    }
    let summary = format!(
        "{} of {} healthy, and {} must be",
        status.current_healthy,
        Count(status.expected_pods, "pod"),
        status.desired_healthy
    );
    evaluation.push(Finding::new(
        &NOT_ENOUGH_HEALTHY_PODS,
        "InsufficientPods",
        Since::FirstSeen,
        summary,
    ));
}
