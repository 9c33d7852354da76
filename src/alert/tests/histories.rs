//! Random histories, from the cluster to the receiver: two replicas, each with its engine, its emit gate and its outbox, against a model of the cluster and one
//! of the receiver. Watches fail and miss things, replicas restart, clocks jump, deliveries fail. Time is simulated.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::SignedDuration;
use tokio::time::Instant;

use super::*;
use crate::{
    alert::Labels,
    notify::{Event, Late, Message, Outbox, SendError},
    shard::{Gate, Sharder},
    testing::{Look, Slot, any_look},
};

const SLOTS: usize = 5;
const REPLICAS: u32 = 2;

/// What becomes of what can be seen.
#[derive(Debug, Clone, Copy)]
enum Sight {
    AsBefore,
    /// The watches fail.
    Fails,
    /// They go on where they failed, and show what was missed.
    Resumes,
    /// Everything is listed.
    List,
    /// A list begins; it is complete when sight is had again in another way.
    ListBegins,
    /// A replica starts anew.
    Restart(usize),
    /// The clock of the API server is off by so many seconds from here on.
    Clock(i64),
}

/// What becomes of attempts to deliver.
#[derive(Debug, Clone, Copy)]
enum Weather {
    Fine,
    Down,
    /// Nobody knows whether it arrived; whether it did.
    Unclear(bool),
}

#[derive(Debug, Clone, Copy)]
struct Step {
    seconds: i64,
    slot: usize,
    look: Look,
    /// Which of the two containers it is about.
    container: bool,
    /// Whose pod it is: changes rarely in a pod's life.
    owner: Option<usize>,
    sight: Sight,
    weather: Weather,
}

fn step() -> impl Strategy<Value = Step> {
    let sight = prop_oneof![
        8 => Just(Sight::AsBefore),
        2 => Just(Sight::Fails),
        2 => Just(Sight::Resumes),
        2 => Just(Sight::List),
        1 => Just(Sight::ListBegins),
        1 => (0..REPLICAS as usize).prop_map(Sight::Restart),
        1 => (-300_i64..300).prop_map(Sight::Clock),
    ];
    let weather = prop_oneof![
        4 => Just(Weather::Fine),
        2 => Just(Weather::Down),
        1 => any::<bool>().prop_map(Weather::Unclear),
    ];
    let owner = prop::option::weighted(0.1, 0..3_usize);
    (
        1_i64..500,
        0..SLOTS,
        any_look(),
        prop::bool::weighted(0.2),
        owner,
        sight,
        weather,
    )
        .prop_map(
            |(seconds, slot, look, container, owner, sight, weather)| Step {
                seconds,
                slot,
                look,
                container,
                owner,
                sight,
                weather,
            },
        )
}

struct Replica {
    engine: Engine,
    outbox: Outbox,
    sharder: Sharder,
    /// What it was shown last.
    shown: Vec<Option<Pod>>,
    /// The alerts that fired since it started.
    fired: BTreeSet<Labels>,
}

impl Replica {
    fn new(index: u32) -> Self {
        let late = [Late::OneMessage, Late::FireThenResolve][index as usize];
        Self {
            engine: Engine::new("test"),
            outbox: Outbox::new(true, late, u64::from(index)),
            sharder: Sharder::new(index, REPLICAS).unwrap(),
            shown: vec![None; SLOTS],
            fired: BTreeSet::new(),
        }
    }
}

/// What the receiver was told.
#[derive(Default)]
struct Told {
    /// What it holds as firing, and by whom.
    held: BTreeMap<Labels, u32>,
    /// What it holds from replicas that have restarted since: they know nothing of it.
    orphans: BTreeSet<Labels>,
    /// Every alert that it was told of, and by whom.
    ever: BTreeMap<Labels, u32>,
}

