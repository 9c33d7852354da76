//! The status of a pod, as its kubelet would write it.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    super::json::time,
    AGENT_IMAGE, INIT, PodBuilder, State, hash,
    template::{condition, container_status},
    uid,
};

/// How the main container stands.
struct App {
    /// The phase of the pod.
    phase: &'static str,
    state: Value,
    last_state: Value,
    restarts: u32,
    ready: bool,
    /// Since when it has been ready, or not.
    since: Timestamp,
}

impl PodBuilder {
    pub(super) fn status(&self) -> Value {
        let Some(app) = self.app() else {
            let mut condition = condition("PodScheduled", "False", self.created);
            condition["reason"] = "Unschedulable".into();
            condition["message"] = "0/5 nodes are available: 5 Insufficient cpu. preemption: 0/5 nodes are available: 5 No preemption victims found for incoming pod.".into();
            return json!({"phase": "Pending", "qosClass": "Burstable", "conditions": [condition]});
        };
        let nothing = json!({});
        let done = app.phase == "Succeeded";
        let agent = if done {
            self.ended(0, "Completed", after(self.created, 4), app.since)
        } else if matches!(self.state, State::InitStuck(_)) {
            app.state.clone()
        } else {
            running(after(self.created, 4))
        };
        let (image, agent_image) = (&self.image, AGENT_IMAGE);
        let mut status = json!({
            "phase": app.phase,
            "qosClass": "Burstable",
            "hostIP": "10.20.0.17",
            "hostIPs": [{"ip": "10.20.0.17"}],
            "podIP": "10.244.3.58",
            "podIPs": [{"ip": "10.244.3.58"}],
            "startTime": time(self.created),
            "conditions": self.conditions(&app),
            "containerStatuses": [
                container_status("app", image, &app.state, &app.last_state, app.restarts, app.ready),
                container_status("log-agent", agent_image, &agent, &nothing, 0, !done),
            ],
        });
        if let State::InitStuck(since) = self.state {
            let init = container_status(INIT, image, &running(since), &nothing, 0, false);
            status["initContainerStatuses"] = json!([init]);
        }
        status
    }

    fn conditions(&self, app: &App) -> Vec<Value> {
        let done = app.phase == "Succeeded";
        let sandbox = if done {
            ("False", app.since)
        } else {
            ("True", after(self.created, 2))
        };
        let ready = |kind| {
            let mut condition =
                condition(kind, if app.ready { "True" } else { "False" }, app.since);
            if done {
                condition["reason"] = "PodCompleted".into();
            } else if !app.ready {
                condition["reason"] = "ContainersNotReady".into();
                condition["message"] = "containers with unready status: [app]".into();
            }
            condition
        };
        let initialized = if let State::InitStuck(since) = self.state {
            let mut condition = condition("Initialized", "False", since);
            condition["reason"] = "ContainersNotInitialized".into();
            condition["message"] = format!("containers with incomplete status: [{INIT}]").into();
            condition
        } else {
            condition("Initialized", "True", after(self.created, 3))
        };
        vec![
            condition("PodReadyToStartContainers", sandbox.0, sandbox.1),
            initialized,
            ready("Ready"),
            ready("ContainersReady"),
            condition("PodScheduled", "True", self.created),
        ]
    }

    /// None if the pod is on no node yet.
    fn app(&self) -> Option<App> {
        let started = after(self.created, 4);
        let healthy = App {
            phase: "Running",
            state: running(started),
            last_state: json!({}),
            restarts: 0,
            ready: true,
            since: after(started, 10),
        };
        Some(match self.state {
            State::Unschedulable => return None,
            State::Running => healthy,
            State::NotReady(since) => App {
                ready: false,
                since,
                ..healthy
            },
            State::CrashLooping(exit, restarts) => App {
                state: waiting(
                    "CrashLoopBackOff",
                    &format!(
                        "back-off {} restarting failed container=app pod={}_{}({})",
                        back_off(restarts),
                        self.name,
                        self.namespace,
                        uid(&[&self.namespace, "Pod", &self.name]),
                    ),
                ),
                last_state: self.ended(1, "Error", before(exit, 2), exit),
                restarts,
                ready: false,
                since: exit,
                ..healthy
            },
            State::OomKilled(at, restarts) => App {
                state: running(after(at, 1)),
                last_state: self.ended(137, "OOMKilled", started.min(at), at),
                restarts,
                since: after(at, 11),
                ..healthy
            },
            State::Recovered(since, restarts) => {
                let exit = before(since, 40);
                App {
                    state: running(since),
                    last_state: self.ended(1, "Error", before(exit, 2), exit),
                    restarts,
                    since: after(since, 10),
                    ..healthy
                }
            }
            State::ImagePullBackOff => {
                let image = &self.image;
                App {
                    phase: "Pending",
                    state: waiting(
                        "ImagePullBackOff",
                        &format!(
                            "Back-off pulling image \"{image}\": ErrImagePull: failed to pull and unpack image \"{image}\": failed to resolve reference \"{image}\": {image}: not found",
                        ),
                    ),
                    ready: false,
                    since: self.created,
                    ..healthy
                }
            }
            State::InitStuck(since) => App {
                phase: "Pending",
                state: waiting("PodInitializing", ""),
                ready: false,
                since,
                ..healthy
            },
            State::Completed(at) => App {
                phase: "Succeeded",
                state: self.ended(0, "Completed", started.min(at), at),
                ready: false,
                since: at,
                ..healthy
            },
        })
    }

    fn ended(&self, code: u8, reason: &str, from: Timestamp, to: Timestamp) -> Value {
        let id = hash(&[&self.namespace, &self.name, reason]).repeat(4);
        json!({"terminated": {
            "containerID": format!("containerd://{id}"),
            "exitCode": code,
            "reason": reason,
            "startedAt": time(from),
            "finishedAt": time(to),
        }})
    }
}

fn running(since: Timestamp) -> Value {
    json!({"running": {"startedAt": time(since)}})
}

fn waiting(reason: &str, message: &str) -> Value {
    json!({"waiting": {"reason": reason, "message": message}})
}

/// The kubelet's back-off after so many restarts, as Go prints durations.
fn back_off(restarts: u32) -> String {
    let doublings = restarts.saturating_sub(1).min(5);
    let seconds = (10_u64 << doublings).min(300);
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}

fn after(time: Timestamp, seconds: u64) -> Timestamp {
    crate::time::after(time, Duration::from_secs(seconds))
}

fn before(time: Timestamp, seconds: u64) -> Timestamp {
    crate::time::before(time, Duration::from_secs(seconds))
}
