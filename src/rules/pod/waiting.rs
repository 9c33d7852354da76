//! Containers that do not start: no image, no configuration, no volume, no network.

use std::time::Duration;

use super::{
    condition,
    container::{self, View},
    minutes, of_job, restarts, since,
    text::{self, Line, push},
    true_since,
};
use crate::{
    alert::Severity,
    cluster::{Condition, KindId, Pod},
    rules::{Evaluation, Finding, Rule, Threshold},
};

/// An image does not come.
pub(super) static IMAGE_PULL_FAILING: Rule = Rule {
    name: "KubePodImagePullFailing",
    kind: KindId::Pod,
    severity: Severity::Warning,
    r#for: minutes(3),
    hold: minutes(2),
    description: "A container cannot start because its image cannot be pulled.",
    ..Rule::DEFAULTS
};

/// A container cannot be made from its spec.
pub(super) static CONFIG_ERROR: Rule = Rule {
    name: "KubePodConfigError",
    kind: KindId::Pod,
    severity: Severity::Warning,
    r#for: minutes(3),
    hold: minutes(2),
    description: "A container cannot start because of its configuration: an object or key that is missing, a bad path or command, a hook that fails.",
    ..Rule::DEFAULTS
};

/// A container does not start, and nothing says why.
pub(super) static CONTAINER_WAITING: Rule = Rule {
    name: "KubeContainerWaiting",
    kind: KindId::Pod,
    severity: Severity::Warning,
    r#for: minutes(5),
    hold: minutes(1),
    thresholds: &[&FOR_SLOW_PULL, &FOR_UNKNOWN_STEP],
    description: "A container on a node does not start: its pod waits for volumes or for the network, or its image takes long to pull.",
    ..Rule::DEFAULTS
};

/// How long an image may take: longer than volumes and networks ([`CONTAINER_WAITING`]), since nothing is wrong with a slow pull by itself.
static FOR_SLOW_PULL: Threshold = Threshold::duration(
    "for_slow_pull",
    minutes(15),
    "How long a container may wait once volumes and the network are ready: its image is pulled.",
);

/// Where the kubelet does not tell whether the pod's sandbox is ready (before Kubernetes 1.29): between the two.
static FOR_UNKNOWN_STEP: Threshold = Threshold::duration(
    "for_unknown_step",
    minutes(10),
    "How long a container may wait where nothing tells for what.",
);

/// The condition that is True once volumes are mounted and the sandbox has its network.
const SANDBOX: &str = "PodReadyToStartContainers";

/// Why a container waits, as far as the rules differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Image,
    /// An image that will never come by itself: no registry was asked.
    ImageForEver,
    Config,
    /// After a run that failed, or because a rule of the spec asks for a restart.
    Restart,
    /// A step of a start, an empty reason, or one that is not known.
    Other,
}

fn cause(pod: &Pod, view: &View<'_>) -> Option<Cause> {
    let reason = view.waits_for()?;
    Some(match reason {
        "ErrImagePull"
        | "ImagePullBackOff"
        | "ImageInspectError"
        | "RegistryUnavailable"
        | "SignatureValidationFailed" => Cause::Image,
        "InvalidImageName" | "ErrImageNeverPull" => Cause::ImageForEver,
        "CreateContainerConfigError"
        | "CreateContainerError"
        | "PreCreateHookError"
        | "PreStartHookError" => Cause::Config,
        // Of a Job no crash loop is told, so it is told here.
        "RunContainerError" | "PostStartHookError"
            if of_job(pod) || !restarts::is_crash_looping(view) =>
        {
            Cause::Config
        }
        "CrashLoopBackOff"
        | "RunContainerError"
        | "PostStartHookError"
        | "RestartingAllContainers" => Cause::Restart,
        _ => Cause::Other,
    })
}

