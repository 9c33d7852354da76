//! The queue of one receiver: what it is owed, and when to try. Pure: the time is a parameter, and nothing is sent from here.
//!
//! There is at most one entry an alert, so memory is bounded by the number of alerts, however long a receiver is away. An entry holds the newest
//! state that the receiver is owed, and what it holds as firing. From both follows the message; so a message is made when it can be sent, from what is true
//! by then. What was coalesced shows in [`Message::transitions`].
//!
//! For each alert, messages are sent in order, one at a time. One that fails steps back: it waits for its own time, while others pass. Of a backlog, what matters
//! most goes first.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use super::{
    Besides, Debt, Event, Late, Message, OwedDebt, Reference, SendError, Standing, Verdict,
    backoff::{self, Backoff},
    message::Owed,
    schedule::{EntryId, Rank, Schedule},
};
use crate::{
    alert::{Labels, Notice, Severity, Transition},
    cluster::Subject,
    shard::{Permission, Permit, ShardKey},
};

/// How long a resolve that its receiver refuses for good is offered again, if the page itself was delivered: long enough for somebody to see in the
/// morning that a token has expired. A page that was never delivered is offered for as long as its alert stands, and once more after it.
const OFFER_RESOLVE: Duration = Duration::from_secs(24 * 3_600);

/// How soon the gate is asked again after a refusal, if nobody calls [`Outbox::poke`].
const ASK_GATE_AGAIN: Duration = Duration::from_secs(5);

/// The longest time for which a receiver may ask to be left alone. Above it, the number is taken for a mistake.
const MAX_PAUSE: Duration = Duration::from_secs(24 * 3_600);

/// The queue of one receiver.
#[derive(Debug)]
pub struct Outbox {
    send_resolved: bool,
    late: Late,
    backoff: Backoff,
    /// The entry of each alert, by identity.
    ids: BTreeMap<Labels, EntryId>,
    entries: BTreeMap<EntryId, Entry>,
    /// The entries about each subject.
    subjects: BTreeMap<Subject, BTreeSet<EntryId>>,
    /// The entries that owe something and are not in flight.
    schedule: Schedule,
    /// Nothing is sent before: the receiver asked for it.
    paused_until: Option<Instant>,
    /// For entries and attempts.
    last_id: u64,
    counts: Counts,
}

/// What happens to messages before they are sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// How often the gate refused an attempt.
    pub refused: u64,
    /// How many transitions were folded into a later one.
    pub coalesced: u64,
}

/// The name of an attempt, for [`Outbox::finish`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId {
    entry: EntryId,
    attempt: u64,
}

/// A message to be sent now.
#[derive(Debug)]
pub struct Attempt {
    /// Its name.
    pub id: AttemptId,
    /// What to send.
    pub message: Message,
    /// Held until the attempt has ended, and its outcome is noted.
    pub permit: Permit,
}

/// What became of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finished {
    /// It arrived.
    Delivered {
        /// From the first transition that the message stands for, to now.
        waited: Duration,
    },
    /// It did not arrive, and is tried again after this time at the earliest.
    Owed {
        /// The wait.
        after: Duration,
    },
    /// It did not arrive, and nobody will try again.
    Dropped,
}

/// What is owed about one alert.
#[derive(Debug)]
struct Entry {
    identity: Labels,
    subject: Subject,
    shard_key: ShardKey,
    /// What the receiver holds as firing, as far as it has confirmed.
    standing: Option<Standing>,
    /// What it may hold as firing besides, after attempts whose end is unknown.
    doubtful: Vec<Standing>,
    owed: Option<Owed>,
    /// What was written down besides.
    besides: Besides,
    in_flight: Option<InFlight>,
    /// Failures in a row, ...
    failures: u32,
    /// ... and when they began.
    failing_since: Option<Instant>,
    minimal: bool,
    /// Whether the gate refused it last time.
    refused: bool,
}

/// An attempt that has not ended.
#[derive(Debug)]
struct InFlight {
    id: AttemptId,
    event: Event,
    told: Standing,
    owed: Owed,
    minimal: bool,
}

impl Outbox {
    /// An empty queue. `send_resolved`: whether the receiver is told that an alert is over. `seed`: for the jitter.
    pub fn new(send_resolved: bool, late: Late, seed: u64) -> Self {
        Self {
            send_resolved,
            late,
            backoff: Backoff::seeded(seed),
            ids: BTreeMap::new(),
            entries: BTreeMap::new(),
            subjects: BTreeMap::new(),
            schedule: Schedule::new(),
            paused_until: None,
            last_id: 0,
            counts: Counts {
                refused: 0,
                coalesced: 0,
            },
        }
    }

