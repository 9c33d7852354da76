//! The controller: feeds what the watches see to the engine, and what the engine decides to the receivers. One task owns the engine; nothing in it
//! waits for a receiver.

mod stale;
mod unserved;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::{Stream, StreamExt as _};
use jiff::Timestamp;
use tokio::{
    sync::{oneshot, watch},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use crate::{
    alert::{Engine, Labels, Notice, Severity, State, Transition},
    cluster::{Clock, Event, Failure, KindId, Object, Subject},
    custody::{Custody, Portion, Turn},
    http::{Gauges, Health, Metrics, WatchEvent},
    notify::{self, Queue},
    rules,
    shard::{Gate, ShardKey},
    unserved::Unserved,
};

/// How many events are taken over before time passes again, so that a large list does not hold up what comes due.
const BATCH: usize = 256;

/// How often the gauges are brought up to date, and the controller shows that it is alive.
const HOUSEKEEPING: Duration = Duration::from_secs(1);

/// How often what is remembered is looked through for what is too old.
const TIDYING: Duration = Duration::from_secs(60);

/// How long after the first list it is known which objects there are. What is taken over later is older than what was seen since.
const ROLL: Duration = Duration::from_secs(120);

/// How many malformed objects are remembered, so that each is reported once.
const MALFORMED_REMEMBERED: usize = 1000;

/// The controller.
pub struct Controller {
    engine: Engine,
    gate: Arc<dyn Gate>,
    /// What this replica has charge of, if that can change; else the gate knows.
    custody: Option<Custody>,
    /// The shards that nobody serves, if they are watched over.
    unserved: Option<Unserved>,
    /// Makes the watches list anew.
    relist: Option<watch::Sender<u64>>,
    /// The lists that are waited for, after this replica was out of touch.
    stale: Option<stale::Stale>,
    /// Until when it is known which objects there are, if that is to end.
    roll_until: Option<Instant>,
    /// When the loop went round last.
    last_round: Instant,
    clock: Clock,
    receivers: Arc<[notify::Handle]>,
    metrics: Arc<Metrics>,
    health: Health,
    counts: Arc<Mutex<Counts>>,
    /// The kinds of which a list was begun.
    listed: BTreeSet<KindId>,
    /// The malformed objects that were reported, by UID.
    malformed: HashSet<Box<str>>,
}

/// What the gauges show of the engine, as of the last housekeeping.
#[derive(Debug, Default)]
struct Counts {
    alerts: BTreeMap<(State, Severity), usize>,
    findings: BTreeMap<&'static str, usize>,
    owned: usize,
    foreign: usize,
}

impl Controller {
    /// A controller with an engine that has seen nothing yet.
    pub fn new(
        engine: Engine,
        gate: Arc<dyn Gate>,
        custody: Option<Custody>,
        clock: Clock,
        receivers: Vec<notify::Handle>,
        metrics: Arc<Metrics>,
        health: Health,
    ) -> Self {
        let counts = Arc::new(Mutex::new(Counts::default()));
        let shown = Arc::clone(&counts);
        metrics.at_scrape(move |gauges| {
            shown
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .show(gauges);
        });
        Self {
            engine,
            gate,
            custody,
            unserved: None,
            relist: None,
            stale: None,
            roll_until: None,
            last_round: Instant::now(),
            clock,
            receivers: receivers.into(),
            metrics,
            health,
            counts,
            listed: BTreeSet::new(),
            malformed: HashSet::new(),
        }
    }

    /// Runs until `stop`, or until there are no more events. `synced` is told once the cluster is seen. What was decided by then is in the receivers' queues.
    pub async fn run(
        mut self,
        events: impl Stream<Item = (KindId, Event)>,
        synced: oneshot::Sender<()>,
        stop: CancellationToken,
    ) {
        let mut synced = Some(synced);
        let mut events = std::pin::pin!(events.ready_chunks(BATCH));
        let mut housekeeping = Instant::now();
        let mut tidying = Instant::now() + TIDYING;
        // What is remembered comes after the first list.
        self.call_roll();
        loop {
            let due = self
                .engine
                .next_deadline()
                .filter(|_| self.decides())
                .map(|time| self.clock.instant(time));
            let wake = due.map_or(housekeeping, |due| due.min(housekeeping));
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                turn = changed(&mut self.custody) => self.turn(turn),
                batch = events.next() => match batch {
                    Some(batch) => {
                        for (kind, event) in batch {
                            self.take(kind, event);
                        }
                    }
                    None => break,
                },
                () = sleep_until(wake) => {}
            }
            self.mind_the_gap();
            self.go_on_when_seen();
            if self.decides() {
                self.let_time_pass();
            }
            if Instant::now() >= tidying {
                if let Some(custody) = &self.custody {
                    custody.forget_ends(self.clock.now());
                }
                tidying = Instant::now() + TIDYING;
            }
            if synced.is_some()
                && self.health.sees()
                && let Some(synced) = synced.take()
            {
                // Nobody may have asked for it.
                _ = synced.send(());
                self.end_roll_soon();
            }
            self.end_roll();
            if Instant::now() >= housekeeping {
                self.look_after_shards();
                self.keep_house();
                housekeeping = Instant::now() + HOUSEKEEPING;
            }
        }
    }

    /// Notes from now on which objects there are: lists begin, and what is remembered comes after them.
    fn call_roll(&mut self) {
        self.engine.call_roll(self.custody.is_some());
        self.roll_until = None;
    }

    /// The lists are complete: that is enough in a while.
    fn end_roll_soon(&mut self) {
        self.roll_until = Some(Instant::now() + ROLL);
    }

    fn end_roll(&mut self) {
        if self.roll_until.is_some_and(|until| until <= Instant::now()) {
            self.engine.call_roll(false);
            self.roll_until = None;
        }
    }

    /// Whether anything follows from what is seen: all of it is, as it is now. Before that it is not known what explains what.
    fn decides(&self) -> bool {
        !self.is_stale() && self.health.sees()
    }

    /// Takes over what a watch has seen.
    fn take(&mut self, kind: KindId, event: Event) {
        let now = self.clock.now();
        self.note_list(kind, &event);
        match event {
            Event::ListStarted => {
                if !self.listed.insert(kind) {
                    self.metrics.watch_restarted(kind);
                }
                self.engine.list_started(kind);
            }
            Event::Listed(object, malformed) => {
                self.see(kind, WatchEvent::Listed, &object, malformed);
            }
            Event::ListDone => {
                self.engine.list_done(kind, now);
                info!(
                    kind = kind.as_str(),
                    unhealthy = self.engine.kept_objects(),
                    "the list is complete"
                );
                self.health.synced(kind);
            }
            Event::Applied(object, malformed) => {
                self.see(kind, WatchEvent::Applied, &object, malformed);
            }
            Event::Deleted(object) => {
                self.metrics.watch_event(kind, WatchEvent::Deleted);
                self.malformed.remove(&object.meta().uid);
                self.engine.gone(&object.meta().uid, now);
            }
            Event::Failed(Failure { reason, message }) => {
                self.metrics.watch_failed(kind, reason);
                self.engine.blind(kind);
                if reason.is_permanent() {
                    if self.health.unavailable(kind, &message) {
                        error!(
                            kind = kind.as_str(),
                            reason = reason.as_str(),
                            "nobody is paged for this kind: {message}"
                        );
                    }
                } else if self.health.failing(kind, &message) {
                    warn!(kind = kind.as_str(), reason = reason.as_str(), "{message}");
                }
            }
            Event::Restored => {
                self.engine.sighted(kind);
                self.health.restored(kind);
                info!(kind = kind.as_str(), "the watch is back");
            }
        }
    }

    fn see(&mut self, kind: KindId, event: WatchEvent, object: &Object, malformed: u32) {
        self.metrics.watch_event(kind, event);
        if malformed > 0 {
            self.report_malformed(kind, object, malformed);
        }
        self.engine.observe(object, self.clock.now());
    }

    fn report_malformed(&mut self, kind: KindId, object: &Object, fields: u32) {
        self.metrics.malformed(kind, fields);
        if self.malformed.len() >= MALFORMED_REMEMBERED {
            self.malformed.clear();
        }
        let meta = object.meta();
        if self.malformed.insert(meta.uid.clone()) {
            warn!(
                kind = kind.as_str(),
                namespace = &*meta.namespace,
                name = &*meta.name,
                fields,
                "the object has malformed fields, which count as absent; the rest of it is judged"
            );
        }
    }

    /// Lets time pass in the engine, tells what comes of it, and writes down what has changed. All of that with the queues in hand: no page leaves before what it
    /// promises is written down.
    fn let_time_pass(&mut self) {
        let receivers = Arc::clone(&self.receivers);
        let mut queues = queues(&receivers);
        self.let_time_pass_with(&mut queues);
    }

    fn let_time_pass_with(&mut self, queues: &mut [Queue<'_>]) {
        self.engine.advance(self.clock.now());
        let mut ended = Vec::new();
        for notice in self.engine.take_notices() {
            if let Some(notice) = self.emit(notice, queues)
                && matches!(notice.transition, Transition::Resolved(_))
            {
                ended.push(notice);
            }
        }
        let touched = self.engine.take_touched();
        if self.custody.is_some() {
            for subject in touched {
                self.write_down(&subject, queues, &ended);
            }
        }
    }

    /// Hands a notice to the receivers, if this replica pages for its subject: gate 1.
    fn emit(&mut self, notice: Notice, queues: &mut [Queue<'_>]) -> Option<Arc<Notice>> {
        let alert = &notice.alert;
        if !self.is_mine(&alert.shard_key) {
            debug!(subject = %alert.subject, alertname = alert.rule.name, "another replica pages for it");
            if let Some(custody) = &mut self.custody
                && matches!(notice.transition, Transition::Resolved(_))
            {
                custody.wonder(notice);
            }
            return None;
        }
        self.metrics.transition(notice.transition, alert.severity);
        let notice = Arc::new(notice);
        push(queues, &notice);
        Some(notice)
    }

    fn is_mine(&self, key: &ShardKey) -> bool {
        match &self.custody {
            Some(custody) => custody.has(key),
            None => self.gate.may_send(key, Duration::ZERO),
        }
    }

    fn write_down(&self, subject: &Subject, queues: &[Queue<'_>], ended: &[Arc<Notice>]) {
        if let Some(custody) = &self.custody
            && custody.has(&ShardKey::of(subject))
        {
            let memory = self.engine.memory(subject);
            let ended: Vec<&Notice> = ended
                .iter()
                .map(|notice| &**notice)
                .filter(|notice| notice.alert.subject == *subject)
                .collect();
            custody.write_down(subject, memory, queues, &ended, self.clock.now());
        }
    }

    /// What this replica has charge of has changed.
    fn turn(&mut self, turn: Turn) {
        match turn {
            Turn::Take(portion) => self.take_charge_when_seen(portion),
            Turn::LookAnew => self.look_anew(),
            Turn::Drop(shard) => {
                self.do_not_take(|portion| portion.is_of(shard));
                let mut unserved = self.unserved.take();
                let theirs = |key: &ShardKey| shard.owns(key) && !self.is_mine(key);
                for receiver in self.receivers.iter() {
                    receiver.forget(theirs);
                }
                if let Some(unserved) = &mut unserved {
                    unserved.forget(theirs);
                }
                self.unserved = unserved;
            }
            Turn::Ask => {
                for receiver in self.receivers.iter() {
                    receiver.poke();
                }
            }
        }
    }

    /// Takes over a portion: first what is remembered of it; then what came and went while nobody had charge of it; then what fires now. The queues
    /// know from what is remembered which of it their receivers have been told.
    fn take_charge(&mut self, portion: &Portion) {
        let now = self.clock.now();
        let Some(custody) = &mut self.custody else {
            return;
        };
        let receivers = Arc::clone(&self.receivers);
        let mut queues = queues(&receivers);
        custody.take(*portion);
        let records = custody.records(portion);
        let untold = custody.untold_ends(portion, &records, now);
        let mut ends: BTreeMap<&Subject, Vec<&Notice>> = BTreeMap::new();
        for notice in &untold {
            ends.entry(&notice.alert.subject).or_default().push(notice);
        }
        for (subject, record) in &records {
            let ended = ends.get(subject).map(Vec::as_slice).unwrap_or_default();
            self.engine.restore(subject, &record.memory, ended, now);
            for queue in &mut queues {
                if let Some(debts) = record.receivers.get(queue.receiver()) {
                    queue.restore(subject, debts);
                }
            }
            if let Some(unserved) = &mut self.unserved {
                unserved.restore(subject, record.receivers.values().flatten());
            }
        }
        for notice in &untold {
            push(&mut queues, notice);
        }
        // What was remembered and is over resolves in this.
        self.let_time_pass_with(&mut queues);
        let now = self.clock.now();
        let mut firing = BTreeSet::new();
        for notice in self.engine.firing(now) {
            if portion.has(&notice.alert.shard_key) {
                firing.insert(notice.alert.identity());
                push(&mut queues, &Arc::new(notice));
            }
        }
        for (subject, _) in &records {
            for queue in &mut queues {
                end_orphans(queue, subject, &firing, now);
            }
        }
        let mut subjects: BTreeSet<Subject> = self.engine.remembered().cloned().collect();
        subjects.retain(|subject| portion.has(&ShardKey::of(subject)));
        subjects.extend(untold.iter().map(|notice| notice.alert.subject.clone()));
        subjects.extend(records.into_iter().map(|(subject, _)| subject));
        for subject in &subjects {
            self.write_down(subject, &queues, &untold);
        }
        info!(
            subjects = subjects.len(),
            "has charge of {portion}: what is remembered goes on"
        );
    }

    fn keep_house(&self) {
        self.health.beat();
        for (kind, reason) in self.health.newly_degraded() {
            error!(
                kind = kind.as_str(),
                "nobody is paged for what happens to this kind until it is seen again: {reason}"
            );
        }
        let subjects = self.engine.subjects();
        let owned = subjects.iter().filter(|key| self.is_mine(key)).count();
        let mut alerts = self.engine.counts(self.clock.now());
        if let Some(unserved) = self.unserved.as_ref().filter(|pages| !pages.is_empty()) {
            let key = (State::Firing, rules::SHARD_NOT_SERVED.severity);
            *alerts.entry(key).or_default() += unserved.len();
        }
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner) = Counts {
            alerts,
            findings: self.engine.findings(),
            owned,
            foreign: subjects.len() - owned,
        };
    }
}

/// Waits for the next change of the charge; for ever, if there can be none.
async fn changed(custody: &mut Option<Custody>) -> Turn {
    match custody {
        Some(custody) => custody.changed().await,
        None => std::future::pending().await,
    }
}

/// All receivers' queues in hand, always in the same order.
fn queues(receivers: &[notify::Handle]) -> Vec<Queue<'_>> {
    receivers.iter().map(notify::Handle::queue).collect()
}

fn push(queues: &mut [Queue<'_>], notice: &Arc<Notice>) {
    for queue in queues {
        queue.push(Arc::clone(notice));
    }
}

/// Ends what a receiver holds, or is to be told, of alerts that there are no more by what is known now: nothing else would. Their rule was removed, or is called
/// otherwise by this version; or the cluster was given another name.
fn end_orphans(
    queue: &mut Queue<'_>,
    subject: &Subject,
    firing: &BTreeSet<Labels>,
    now: Timestamp,
) {
    for debt in queue.debts(subject) {
        // Of a shard that nobody serves it is not the engine that knows.
        let by_engine = debt.identity.get("alertname") != Some(rules::SHARD_NOT_SERVED.name);
        if by_engine
            && !firing.contains(&debt.identity)
            && let Some(end) = debt.end(subject, now)
        {
            queue.push(end);
        }
    }
}

impl Counts {
    fn show(&self, gauges: &Gauges) {
        gauges.alerts(&self.alerts);
        for rule in rules::all() {
            gauges.findings(
                rule,
                self.findings.get(rule.name).copied().unwrap_or_default(),
            );
        }
        gauges.subjects(self.owned, self.foreign);
    }
}

#[cfg(test)]
mod tests;
