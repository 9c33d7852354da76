//! Replicas with all that they have of the program but its I/O, which a test carries out in simulated time.

use std::collections::BTreeMap;

use futures::FutureExt as _;

use super::super::*;
use crate::{
    cluster::Pod,
    coordinator::Coordinator,
    custody::Keeper,
    notify::{Late, Message, Outbox, Reference, SendError},
    shard::ownership::{Answer, Holder, Shard, Timing},
    state::{Records, Remembered},
    testing::{Objects, START},
};

/// How long an attempt to send may take.
const LIMIT: Duration = Duration::from_secs(10);

/// How often a replica looks at its Leases, at least.
pub const TURN: Duration = Duration::from_secs(20);

/// What becomes of attempts to deliver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weather {
    Fine,
    Down,
    /// Nobody knows whether it arrived; whether it did.
    Unclear(bool),
}

/// When a replica dies: after so many requests and attempts; and whether the last of them still has an effect.
#[derive(Debug, Clone, Copy)]
pub struct Fuse {
    pub left: u32,
    pub effect: bool,
}

/// One life of a replica.
pub struct Life {
    pub number: u32,
    pub keeper: Keeper,
    pub controller: Controller,
    handle: notify::Handle,
    pub fuse: Option<Fuse>,
}

/// What a receiver was told.
#[derive(Debug, Clone)]
pub struct Told {
    pub at: Instant,
    pub by: u32,
    pub message: Message,
    /// Whether the sender knows that it arrived.
    pub clear: bool,
}

/// A cluster, and its replicas by ordinal.
pub struct World {
    pub clock: Clock,
    pub objects: Objects<Records<Remembered>>,
    pub pods: Vec<Option<Pod>>,
    pub lives: BTreeMap<u32, Life>,
    pub weather: Weather,
    /// The replicas that have no rights in their namespace.
    pub forbidden: BTreeSet<u32>,
    /// The replicas that stand still.
    pub frozen: BTreeSet<u32>,
    /// What has arrived, and was not taken yet.
    pub told: Vec<Told>,
    /// The lives that have ended without being told to, and when.
    pub dead: Vec<(u32, Instant)>,
    last_life: u32,
}

impl World {
    /// It needs a runtime whose time is paused.
    pub fn new(pods: Vec<Option<Pod>>) -> Self {
        Self {
            clock: Clock::starting_at(START, 1.0),
            objects: Objects::default(),
            pods,
            lives: BTreeMap::new(),
            weather: Weather::Fine,
            forbidden: BTreeSet::new(),
            frozen: BTreeSet::new(),
            told: Vec::new(),
            dead: Vec::new(),
            last_life: 0,
        }
    }

    /// Starts a replica. It sees the cluster at once.
    pub fn start(&mut self, ordinal: u32, total: u32, cluster: &str) {
        self.last_life += 1;
        let number = self.last_life;
        let me = Holder {
            ordinal,
            total,
            uid: format!("life{number}").into(),
        };
        let s = Duration::from_secs;
        let timing = Timing::new(s(60), s(40), TURN).unwrap();
        let (keeper, changes) = Coordinator::new(me, true, timing);
        let late = [Late::OneMessage, Late::FireThenResolve][ordinal as usize % 2];
        let outbox = Outbox::new(true, late, number.into());
        let handle = notify::Handle::new("recorder", outbox);
        let mut controller = Controller::new(
            Engine::new(cluster),
            Arc::new(keeper.clone()),
            Some(Custody::new(keeper.clone(), changes)),
            self.clock.clone(),
            vec![handle.clone()],
            Arc::new(Metrics::new(ordinal, total, &[], &[]).unwrap()),
            Health::new(&[KindId::Pod]),
        )
        .listing_anew(watch::channel(0).0);
        controller.call_roll();
        let mut life = Life {
            number,
            keeper,
            controller,
            handle,
            fuse: None,
        };
        life.list(&self.pods);
        life.controller.end_roll_soon();
        life.controller.let_time_pass();
        life.keeper.update(|replica, _| replica.synced());
        self.lives.insert(ordinal, life);
        self.settle();
    }

