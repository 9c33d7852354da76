//! Nodes that are not ready, or not for long.

use std::time::Duration;

use jiff::Timestamp;

use super::{BOOT, boots_for, minutes};
use crate::{
    alert::Severity,
    cluster::{Condition, KindId, Node},
    rules::{
        Evaluation, Finding, Lasts, Rule, Since, Threshold,
        text::{Line, or},
    },
    text::duration,
    time::{after, between},
};

/// The kubelet says that its node is not ready.
pub(super) static NOT_READY: Rule = Rule {
    name: "KubeNodeNotReady",
    kind: KindId::Node,
    severity: Severity::Critical,
    r#for: minutes(5),
    hold: minutes(2),
    thresholds: &[&BOOT],
    description: "A node's kubelet says that it is not ready: it takes no new pods, and those on it may be broken.",
    ..Rule::DEFAULTS
};

/// The kubelet says nothing at all.
pub(super) static UNREACHABLE: Rule = Rule {
    name: "KubeNodeUnreachable",
    kind: KindId::Node,
    severity: Severity::Critical,
    r#for: minutes(5),
    hold: minutes(2),
    thresholds: &[&BOOT],
    description: "A node's kubelet is silent: the node is down or cut off, and its pods are given up.",
    ..Rule::DEFAULTS
};

/// So many nodes are not ready, of the cluster or of one zone, that it is one fault. How many that is, the engine decides, since it counts the nodes.
pub(super) static NODES_DOWN: Rule = Rule {
    name: "KubeNodesDown",
    kind: KindId::Node,
    severity: Severity::Critical,
    r#for: minutes(2),
    hold: minutes(2),
    quorum: 3,
    thresholds: &[&BOOT],
    description: "At least 3 nodes, and a fifth of the cluster or of one of its zones, are not ready.",
    ..Rule::DEFAULTS
};

/// A node is ready, and is not, and is.
pub(super) static FLAPPING: Rule = Rule {
    name: "KubeNodeReadinessFlapping",
    kind: KindId::Node,
    severity: Severity::Warning,
    r#for: Duration::ZERO,
    thresholds: &[&CHANGES, &WINDOW],
    description: "A node changed between ready and not ready more than 3 times within 30 minutes.",
    ..Rule::DEFAULTS
};

/// Changes within the window that are too many. One reboot is two.
static CHANGES: Threshold = Threshold::count(
    "changes",
    4,
    "How many changes between ready and not ready within the window are too many.",
);

/// The window in which changes count, and how long there must be none before the alert resolves.
static WINDOW: Threshold = Threshold::duration(
    "window",
    minutes(30),
    "For how long a change between ready and not ready counts.",
);

/// A kubelet registers its node as not ready, or the node controller marks it after 60 s (`--node-startup-grace-period`): a node that is not ready since then has never
/// been ready. Their clocks may differ.
const REGISTRATION: Duration = minutes(2);

/// Memory: since when the node is not ready, in whatever way.
const UNREADY: &str = "unready";
/// Memory: the rule that says so.
const RULE: &str = "unready by";
/// Memory: the changes between ready (1) and not ready (0).
const READY: &str = "ready";