struct World {
    slots: Vec<Slot>,
    replicas: Vec<Replica>,
    told: Told,
    origin: Instant,
    /// The true time.
    now: Timestamp,
    /// How far the replicas' time is ahead.
    ahead: SignedDuration,
    /// Whether the replicas see what happens.
    sees: bool,
    listing: bool,
    weather: Weather,
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            slots: (0..SLOTS).map(Slot::new).collect(),
            replicas: (0..REPLICAS).map(Replica::new).collect(),
            told: Told::default(),
            origin: Instant::now(),
            now: at(0),
            ahead: SignedDuration::ZERO,
            sees: true,
            listing: false,
            weather: Weather::Fine,
        };
        world.list();
        world
    }

    fn time(&self) -> Timestamp {
        self.now + self.ahead
    }

    fn instant(&self) -> Instant {
        let passed: Duration = self.now.duration_since(at(0)).try_into().unwrap();
        self.origin + passed
    }

    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        self.weather = step.weather;
        self.pass(SignedDuration::from_secs(step.seconds))?;
        match step.sight {
            Sight::AsBefore => {}
            Sight::Fails => {
                self.sees = false;
                for replica in &mut self.replicas {
                    replica.engine.blind(KindId::Pod);
                }
            }
            Sight::Resumes => {
                if !self.listing {
                    self.sees = true;
                    self.show();
                    for replica in &mut self.replicas {
                        replica.engine.sighted(KindId::Pod);
                    }
                }
            }
            Sight::List => self.list(),
            Sight::ListBegins => {
                self.sees = false;
                self.listing = true;
                for replica in &mut self.replicas {
                    replica.engine.list_started(KindId::Pod);
                }
            }
            Sight::Restart(index) => {
                self.restart(index);
                self.list();
            }
            Sight::Clock(seconds) => self.ahead = SignedDuration::from_secs(seconds),
        }
        self.settle()?;
        let now = self.now;
        let slot = &mut self.slots[step.slot];
        if let Some(owner) = step.owner {
            slot.owner = owner;
        }
        slot.turn(step.look, step.container, step.slot, now);
        if self.sees {
            self.show();
        }
        self.settle()?;
        if self.sees {
            self.assert_nothing_is_missed()?;
        }
        Ok(())
    }

    /// Time passes: timers, retries.
    fn pass(&mut self, duration: SignedDuration) -> Result<(), TestCaseError> {
        let end = self.now + duration;
        for _ in 0..10_000 {
            let time = self.time();
            let engines = self
                .replicas
                .iter()
                .filter_map(|replica| replica.engine.next_deadline());
            let outboxes = self
                .replicas
                .iter()
                .filter_map(|replica| replica.outbox.next_deadline())
                .map(|due| {
                    let left = due.saturating_duration_since(self.instant());
                    time + SignedDuration::try_from(left).unwrap()
                });
            let next = engines.chain(outboxes).min();
            let next = next.map_or(end, |next| (next.max(time) - self.ahead).min(end));
            self.now = next;
            self.settle()?;
            if next == end {
                return Ok(());
            }
        }
        Err(TestCaseError::fail("something is due for ever"))
    }

    /// Shows the replicas every pod as it is now, and what is gone since they were shown it last.
    fn show(&mut self) {
        let now = self.time();
        for replica in &mut self.replicas {
            for (slot, shown) in self.slots.iter().zip(&mut replica.shown) {
                if let Some(old) = shown
                    && slot
                        .pod
                        .as_ref()
                        .is_none_or(|new| new.metadata.uid != old.metadata.uid)
                {
                    replica.engine.gone(&old.metadata.uid, now);
                }
                if let Some(new) = &slot.pod {
                    replica.engine.observe(&new.clone().object(), now);
                }
                shown.clone_from(&slot.pod);
            }
        }
    }

    fn list(&mut self) {
        let now = self.time();
        for replica in &mut self.replicas {
            replica.engine.list_started(KindId::Pod);
            for (slot, shown) in self.slots.iter().zip(&mut replica.shown) {
                if let Some(pod) = &slot.pod {
                    replica.engine.observe(&pod.clone().object(), now);
                }
                shown.clone_from(&slot.pod);
            }
            replica.engine.list_done(KindId::Pod, now);
        }
        (self.sees, self.listing) = (true, false);
    }

    fn restart(&mut self, index: usize) {
        let name = u32::try_from(index).unwrap();
        self.replicas[index] = Replica::new(name);
        let held = self.told.held.iter().filter(|(_, by)| **by == name);
        self.told
            .orphans
            .extend(held.map(|(labels, _)| labels.clone()));
    }

    /// What is due happens: the engines decide, the outboxes deliver.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        let (time, instant) = (self.time(), self.instant());
        for (index, replica) in (0..).zip(&mut self.replicas) {
            replica.engine.advance(time);
            let due = replica.engine.next_deadline();
            prop_assert!(due.is_none_or(|due| due > time), "a timer that spins");
            for notice in replica.engine.take_notices() {
                prop_assert!(
                    self.sees || !matches!(notice.transition, Transition::Resolved(_)),
                    "resolved by a replica that cannot see"
                );
                assert_no_false_resolve(&notice, &replica.shown)?;
                let gate = replica
                    .sharder
                    .may_send(&notice.alert.shard_key, Duration::ZERO);
                if !gate {
                    continue;
                }
                if notice.transition == Transition::Fired {
                    replica.fired.insert(notice.alert.identity());
                }
                replica.outbox.push(Arc::new(notice), instant);
            }
            let sharder = replica.sharder;
            while let Some(attempt) = replica
                .outbox
                .next(instant, |key| sharder.begin(key, Duration::from_secs(10)))
            {
                assert_true(&attempt.message, &replica.engine, time)?;
                let (arrived, error) = match self.weather {
                    Weather::Fine => (true, None),
                    Weather::Down => (false, Some(SendError::timeout(Duration::from_secs(1)))),
                    Weather::Unclear(arrived) => {
                        (arrived, Some(SendError::timeout(Duration::from_secs(1))))
                    }
                };
                if arrived {
                    self.told.hear(&attempt.message, index)?;
                }
                let result = error.as_ref().map_or(Ok(None), Err);
                replica.outbox.finish(attempt.id, result, instant);
            }
        }
        Ok(())
    }

    /// Every condition that has stood for its `for`, as its object tells, is an alert that fires or is inhibited, with the object as its member. Evictions are counted
    /// by workload.
    fn assert_nothing_is_missed(&self) -> Result<(), TestCaseError> {
        let now = self.time();
        for replica in &self.replicas {
            let alerts = replica.engine.alerts(now);
            let mut events: BTreeMap<_, usize> = BTreeMap::new();
            for object in replica.shown.iter().flatten() {
                let object = object.clone().object();
                for finding in findings(&object, now) {
                    let Since::At(since) = finding.since else {
                        continue;
                    };
                    let subject = object.subject().0;
                    let quorum = {
                        let events = events
                            .entry((finding.rule.name, subject.clone()))
                            .or_default();
                        *events += 1;
                        *events >= finding.quorum
                    };
                    if !quorum || since.min(now) + finding.r#for() > now {
                        continue;
                    }
                    let found = alerts.iter().any(|alert| {
                        alert.rule == finding.rule
                            && alert.subject == subject
                            && matches!(alert.state, State::Firing | State::Inhibited)
                            && alert.members.iter().any(|member| {
                                member.object == object.object_ref()
                                    && member.since <= since.min(now)
                            })
                    });
                    prop_assert!(
                        found,
                        "{} of {} is missed at {}: {:?}",
                        finding.rule.name,
                        object.meta().name,
                        now,
                        alerts
                    );
                }
            }
        }
        Ok(())
    }

    /// All is well in the end.
    fn end(&mut self) -> Result<(), TestCaseError> {
        self.weather = Weather::Fine;
        self.ahead = SignedDuration::ZERO;
        for (index, slot) in self.slots.iter_mut().enumerate() {
            let look = [Look::Healthy, Look::Gone][index % 2];
            slot.turn(look, false, index, self.now);
        }
        self.list();
        self.pass(SignedDuration::from_hours(30))?;
        for (index, replica) in (0..).zip(&self.replicas) {
            prop_assert_eq!(replica.engine.alerts(self.now), []);
            prop_assert_eq!(replica.engine.kept_objects(), 0);
            prop_assert_eq!(replica.engine.next_deadline(), None);
            prop_assert!(replica.outbox.is_empty());
            for identity in &replica.fired {
                prop_assert_eq!(
                    self.told.ever.get(identity),
                    Some(&index),
                    "nobody was told of it"
                );
            }
        }
        for labels in self.told.held.keys() {
            prop_assert!(
                self.told.orphans.contains(labels),
                "never resolved: {:?}",
                labels
            );
        }
        Ok(())
    }
}

