//! Pods that run, and are not ready.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    condition,
    container::{self, Role, View},
    minutes, of_job, since,
    text::{self, LISTED, Line, push},
};
use crate::{
    alert::Severity,
    cluster::{KindId, Pod},
    rules::{Evaluation, Finding, Rule, probes},
};

/// An init container does not end.
pub(super) static INIT_STUCK: Rule = Rule {
    name: "KubePodInitStuck",
    kind: KindId::Pod,
    severity: Severity::Warning,
    r#for: minutes(15),
    description: "An init container runs and does not end, so the main containers never start.",
    ..Rule::DEFAULTS
};

/// A pod runs and is not ready.
pub(super) static NOT_READY: Rule = Rule {
    name: "KubePodNotReady",
    kind: KindId::Pod,
    severity: Severity::Warning,
    r#for: minutes(5),
    hold: minutes(2),
    description: "A pod runs and is not ready for longer than its probes allow for.",
    ..Rule::DEFAULTS
};

pub(super) fn init_stuck(pod: &Pod, evaluation: &mut Evaluation<'_>) {
    let Some(initialized) =
        condition(pod, "Initialized").filter(|initialized| &*initialized.status == "False")
    else {
        let because = "nothing says that its init containers are not through";
        evaluation.quiet(&INIT_STUCK, because);
        return;
    };
    for view in container::init(pod).filter(|view| view.role == Role::Init) {
        let Some(running) = &view.status.state.running else {
            continue;
        };
        let summary = format!(
            "init container {} still runs, and the main containers wait for it",
            view.name()
        );
        let reason = text::or(&initialized.reason, "ContainersNotInitialized");
        evaluation.push(
            Finding::new(&INIT_STUCK, reason, since(running.started_at), summary)
                .about("container", view.name()),
        );
    }
    evaluation.quiet_rest(&[&INIT_STUCK], "no init container runs");
}

pub(super) fn not_ready(pod: &Pod, evaluation: &mut Evaluation<'_>) {
    if &*pod.status.phase != "Running" {
        let because = format_args!("its phase is {}, not Running", Line(&pod.status.phase));
        evaluation.quiet(&NOT_READY, because);
        return;
    }
    let Some(ready) = condition(pod, "Ready").filter(|ready| &*ready.status == "False") else {
        evaluation.quiet(&NOT_READY, "nothing says that it is not ready");
        return;
    };
    let by_containers = &*ready.reason == "ContainersNotReady";
    if matches!(&*ready.reason, "PodCompleted" | "PodFailed") {
        evaluation.quiet(&NOT_READY, "its containers have ended");
        return;
    }
    if of_job(pod) {
        let because = "a Job runs the pod, which need not be ready but come to its end";
        evaluation.quiet(&NOT_READY, because);
        return;
    }
    if by_containers && unready(pod).next().is_none() {
        evaluation.quiet(
            &NOT_READY,
            "all of its containers that are not ready have done their work",
        );
        return;
    }
    let allowance = unready(pod)
        .map(|view| startup_allowance(&view, ready.last_transition_time))
        .max()
        .unwrap_or_default();
    let mut summary = String::from("not ready");
    if by_containers {
        for (position, view) in unready(pod).take(LISTED).enumerate() {
            let separator = if position == 0 { ": " } else { ", " };
            push(
                &mut summary,
                format_args!("{separator}{} {} ", view.role.as_str(), view.name()),
            );
            push(&mut summary, format_args!("({})", Line(state(&view))));
        }
        if unready(pod).count() > LISTED {
            summary.push_str(", ...");
        }
    } else if ready.reason.is_empty() && ready.message.is_empty() {
        // The node controller sets the status alone.
        summary.push_str(", and its kubelet does not say why: the node may be down");
    } else {
        let message = Line(text::or(&ready.message, &ready.reason));
        push(&mut summary, format_args!(": {message}"));
    }
    let finding = Finding::new(
        &NOT_READY,
        text::or(&ready.reason, "NotReady"),
        since(ready.last_transition_time),
        summary,
    );
    let r#for = evaluation.r#for(&NOT_READY).saturating_add(allowance);
    evaluation.push(finding.after(r#for));
}

/// The containers that should be ready, and are not.
fn unready(pod: &Pod) -> impl Iterator<Item = View<'_>> {
    container::all(pod)
        .filter(|view| view.role != Role::Init && !view.status.ready && !view.is_done())
}

/// Why the container is not ready, in a word or two.
fn state<'a>(view: &View<'a>) -> &'a str {
    let state = &view.status.state;
    match (view.waits_for(), &state.terminated) {
        (Some(reason), _) => text::or(reason, "waiting"),
        (None, Some(end)) => text::or(&end.reason, "terminated"),
        (None, None) if view.status.started == Some(false) => "starting up",
        (None, None) => "readiness probe fails",
    }
}

/// How much time its probes give the container to become ready. The startup probe's time counts until the container was ready once in this
/// run, not only until the probe passes: readiness takes a moment more, and must not page in it.
fn startup_allowance(view: &View<'_>, unready_since: Option<Timestamp>) -> Duration {
    let starting = view.status.started != Some(true)
        || match (view.started_at(), unready_since) {
            (Some(started), Some(unready)) => unready <= started,
            _ => false,
        };
    view.spec
        .map_or(Duration::ZERO, |spec| probes::allowance(spec, starting))
}