    /// Takes a notice. The end of an alert of which this queue knows nothing counts as news that it fired, too.
    pub fn push(&mut self, notice: Arc<Notice>, now: Instant) {
        let (id, entry) = self.entry(notice.alert.identity(), &notice.alert.subject);
        let newer = Owed::new(notice, now);
        let older = entry.owed.take();
        let coalesced = older.is_some();
        entry.owed = Some(match older {
            Some(older) => older.and_then(Some(newer)),
            None => newer,
        });
        self.counts.coalesced += u64::from(coalesced);
        self.settle(id, now);
    }

    /// What the receiver holds and is owed about a subject. An attempt under way counts as one whose end is unknown.
    pub fn debts(&self, subject: &Subject) -> Vec<Debt> {
        let ids = self.subjects.get(subject).into_iter().flatten();
        ids.filter_map(|id| self.entries.get(id))
            .map(Entry::debt)
            .collect()
    }

    /// The subject under which there is something about the alert of this identity.
    pub fn subject_of(&self, identity: &Labels) -> Option<&Subject> {
        let id = self.ids.get(identity)?;
        self.entries.get(id).map(|entry| &entry.subject)
    }

    /// Takes over what was written down about a subject. Of an alert that is in this queue already, more is known here.
    pub fn restore(&mut self, subject: &Subject, debts: &[Debt], now: Instant) {
        for debt in debts {
            if self.ids.contains_key(&debt.identity) {
                continue;
            }
            let (id, entry) = self.entry(debt.identity.clone(), subject);
            entry.standing.clone_from(&debt.standing);
            entry.doubtful.clone_from(&debt.doubtful);
            entry.besides.clone_from(&debt.besides);
            entry.owed = debt.owed.as_ref().map(|owed| Owed {
                notice: Arc::clone(&owed.notice),
                transitions: owed.transitions,
                fired: owed.fired,
                ended: owed.ended,
                since: now,
            });
            self.settle(id, now);
        }
    }

