//! The rules on `PodDisruptionBudgets`.

use super::{
    DELETED, Evaluation, Finding, Rule, Since, minutes, since,
    text::{Count, Line},
};
use crate::{
    alert::Severity,
    cluster::{Condition, Kind, KindId, Meta, PodDisruptionBudget, Selector},
};

/// Every rule on `PodDisruptionBudgets`.
pub const RULES: &[&Rule] = &[&NOT_ENOUGH_HEALTHY_PODS, &SYNC_FAILED, &NEVER_ALLOWS];

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

/// The budget is in the way of every drain. Often that is meant, so it is off.
static NEVER_ALLOWS: Rule = Rule {
    name: "KubePdbNeverAllows",
    kind: KindId::PodDisruptionBudget,
    severity: Severity::Info,
    r#for: minutes(24 * 60),
    enabled: false,
    description: "A PodDisruptionBudget has let no pod be evicted for a day, though all of them are healthy: drains of nodes wait for ever.",
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
            evaluation.quiet_all(RULES, DELETED);
            return;
        }
        let failed = Condition::find(&self.status.conditions, "DisruptionAllowed")
            .filter(|allowed| allowed.is_false() && &*allowed.reason == "SyncFailed");
        if let Some(failed) = failed {
            sync_failed(failed, evaluation);
            let because = "the controller cannot work it out: KubePdbSyncFailed speaks of it";
            evaluation.quiet_all(&[&NOT_ENOUGH_HEALTHY_PODS, &NEVER_ALLOWS], because);
        } else {
            not_enough_healthy_pods(self, evaluation);
            never_allows(self, evaluation);
            let because = "nothing says that the controller cannot work it out";
            evaluation.quiet(&SYNC_FAILED, because);
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
    if let Some(because) = says_nothing(budget) {
        evaluation.quiet(&NOT_ENOUGH_HEALTHY_PODS, because);
        return;
    }
    if status.current_healthy >= status.desired_healthy {
        let because = format_args!(
            "{} are healthy, and {} must be",
            Count(status.current_healthy, "pod"),
            status.desired_healthy
        );
        evaluation.quiet(&NOT_ENOUGH_HEALTHY_PODS, because);
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

/// All pods are healthy, and none may go. If one is missing, it is for the moment.
fn never_allows(budget: &PodDisruptionBudget, evaluation: &mut Evaluation<'_>) {
    let status = &budget.status;
    if let Some(because) = says_nothing(budget) {
        evaluation.quiet(&NEVER_ALLOWS, because);
        return;
    }
    if status.disruptions_allowed > 0 {
        let because = format_args!(
            "it allows {}",
            Count(status.disruptions_allowed, "disruption")
        );
        evaluation.quiet(&NEVER_ALLOWS, because);
        return;
    }
    if status.current_healthy < status.expected_pods {
        evaluation.quiet(&NEVER_ALLOWS, "not all of its pods are healthy");
        return;
    }
    // The condition keeps its time while a pod fails and comes back: it has allowed nothing since then all the same.
    let allowed = Condition::find(&status.conditions, "DisruptionAllowed")
        .filter(|allowed| allowed.is_false());
    let since = since(allowed.and_then(|allowed| allowed.last_transition_time));
    let summary = format!(
        "none of its {} may be evicted, though all are healthy: {} must be",
        Count(status.expected_pods, "pod"),
        status.desired_healthy
    );
    let finding = Finding::new(&NEVER_ALLOWS, "InsufficientPods", since, summary);
    evaluation.push(finding);
}

/// Why the counts of a budget say nothing, if they do not.
const fn says_nothing(budget: &PodDisruptionBudget) -> Option<&'static str> {
    if budget.status.observed_generation < budget.metadata.generation {
        Some("its controller has not seen its newest generation yet")
    } else if budget.status.expected_pods <= 0 {
        Some("it is about no pods")
    } else {
        None
    }
}