/// One of the two rules speaks, and never both. A node that is not ready may fall silent, and the other way round: the clock runs on, and what is due keeps its name.
pub(super) fn unready(node: &Node, evaluation: &mut Evaluation<'_>) {
    let now = evaluation.now;
    let Some(ready) = ready(node).filter(|ready| !ready.is_true()) else {
        forget_unready(evaluation);
        let because = "nothing says that it is not ready";
        evaluation.quiet_all(&[&NOT_READY, &UNREACHABLE, &NODES_DOWN], because);
        return;
    };
    let changed = ready.last_transition_time.map_or(now, |at| at.min(now));
    let since = evaluation.memo.since(UNREADY, "", changed);
    let (mut rule, what, reason) = if ready.is_false() {
        (&NOT_READY, "not ready", "KubeletNotReady")
    } else {
        (&UNREACHABLE, "unreachable", "NodeStatusUnknown")
    };
    let may_boot = &*ready.reason == "NodeStatusNeverUpdated" || is_first(node, since);
    let r#for = |rule: &Rule, evaluation: &Evaluation<'_>| {
        let boots_for = if may_boot {
            boots_for(node, since, rule, evaluation)
        } else {
            Duration::ZERO
        };
        evaluation.r#for(rule).saturating_add(boots_for)
    };
    let of_cluster_for = r#for(&NODES_DOWN, evaluation);
    let r#for = r#for(rule, evaluation);
    let known = evaluation.memo.value(RULE);
    let known = [&NOT_READY, &UNREACHABLE]
        .into_iter()
        .find(|rule| Some(rule.name) == known);
    match known {
        Some(known) if changed >= after(since, r#for) => rule = known,
        _ => {
            evaluation.memo.since(RULE, rule.name, now);
        }
    }
    let message = Line(or(&ready.message, or(&ready.reason, "nobody says why")));
    let summary = format!("{what}: {message}");
    let reason = or(&ready.reason, reason);
    let of_cluster = Finding::new(&NODES_DOWN, reason, Since::At(since), summary.clone());
    evaluation.push(of_cluster.of_cluster().after(of_cluster_for));
    evaluation.push(Finding::new(rule, reason, Since::At(since), summary).after(r#for));
    let because = "the other of KubeNodeNotReady and KubeNodeUnreachable speaks of the node";
    evaluation.quiet_rest(&[&NOT_READY, &UNREACHABLE], because);
}

pub(super) fn flapping(node: &Node, evaluation: &mut Evaluation<'_>) {
    let now = evaluation.now;
    let window = evaluation.duration(&FLAPPING, &WINDOW);
    let changes = evaluation.number(&FLAPPING, &CHANGES).max(1);
    let kept = usize::try_from(changes).unwrap_or(usize::MAX);
    let memo = &mut *evaluation.memo;
    let last = memo.marks(READY).next_back();
    let last = last.filter(|&(at, _)| after(at, window) > now);
    if last.is_none() {
        memo.forget(now);
    }
    let Some((ready, since)) = ready(node)
        .and_then(|ready| Some((ready, ready.last_transition_time?)))
        // A clock that is ahead: the next look will do.
        .filter(|&(_, since)| since <= now)
    else {
        evaluation.quiet(&FLAPPING, "nothing tells when its readiness last changed");
        return;
    };
    let is_ready = i64::from(ready.is_true());
    match last {
        // It begins when a node is no longer ready, so that nothing is remembered of one that has been ready for long.
        None if ready.is_true() || is_first(node, since) || after(since, window) <= now => {}
        None => memo.mark(READY, since, is_ready),
        // Not ready in another way is no change. But who is ready since another time was not in between.
        Some((at, known)) if known == is_ready => {
            if ready.is_true() && since > at {
                memo.mark(READY, since, 0);
                memo.mark(READY, since, 1);
            }
        }
        // Two clocks tell the times: the kubelet's, and the node controller's.
        Some((at, _)) => memo.mark(READY, since.max(at), is_ready),
    }
    memo.keep_newest(READY, kept);
    let times = || memo.marks(READY).map(|(at, _)| at);
    let known = times().count();
    let (Some(first), Some(last)) = (times().nth_back(kept - 1), times().next_back()) else {
        let because = format_args!(
            "{known} changes of its readiness are known of late, and {changes} are too many"
        );
        evaluation.quiet(&FLAPPING, because);
        return;
    };
    let span = between(first, last);
    if span > window {
        let because = format_args!(
            "its last {changes} changes of readiness were spread over more than {}",
            duration(window)
        );
        evaluation.quiet(&FLAPPING, because);
        return;
    }
    let minutes = span.as_secs().div_ceil(60);
    let summary = format!(
        "changed between ready and not ready {changes} times within {minutes} min, {} by now",
        if ready.is_true() {
            "ready"
        } else {
            "not ready"
        }
    );
    let mut finding = Finding::new(&FLAPPING, "ReadinessFlapping", Since::FirstSeen, summary);
    finding.lasts = Lasts::Until(after(last, window));
    evaluation.push(finding);
}

/// Forgets what the node's readiness was: it is somebody's work.
pub(super) fn forget(evaluation: &mut Evaluation<'_>) {
    forget_unready(evaluation);
    evaluation.memo.forget(evaluation.now);
}

fn forget_unready(evaluation: &mut Evaluation<'_>) {
    evaluation.memo.forget_value(UNREADY);
    evaluation.memo.forget_value(RULE);
}

fn ready(node: &Node) -> Option<&Condition> {
    Condition::find(&node.status.conditions, "Ready")
}

/// Whether the node has been so ever since it is there.
fn is_first(node: &Node, since: Timestamp) -> bool {
    let created = node.metadata.creation_timestamp;
    created.is_some_and(|created| since <= after(created, REGISTRATION))
}
