//! What becomes of pods, for tests that draw histories.

use jiff::Timestamp;
use proptest::prelude::*;

use super::{at, mk_condition, mk_pod, mk_terminated};
use crate::cluster::{Owner, Pod};

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

/// A pod of the model.
#[derive(Debug, Clone)]
pub struct Slot {
    pub pod: Option<Pod>,
    pub life: u32,
    pub owner: usize,
    pub restarts: i32,
    pub unready: Option<Timestamp>,
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
        };
        slot.turn(Look::Healthy, false, index, at(0));
        slot
    }

    /// It looks like this from now on.
    pub fn turn(&mut self, look: Look, container: bool, slot: usize, now: Timestamp) {
        if self.pod.is_none() || matches!(&self.pod, Some(pod) if &*pod.status.phase == "Failed") {
            // Nobody comes back to life.
            self.life += 1;
            self.restarts = 0;
        }
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
        if container {
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
}
