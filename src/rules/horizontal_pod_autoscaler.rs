//! The rules on `HorizontalPodAutoscalers`.

use super::{
    DELETED, Evaluation, Finding, Rule, Since, minutes, since,
    text::{Count, Line, or},
};
use crate::{
    alert::Severity,
    cluster::{Condition, HorizontalPodAutoscaler, Kind, KindId, Meta, ScaleTarget},
};

/// Every rule on `HorizontalPodAutoscalers`.
pub const RULES: &[&Rule] = &[&NOT_SCALING, &MAXED_OUT, &REPLICAS_MISMATCH];

/// It cannot do its work.
static NOT_SCALING: Rule = Rule {
    name: "KubeHpaNotScaling",
    kind: KindId::HorizontalPodAutoscaler,
    severity: Severity::Warning,
    r#for: minutes(10),
    hold: minutes(2),
    description: "A HorizontalPodAutoscaler cannot scale: it gets no metrics, or cannot read or change the scale of its target.",
    ..Rule::DEFAULTS
};

/// It wants more than it may.
static MAXED_OUT: Rule = Rule {
    name: "KubeHpaMaxedOut",
    kind: KindId::HorizontalPodAutoscaler,
    severity: Severity::Warning,
    r#for: minutes(15),
    hold: minutes(5),
    description: "A HorizontalPodAutoscaler is at its maximum of replicas, and wants more.",
    ..Rule::DEFAULTS
};

/// What it asks for does not come to pass.
static REPLICAS_MISMATCH: Rule = Rule {
    name: "KubeHpaReplicasMismatch",
    kind: KindId::HorizontalPodAutoscaler,
    severity: Severity::Warning,
    r#for: minutes(15),
    hold: minutes(2),
    description: "The target of a HorizontalPodAutoscaler does not come closer to the number of replicas that it was scaled to.",
    ..Rule::DEFAULTS
};

/// What is remembered of a mismatch: the two numbers, since when they are these.
const PROGRESS: &str = "progress";

impl Kind for HorizontalPodAutoscaler {
    const ID: KindId = KindId::HorizontalPodAutoscaler;
    const GROUP: &'static str = "autoscaling";
    const VERSION: &'static str = "v2";
    const KIND: &'static str = "HorizontalPodAutoscaler";
    const PLURAL: &'static str = "horizontalpodautoscalers";
    const LABEL: Option<&'static str> = Some("horizontalpodautoscaler");
    const IS_WORKLOAD: bool = false;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }

    fn target(&self) -> Option<&ScaleTarget> {
        Some(&self.spec.target)
    }

    fn evaluate(&self, evaluation: &mut Evaluation<'_>) {
        if self.metadata.deletion_timestamp.is_some() {
            evaluation.memo.forget_value(PROGRESS);
            evaluation.quiet_all(RULES, DELETED);
            return;
        }
        let hindrance = hindrance(self);
        replicas_mismatch(self, hindrance, evaluation);
        match hindrance {
            Some(hindrance) => not_scaling(hindrance, evaluation),
            None => evaluation.quiet(&NOT_SCALING, "nothing says that it cannot scale its target"),
        }
        maxed_out(self, evaluation);
    }
}

/// The condition that says why it cannot scale. Without the target's scale it does not look at metrics, so that comes first.
fn hindrance(hpa: &HorizontalPodAutoscaler) -> Option<&Condition> {
    let conditions = &hpa.status.conditions;
    Condition::find(conditions, "AbleToScale")
        .filter(|able| able.is_false())
        .or_else(|| {
            // Disabled: somebody has scaled the target to zero, which is how one switches a HorizontalPodAutoscaler off.
            Condition::find(conditions, "ScalingActive")
                .filter(|active| active.is_false() && &*active.reason != "ScalingDisabled")
        })
}

fn not_scaling(hindrance: &Condition, evaluation: &mut Evaluation<'_>) {
    // The time of the condition alone would be wrong both ways. It may be far too early: while the target is at zero, ScalingActive is False too, and when it
    // is scaled up again the first metrics are a minute away. And it may always be now: each time an update of the scale is refused, the controller has
    // set AbleToScale to True on its way there. So it counts only from when it was first seen, or later.
    let since = hindrance
        .last_transition_time
        .filter(|_| &*hindrance.reason != "FailedUpdateScale")
        .map_or(Since::FirstSeen, Since::FirstSeenAfter);
    let summary = format!(
        "does not scale: {}",
        Line(or(&hindrance.message, "it does not say why"))
    );
    let reason = or(&hindrance.reason, "NotScaling");
    evaluation.push(Finding::new(&NOT_SCALING, reason, since, summary));
}