    /// Tells a replica to stop, and lets it. One that cannot free what it holds at once dies.
    pub fn stop(&mut self, ordinal: u32) {
        let Some(life) = self.lives.get(&ordinal) else {
            return;
        };
        life.keeper.update(|replica, _| replica.stop());
        self.settle();
        let stopped = |life: &Life| life.keeper.look(|replica, _| replica.is_stopped());
        if self.lives.get(&ordinal).is_some_and(stopped) {
            self.lives.remove(&ordinal);
        } else {
            self.kill(ordinal);
        }
    }

    fn awake(&self) -> impl Iterator<Item = (&u32, &Life)> {
        let lives = self.lives.iter();
        lives.filter(|(ordinal, _)| !self.frozen.contains(*ordinal))
    }

    /// A replica that has stood still goes on.
    pub fn thaw(&mut self, ordinal: u32) {
        self.frozen.remove(&ordinal);
        let life = self.lives.get_mut(&ordinal).unwrap();
        life.controller.look_anew();
        life.controller.end_roll();
        self.settle();
    }

    /// It dies at once.
    pub fn kill(&mut self, ordinal: u32) {
        self.dead.extend(
            self.lives
                .remove(&ordinal)
                .map(|life| (life.number, Instant::now())),
        );
    }

    /// A pod becomes another one, or is gone. All replicas see it.
    pub fn set_pod(&mut self, slot: usize, pod: Option<Pod>) {
        let old = std::mem::replace(&mut self.pods[slot], pod);
        let new = &self.pods[slot];
        let same = |old: &Pod| {
            new.as_ref()
                .is_some_and(|new| new.metadata.uid == old.metadata.uid)
        };
        let awake = |(ordinal, _): &(&u32, &mut Life)| !self.frozen.contains(*ordinal);
        for (_, life) in self.lives.iter_mut().filter(awake) {
            if let Some(old) = old.clone().filter(|old| !same(old)) {
                life.controller
                    .take(KindId::Pod, Event::Deleted(old.object()));
            }
            if let Some(new) = new {
                life.controller
                    .take(KindId::Pod, Event::Applied(new.clone().object(), 0));
            }
        }
        self.settle();
    }

    /// All that follows from what has happened, at this moment.
    pub fn settle(&mut self) {
        for _ in 0..10_000 {
            let mut busy = false;
            let ordinals: Vec<u32> = self.awake().map(|(ordinal, _)| *ordinal).collect();
            for ordinal in ordinals {
                busy |= self.work(ordinal);
                let dead = |life: &Life| life.fuse.is_some_and(|fuse| fuse.left == 0);
                if self.lives.get(&ordinal).is_some_and(dead) {
                    self.kill(ordinal);
                }
            }
            if !busy {
                return;
            }
            for (_, life) in self.awake() {
                life.keeper
                    .update(|replica, now| self.objects.show(replica, now));
            }
        }
        panic!("something is due for ever");
    }

    /// What one replica does now. Whether it did something.
    fn work(&mut self, ordinal: u32) -> bool {
        let Some(life) = self.lives.get_mut(&ordinal) else {
            return false;
        };
        let mut busy = false;
        while let Some(turn) = changed(&mut life.controller.custody).now_or_never() {
            life.controller.turn(turn);
            busy = true;
        }
        if life.controller.is_stale() {
            life.list(&self.pods);
            life.controller.go_on_when_seen();
        }
        life.controller.end_roll();
        life.controller.let_time_pass();
        for request in life.keeper.requests() {
            busy = true;
            match life.burn() {
                Some(false) => return true,
                Some(true) => {
                    if !self.forbidden.contains(&ordinal) {
                        self.objects.call(request.call);
                    }
                    return true;
                }
                None => {}
            }
            let answer = if self.forbidden.contains(&ordinal) {
                Answer::Refused
            } else {
                self.objects.call(request.call)
            };
            life.keeper
                .update(|replica, now| replica.answer(request.id, answer, now));
        }
        while let Some(attempt) = life.handle.next(&life.keeper, LIMIT) {
            busy = true;
            let burnt = life.burn();
            let arrives = match self.weather {
                Weather::Fine => true,
                Weather::Down => false,
                Weather::Unclear(arrives) => arrives,
            };
            let clear = self.weather == Weather::Fine && burnt.is_none();
            if arrives && burnt != Some(false) {
                self.told.push(Told {
                    at: Instant::now(),
                    by: life.number,
                    message: attempt.message.clone(),
                    clear,
                });
            }
            if burnt.is_some() {
                return true;
            }
            let mut error = SendError::timeout(Duration::from_secs(1));
            error.may_have_arrived = self.weather != Weather::Down;
            let result = if self.weather == Weather::Fine {
                Ok(Reference::new(&attempt.message.alert.dedup_key()))
            } else {
                Err(&error)
            };
            let subject = &attempt.message.alert.subject;
            life.handle
                .finish(attempt.id, subject, result, Some(&life.keeper));
        }
        busy
    }

