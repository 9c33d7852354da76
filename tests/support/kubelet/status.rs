//! What the kubelet tells the API about a pod.

use std::{os::unix::process::ExitStatusExt as _, process::ExitStatus, time::Duration};

use k8s_openapi::api::core::v1 as api;
use serde_json::{Value, json};

use crate::support::objects::ago;

/// The address of all pods.
pub(super) const ADDRESS: &str = "127.0.0.1";

/// What there is to tell of a pod, with the times at which it became so.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// When the kubelet took the pod.
    pub(super) taken: String,
    pub(super) state: State,
    /// How the run before the current one ended.
    pub(super) last: Option<End>,
    pub(super) restarts: i32,
    pub(super) ready: bool,
    /// When that became so.
    pub(super) ready_changed: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// For this reason.
    Waiting(&'static str, String),
    /// Since then.
    Running(String),
}

impl Default for State {
    fn default() -> Self {
        Self::Waiting("ContainerCreating", String::new())
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct End {
    exit_code: i32,
    started: String,
    finished: String,
}

impl End {
    /// A run that has just ended.
    pub(super) fn new(status: ExitStatus, started: String) -> Self {
        Self {
            // As a shell says it, and container runtimes.
            exit_code: status
                .code()
                .unwrap_or_else(|| 128 + status.signal().unwrap_or_default()),
            started,
            finished: now(),
        }
    }
}

pub(super) fn now() -> String {
    ago(Duration::ZERO)
}

/// The status of a pod, as a merge patch that counts for this very pod only.
pub(super) fn patch(pod: &api::Pod, facts: &Facts) -> Value {
    let Facts {
        taken,
        state,
        last,
        restarts,
        ready,
        ready_changed,
    } = facts;
    let condition = |name: &str, status: bool, since: &str| {
        let status = if status { "True" } else { "False" };
        json!({ "type": name, "status": status, "lastTransitionTime": since })
    };
    let container = &pod.spec.as_ref().unwrap().containers[0];
    let mut status = json!({
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "ready": ready,
        "started": matches!(state, State::Running(_)),
        "restartCount": restarts,
        "state": match state {
            State::Waiting(reason, message) => {
                json!({ "waiting": { "reason": reason, "message": message } })
            }
            State::Running(since) => json!({ "running": { "startedAt": since } }),
        },
    });
    if let Some(End {
        exit_code,
        started,
        finished,
    }) = last
    {
        status["lastState"] = json!({ "terminated": {
            "exitCode": exit_code,
            "reason": if *exit_code == 0 { "Completed" } else { "Error" },
            "startedAt": started,
            "finishedAt": finished,
        }});
    }
    let has_run = last.is_some() || matches!(state, State::Running(_));
    json!({
        "metadata": { "uid": pod.metadata.uid },
        "status": {
            "phase": if has_run { "Running" } else { "Pending" },
            "podIP": ADDRESS,
            "podIPs": [{ "ip": ADDRESS }],
            "startTime": taken,
            "conditions": [
                condition("PodScheduled", true, taken),
                condition("PodReadyToStartContainers", true, taken),
                condition("Initialized", true, taken),
                condition("ContainersReady", *ready, ready_changed),
                condition("Ready", *ready, ready_changed),
            ],
            "containerStatuses": [status],
        },
    })
}