fn maxed_out(hpa: &HorizontalPodAutoscaler, evaluation: &mut Evaluation<'_>) {
    let max = hpa.spec.max_replicas;
    let Some(limited) = Condition::find(&hpa.status.conditions, "ScalingLimited")
        .filter(|limited| limited.is_true() && &*limited.reason == "TooManyReplicas")
    else {
        let because = "nothing says that it wants more than its maximum";
        evaluation.quiet(&MAXED_OUT, because);
        return;
    };
    // As many as at least: a fixed number on purpose. Fewer than the maximum: the condition is older than the maximum, or than the target's being at zero.
    if hpa.spec.min_replicas.unwrap_or(1) == max {
        let because = "its minimum is its maximum: it is a fixed number on purpose";
        evaluation.quiet(&MAXED_OUT, because);
        return;
    }
    if hpa.status.desired_replicas < max {
        let because = format_args!(
            "it now wants {}, fewer than its maximum of {max}",
            Count(hpa.status.desired_replicas, "replica")
        );
        evaluation.quiet(&MAXED_OUT, because);
        return;
    }
    // The condition is also True, and keeps its time, with other reasons (TooFewReplicas, ScaleUpLimit). Who comes from there has scaled since.
    let since = since(limited.last_transition_time.max(hpa.status.last_scale_time));
    let summary = format!("wants more than its maximum of {}", Count(max, "replica"));
    evaluation.push(Finding::new(&MAXED_OUT, &limited.reason, since, summary));
}

/// Both numbers are from the same look of the controller, which then scales the target from the one to the other. At its next look, in 15 seconds, they are the
/// same: the current one is what the target's spec asks for, not what runs. They stay apart if something else takes the change back each time, or if nobody
/// looks any more. At any number, so also where most meet it: at the minimum, which is what other tools write. While it is hindered, the desired number is an old one.
fn replicas_mismatch(
    hpa: &HorizontalPodAutoscaler,
    hindrance: Option<&Condition>,
    evaluation: &mut Evaluation<'_>,
) {
    let (current, desired) = (hpa.status.current_replicas, hpa.status.desired_replicas);
    if current == desired || current == 0 || hindrance.is_some() {
        evaluation.memo.forget_value(PROGRESS);
        if hindrance.is_some() {
            let because = "it cannot scale, so that what it wanted is out of date";
            evaluation.quiet(&REPLICAS_MISMATCH, because);
        } else if current == desired {
            let because = format_args!(
                "its target is at {}, as it wants",
                Count(current, "replica")
            );
            evaluation.quiet(&REPLICAS_MISMATCH, because);
        } else {
            evaluation.quiet(&REPLICAS_MISMATCH, "its target is scaled to 0");
        }
        return;
    }
    let numbers = format!("{current}/{desired}");
    let since = evaluation.memo.since(PROGRESS, &numbers, evaluation.now);
    let summary = format!(
        "its target stays at {}, though it was scaled to {desired}",
        Count(current, "replica")
    );
    evaluation.push(Finding::new(
        &REPLICAS_MISMATCH,
        "ScaleNotKept",
        Since::At(since),
        summary,
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Memo;

    #[test]
    fn what_is_remembered_of_a_mismatch_goes_with_it() {
        let mut hpa = HorizontalPodAutoscaler::default();
        let mut memo = Memo::default();
        let mut remembers = |hpa: &HorizontalPodAutoscaler| {
            hpa.evaluate(&mut Evaluation::new(
                jiff::Timestamp::UNIX_EPOCH,
                &mut memo,
                &mut Vec::new(),
            ));
            !memo.is_empty()
        };
        (hpa.status.current_replicas, hpa.status.desired_replicas) = (3, 6);
        assert!(remembers(&hpa));
        hpa.status.current_replicas = 6;
        assert!(!remembers(&hpa));

        hpa.status.current_replicas = 3;
        assert!(remembers(&hpa));
        hpa.status.conditions = vec![Condition {
            r#type: "ScalingActive".into(),
            status: "False".into(),
            reason: "FailedGetResourceMetric".into(),
            ..Condition::default()
        }];
        assert!(!remembers(&hpa));

        hpa.status.conditions.clear();
        assert!(remembers(&hpa));
        hpa.metadata.deletion_timestamp = Some(jiff::Timestamp::UNIX_EPOCH);
        assert!(!remembers(&hpa));
    }
}
