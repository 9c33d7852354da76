//! The rules on Nodes. Here: which of them look at a node at all, and what is said of one that is cordoned.

mod conditions;
mod readiness;

use std::time::Duration;

use jiff::Timestamp;

use super::{Evaluation, Finding, Rule, Threshold, minutes, since};
use crate::{
    alert::Severity,
    cluster::{Condition, Kind, KindId, Meta, Node, Taint},
    time::{after, between},
};

/// Every rule on Nodes.
pub const RULES: &[&Rule] = &[
    &readiness::NOT_READY,
    &readiness::UNREACHABLE,
    &readiness::NODES_DOWN,
    &conditions::PRESSURE,
    &conditions::NETWORK_UNAVAILABLE,
    &conditions::PROBLEM,
    &readiness::FLAPPING,
    &CORDONED,
];

/// A node takes no new pods, and somebody may have forgotten that.
static CORDONED: Rule = Rule {
    name: "KubeNodeCordoned",
    kind: KindId::Node,
    severity: Severity::Info,
    r#for: minutes(4 * 60),
    description: "A node has been cordoned for hours, as if forgotten after maintenance: it takes no new pods.",
    ..Rule::DEFAULTS
};

/// How long a node may take to boot, from its creation on: images of system pods are pulled, drivers built, the network set up.
static BOOT: Threshold = Threshold::duration(
    "boot",
    minutes(10),
    "How long a node may take to boot, from its creation on.",
);

/// The taint that goes with `spec.unschedulable`; the node controller adds it.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Taints of a node that is about to go, or that others know to be away.
const LEAVING: &[&str] = &[
    // cluster-autoscaler. Its `DeletionCandidateOfClusterAutoscaler` is only a thought.
    "ToBeDeletedByClusterAutoscaler",
    // GKE, before it preempts or maintains a machine.
    "cloud.google.com/impending-node-termination",
    // Karpenter; the second until v1.
    "karpenter.sh/disrupted",
    "karpenter.sh/disruption",
    // Cloud controllers: the machine was shut down on purpose, or is not set up yet.
    "node.cloudprovider.kubernetes.io/shutdown",
    "node.cloudprovider.kubernetes.io/uninitialized",
    // Set by people, so that the pods of a dead node go elsewhere.
    "node.kubernetes.io/out-of-service",
];

/// What the taints of AWS' node termination handler begin with: `spot-itn`, `scheduled-maintenance`, `asg-lifecycle-termination`, `rebalance-recommendation`.
const AWS_TERMINATION: &str = "aws-node-termination-handler/";

/// Somebody works on the node (Kubernetes 1.37, alpha).
const MAINTENANCE: &str = "MaintenanceInProgress";

/// Conditions of a node that is emptied or worked on (Kubernetes 1.37, alpha). A maintenance that is only planned is not among them.
const LIFECYCLE: &[&str] = &[
    "DrainInProgress",
    "Drained",
    MAINTENANCE,
    "GracefulNodeShutdownInProgress",
];

/// The rules that leave a node alone while somebody is at work on it.
const OF_UNATTENDED: &[&Rule] = &[
    &readiness::NOT_READY,
    &readiness::UNREACHABLE,
    &readiness::NODES_DOWN,
    &readiness::FLAPPING,
    &conditions::PRESSURE,
    &conditions::NETWORK_UNAVAILABLE,
];

/// Why they do.
const ATTENDED: &str = "somebody is at work on the node, or it is about to go: it is cordoned, deleted, drained, or has a taint that says so";

impl Kind for Node {
    const ID: KindId = KindId::Node;
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Node";
    const PLURAL: &'static str = "nodes";
    const LABEL: Option<&'static str> = Some("node");
    const IS_WORKLOAD: bool = false;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }

    fn zone(&self) -> Option<&str> {
        Some(self.metadata.zone.as_deref().unwrap_or_default())
    }

    fn evaluate(&self, evaluation: &mut Evaluation<'_>) {
        let attended = is_attended(self);
        conditions::problem(self, attended, evaluation);
        if attended {
            // Drained nodes reboot, more than once maybe.
            readiness::forget(evaluation);
            evaluation.quiet_rest(OF_UNATTENDED, ATTENDED);
        } else {
            readiness::unready(self, evaluation);
            readiness::flapping(self, evaluation);
            conditions::pressure(self, evaluation);
            conditions::network_unavailable(self, evaluation);
        }
        cordoned(self, evaluation);
    }
}

fn cordoned(node: &Node, evaluation: &mut Evaluation<'_>) {
    if !node.spec.unschedulable {
        evaluation.quiet(&CORDONED, "it is not cordoned");
        return;
    }
    if is_leaving(node) || has(node, MAINTENANCE) {
        let because = "it is about to go, or under maintenance: it is cordoned for that";
        evaluation.quiet(&CORDONED, because);
        return;
    }
    let taint = |taint: &&Taint| &*taint.key == UNSCHEDULABLE;
    let added = node.spec.taints.iter().find(taint);
    let added = added.and_then(|taint| taint.time_added);
    evaluation.push(Finding::new(
        &CORDONED,
        // The kubelet's event for it.
        "NodeNotSchedulable",
        since(added),
        "cordoned, so that it takes no new pods".to_owned(),
    ));
}

// === what several rules ask of a node ===

/// Whether somebody is at work on the node, or it is about to go: nothing that it does meanwhile is a fault.
fn is_attended(node: &Node) -> bool {
    node.spec.unschedulable || is_leaving(node) || LIFECYCLE.iter().any(|r#type| has(node, r#type))
}

/// Whether the node is about to go, or known to be away.
fn is_leaving(node: &Node) -> bool {
    let is_leaving =
        |taint: &Taint| LEAVING.contains(&&*taint.key) || taint.key.starts_with(AWS_TERMINATION);
    node.metadata.deletion_timestamp.is_some() || node.spec.taints.iter().any(is_leaving)
}

/// Whether this condition of the node is True.
fn has(node: &Node, r#type: &str) -> bool {
    Condition::find(&node.status.conditions, r#type).is_some_and(Condition::is_true)
}

/// How long after that time the node may still be booting, for a rule that has the threshold [`BOOT`].
fn boots_for(node: &Node, since: Timestamp, rule: &Rule, evaluation: &Evaluation<'_>) -> Duration {
    let created = node.metadata.creation_timestamp;
    let boot = evaluation.duration(rule, &BOOT);
    created.map_or(Duration::ZERO, |created| {
        between(since, after(created, boot))
    })
}

#[cfg(test)]
mod tests;