    /// Forgets all about these subjects: another replica pages for them. What is under way goes on, but its end is of no account.
    pub fn forget(&mut self, theirs: impl Fn(&ShardKey) -> bool) {
        let ids: Vec<_> = self
            .entries
            .iter()
            .filter(|(_, entry)| theirs(&entry.shard_key))
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            self.schedule.remove(id);
            self.remove(id);
        }
    }

    /// The entry of an alert: there is one from now on.
    fn entry(&mut self, identity: Labels, subject: &Subject) -> (EntryId, &mut Entry) {
        let id = self.ids.get(&identity).copied().unwrap_or_else(|| {
            self.last_id += 1;
            self.ids.insert(identity.clone(), self.last_id);
            let ids = self.subjects.entry(subject.clone()).or_default();
            ids.insert(self.last_id);
            self.last_id
        });
        let entry = self
            .entries
            .entry(id)
            .or_insert_with(|| Entry::new(identity, subject.clone()));
        (id, entry)
    }

    fn remove(&mut self, id: EntryId) {
        let Some(entry) = self.entries.remove(&id) else {
            return;
        };
        self.ids.remove(&entry.identity);
        if let Some(ids) = self.subjects.get_mut(&entry.subject) {
            ids.remove(&id);
            if ids.is_empty() {
                self.subjects.remove(&entry.subject);
            }
        }
    }

    /// The next message to send now, if there is one. `begin` is the emit gate: what it refuses stays owed, and it is asked again later.
    ///
    /// The attempt must be ended with [`Outbox::finish`]; until then nothing else is sent about its alert.
    pub fn next(
        &mut self,
        now: Instant,
        mut begin: impl FnMut(&ShardKey) -> Permission,
    ) -> Option<Attempt> {
        if self.paused_until.is_some_and(|until| now < until) {
            return None;
        }
        while let Some(id) = self.schedule.next(now) {
            let Some(entry) = self.entries.get_mut(&id) else {
                continue;
            };
            let permit = match begin(&entry.shard_key) {
                Permission::Granted(permit) => permit,
                Permission::NotBefore(then) => {
                    entry.refused = true;
                    self.schedule.put(id, then, entry.rank());
                    continue;
                }
                Permission::Refused => {
                    self.counts.refused += 1;
                    entry.refused = true;
                    self.schedule.put(id, now + ASK_GATE_AGAIN, entry.rank());
                    continue;
                }
            };
            entry.refused = false;
            self.last_id += 1;
            let attempt = AttemptId {
                entry: id,
                attempt: self.last_id,
            };
            if let Some(message) = entry.start(attempt, self.send_resolved, self.late) {
                return Some(Attempt {
                    id: attempt,
                    message,
                    permit,
                });
            }
        }
        None
    }

    /// Ends an attempt: with an error, or well, and then with the receiver's reference if it has given one. One that is not known, or has ended, counts as delivered without a wait.
    pub fn finish(
        &mut self,
        attempt: AttemptId,
        result: Result<Option<Reference>, &SendError>,
        now: Instant,
    ) -> Finished {
        let id = attempt.entry;
        let Some(entry) = self.entries.get_mut(&id) else {
            return Finished::Delivered {
                waited: Duration::ZERO,
            };
        };
        let Some(sent) = entry.in_flight.take_if(|sent| sent.id == attempt) else {
            return Finished::Delivered {
                waited: Duration::ZERO,
            };
        };
        let finished = match result {
            Ok(reference) => Finished::Delivered {
                waited: entry.delivered(sent, reference, now),
            },
            Err(error) => {
                if let Verdict::Retry { after: Some(after) } = error.verdict {
                    let until = now + after.min(MAX_PAUSE);
                    self.paused_until = self.paused_until.max(Some(until));
                }
                match entry.failed(sent, error, now, &mut self.backoff) {
                    Some(after) => {
                        let due = (now + after).max(self.paused_until.unwrap_or(now));
                        self.schedule.put(id, due, entry.rank());
                        Finished::Owed { after: due - now }
                    }
                    None => Finished::Dropped,
                }
            }
        };
        self.settle(id, now);
        finished
    }

    /// Asks the gate again now about what it refused: it has changed.
    pub fn poke(&mut self, now: Instant) {
        let entries = &self.entries;
        let refused = |id| entries.get(&id).is_some_and(|entry| entry.refused);
        self.schedule.hurry(now, refused);
    }

    /// Makes everything due now that waits for its own retry: for a last attempt before the process ends. What the receiver asked for is still obeyed.
    pub fn poke_all(&mut self, now: Instant) {
        self.schedule.hurry(now, |_| true);
    }

    /// When there may be something to do next, if nothing else happens before. Nothing while all that is owed is in flight.
    pub fn next_deadline(&self) -> Option<Instant> {
        let due = self.schedule.deadline()?;
        Some(self.paused_until.map_or(due, |until| due.max(until)))
    }

    /// The number of alerts of which something is owed, in flight or not.
    pub fn len(&self) -> usize {
        self.owing().count()
    }

    /// Whether nothing is owed.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.owing().next().is_none()
    }

    /// Since when the oldest transition is owed.
    pub fn oldest(&self) -> Option<Instant> {
        self.owing().map(|(since, _)| since).min()
    }

    /// The identities of the alerts of which something is owed.
    pub fn owed(&self) -> impl Iterator<Item = &Labels> {
        self.owing().map(|(_, identity)| identity)
    }

    /// What was counted since this was last asked.
    pub fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }

    fn owing(&self) -> impl Iterator<Item = (Instant, &Labels)> {
        self.entries.values().filter_map(|entry| {
            let sent = entry.in_flight.as_ref().map(|sent| sent.owed.since);
            let owed = entry.owed.as_ref().map(|owed| owed.since);
            Some((sent.or(owed)?, &entry.identity))
        })
    }

    /// Queues the entry if it owes something, and forgets it if it holds nothing.
    fn settle(&mut self, id: EntryId, now: Instant) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        if entry.in_flight.is_some() {
            return;
        }
        if entry.event(self.send_resolved, self.late).is_some() {
            // What waits for its retry goes on waiting.
            let due = self.schedule.due(id).unwrap_or(now);
            self.schedule.put(id, due, entry.rank());
            return;
        }
        // Nothing to tell: the receiver holds what is true, or does not want to know.
        let over = entry.owed.take().is_some_and(|owed| owed.is_over());
        self.schedule.remove(id);
        if over || entry.standing.is_none() {
            self.remove(id);
        }
    }
}

impl Entry {
    fn new(identity: Labels, subject: Subject) -> Self {
        Self {
            identity,
            shard_key: ShardKey::of(&subject),
            subject,
            standing: None,
            doubtful: Vec::new(),
            owed: None,
            besides: Besides::new(),
            in_flight: None,
            failures: 0,
            failing_since: None,
            minimal: false,
            refused: false,
        }
    }

    /// What is to be written down of it.
    fn debt(&self) -> Debt {
        let mut doubtful = self.doubtful.clone();
        let mut owed = self.owed.clone();
        if let Some(sent) = &self.in_flight {
            owed = Some(sent.owed.clone().and_then(owed));
            let mut held = self.standing.iter().chain(&doubtful);
            if sent.event.is_firing() && !held.any(|held| held.labels == sent.told.labels) {
                doubtful.push(sent.told.clone());
            }
        }
        Debt {
            identity: self.identity.clone(),
            standing: self.standing.clone(),
            doubtful,
            owed: owed.as_ref().map(OwedDebt::from),
            besides: self.besides.clone(),
        }
    }

