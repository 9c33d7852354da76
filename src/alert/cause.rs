//! The cause tree: which alert explains which. One cause, one page.
//!
//! What is explained is shown as inhibited, and tells nobody. Its cause may still be pending; when what it explains comes due, it fires at that moment, and takes
//! over the severity.

use crate::{cluster::KindId, rules::Rule};

/// How a cause explains its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Explanation {
    /// What both must have in common.
    pub reach: Reach,
    /// Whether the cause also explains while it is held: seen to be over, but not for long enough.
    pub while_held: bool,
    /// Whether the cause fires when its effect comes due. If not, it is what must be, and no fault as long as it does not last.
    pub urged: bool,
}

/// What a cause and its effect have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// The same part (container) of the same object.
    Part,
    /// The same object.
    Object,
    /// The same subject.
    Subject,
    /// The cause is about the node that the effect's object runs on.
    Node,
    /// The cause is about a pod that the effect's object leads to.
    Pod,
    /// The cause is about a claim that the effect's object needs.
    Claim,
    /// The cause is about the namespace that the effect is in.
    Namespace,
    /// The cause is about an API that the effect's object needs.
    Api,
    /// The cause is about the workload that the effect's object scales.
    Target,
    /// The cause is about a workload whose pods the effect's object selects.
    Selected,
}

impl Explanation {
    const fn of(reach: Reach) -> Self {
        Self {
            reach,
            while_held: true,
            urged: true,
        }
    }
}

/// Whether an alert of the rule `cause` explains one of the rule `effect`, and how.
pub(super) fn explains(cause: &Rule, effect: &Rule) -> Option<Explanation> {
    let by_pod = cause.kind == KindId::Pod;
    let hits_pod = effect.kind == KindId::Pod;
    let same_kind = cause.kind == effect.kind;
    match (cause.name, effect.name) {
        // The kernel killed the last run: that is why it crash loops. A later run that ends for another reason is not explained.
        ("KubePodOOMKilled", "KubePodCrashLooping" | "KubePodRestarting") => Some(Explanation {
            while_held: false,
            ..Explanation::of(Reach::Part)
        }),
        // A container in a crash loop restarts: that is the same fault.
        ("KubePodCrashLooping", "KubePodRestarting") => Some(Explanation::of(Reach::Part)),
        // Whatever else is wrong with a pod, it is not ready because of that. While a crash loop is between two crashes, still.
        (name, "KubePodNotReady") if by_pod && name != effect.name => {
            Some(Explanation::of(Reach::Object))
        }
        // Deleting a namespace breaks all that is in it, in some order. Only what does not go has to be seen to.
        (
            "KubeNamespaceStuckTerminating",
            "KubePodStuckTerminating" | "KubeNamespaceStuckTerminating" | "KubeAggregatedAPIDown",
        ) => None,
        ("KubeNamespaceStuckTerminating", _) => Some(Explanation {
            urged: false,
            ..Explanation::of(Reach::Namespace)
        }),
        // What is on a node that is away is as the node controller has left it.
        ("KubeNodeNotReady" | "KubeNodeUnreachable" | "KubeNodeNetworkUnavailable", _)
            if hits_pod =>
        {
            Some(Explanation::of(Reach::Node))
        }
        ("KubeNodePressure" | "KubeNodeProblem", "KubePodEvicted") => {
            Some(Explanation::of(Reach::Node))
        }
        ("KubeNodesDown", "KubeNodeNotReady" | "KubeNodeUnreachable") => {
            Some(Explanation::of(Reach::Object))
        }
        (
            "KubeNodeNotReady" | "KubeNodeUnreachable",
            "KubeNodePressure"
            | "KubeNodeProblem"
            | "KubeNodeNetworkUnavailable"
            | "KubeNodeReadinessFlapping",
        ) => Some(Explanation::of(Reach::Object)),
        (
            "KubePersistentVolumeClaimLost"
            | "KubePersistentVolumeClaimPending"
            | "KubePersistentVolumeUnhealthy",
            "KubePodPending" | "KubeContainerWaiting",
        ) => Some(Explanation::of(Reach::Claim)),
        // Metrics come from an API of their own; and a namespace goes only when all APIs say that they have nothing in it.
        ("KubeAggregatedAPIDown", "KubeHpaNotScaling" | "KubeNamespaceStuckTerminating") => {
            Some(Explanation::of(Reach::Api))
        }
        // Of pods that are not there, there are no metrics.
        (down, "KubeHpaNotScaling") if cause.kind.is_workload() && down.ends_with("Down") => {
            Some(Explanation::of(Reach::Target))
        }
        (shortfall, "KubePdbNotEnoughHealthyPods")
            if cause.kind.is_workload() && is_shortfall(shortfall) =>
        {
            Some(Explanation::of(Reach::Selected))
        }
        // A pod that says why it is not ready says it for its Services. It knows better how long it may take, and so it is not made to fire early.
        (_, "KubeServiceNoEndpoints") if by_pod => Some(Explanation {
            urged: false,
            ..Explanation::of(Reach::Pod)
        }),
        // A Job that has given up says so itself, not by its last pods.
        ("KubeJobFailed", "KubeCronJobNotSucceeding") => Some(Explanation::of(Reach::Subject)),
        ("KubeJobFailed", _) if hits_pod => Some(Explanation::of(Reach::Subject)),
        ("KubeJobNotCompleted" | "KubeJobNotStarted", "KubeCronJobNotSucceeding") => {
            Some(Explanation::of(Reach::Subject))
        }
        // Why a workload has too few pods: its pods are broken, or cannot be made.
        (_, "KubeJobNotCompleted") if by_pod => Some(Explanation::of(Reach::Subject)),
        (name, shortfall)
            if is_shortfall(shortfall)
                && effect.kind.is_workload()
                && (by_pod
                    || name.ends_with("ReplicaFailure")
                    || name == "KubeDaemonSetNotScheduled") =>
        {
            Some(Explanation::of(Reach::Subject))
        }
        // Of one workload, the worst says it.
        (down, shortfall)
            if same_kind
                && effect.kind.is_workload()
                && down.ends_with("Down")
                && down != shortfall
                && is_shortfall(shortfall) =>
        {
            Some(Explanation::of(Reach::Object))
        }
        (stuck, mismatch)
            if same_kind
                && (stuck.ends_with("RolloutStuck") || stuck.ends_with("UpdateNotRolledOut"))
                && mismatch.ends_with("ReplicasMismatch") =>
        {
            Some(Explanation::of(Reach::Object))
        }
        _ => None,
    }
}

