//! A container of a pod: what the spec asks of it, next to how it is.

use jiff::Timestamp;

use super::true_since;
use crate::cluster::{Container, ContainerStatus, Pod, RestartRule, Terminated};

/// What a container is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Runs to its end before the next one starts.
    Init,
    /// A native sidecar: an init container that goes on running. It is judged like a main container.
    Sidecar,
    /// A main container.
    Main,
}

impl Role {
    /// The role in words, for summaries.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Init => "init container",
            Self::Sidecar => "sidecar",
            Self::Main => "container",
        }
    }
}

/// A container that has a status.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    pod: &'a Pod,
    pub(super) role: Role,
    /// Missing only if spec and status disagree.
    pub(super) spec: Option<&'a Container>,
    pub(super) status: &'a ContainerStatus,
}

/// The containers that have a status, init containers first. Ephemeral containers are people's, and are not looked at.
pub(super) fn all(pod: &Pod) -> impl Iterator<Item = View<'_>> {
    init(pod).chain(main(pod))
}

/// The init containers and native sidecars that have a status, in the order in which they start.
pub(super) fn init(pod: &Pod) -> impl Iterator<Item = View<'_>> {
    pod.status.init_container_statuses.iter().map(|status| {
        let spec = named(&pod.spec.init_containers, &status.name);
        // Any other policy of its own makes no sidecar.
        let sidecar = spec.is_some_and(|spec| spec.restart_policy.as_deref() == Some("Always"));
        View {
            pod,
            role: if sidecar { Role::Sidecar } else { Role::Init },
            spec,
            status,
        }
    })
}

/// The main containers that have a status.
pub(super) fn main(pod: &Pod) -> impl Iterator<Item = View<'_>> {
    pod.status.container_statuses.iter().map(|status| View {
        pod,
        role: Role::Main,
        spec: named(&pod.spec.containers, &status.name),
        status,
    })
}

/// The init container or sidecar for which all the later ones and the main containers still wait.
pub(super) fn holding_up(pod: &Pod) -> Option<View<'_>> {
    if super::condition(pod, "Initialized").is_some_and(crate::cluster::Condition::is_true) {
        return None;
    }
    init(pod).find(|view| match view.role {
        Role::Init => !view.is_done(),
        Role::Sidecar | Role::Main => view.status.started != Some(true),
    })
}

fn named<'a>(containers: &'a [Container], name: &str) -> Option<&'a Container> {
    containers.iter().find(|container| &*container.name == name)
}

impl<'a> View<'a> {
    pub(super) fn name(&self) -> &'a str {
        &self.status.name
    }

    /// The reason for which it waits, empty if it tells none; nothing if it does not wait.
    pub(super) fn waits_for(&self) -> Option<&'a str> {
        let state = &self.status.state;
        match &state.waiting {
            Some(waiting) => Some(&waiting.reason),
            // No state at all means waiting, says the API.
            None if state.running.is_none() && state.terminated.is_none() => Some(""),
            None => None,
        }
    }

    /// The words that go with [`View::waits_for`].
    pub(super) fn waiting_message(&self) -> &'a str {
        self.status
            .state
            .waiting
            .as_ref()
            .map_or("", |waiting| &waiting.message)
    }

    /// How its previous run ended.
    pub(super) fn last(&self) -> Option<&'a Terminated> {
        self.status.last_state.terminated.as_ref()
    }

    /// When its current run began, also if that has ended by now.
    pub(super) fn started_at(&self) -> Option<Timestamp> {
        let state = &self.status.state;
        match (&state.running, &state.terminated) {
            (Some(running), _) => running.started_at,
            (None, Some(terminated)) => terminated.started_at,
            (None, None) => None,
        }
    }

    /// Whether it ended well and will not run again.
    pub(super) fn is_done(&self) -> bool {
        self.status
            .state
            .terminated
            .as_ref()
            .is_some_and(|end| end.exit_code == 0 && !self.restarts_after(0))
    }

    /// Whether the kubelet runs it again after this exit code: a matching rule says so, else its own policy, else the pod's.
    fn restarts_after(&self, exit_code: i32) -> bool {
        let rules = self.spec.map_or(&[][..], |spec| &spec.restart_policy_rules);
        if rules.iter().any(|rule| matches(rule, exit_code)) {
            return true;
        }
        let own = self.spec.and_then(|spec| spec.restart_policy.as_deref());
        match own.unwrap_or(&self.pod.spec.restart_policy) {
            "Never" => false,
            "OnFailure" => exit_code != 0,
            // A regular init container has done its work when it ends well, whatever the pod's policy.
            _ => exit_code != 0 || self.role != Role::Init,
        }
    }

    /// The latest time from which it can have waited as it does now. A waiting state carries no time of its own, but the steps before it
    /// do. It is early by the length of a pull that came before, if that left no trace.
    pub(super) fn wait_since(&self) -> Option<Timestamp> {
        let pod = self.pod;
        let initialized = match self.role {
            Role::Main => true_since(pod, "Initialized"),
            Role::Init | Role::Sidecar => None,
        };
        [
            self.last().and_then(|last| last.finished_at),
            true_since(pod, "PodReadyToStartContainers"),
            initialized,
            pod.status.start_time,
            self.predecessors_since(),
        ]
        .into_iter()
        .flatten()
        .max()
    }

    /// When the containers before it were through: the kubelet starts them one after the other, pulling each image in its turn.
    /// Those that were restarted tell nothing about the first start.
    fn predecessors_since(&self) -> Option<Timestamp> {
        let siblings = match self.role {
            Role::Main => &self.pod.status.container_statuses,
            Role::Init | Role::Sidecar => &self.pod.status.init_container_statuses,
        };
        if self.status.restart_count != 0 {
            return None;
        }
        siblings
            .iter()
            .take_while(|sibling| sibling.name != self.status.name)
            .filter(|sibling| sibling.restart_count == 0)
            .filter_map(
                |sibling| match (&sibling.state.running, &sibling.state.terminated) {
                    (Some(running), _) => running.started_at,
                    (None, Some(end)) => end.finished_at,
                    (None, None) => None,
                },
            )
            .max()
    }
}

fn matches(rule: &RestartRule, exit_code: i32) -> bool {
    let listed = rule.values.contains(&exit_code);
    match &*rule.operator {
        "In" => listed,
        "NotIn" => !listed,
        _ => false,
    }
}
