//! Builders for tests: healthy by default, with the fault as the only difference.

#![expect(
    clippy::return_self_not_must_use,
    reason = "a builder whose result is dropped does not compile into a useful test"
)]

mod api;
mod logs;
mod objects;
mod pods;

pub use api::scripted;
use jiff::Timestamp;
pub use logs::{Captured, capture};
pub use objects::Objects;
pub use pods::{Look, Slot, any_look};

use crate::{
    alert::Severity,
    cluster::{
        Condition, Container, ContainerState, ContainerStatus, KindId, Meta, Object, Owner, Pod,
        PodSpec, PodStatus, Running, Terminated, Waiting,
    },
    rules::Rule,
};

/// The time at which the stories of the tests begin.
pub const START: Timestamp = Timestamp::constant(1_790_000_000, 0);

/// A rule, for tests to which it does not matter which.
pub static RULE: Rule = Rule {
    name: "KubePodCrashLooping",
    kind: KindId::Pod,
    severity: Severity::Warning,
    r#for: std::time::Duration::ZERO,
    hold: std::time::Duration::ZERO,
    description: "A container crashes again and again.",
    ..Rule::DEFAULTS
};

/// `START` and some seconds.
pub fn at(seconds: i64) -> Timestamp {
    START + jiff::SignedDuration::from_secs(seconds)
}

/// A healthy pod of the Deployment `shop/web`, with one container `app`, made and ready an hour before `START`.
pub fn mk_pod(name: &str) -> Pod {
    let made = at(-3600);
    Pod {
        metadata: Meta {
            namespace: "shop".into(),
            name: name.into(),
            uid: format!("uid-{name}").into(),
            creation_timestamp: Some(made),
            owner: Some(Owner {
                api_version: "apps/v1".into(),
                kind: "ReplicaSet".into(),
                name: "web-5d4f8c7b9d".into(),
            }),
            pod_template_hash: Some("5d4f8c7b9d".into()),
            ..Meta::default()
        },
        spec: PodSpec {
            node_name: "node-1".into(),
            containers: vec![Container {
                name: "app".into(),
                ..Container::default()
            }],
            ..PodSpec::default()
        },
        status: PodStatus {
            phase: "Running".into(),
            start_time: Some(made),
            conditions: [
                "PodReadyToStartContainers",
                "Initialized",
                "Ready",
                "ContainersReady",
                "PodScheduled",
            ]
            .into_iter()
            .map(|r#type| mk_condition(r#type, "True", "", made))
            .collect(),
            container_statuses: vec![ContainerStatus {
                name: "app".into(),
                ready: true,
                started: Some(true),
                state: mk_running(made),
                ..ContainerStatus::default()
            }],
            ..PodStatus::default()
        },
    }
}

/// A condition.
pub fn mk_condition(r#type: &str, status: &str, reason: &str, since: Timestamp) -> Condition {
    Condition {
        r#type: r#type.into(),
        status: status.into(),
        reason: reason.into(),
        message: "".into(),
        last_transition_time: Some(since),
        last_update_time: None,
    }
}

/// A container that runs.
pub fn mk_running(since: Timestamp) -> ContainerState {
    ContainerState {
        running: Some(Running {
            started_at: Some(since),
        }),
        ..ContainerState::default()
    }
}

/// A container that waits.
pub fn mk_waiting(reason: &str, message: &str) -> ContainerState {
    ContainerState {
        waiting: Some(Waiting {
            reason: reason.into(),
            message: message.into(),
        }),
        ..ContainerState::default()
    }
}

/// A container that has ended.
pub fn mk_terminated(reason: &str, exit_code: i32, finished_at: Timestamp) -> ContainerState {
    ContainerState {
        terminated: Some(Terminated {
            exit_code,
            reason: reason.into(),
            started_at: Some(finished_at),
            finished_at: Some(finished_at),
            ..Terminated::default()
        }),
        ..ContainerState::default()
    }
}

/// What can be said of a pod, one fault at a time.
impl Pod {
    fn app(&mut self) -> &mut ContainerStatus {
        &mut self.status.container_statuses[0]
    }

    /// With another UID: a pod of the same name, made anew.
    pub fn with_uid(mut self, uid: &str) -> Self {
        self.metadata.uid = uid.into();
        self
    }

    /// Not ready since then.
    pub fn not_ready(mut self, since: Timestamp) -> Self {
        self.app().ready = false;
        self.status.conditions[2] = mk_condition("Ready", "False", "ContainersNotReady", since);
        self
    }

    /// Waiting in a back-off of `seconds`, after a crash at that time.
    pub fn crash_looping(mut self, crashed: Timestamp, seconds: u32, restarts: i32) -> Self {
        let app = self.app();
        app.state = mk_waiting(
            "CrashLoopBackOff",
            &format!("back-off {seconds}s restarting failed container=app pod=web_shop(uid)"),
        );
        app.last_state = mk_terminated("Error", 1, crashed);
        app.restart_count = restarts;
        self.not_ready(crashed)
    }

    /// Running again since then, after a crash and a back-off of 20 s.
    pub fn restarted(mut self, since: Timestamp, restarts: i32) -> Self {
        let app = self.app();
        app.state = mk_running(since);
        app.last_state = mk_terminated("Error", 1, since - jiff::SignedDuration::from_secs(20));
        app.restart_count = restarts;
        self.status.conditions[2] = mk_condition("Ready", "True", "", since);
        self
    }

    /// The run that ended last began then.
    pub fn ran_since(mut self, started: Timestamp) -> Self {
        if let Some(end) = &mut self.app().last_state.terminated {
            end.started_at = Some(started);
        }
        self
    }

    /// Running again after the kernel killed it at that time.
    pub fn oom_killed(mut self, killed: Timestamp) -> Self {
        let app = self.app();
        app.state = mk_running(killed);
        app.last_state = mk_terminated("OOMKilled", 137, killed);
        app.restart_count = 1;
        self
    }

    /// Pending, because the image cannot be pulled, for this reason.
    pub fn image_failing(mut self, reason: &str, since: Timestamp) -> Self {
        self.status.phase = "Pending".into();
        self.status.start_time = Some(since);
        self.status.conditions[0] = mk_condition("PodReadyToStartContainers", "True", "", since);
        self.status.conditions[1] = mk_condition("Initialized", "True", "", since);
        self.app().state = mk_waiting(reason, "Back-off pulling image \"shop/web:nope\"");
        self.app().started = Some(false);
        self.not_ready(since)
    }

    /// Evicted under node pressure at that time.
    pub fn evicted(mut self, when: Timestamp) -> Self {
        self.status.phase = "Failed".into();
        self.status.reason = "Evicted".into();
        self.status.message = "The node was low on resource: memory.".into();
        self.status.container_statuses.clear();
        self.status.conditions.push(mk_condition(
            "DisruptionTarget",
            "True",
            "TerminationByKubelet",
            when,
        ));
        self
    }

    /// Being deleted; its grace period ends then.
    pub fn terminating(mut self, until: Timestamp) -> Self {
        self.metadata.deletion_timestamp = Some(until);
        self
    }

    /// As an object of any kind.
    pub fn object(self) -> Object {
        self.into()
    }
}