/// Whether a rule is about a workload with too few pods.
fn is_shortfall(rule: &str) -> bool {
    let ends = [
        "Down",
        "ReplicasMismatch",
        "RolloutStuck",
        "UpdateNotRolledOut",
    ];
    ends.iter().any(|end| rule.ends_with(end))
}

/// The rules whose alerts explain those of this one.
pub fn causes_of(effect: &'static Rule) -> impl Iterator<Item = &'static Rule> {
    crate::rules::all().filter(|cause| explains(cause, effect).is_some())
}

/// The rules whose alerts those of this one explain.
pub fn effects_of(cause: &'static Rule) -> impl Iterator<Item = &'static Rule> {
    crate::rules::all().filter(|effect| explains(cause, effect).is_some())
}

/// Whether an alert of the rule `cause` fires when one of the rule `effect` that it explains comes due.
pub fn urges(effect: &Rule, cause: &Rule) -> bool {
    explains(cause, effect).is_some_and(|how| how.urged)
}

/// Whether a member with this reason explains anything: a volume that is only degraded still serves.
pub(super) fn is_cause(rule: &Rule, reason: &str) -> bool {
    rule.name != "KubePersistentVolumeUnhealthy" || matches!(reason, "DataLoss" | "Inaccessible")
}

/// Whether alerts of this rule may be due to an API that is down.
pub(super) fn may_need_api(effect: &Rule) -> bool {
    matches!(
        effect.name,
        "KubeHpaNotScaling" | "KubeNamespaceStuckTerminating"
    )
}

/// Whether a member with this reason needs the API of this `APIService`, whose name is that of its version and its group.
///
/// The group is that from which the controller gets the metric; see `pkg/controller/podautoscaler/metrics/client.go` of Kubernetes.
pub(super) fn needs_api(effect: &Rule, reason: &str, api: &str) -> bool {
    let group = match (effect.name, reason) {
        ("KubeNamespaceStuckTerminating", "NamespaceDeletionDiscoveryFailure") => return true,
        ("KubeHpaNotScaling", "FailedGetResourceMetric" | "FailedGetContainerResourceMetric") => {
            "metrics.k8s.io"
        }
        ("KubeHpaNotScaling", "FailedGetPodsMetric" | "FailedGetObjectMetric") => {
            "custom.metrics.k8s.io"
        }
        ("KubeHpaNotScaling", "FailedGetExternalMetric") => "external.metrics.k8s.io",
        _ => return false,
    };
    api.split_once('.').is_some_and(|(_, of)| of == group)
}

/// Whether a member with this reason lacks metrics of the pods that it scales. Those of other objects do not depend on them.
pub(super) fn lacks_pod_metrics(reason: &str) -> bool {
    matches!(
        reason,
        "FailedGetResourceMetric" | "FailedGetContainerResourceMetric" | "FailedGetPodsMetric"
    )
}

/// Whether an alert of this rule is over when its subject has succeeded since it began.
pub(super) fn ends_with_success(rule: &Rule) -> bool {
    rule.name == "KubeJobFailed"
}

/// Whether alerts of this rule are explained by those of pods that their objects lead to.
pub(super) fn leads_to_pods(effect: &Rule) -> bool {
    effect.kind == KindId::EndpointSlice
}

/// Whether alerts of this rule explain more than others of the same object.
pub(super) fn reaches_beyond(cause: &Rule) -> bool {
    crate::rules::all()
        .filter_map(|effect| explains(cause, effect))
        .any(|how| !matches!(how.reach, Reach::Part | Reach::Object))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::rules::all;

    #[test]
    fn nothing_explains_itself_by_way_of_others() {
        let effects: BTreeMap<&str, Vec<&str>> = all()
            .map(|cause| {
                let effects = all().filter(|effect| explains(cause, effect).is_some());
                (cause.name, effects.map(|effect| effect.name).collect())
            })
            .collect();
        for start in effects.keys() {
            let mut reached = Vec::new();
            let mut to_do = effects[start].clone();
            while let Some(next) = to_do.pop() {
                assert_ne!(next, *start);
                if !reached.contains(&next) {
                    reached.push(next);
                    to_do.extend(&effects[next]);
                }
            }
        }
    }
}