pub(super) fn image_pull_failing(pod: &Pod, evaluation: &mut Evaluation<'_>) {
    for view in container::all(pod) {
        let r#for = match cause(pod, &view) {
            Some(Cause::Image) => evaluation.r#for(&IMAGE_PULL_FAILING),
            Some(Cause::ImageForEver) => Duration::ZERO,
            Some(Cause::Config | Cause::Restart | Cause::Other) | None => continue,
        };
        let summary = format!(
            "{} {} cannot pull its image: {}",
            view.role.as_str(),
            view.name(),
            Line(text::or(
                view.waiting_message(),
                view.waits_for().unwrap_or_default()
            )),
        );
        evaluation.push(waiting(&IMAGE_PULL_FAILING, &view, summary).after(r#for));
    }
    let because = "no container waits for an image that could not be pulled";
    evaluation.quiet_rest(&[&IMAGE_PULL_FAILING], because);
}

pub(super) fn config_error(pod: &Pod, evaluation: &mut Evaluation<'_>) {
    for view in container::all(pod) {
        if cause(pod, &view) != Some(Cause::Config) {
            continue;
        }
        let reason = view.waits_for().unwrap_or_default();
        let message = match reason {
            // May hold what the hook printed.
            "PostStartHookError" => "its postStart hook fails",
            _ => text::or(view.waiting_message(), reason),
        };
        let summary = format!(
            "{} {} cannot start: {}",
            view.role.as_str(),
            view.name(),
            Line(message)
        );
        evaluation.push(waiting(&CONFIG_ERROR, &view, summary));
    }
    let because = "no container waits because of its configuration";
    evaluation.quiet_rest(&[&CONFIG_ERROR], because);
}

pub(super) fn container_waiting(pod: &Pod, evaluation: &mut Evaluation<'_>) {
    if pod.spec.node_name.is_empty() {
        evaluation.quiet(&CONTAINER_WAITING, "it was not given to a node yet");
        return;
    }
    let sandbox = condition(pod, SANDBOX);
    match sandbox {
        Some(sandbox) if !sandbox.is_true() => no_sandbox(pod, sandbox, evaluation),
        None if container::all(pod).next().is_none() => not_seen_by_kubelet(pod, evaluation),
        known => {
            let r#for = known.map_or(&FOR_UNKNOWN_STEP, |_| &FOR_SLOW_PULL);
            let r#for = evaluation.duration(&CONTAINER_WAITING, r#for);
            // While an init container holds up the others, they have nothing to tell.
            let holding_up = container::holding_up(pod);
            let others = container::all(pod).filter(|_| holding_up.is_none());
            for view in holding_up.into_iter().chain(others) {
                if cause(pod, &view) == Some(Cause::Other) {
                    let mut summary =
                        format!("{} {} does not start", view.role.as_str(), view.name());
                    push_message(&mut summary, view.waiting_message());
                    push(&mut summary, format_args!(" (node {})", pod.spec.node_name));
                    evaluation.push(waiting(&CONTAINER_WAITING, &view, summary).after(r#for));
                }
            }
        }
    }
    let because = "no container waits without a failure that other rules tell";
    evaluation.quiet_rest(&[&CONTAINER_WAITING], because);
}

/// One finding for the pod: its containers all wait for the same.
fn no_sandbox(pod: &Pod, sandbox: &Condition, evaluation: &mut Evaluation<'_>) {
    let Some(view) = container::all(pod).find(|view| cause(pod, view) == Some(Cause::Other)) else {
        return;
    };
    // The later of the two: after a reboot of the node the sandbox is made anew, long after the pod was scheduled.
    let waits = true_since(pod, "PodScheduled").max(sandbox.last_transition_time);
    let mut summary = format!(
        "no container starts: volumes or network are not ready on node {}",
        pod.spec.node_name
    );
    push_message(
        &mut summary,
        text::or(view.waiting_message(), &sandbox.message),
    );
    evaluation.push(Finding::new(
        &CONTAINER_WAITING,
        text::or(view.waits_for().unwrap_or_default(), "Waiting"),
        since(waits.or(pod.status.start_time)),
        summary,
    ));
}

/// A pod that was given to a node, and whose kubelet has said nothing of it.
fn not_seen_by_kubelet(pod: &Pod, evaluation: &mut Evaluation<'_>) {
    if &*pod.status.phase != "Pending" {
        let because = "its kubelet has taken it, and tells of no container";
        evaluation.quiet(&CONTAINER_WAITING, because);
        return;
    }
    let waits = true_since(pod, "PodScheduled").or(pod.metadata.creation_timestamp);
    let summary = format!(
        "no container starts: the kubelet of node {} has not taken the pod",
        pod.spec.node_name
    );
    let reason = "NotSeenByKubelet";
    let finding = Finding::new(&CONTAINER_WAITING, reason, since(waits), summary);
    let r#for = evaluation.duration(&CONTAINER_WAITING, &FOR_UNKNOWN_STEP);
    evaluation.push(finding.after(r#for));
}

fn waiting(rule: &'static Rule, view: &View<'_>, summary: String) -> Finding {
    let reason = text::or(view.waits_for().unwrap_or_default(), "Waiting");
    Finding::new(rule, reason, since(view.wait_since()), summary).about("container", view.name())
}

fn push_message(summary: &mut String, message: &str) {
    if !message.is_empty() {
        push(summary, format_args!(": {}", Line(message)));
    }
}
