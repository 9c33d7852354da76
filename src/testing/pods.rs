//! What becomes of pods, for tests that draw histories.

use jiff::Timestamp;
use proptest::prelude::*;

use super::{at, mk_condition, mk_pod, mk_running, mk_terminated};
use crate::cluster::{ContainerStatus, Owner, Pod};

/// What a pod can look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    Healthy,
    CrashLooping,
    Restarted,
    Ended,
    NotReady,
    ErrImagePull,
    ImagePullBackOff,
    Unschedulable,
    OomKilled,
    Evicted,
    OverItsLimit,
    Terminating,
    Gone,
}

/// Any of them.
pub fn any_look() -> impl Strategy<Value = Look> {
    prop_oneof![
        3 => Just(Look::Healthy),
        4 => Just(Look::CrashLooping),
        3 => Just(Look::Restarted),
        1 => Just(Look::Ended),
        3 => Just(Look::NotReady),
        1 => Just(Look::ErrImagePull),
        1 => Just(Look::ImagePullBackOff),
        1 => Just(Look::Unschedulable),
        1 => Just(Look::OomKilled),
        3 => Just(Look::Evicted),
        1 => Just(Look::OverItsLimit),
        1 => Just(Look::Terminating),
        2 => Just(Look::Gone),
    ]
}

/// A pod of the model. As in a cluster, one of the same UID keeps its container's name, and does not forget how often that was restarted, and when it was
/// last: from that the rules tell since when it is well.
#[derive(Debug, Clone)]
pub struct Slot {
    pub pod: Option<Pod>,
    pub life: u32,
    pub owner: usize,
    pub restarts: i32,
    pub unready: Option<Timestamp>,
    /// Whether its container has the other name.
    container: bool,
    /// The container, as it has run since its last restart; `None` before the first.
    restarted: Option<ContainerStatus>,
}

impl Slot {
    /// A healthy one.
    pub fn new(index: usize) -> Self {
        let mut slot = Self {
            pod: None,
            life: 0,
            owner: index % 3,
            restarts: 0,
            unready: None,
            container: false,
            restarted: None,
        };
        slot.turn(Look::Healthy, false, index, at(0));
        slot
    }

    /// It looks like this from now on. `container`: whether the container of a new one has the other name.
    pub fn turn(&mut self, look: Look, container: bool, slot: usize, now: Timestamp) {
        if self.pod.as_ref().is_none_or(|pod| {
            let deleted = pod.metadata.deletion_timestamp.is_some();
            deleted && look != Look::Terminating || &*pod.status.phase == "Failed"
        }) {
            // Nobody comes back to life, and a deletion cannot be undone.
            self.life += 1;
            self.restarts = 0;
            self.restarted = None;
            self.container = container;
        }
        let ran = self.pod.as_ref().is_none_or(|pod| {
            let status = pod.status.container_statuses.first();
            status.is_some_and(|status| status.state.running.is_some())
        });
        self.restarts += 1;
        if !matches!(
            look,
            Look::NotReady | Look::CrashLooping | Look::ErrImagePull | Look::ImagePullBackOff
        ) {
            self.unready = None;
        }
        let base = mk_pod(&format!("pod-{slot}")).with_uid(&format!("uid-{slot}-{}", self.life));
        let mut unready = || *self.unready.get_or_insert(now);
        let mut pod = match look {
            Look::Healthy => base,
            Look::CrashLooping => base
                .crash_looping(now, 40, self.restarts)
                .not_ready(unready()),
            Look::Restarted => base.restarted(now, self.restarts),
            Look::Ended => {
                let mut pod = base.restarted(now, self.restarts);
                pod.status.container_statuses[0].state = mk_terminated("Error", 1, now);
                pod
            }
            Look::NotReady => base.not_ready(unready()),
            Look::ErrImagePull => base.image_failing("ErrImagePull", unready()),
            Look::ImagePullBackOff => base.image_failing("ImagePullBackOff", unready()),
            Look::Unschedulable => {
                let mut pod = base;
                pod.spec.node_name = "".into();
                pod.status.phase = "Pending".into();
                pod.status.container_statuses.clear();
                pod.status.conditions =
                    vec![mk_condition("PodScheduled", "False", "Unschedulable", now)];
                pod
            }
            Look::OomKilled => base.oom_killed(now),
            Look::Evicted => base.evicted(now),
            Look::OverItsLimit => {
                let mut pod = base.evicted(now);
                pod.status.message = "Pod ephemeral local storage usage exceeds its limit".into();
                pod.status.conditions.pop();
                pod.status.start_time = Some(now);
                pod
            }
            Look::Terminating => base.terminating(now),
            Look::Gone => {
                self.pod = None;
                return;
            }
        };
        if let Some(status) = pod.status.container_statuses.first_mut() {
            self.go_on(look, status, ran, now);
        }
        if self.container {
            pod.spec.containers[0].name = "proxy".into();
            if let Some(status) = pod.status.container_statuses.first_mut() {
                status.name = "proxy".into();
            }
        }
        pod.metadata.owner = match self.owner {
            0 => pod.metadata.owner,
            1 => None,
            _ => Some(Owner {
                api_version: "apps/v1".into(),
                kind: "StatefulSet".into(),
                name: "db".into(),
            }),
        };
        self.pod = Some(pod);
    }

    /// The container as it looks now, with what it does not forget. `ran`: whether it was running so far.
    fn go_on(&mut self, look: Look, status: &mut ContainerStatus, ran: bool, now: Timestamp) {
        match look {
            Look::Healthy | Look::NotReady | Look::Terminating => {
                if let Some(restarted) = &mut self.restarted {
                    if !ran {
                        restarted.state = mk_running(now);
                        restarted.restart_count = self.restarts;
                    }
                    *status = ContainerStatus {
                        ready: status.ready,
                        ..restarted.clone()
                    };
                }
            }
            Look::CrashLooping | Look::Restarted | Look::Ended | Look::OomKilled => {
                status.restart_count = self.restarts;
                self.restarted = Some(status.clone());
            }
            Look::ErrImagePull
            | Look::ImagePullBackOff
            | Look::Unschedulable
            | Look::Evicted
            | Look::OverItsLimit
            | Look::Gone => {}
        }
    }
}