    /// Who goes first: by what is owed now.
    fn rank(&self) -> Rank {
        let severity = self
            .owed
            .as_ref()
            .map_or(Severity::Info, |owed| owed.notice.alert.severity);
        Rank::new(self.failures > 0, severity)
    }

    /// What the receiver has to be told, if anything.
    fn event(&self, send_resolved: bool, late: Late) -> Option<Event> {
        let owed = self.owed.as_ref()?;
        let unseen = |why| match late {
            Late::OneMessage => Event::FiredAndResolved(why),
            Late::FireThenResolve => Event::Fired,
        };
        match (owed.notice.transition, &self.standing) {
            (Transition::Resolved(why), Some(_)) if send_resolved => Some(Event::Resolved(why)),
            // Without resolves, it is a new page that it fired again since the delivered one.
            (Transition::Resolved(why), Some(_)) => owed.fired.then(|| unseen(why)),
            (Transition::Resolved(why), None) => Some(unseen(why)),
            (Transition::Fired | Transition::Changed, None) => Some(Event::Fired),
            (Transition::Fired | Transition::Changed, Some(standing)) => {
                if owed.ended {
                    // It ended in between, unseen: this is a new one to the receiver.
                    Some(Event::Fired)
                } else if standing.labels != owed.notice.alert.labels || !self.doubtful.is_empty() {
                    Some(Event::Changed)
                } else {
                    None
                }
            }
        }
    }

    /// Starts an attempt to tell what is owed.
    fn start(&mut self, id: AttemptId, send_resolved: bool, late: Late) -> Option<Message> {
        let event = self.event(send_resolved, late)?;
        let owed = self.owed.take()?;
        let mut message = Message::new(event, &owed.notice);
        message.transitions = owed.transitions;
        message.reference = self.reference().cloned();
        message.minimal = self.minimal;
        if send_resolved {
            let held = self.standing.iter().chain(&self.doubtful);
            message.stale = held
                .filter(|held| held.labels != message.alert.labels)
                .cloned()
                .collect();
        }
        self.in_flight = Some(InFlight {
            id,
            event,
            told: Standing::from(&message.alert),
            owed,
            minimal: self.minimal,
        });
        Some(message)
    }

    /// How the receiver knows it.
    fn reference(&self) -> Option<&Reference> {
        self.standing.as_ref()?.reference.as_ref()
    }

    /// The receiver has taken it. How long it waited for it.
    fn delivered(
        &mut self,
        sent: InFlight,
        reference: Option<Reference>,
        now: Instant,
    ) -> Duration {
        let waited = now.saturating_duration_since(sent.owed.since);
        self.failures = 0;
        self.failing_since = None;
        self.minimal = false;
        self.doubtful.clear();
        if sent.event.is_firing() {
            self.standing = Some(Standing {
                reference: reference.or_else(|| self.reference().cloned()),
                ..sent.told
            });
            if sent.owed.is_over() {
                // It was told in two steps: the end is still owed.
                let end = Owed {
                    transitions: 1,
                    fired: false,
                    ..sent.owed
                };
                self.owed = Some(end.and_then(self.owed.take()));
            }
        } else {
            self.standing = None;
        }
        waited
    }

    /// The attempt has failed. How long to wait before the next one; nothing if there is none.
    fn failed(
        &mut self,
        sent: InFlight,
        error: &SendError,
        now: Instant,
        backoff: &mut Backoff,
    ) -> Option<Duration> {
        let tried_after_its_end = sent.owed.is_over();
        if error.may_have_arrived && sent.event.is_firing() {
            let held = self.standing.iter().chain(&self.doubtful);
            if !held.into_iter().any(|held| held.labels == sent.told.labels) {
                self.doubtful.push(sent.told);
            }
        }
        let owed = sent.owed.and_then(self.owed.take());
        let over = owed.is_over();
        self.owed = Some(owed);
        self.failures = self.failures.saturating_add(1);
        let failing_since = *self.failing_since.get_or_insert(now);
        match error.verdict {
            Verdict::Retry { .. } => Some(backoff.wait(self.failures)),
            Verdict::Content if !sent.minimal => {
                self.minimal = true;
                Some(Duration::ZERO)
            }
            Verdict::Content | Verdict::Permanent => {
                let last = if self.standing.is_some() {
                    now.saturating_duration_since(failing_since) >= OFFER_RESOLVE
                } else {
                    true
                };
                if over && tried_after_its_end && last {
                    self.owed = None;
                    self.standing = None;
                    return None;
                }
                // The next attempt starts with the full message again: what was changed may be what refused it.
                self.minimal = false;
                Some(backoff::MAX)
            }
        }
    }
}

#[cfg(test)]
mod tests;
