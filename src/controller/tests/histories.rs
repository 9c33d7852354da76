//! Random histories of two shards: pods break and recover, deliveries fail, rights are lost, replicas are killed within whatever they do, stopped, and started again. Beside them is
//! an engine that nothing ever happens to: what it says is what should be told.

use std::collections::BTreeMap;

use proptest::{prelude::*, test_runner::RngSeed};

use super::{super::*, world::*};
use crate::{
    alert::Alert,
    notify::Event as Message,
    testing::{Look, Slot, any_look},
};

const SLOTS: usize = 5;
const TOTAL: u32 = 2;

/// What is delivered is written down within so long: whoever dies later repeats nothing.
const DURABLE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy)]
enum Fate {
    Lives,
    /// It dies when it has done so much more, and whether the last of that has an effect.
    Dies(u32, u32, bool),
    Stops(u32),
    /// All that are away come back.
    Starts,
}

#[derive(Debug, Clone, Copy)]
struct Step {
    seconds: u64,
    slot: usize,
    look: Look,
    container: bool,
    fate: Fate,
    weather: Weather,
    forbidden: bool,
}

fn step() -> impl Strategy<Value = Step> {
    let fate = prop_oneof![
        6 => Just(Fate::Lives),
        2 => (0..TOTAL, 1..6_u32, any::<bool>()).prop_map(|(ordinal, left, effect)| Fate::Dies(ordinal, left, effect)),
        1 => (0..TOTAL).prop_map(Fate::Stops),
        3 => Just(Fate::Starts),
    ];
    let weather = prop_oneof![
        6 => Just(Weather::Fine),
        2 => Just(Weather::Down),
        1 => any::<bool>().prop_map(Weather::Unclear),
    ];
    (
        1_u64..300,
        0..SLOTS,
        any_look(),
        prop::bool::weighted(0.2),
        fate,
        weather,
        prop::bool::weighted(0.1),
    )
        .prop_map(
            |(seconds, slot, look, container, fate, weather, forbidden)| Step {
                seconds,
                slot,
                look,
                container,
                fate,
                weather,
                forbidden,
            },
        )
}

/// An alert that nobody was told of.
#[derive(Debug)]
struct Untold {
    subject: Subject,
    /// The lives that must know of it, and live: those that saw it fire, by what the cluster has told them alone. What came and went while nobody could see it is
    /// the one thing of which no page is promised.
    witnesses: BTreeSet<u32>,
    over: bool,
}

/// What the receiver holds.
#[derive(Debug)]
struct Held {
    labels: Labels,
    since: Instant,
    by: u32,
    /// Whether the sender knows that it does.
    sure: bool,
    /// It could not be written down before it was sent: if its sender dies, nobody else knows of it.
    unwritten: bool,
}

/// The end of what the cluster showed of a condition: who could see it.
#[derive(Debug)]
struct End {
    at: Instant,
    owner: Option<u32>,
    lives: BTreeSet<u32>,
}

struct History {
    world: World,
    slots: Vec<Slot>,
    /// What nothing happens to.
    ideal: Engine,
    /// What the lives have seen since they began, without what they inherit.
    views: BTreeMap<u32, Engine>,
    untold: BTreeMap<Labels, Untold>,
    held: BTreeMap<Labels, Held>,
    /// What the cluster showed at the last look, ...
    shown: BTreeMap<Labels, (ShardKey, State)>,
    /// ... and what it had shown before, until it did not.
    ends: BTreeMap<Labels, End>,
    /// Who has died, and when.
    died: BTreeMap<u32, Instant>,
}

impl History {
    fn new() -> Self {
        let slots: Vec<Slot> = (0..SLOTS).map(Slot::new).collect();
        let world = World::new(slots.iter().map(|slot| slot.pod.clone()).collect());
        let ideal = Engine::new("test");
        let mut history = Self {
            world,
            slots,
            ideal,
            views: BTreeMap::new(),
            untold: BTreeMap::new(),
            held: BTreeMap::new(),
            shown: BTreeMap::new(),
            ends: BTreeMap::new(),
            died: BTreeMap::new(),
        };
        history.ideal = history.view();
        history.start_all();
        history
    }

    /// What is seen of the cluster from now on.
    fn view(&self) -> Engine {
        let (mut engine, now) = (Engine::new("test"), self.world.clock.now());
        engine.list_started(KindId::Pod);
        for pod in self.world.pods.iter().flatten() {
            engine.observe(&pod.clone().object(), now);
        }
        engine.list_done(KindId::Pod, now);
        engine
    }

