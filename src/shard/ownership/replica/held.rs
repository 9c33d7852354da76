//! What a replica knows about a shard that it holds.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;

use super::{
    super::{super::ShardKey, Alerts, Epoch, Shard, State, Timing, Version, Writer},
    RequestId, Step,
    pace::{Pace, Promises, UNSAVED},
};

/// A shard whose Lease was taken. Losing the Lease loses all of it: who takes it again reads again.
#[derive(Debug)]
pub(super) struct Held<A> {
    /// When the last renewal that succeeded was sent: others count from later.
    pub renewed: Instant,
    /// Rule 6: whether the record was read after the Lease was taken.
    pub look: Look,
    pub book: Option<Book<A>>,
    /// The read of the own state that is under way.
    pub loading: Option<RequestId>,
    /// The epoch before whose acknowledgement the state was written a last time. After that it does not change any more.
    pub last_written: Option<Epoch>,
    /// Since when it is not sure that the Lease is still its own: somebody else has written the state. Until the Lease was read, or renewed, after that, the state
    /// is not read again: with a version from a newer holder's state, this one would write over it.
    pub unsure: Option<Instant>,
    pub pace: Pace,
    /// What has failed, since when, without a success in between.
    trouble: BTreeMap<Step, Trouble>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    Due,
    Asked(RequestId),
    Done,
}

#[derive(Debug, Clone, Copy)]
struct Trouble {
    since: Instant,
    last: Instant,
    given_up: bool,
}

impl<A> Held<A> {
    pub const fn new(renewed: Instant) -> Self {
        Self {
            renewed,
            look: Look::Due,
            book: None,
            loading: None,
            last_written: None,
            unsure: None,
            pace: Pace::new(),
            trouble: BTreeMap::new(),
        }
    }

    /// Counts a failure. Whether this is the one with which to give up. Only failures that follow each other count, not the time that passes without any: what
    /// fails twice in an hour has not failed for an hour, and a process that was stopped for a minute has not tried for a minute.
    pub fn failed(&mut self, step: Step, timing: &Timing, now: Instant) -> bool {
        let new = Trouble {
            since: now,
            last: now,
            given_up: false,
        };
        let trouble = self.trouble.entry(step).or_insert(new);
        if now.saturating_duration_since(trouble.last) > timing.give_up_after() / 2 {
            *trouble = new;
        }
        trouble.last = now;
        let long = now.saturating_duration_since(trouble.since) >= timing.give_up_after();
        let first = long && !trouble.given_up;
        trouble.given_up |= long;
        first
    }

    pub const fn book_mut(&mut self) -> Option<&mut Book<A>> {
        self.book.as_mut()
    }

    pub fn succeeded(&mut self, step: Step) {
        self.trouble.remove(&step);
    }

    pub fn is_failing(&self, step: Step) -> bool {
        self.trouble.contains_key(&step)
    }

    pub fn gave_up(&self, step: Step) -> bool {
        self.trouble
            .get(&step)
            .is_some_and(|trouble| trouble.given_up)
    }
}

/// A shard's state in its holder's memory.
#[derive(Debug)]
pub(super) struct Book<A> {
    /// Another number for each that was read.
    pub id: u64,
    pub state: State<A>,
    /// The version that the next write replaces.
    pub version: Option<Version>,
    pub basis: Basis,
    /// Whether it was written since it was read. Before that, a former holder's write that is under way could still land, and what is known here would not count.
    pub fenced: bool,
    /// Until when a send waits for that.
    pub fence_until: Instant,
    /// The alerts as others find them who take over now: as they were read, adopted, or written last.
    written: A,
    /// The shards of the previous generation whose adoption is in the written state. [`State::adopted`] is ahead of it.
    pub durable: BTreeSet<u32>,
    /// Reads of states of the previous generation that are under way.
    pub adopting: BTreeMap<u32, RequestId>,
    pub promises: Promises,
    /// That sends do not wait any more for what is not written was said, and nothing was written since.
    pub told_unsaved: bool,
    /// About since when there are changes that are not written.
    pub unsaved_since: Option<Instant>,
    /// Changes so far, ...
    revision: u64,
    /// ... and those that are in the written state.
    saved: u64,
}

/// Whether it is known what a write of a book would replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Basis {
    Read,
    /// The state could not be read, and the book holds only what was learned since. It is not written before it has been read.
    Unread,
    /// A write has ended in a conflict, or nobody knows how. It is not written before it is known again what is there.
    Stale,
}

/// What a write of a book contains, to be noted when it has succeeded.
#[derive(Debug)]
pub(super) struct Snapshot<A> {
    revision: u64,
    alerts: A,
    adopted: BTreeSet<u32>,
}

/// What a state that is read again says about a book that could not be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing that is not in the book.
    Nothing,
    /// Somebody else has written it.
    Others,
}

