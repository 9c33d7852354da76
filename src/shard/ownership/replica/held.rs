//! What a replica knows about a shard that it holds.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;

use super::{
    super::{Alerts, Epoch, Shard, State, Timing, Version},
    RequestId, Step,
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
    pub state: State<A>,
    /// The version that the next write replaces.
    pub version: Option<Version>,
    /// It could not be read, and what it holds is only what was learned since. It is not written before it has been read.
    pub unread: bool,
    /// The shards of the previous generation whose adoption is in the written state. [`State::adopted`] is ahead of it.
    pub durable: BTreeSet<u32>,
    /// Reads of states of the previous generation that are under way.
    pub adopting: BTreeMap<u32, RequestId>,
    /// Changes so far, ...
    revision: u64,
    /// ... and those that are in the written state.
    saved: u64,
}

/// What a write of a book contains, to be noted when it has succeeded.
#[derive(Debug)]
pub(super) struct Snapshot {
    revision: u64,
    adopted: BTreeSet<u32>,
}

impl<A: Alerts> Book<A> {
    /// A state as it was read. One of another epoch counts for nothing: not its alerts, and not the marks of what it has adopted. It is of an earlier life of a
    /// shard of the same name, and what is true of its keys has been handed over to others since.
    pub fn new(epoch: Epoch, found: Option<(Version, State<A>)>) -> Self {
        let version = found.as_ref().map(|(version, _)| *version);
        let state = found.map(|(_, state)| state);
        let state = state
            .filter(|state| state.epoch == epoch)
            .unwrap_or_else(|| State {
                epoch,
                ..State::default()
            });
        Self {
            durable: state.adopted.clone(),
            state,
            version,
            unread: false,
            adopting: BTreeMap::new(),
            revision: 0,
            saved: 0,
        }
    }

    /// The state could not be read for too long.
    pub fn unread(epoch: Epoch) -> Self {
        Self {
            unread: true,
            ..Self::new(epoch, None)
        }
    }

    /// A state that could not be read is there after all: what is known here is newer.
    pub fn read_late(&mut self, shard: Shard, found: Self) {
        self.state.alerts.adopt(&found.state.alerts, shard);
        self.state.adopted.extend(found.state.adopted);
        self.durable.extend(found.durable);
        self.version = found.version;
        self.unread = false;
        self.touch();
    }

    /// Takes over what `shard` owns of the state of a shard of the generation before. One that is not of the epoch before counts as empty: nobody has
    /// served that shard since.
    pub fn adopt(&mut self, shard: Shard, from: u32, old: Option<&State<A>>) {
        let old = old.filter(|old| old.epoch.checked_add(1) == Some(self.state.epoch));
        if let Some(old) = old {
            self.state.alerts.adopt(&old.alerts, shard);
        }
        self.state.adopted.insert(from);
        self.touch();
    }

    pub const fn touch(&mut self) {
        self.revision += 1;
    }

    pub const fn is_saved(&self) -> bool {
        self.saved == self.revision && !self.unread
    }

    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            revision: self.revision,
            adopted: self.state.adopted.clone(),
        }
    }

    pub fn written(&mut self, version: Version, snapshot: Snapshot) {
        self.version = Some(version);
        self.saved = snapshot.revision;
        self.durable = snapshot.adopted;
    }
}