    async fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        self.pass(Duration::from_secs(step.seconds)).await?;
        self.world.weather = step.weather;
        self.forbid(step.forbidden);
        match step.fate {
            Fate::Lives => {}
            Fate::Dies(ordinal, left, effect) => {
                if let Some(life) = self.world.lives.get_mut(&ordinal) {
                    life.fuse = Some(Fuse { left, effect });
                }
            }
            Fate::Stops(ordinal) => {
                if self
                    .world
                    .lives
                    .get(&ordinal)
                    .is_some_and(|life| life.fuse.is_none())
                {
                    self.world.stop(ordinal);
                }
            }
            Fate::Starts => self.start_all(),
        }
        self.look()?;
        let now = self.world.clock.now();
        let slot = &mut self.slots[step.slot];
        slot.turn(step.look, step.container, step.slot, now);
        let pod = slot.pod.clone();
        self.set_pod(step.slot, pod)
    }

    /// Takes all rights on Leases and states, or gives them back. What could not be written down may be told again by whoever takes over.
    fn forbid(&mut self, forbidden: bool) {
        if forbidden {
            for held in self.held.values_mut() {
                held.sure &= held.since.elapsed() > DURABLE;
            }
        }
        self.world.forbidden = (0..TOTAL).filter(|_| forbidden).collect();
    }

    fn start_all(&mut self) {
        for ordinal in 0..TOTAL {
            if !self.world.lives.contains_key(&ordinal) {
                self.world.start(ordinal, TOTAL, "test");
                // It may have died of it.
                if let Some(life) = self.world.lives.get(&ordinal) {
                    self.views.insert(life.number, self.view());
                }
            }
        }
    }

    fn set_pod(
        &mut self,
        slot: usize,
        pod: Option<crate::cluster::Pod>,
    ) -> Result<(), TestCaseError> {
        let now = self.world.clock.now();
        for engine in self.views.values_mut().chain([&mut self.ideal]) {
            if let Some(old) = &self.world.pods[slot]
                && pod
                    .as_ref()
                    .is_none_or(|pod| pod.metadata.uid != old.metadata.uid)
            {
                engine.gone(&old.metadata.uid, now);
            }
            if let Some(pod) = &pod {
                engine.observe(&pod.clone().object(), now);
            }
        }
        self.decide();
        self.world.set_pod(slot, pod);
        self.look()
    }

    /// What should be told.
    fn decide(&mut self) {
        self.ideal.advance(self.world.clock.now());
        for notice in self.ideal.take_notices() {
            let identity = notice.alert.identity();
            match notice.transition {
                Transition::Fired if !self.held.contains_key(&identity) => {
                    let untold = Untold {
                        subject: notice.alert.subject,
                        witnesses: BTreeSet::new(),
                        over: false,
                    };
                    self.untold.insert(identity, untold);
                }
                Transition::Resolved(_) => {
                    if let Some(untold) = self.untold.get_mut(&identity) {
                        untold.over = true;
                    }
                    // Told as firing after this, it is another one, of which the end of this one is a part.
                    if let Some(held) = self.held.get_mut(&identity) {
                        held.sure = false;
                    }
                }
                Transition::Fired | Transition::Changed => {}
            }
        }
        let now = self.world.clock.now();
        let lives: BTreeSet<u32> = self.world.lives.values().map(|life| life.number).collect();
        self.views.retain(|life, _| lives.contains(life));
        for (life, view) in &mut self.views {
            view.advance(now);
            view.take_notices();
            for notice in view.firing(now) {
                let untold = self.untold.get_mut(&notice.alert.identity());
                if let Some(untold) = untold.filter(|untold| !untold.over) {
                    untold.witnesses.insert(*life);
                }
            }
        }
    }

    /// What was told, and what is lost with those who died.
    fn look(&mut self) -> Result<(), TestCaseError> {
        let now = self.world.clock.now();
        let fires = |engine: &Engine| -> BTreeSet<Labels> {
            let firing = engine.firing(now);
            firing.map(|notice| notice.alert.identity()).collect()
        };
        // Whatever was told before this moment was told while that was true.
        let before = fires(&self.ideal);
        self.decide();
        let after = fires(&self.ideal);
        let dead = std::mem::take(&mut self.world.dead);
        self.died.extend(dead.iter().copied());
        let pods = self.world.pods.iter().flatten();
        let shown = Engine::new("test").scan(pods.map(|pod| pod.clone().object()), now);
        self.note_shown(&shown);
        for told in std::mem::take(&mut self.world.told) {
            let Told {
                at,
                by,
                message,
                clear,
            } = told;
            let identity = message.alert.identity();
            let fires = if at < Instant::now() { &before } else { &after };
            let fires = fires.contains(&identity);
            self.untold.remove(&identity);
            if message.event.is_firing() {
                let labels = message.alert.labels.clone();
                if let Some(before) = self.held.get(&identity)
                    && before.sure
                    && message.event == Message::Fired
                {
                    prop_assert!(
                        before.labels != labels,
                        "told by {by}, after {}: {identity:?}",
                        before.by
                    );
                }
                // What does not fire but was told to may be over, and begin anew, without being noticed here.
                let unwritten = !self.world.forbidden.is_empty();
                let held = Held {
                    labels,
                    since: at,
                    by,
                    sure: clear && fires && !unwritten,
                    unwritten,
                };
                self.held.insert(identity, held);
            } else {
                prop_assert!(
                    !(fires && self.must_see(&identity, by)),
                    "resolved by {by} while it stands: {identity:?}"
                );
                self.held.remove(&identity);
            }
        }
        // It came and went while nobody had charge of it, and whoever has now was not there. If it left a trace in the cluster, there would be another alert.
        let world = &self.world;
        self.untold.retain(|identity, untold| {
            let lost = untold.over
                && world
                    .owner(&ShardKey::of(&untold.subject))
                    .is_some_and(|owner| {
                        !untold.witnesses.contains(&owner.number)
                            && !owner.knows(&untold.subject, identity)
                    });
            !lost
        });
        for (dead, died) in dead {
            self.held.retain(|_, held| {
                held.sure &= held.by != dead || died - held.since > DURABLE;
                !(held.by == dead && held.unwritten)
            });
            for untold in self.untold.values_mut() {
                untold.witnesses.remove(&dead);
            }
        }
        self.untold
            .retain(|_, untold| !(untold.over && untold.witnesses.is_empty()));
        Ok(())
    }

    fn note_shown(&mut self, alerts: &[Alert]) {
        let shown = alerts
            .iter()
            .map(|alert| (alert.identity(), (alert.shard_key, alert.state)));
        let before = std::mem::replace(&mut self.shown, shown.collect());
        for (identity, (key, _)) in before {
            if !self.shown.contains_key(&identity) {
                let end = End {
                    at: Instant::now(),
                    owner: self.world.owner(&key).map(|owner| owner.number),
                    lives: self.world.lives.values().map(|life| life.number).collect(),
                };
                self.ends.insert(identity, end);
            }
        }
    }

    /// Whether somebody must know that what fires stands. What is not shown is held only, and may end earlier for who was not there. What is shown, and only pends by
    /// what the cluster tells, goes on for who saw it before; if nobody did who lives, or could write it down, it is another alert, and the one before has ended.
    fn must_see(&self, identity: &Labels, by: u32) -> bool {
        match self.shown.get(identity) {
            None => false,
            Some((_, State::Pending)) => self.ends.get(identity).is_none_or(|end| {
                let is_written = |owner| {
                    let died = self.died.get(owner);
                    died.is_none_or(|died| *died - end.at > DURABLE)
                };
                end.lives.contains(&by) || end.owner.as_ref().is_some_and(is_written)
            }),
            Some(_) => true,
        }
    }

    async fn pass(&mut self, duration: Duration) -> Result<(), TestCaseError> {
        let end = Instant::now() + duration;
        while Instant::now() < end {
            let now = Instant::now();
            let ideal = self
                .ideal
                .next_deadline()
                .map(|time| self.world.clock.instant(time));
            let next = ideal
                .unwrap_or(end)
                .clamp(now + Duration::from_millis(1), now + TURN);
            self.world
                .pass(next.min(end).saturating_duration_since(now))
                .await;
            self.look()?;
        }
        Ok(())
    }

    /// All is well in the end.
    async fn end(&mut self) -> Result<(), TestCaseError> {
        self.world.weather = Weather::Fine;
        self.forbid(false);
        for life in self.world.lives.values_mut() {
            life.fuse = None;
        }
        self.start_all();
        self.look()?;
        let now = self.world.clock.now();
        for index in 0..SLOTS {
            let look = [Look::Healthy, Look::Gone][index % 2];
            self.slots[index].turn(look, false, index, now);
            let pod = self.slots[index].pod.clone();
            self.set_pod(index, pod)?;
        }
        self.pass(Duration::from_secs(3 * 3600)).await?;
        prop_assert!(self.untold.is_empty(), "nobody was told: {:?}", self.untold);
        prop_assert!(self.held.is_empty(), "never resolved: {:?}", self.held);
        for (subject, remembered) in self.world.remembered() {
            let alerts = remembered.memory.len();
            prop_assert!(
                alerts == 0 && remembered.receivers.is_empty(),
                "remembered for ever: {:?} {:?}",
                subject,
                remembered
            );
        }
        Ok(())
    }
}

/// Each is long, so a quick run draws only some, and always the same ones. `PROPTEST_CASES` says how many others, and `PROPTEST_RNG_SEED` which: both take
/// the place of what is here. A failure is found again with the same two; it ends with its smallest history.
fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        cases: 16,
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn whoever_dies_all_is_told_and_ends(steps in prop::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut history = History::new();
            for step in steps {
                history.step(step).await?;
            }
            history.end().await
        })?;
    }
}