impl<A: Alerts> Book<A> {
    /// A state as it was read. One of another epoch counts for nothing: not its alerts, and not the marks of what it has adopted. It is of an earlier life of a
    /// shard of the same name, and what is true of its keys has been handed over to others since.
    ///
    /// It counts as changed, although it is not: the first write puts the own token on it, and is the fence.
    pub fn new(
        id: u64,
        epoch: Epoch,
        found: Option<(Version, Option<State<A>>)>,
        now: Instant,
    ) -> Self {
        let found = found.and_then(|(version, state)| Some((version, state?)));
        let version = found.as_ref().map(|(version, _)| *version);
        let state = found.map(|(_, state)| state);
        let state = state
            .filter(|state| state.epoch == epoch)
            .unwrap_or_else(|| State {
                epoch,
                ..State::default()
            });
        Self {
            id,
            written: state.alerts.clone(),
            durable: state.adopted.clone(),
            state,
            version,
            basis: Basis::Read,
            fenced: false,
            fence_until: now + UNSAVED,
            adopting: BTreeMap::new(),
            promises: Promises::default(),
            told_unsaved: false,
            unsaved_since: Some(now),
            revision: 1,
            saved: 0,
        }
    }

    /// The state could not be read for too long. That was waiting enough.
    pub fn unread(id: u64, epoch: Epoch, now: Instant) -> Self {
        Self {
            basis: Basis::Unread,
            fence_until: now,
            ..Self::new(id, epoch, None, now)
        }
    }

    /// A state that could not be read is there after all: what is known here is newer.
    pub fn read_late(&mut self, shard: Shard, found: Self) {
        self.id = found.id;
        self.state.alerts.adopt(&found.state.alerts, shard);
        self.written = found.written;
        self.state.adopted.extend(found.state.adopted);
        self.durable.extend(found.durable);
        self.version = found.version;
        self.basis = Basis::Read;
        self.touch();
    }

    /// What to make of a state that was read again, for this replica still has the Lease. Its own writes (one may have landed late), what was there before, what a
    /// former holder wrote before the fence (somebody has put it back), and what counts for nothing by its epoch, or because it was deleted, know nothing that
    /// this book does not.
    pub fn judge(&self, found: &(Version, Option<State<A>>), token: Option<&Writer>) -> Found {
        let (version, state) = found;
        let others = state.as_ref().is_some_and(|state| {
            let mine = token.is_some() && state.writer.as_ref() == token;
            let before_the_fence = self.fenced
                && state.writer.as_ref().map(|writer| writer.transitions)
                    <= token.map(|token| token.transitions);
            state.epoch == self.state.epoch
                && !mine
                && !before_the_fence
                && self.version != Some(*version)
        });
        if others {
            Found::Others
        } else {
            Found::Nothing
        }
    }

    /// It goes on, to replace this.
    pub fn go_on(&mut self, found: &(Version, Option<State<A>>)) {
        self.version = found.1.as_ref().map(|_| found.0);
        self.basis = Basis::Read;
    }

    /// Takes over what `shard` owns of the state of a shard of the generation before. One that is not of the epoch before counts as empty: nobody has
    /// served that shard since.
    pub fn adopt(&mut self, shard: Shard, from: u32, old: Option<&State<A>>) {
        let old = old.filter(|old| old.epoch.checked_add(1) == Some(self.state.epoch));
        if let Some(old) = old {
            self.state.alerts.adopt(&old.alerts, shard);
            self.written.adopt(&old.alerts, shard);
        }
        self.state.adopted.insert(from);
        self.touch();
    }

    /// What nobody would find who took over now.
    pub fn unwritten(&self) -> A {
        self.state.alerts.beyond(&self.written)
    }

    pub const fn touch(&mut self) {
        self.revision += 1;
    }

    pub const fn is_saved(&self) -> bool {
        self.saved == self.revision && !matches!(self.basis, Basis::Unread)
    }

    /// Whether there is something to write, and it is known over what.
    pub const fn is_to_be_saved(&self) -> bool {
        self.saved != self.revision && matches!(self.basis, Basis::Read)
    }

    /// Whether somebody waits for it to be written.
    pub fn is_urgent(&self) -> bool {
        !self.fenced || self.promises.are_urgent() || self.state.adopted != self.durable
    }

    /// Notes that a key is about to be sent for, with what is known now. See [`Promises`].
    pub fn promise(&mut self, key: ShardKey, urgent: bool, now: Instant) {
        if self.saved < self.revision {
            self.promises.add(key, self.revision, urgent, now);
        }
    }

    pub fn snapshot(&self) -> Snapshot<A> {
        Snapshot {
            revision: self.revision,
            alerts: self.state.alerts.clone(),
            adopted: self.state.adopted.clone(),
        }
    }

    /// It was written. Whether somebody has waited for that.
    pub fn written(&mut self, version: Version, snapshot: Snapshot<A>, sent: Instant) -> bool {
        let waited = !self.fenced;
        self.version = Some(version);
        self.saved = snapshot.revision;
        self.written = snapshot.alerts;
        self.durable = snapshot.adopted;
        self.fenced = true;
        self.told_unsaved = false;
        self.unsaved_since = (self.saved != self.revision).then_some(sent);
        self.promises.written(snapshot.revision) || waited
    }

    /// Notes, at each turn, whether there are changes.
    pub fn note_changes(&mut self, now: Instant) {
        if !self.is_saved() {
            self.unsaved_since.get_or_insert(now);
        }
    }
}
