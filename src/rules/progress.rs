//! Workloads that come no further: a rollout, a scale-up and a drain all leave a workload short of pods for a while, and are fine as long as they move.

use std::{fmt, time::Duration};

use jiff::Timestamp;

use super::{Evaluation, Finding, Memo, Since, Threshold, minutes, probes};
use crate::{
    cluster::PodTemplate,
    time::{after, before, between},
};

/// For how long nothing moves in a rollout that is stuck, besides what its pods may take. The mixin's window for workloads is as long.
pub(super) static STILL: Threshold = still(minutes(5));

/// [`STILL`] of a rule with a time of its own.
pub(super) const fn still(default: Duration) -> Threshold {
    Threshold::duration(
        "still",
        default,
        "How long nothing may have moved, besides what its probes allow a pod for.",
    )
}

/// What the [`Memo`] knows the counters by.
const COUNTERS: &str = "progress";

/// How long a pod waits for its end if the template does not say: Kubernetes' default.
const GRACE_SECONDS: i64 = 30;

/// Since when the counters of the status are what they are.
pub(super) fn since(memo: &mut Memo, counters: &str, now: Timestamp) -> Timestamp {
    memo.since(COUNTERS, counters, now)
}

/// Nothing is missing: the next time that something is, it begins anew.
pub(super) fn forget(memo: &mut Memo) {
    memo.forget_value(COUNTERS);
}

/// The finding, whose clock starts when it is first seen and goes on over gaps that its rule holds, but not before the counters have not moved for [`STILL`], and for what one pod may take on top: within `allowance`, none of them may move
/// though all goes well.
pub(super) fn unless_moving(
    finding: Finding,
    moved: Timestamp,
    allowance: Duration,
    evaluation: &Evaluation<'_>,
) -> Finding {
    let still = evaluation
        .duration(finding.rule, &STILL)
        .saturating_add(allowance);
    let r#for = evaluation.r#for(finding.rule).max(still);
    Finding {
        // As the time may not lie ahead, `for` is at least as long as what is waited for.
        since: Since::FirstSeenAfter(before(moved, r#for.saturating_sub(still))),
        r#for: Some(r#for),
        ..finding
    }
}

/// How long it may take to replace a pod, from its deletion until the next one is ready for as long as it must be.
pub(super) fn replacement(template: &PodTemplate, min_ready_seconds: i32) -> Duration {
    let grace = template.spec.termination_grace_period_seconds;
    let seconds = u64::try_from(grace.unwrap_or(GRACE_SECONDS)).unwrap_or_default();
    Duration::from_secs(seconds)
        .saturating_add(probes::startup_allowance(template))
        .saturating_add(probes::min_ready(min_ready_seconds))
}

/// A workload that is not as it should be: since when, and since when nothing has moved in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Standstill {
    /// Since when the condition stands, as far as it was seen.
    pub since: Timestamp,
    /// Since when the counts are what they are.
    pub still_since: Timestamp,
}

impl Standstill {
    /// `what` is the condition, as a word for the memo; `counts` are those of the status that move with every progress.
    pub(super) fn seen(
        what: &str,
        counts: fmt::Arguments<'_>,
        memo: &mut Memo,
        now: Timestamp,
    ) -> Self {
        Self {
            since: memo.since(what, "", now),
            still_since: since(memo, &counts.to_string(), now),
        }
    }

    /// When something has moved last, if that was seen.
    pub(super) fn moved_at(&self) -> Option<Timestamp> {
        (self.still_since > self.since).then_some(self.still_since)
    }

    /// The workload is as it should be in all of these: nothing of it is kept.
    pub(super) fn over(whats: &[&str], memo: &mut Memo) {
        for what in whats {
            memo.forget_value(what);
        }
        forget(memo);
    }

    /// When it has stood for `for`, and nothing has moved for `still`.
    pub(super) fn due(&self, r#for: Duration, still: Duration) -> Timestamp {
        after(self.since, r#for).max(after(self.still_since, still))
    }
}

/// A finding that is due at a time of its own.
pub(super) fn due_at(finding: Finding, since: Timestamp, due: Timestamp) -> Finding {
    Finding {
        since: Since::At(since),
        r#for: Some(between(since, due)),
        ..finding
    }
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::{DaemonSet, Kind, StatefulSet};

    /// The findings on an object, and the room that was made for them.
    fn look<K: Kind + DeserializeOwned>(object: &Value, memo: &mut Memo) -> (usize, usize) {
        let object: K = serde_json::from_value(object.clone()).unwrap();
        let mut findings = Vec::new();
        object.evaluate(&mut Evaluation::new(
            Timestamp::UNIX_EPOCH,
            memo,
            &mut findings,
        ));
        (findings.len(), findings.capacity())
    }

    fn is_remembered_only_while_short<K: Kind + DeserializeOwned>(well: &Value, short: &Value) {
        let mut memo = Memo::default();
        assert_eq!(look::<K>(well, &mut memo), (0, 0));
        assert!(memo.is_empty());
        assert_eq!(look::<K>(short, &mut memo).0, 1);
        assert!(!memo.is_empty());
        assert_eq!(look::<K>(well, &mut memo), (0, 0));
        assert!(memo.is_empty());
    }

    #[test]
    fn counters_are_remembered_only_of_what_is_short_of_pods() {
        let stateful_set = |ready| {
            json!({
                "metadata": {"generation": 1},
                "spec": {"replicas": 3},
                "status": {"observedGeneration": 1, "replicas": 3, "readyReplicas": ready},
            })
        };
        is_remembered_only_while_short::<StatefulSet>(&stateful_set(3), &stateful_set(2));
        let daemon_set = |available| {
            json!({
                "metadata": {"generation": 1},
                "status": {
                    "observedGeneration": 1,
                    "desiredNumberScheduled": 3,
                    "currentNumberScheduled": 3,
                    "updatedNumberScheduled": 3,
                    "numberAvailable": available,
                },
            })
        };
        is_remembered_only_while_short::<DaemonSet>(&daemon_set(3), &daemon_set(2));
    }

    #[test]
    fn a_pod_may_take_what_its_template_allows_for_and_no_number_is_too_high() {
        let template = |probe: Value, grace: i64| {
            let value = json!({"spec": {
                "terminationGracePeriodSeconds": grace,
                "containers": [{"name": "app", "startupProbe": probe}, {"name": "web"}],
            }});
            serde_json::from_value::<PodTemplate>(value).unwrap()
        };
        let probe = json!({"initialDelaySeconds": 5, "failureThreshold": 30, "periodSeconds": 2});
        assert_eq!(
            replacement(&template(probe, 60), 10),
            Duration::from_secs(65 + 60 + 10)
        );
        assert_eq!(
            replacement(&PodTemplate::default(), 0),
            Duration::from_secs(30)
        );
        let probe = json!({"failureThreshold": i32::MAX, "periodSeconds": i32::MAX});
        let longest = replacement(&template(probe, i64::MAX), i32::MAX);
        assert!(longest > Duration::from_secs(u64::MAX / 2));
    }
}