impl Told {
    fn hear(&mut self, message: &Message, by: u32) -> Result<(), TestCaseError> {
        let identity = message.alert.identity();
        let first = *self.ever.entry(identity).or_insert(by);
        prop_assert_eq!(first, by, "two replicas page for one alert");
        for stale in &message.stale {
            self.held.remove(&stale.labels);
        }
        let labels = &message.alert.labels;
        if message.event.is_firing() {
            self.held.insert(labels.clone(), by);
        } else {
            self.held.remove(labels);
        }
        self.orphans.remove(labels);
        Ok(())
    }
}

/// No resolve is sent for what fires.
fn assert_true(message: &Message, engine: &Engine, now: Timestamp) -> Result<(), TestCaseError> {
    let alerts = engine.alerts(now);
    let fires = alerts
        .iter()
        .any(|alert| alert.state == State::Firing && alert.identity() == message.alert.identity());
    match message.event {
        Event::Resolved(_) | Event::FiredAndResolved(_) => prop_assert!(!fires),
        Event::Changed => prop_assert!(fires),
        Event::Fired => {}
    }
    Ok(())
}

/// No resolve is decided while an object shows the condition, as far as was seen.
fn assert_no_false_resolve(notice: &Notice, shown: &[Option<Pod>]) -> Result<(), TestCaseError> {
    if !matches!(notice.transition, Transition::Resolved(_)) {
        return Ok(());
    }
    for object in shown.iter().flatten() {
        let object = object.clone().object();
        for finding in findings(&object, notice.at) {
            let part = finding.part.as_ref().map(|(_, value)| &**value);
            let stands = finding.lasts == Lasts::WhileSeen
                && finding.rule == notice.alert.rule
                && part == notice.alert.labels.get("container")
                && object.subject().0 == notice.alert.subject;
            prop_assert!(
                !stands,
                "{} resolved, but {} shows it",
                finding.rule.name,
                object.meta().name
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    #[test]
    fn every_alert_is_told_by_its_owner_and_every_page_ends_with_its_condition(steps in prop::collection::vec(step(), 1..60)) {
        let mut world = World::new();
        for step in steps {
            world.step(step)?;
        }
        world.end()?;
    }
}
