//! Conditions of a node other than Ready: what it lacks, and what is broken in it.

use super::{ATTENDED, BOOT, boots_for, minutes, since};
use crate::{
    alert::Severity,
    cluster::{Condition, KindId, Node},
    rules::{
        Evaluation, Finding, Rule,
        text::{Line, or},
    },
};

/// The kubelet evicts pods, or is about to.
pub(super) static PRESSURE: Rule = Rule {
    name: "KubeNodePressure",
    kind: KindId::Node,
    severity: Severity::Warning,
    r#for: minutes(5),
    hold: minutes(5),
    description: "A node runs short of memory, disk space or process IDs: its kubelet takes no new pods, and evicts some.",
    ..Rule::DEFAULTS
};

/// The node's pods reach nobody.
pub(super) static NETWORK_UNAVAILABLE: Rule = Rule {
    name: "KubeNodeNetworkUnavailable",
    kind: KindId::Node,
    severity: Severity::Critical,
    r#for: minutes(5),
    hold: minutes(2),
    thresholds: &[&BOOT],
    description: "A node's network is not set up: no route leads to its pods.",
    ..Rule::DEFAULTS
};

/// Something in the node is broken.
pub(super) static PROBLEM: Rule = Rule {
    name: "KubeNodeProblem",
    kind: KindId::Node,
    severity: Severity::Warning,
    r#for: minutes(1),
    hold: minutes(5),
    description: "Something in a node is broken, as a problem detector on it reports: kernel, file system, hardware, kubelet or container runtime.",
    ..Rule::DEFAULTS
};

const PRESSURES: &[&str] = &["MemoryPressure", "DiskPressure", "PIDPressure"];

/// What node-problem-detector reads in the logs (its `config/*-monitor.json`). Nothing in them ever says that it is over: that takes a reboot.
const LOGGED: &[&str] = &[
    "KernelDeadlock",
    "ReadonlyFilesystem",
    "XfsShutdown",
    "CperHardwareErrorFatal",
    "DiskBadBlock",
    "CorruptDockerOverlay2",
];

/// What detectors check again and again, with the status that is bad. It is a list of what is known: vendors have conditions of their own, good ones among them.
const CHECKED: &[(&str, &str)] = &[
    // node-problem-detector: its health checkers and custom plugins.
    ("KubeletUnhealthy", "True"),
    ("ContainerRuntimeUnhealthy", "True"),
    ("KubeProxyUnhealthy", "True"),
    ("NTPProblem", "True"),
    ("FrequentKubeletRestart", "True"),
    ("FrequentDockerRestart", "True"),
    ("FrequentContainerdRestart", "True"),
    ("FrequentUnregisterNetDevice", "True"),
    // AKS' edition of it.
    ("FilesystemCorruptionProblem", "True"),
    ("KubeletProblem", "True"),
    ("ContainerRuntimeProblem", "True"),
    // The node monitoring agent of EKS.
    ("KernelReady", "False"),
    ("NetworkingReady", "False"),
    ("StorageReady", "False"),
    ("ContainerRuntimeReady", "False"),
    ("AcceleratedHardwareReady", "False"),
];

/// Memory: the boot that a problem was seen in.
const BOOT_ID: &str = "bootID";

pub(super) fn pressure(node: &Node, evaluation: &mut Evaluation<'_>) {
    for r#type in PRESSURES {
        if let Some(condition) = find(node, r#type, "True") {
            evaluation.push(finding(&PRESSURE, condition));
        }
    }
    let because = "it is short of neither memory, disk space nor process IDs";
    evaluation.quiet_rest(&[&PRESSURE], because);
}

pub(super) fn network_unavailable(node: &Node, evaluation: &mut Evaluation<'_>) {
    // Many networks never set it.
    let Some(condition) = find(node, "NetworkUnavailable", "True") else {
        let because = "nothing says that its network is not set up";
        evaluation.quiet(&NETWORK_UNAVAILABLE, because);
        return;
    };
    let told = condition.last_transition_time.unwrap_or(evaluation.now);
    let summary = format!("its network is not set up: {}", message(condition));
    let finding = Finding::new(
        &NETWORK_UNAVAILABLE,
        or(&condition.reason, &condition.r#type),
        since(condition.last_transition_time),
        summary,
    );
    let r#for = evaluation.r#for(&NETWORK_UNAVAILABLE);
    let boots_for = boots_for(node, told, &NETWORK_UNAVAILABLE, evaluation);
    evaluation.push(finding.after(r#for.max(boots_for)));
}

/// `attended`: somebody is at work on the node, and need not be told. Yet it is kept in mind what is wrong: they may well reboot it for that.
pub(super) fn problem(node: &Node, attended: bool, evaluation: &mut Evaluation<'_>) {
    let now = evaluation.now;
    let mut is_logged = false;
    for r#type in LOGGED {
        let Some(condition) = find(node, r#type, "True") else {
            evaluation.memo.forget_value(r#type);
            continue;
        };
        is_logged = true;
        let told = condition.last_transition_time;
        let told = told.map(|told| told.to_string()).unwrap_or_default();
        let seen = evaluation.memo.since(r#type, &told, now);
        let boot_id = &node.status.boot_id;
        let booted = evaluation.memo.since(BOOT_ID, boot_id, now);
        // After a reboot it is old news, until it is told anew.
        if attended {
            evaluation.quiet(&PROBLEM, ATTENDED);
        } else if booted <= seen {
            evaluation.push(finding(&PROBLEM, condition));
        } else {
            let because =
                format_args!("{} was told before the node was rebooted", condition.r#type);
            evaluation.quiet(&PROBLEM, because);
        }
    }
    if !is_logged {
        evaluation.memo.forget_value(BOOT_ID);
    }
    for (r#type, status) in CHECKED {
        match find(node, r#type, status) {
            Some(_) if attended => evaluation.quiet(&PROBLEM, ATTENDED),
            Some(condition) => evaluation.push(finding(&PROBLEM, condition)),
            None => {}
        }
    }
    let because = "none of the conditions that problem detectors are known for tells of one";
    evaluation.quiet_rest(&[&PROBLEM], because);
}

/// The condition of this type, if it has this status.
fn find<'a>(node: &'a Node, r#type: &str, status: &str) -> Option<&'a Condition> {
    Condition::find(&node.status.conditions, r#type)
        .filter(|condition| &*condition.status == status)
}

/// A finding about one of several conditions.
fn finding(rule: &'static Rule, condition: &Condition) -> Finding {
    Finding::new(
        rule,
        or(&condition.reason, &condition.r#type),
        since(condition.last_transition_time),
        format!("{}: {}", condition.r#type, message(condition)),
    )
    .about("condition", &condition.r#type)
}

/// What the condition says of itself.
fn message(condition: &Condition) -> Line<'_> {
    Line(or(
        &condition.message,
        or(&condition.reason, "nobody says why"),
    ))
}