    /// Lets time pass.
    pub async fn pass(&mut self, duration: Duration) {
        let end = Instant::now() + duration;
        while Instant::now() < end {
            let now = Instant::now();
            let next = self.awake().flat_map(|(_, life)| {
                let engine = life.controller.engine.next_deadline();
                [
                    engine.map(|time| self.clock.instant(time)),
                    life.handle.next_deadline(),
                    life.keeper.look(|replica, _| replica.next_deadline()),
                ]
            });
            let next = next.flatten().min().unwrap_or(end);
            let least = now + Duration::from_millis(1);
            let next = next.clamp(least, now + TURN).min(end).max(least);
            tokio::time::advance(next - now).await;
            self.settle();
        }
    }

    /// Who has charge of a key.
    pub fn owner(&self, key: &ShardKey) -> Option<&Life> {
        self.lives
            .values()
            .find(|life| life.controller.is_mine(key))
    }

    /// What is remembered, by subject, in all states of the active generation.
    pub fn remembered(&self) -> Vec<(Subject, Arc<Remembered>)> {
        let active = self
            .objects
            .record
            .as_ref()
            .map(|(_, record)| record.active);
        let states = self.objects.states.iter();
        states
            .filter(|(shard, _)| Some(shard.total) == active)
            .flat_map(|(_, (_, state))| state.alerts.iter())
            .map(|(subject, record)| (subject.clone(), Arc::clone(record)))
            .collect()
    }

    /// Somebody deletes a state.
    pub fn delete_state(&mut self, shard: Shard) {
        let version = self.objects.next();
        self.objects.states.remove(&shard).unwrap();
        for life in self.lives.values() {
            life.keeper
                .update(|replica, _| replica.see_state(shard, version, None));
        }
        self.settle();
    }

    /// Changes what is remembered, as another version of the program would.
    pub fn rewrite(&mut self, shard: Shard, change: impl Fn(&mut Remembered)) {
        let version = self.objects.next();
        let (at, state) = self.objects.states.get_mut(&shard).unwrap();
        *at = version;
        let subjects: Vec<Subject> = state
            .alerts
            .iter()
            .map(|(subject, _)| subject.clone())
            .collect();
        for subject in subjects {
            state.alerts.update(&subject, &change);
        }
    }
}

impl Life {
    /// Its watch brings a complete list.
    fn list(&mut self, pods: &[Option<Pod>]) {
        let controller = &mut self.controller;
        controller.take(KindId::Pod, Event::ListStarted);
        for pod in pods.iter().flatten() {
            controller.take(KindId::Pod, Event::Listed(pod.clone().object(), 0));
        }
        controller.take(KindId::Pod, Event::ListDone);
    }

    /// Whether anything is known of an alert in the receiver's queue.
    pub fn knows(&self, subject: &Subject, identity: &Labels) -> bool {
        let debts = self.handle.queue().debts(subject);
        debts.iter().any(|debt| debt.identity == *identity)
    }

    /// Counts a request or an attempt. If it is the last: whether it has an effect.
    fn burn(&mut self) -> Option<bool> {
        let fuse = self.fuse.as_mut()?;
        fuse.left = fuse.left.saturating_sub(1);
        (fuse.left == 0).then_some(fuse.effect)
    }
}
