//! What one replica does: a state machine without I/O. What is decided becomes requests, answers become what it knows.

mod answers;
mod held;
mod request;
mod stop;
mod work;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::time::Instant;

use self::{
    held::{Held, Look, Snapshot},
    stop::Stop,
};
use super::{
    super::ShardKey, Alerts, Epoch, HASH_ID, Holder, Lease, Record, Shard, Timing, Version, View,
};

pub use request::{Answer, Call, Change, Output, Request, RequestId, Step};

/// One replica. Its transport
///
/// - tells it what its watches bring (`see_...`), and that they have synced;
/// - calls [`poll`](Self::poll) after each of these, after each answer, and every [retry period](Timing::retry_period) (with some jitter);
/// - sends each request that comes of it, with a time-out, and gives back the [answer](Self::answer);
/// - wraps each attempt to send in [`begin_send`](Self::begin_send) and [`end_send`](Self::end_send).
///
/// All times are its own monotonic clock's.
#[derive(Debug)]
pub struct Replica<A> {
    me: Holder,
    takeover: bool,
    timing: Timing,
    view: View,
    synced: bool,
    held: BTreeMap<Shard, Held<A>>,
    /// Attempts to send that are under way, by key. They outlive the Lease under which they began.
    sending: BTreeMap<ShardKey, u32>,
    stop: Option<Stop>,

    next_id: u64,
    pending: BTreeMap<RequestId, Pending>,
    /// Objects that were not as expected, or whose write has an unknown outcome: to be read again before the next write.
    doubtful: BTreeSet<Object>,
    /// Objects for which the API server has just failed: not before then.
    not_before: BTreeMap<Object, Instant>,
    /// The same for deleting, which may be refused for ever (it is a right of its own), and must hold up nothing else.
    no_delete_before: BTreeMap<Object, Instant>,

    requests: Vec<Request<A>>,
    changes: Vec<Change>,
    /// What was said last about the shards served, and the record.
    told: (BTreeSet<Shard>, Option<Record>),
}

/// An object of the API server's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Object {
    Record,
    Lease(Shard),
    State(Shard),
}

/// A request under way.
#[derive(Debug)]
struct Pending {
    object: Object,
    sent: Instant,
    purpose: Purpose,
}

/// What a request is for.
#[derive(Debug)]
enum Purpose {
    /// To write something that is only noted.
    Write,
    /// To delete this version.
    Delete(Version),
    /// To hold a Lease.
    Renew,
    /// To write a state; before an acknowledgement, a last time.
    Save(Snapshot, Option<Epoch>),
    /// To know an object again.
    Read,
    /// To read the record after having taken this shard's Lease.
    Look(Shard),
    /// To read the own state, for this epoch.
    Load(Epoch),
    /// To read the state of a shard of the previous generation, for this shard.
    Adopt(Shard),
}

impl Purpose {
    const fn writes(&self) -> bool {
        matches!(
            self,
            Self::Write | Self::Delete(_) | Self::Renew | Self::Save(..)
        )
    }
}

impl<A: Alerts> Replica<A> {
    /// A replica that knows nothing yet. With `takeover` off, nobody takes over for a replica that is down while no generation changes.
    pub fn new(me: Holder, takeover: bool, timing: Timing) -> Self {
        Self {
            me,
            takeover,
            timing,
            view: View::default(),
            synced: false,
            held: BTreeMap::new(),
            sending: BTreeMap::new(),
            stop: None,
            next_id: 0,
            pending: BTreeMap::new(),
            doubtful: BTreeSet::new(),
            not_before: BTreeMap::new(),
            no_delete_before: BTreeMap::new(),
            requests: Vec::new(),
            changes: Vec::new(),
            told: (BTreeSet::new(), None),
        }
    }

    // === What the watches bring ===

    /// All watches have brought their first complete list, those of Leases, states and the record among them. Nothing is asked for before that: holding the own
    /// Lease means being ready.
    pub const fn synced(&mut self) {
        self.synced = true;
    }

    /// A Lease has changed in this version; nothing means that it was deleted.
    pub fn see_lease(
        &mut self,
        shard: Shard,
        version: Version,
        lease: Option<Lease>,
        now: Instant,
    ) {
        let newer = self.view.learn_lease(shard, version, lease, now);
        if newer && !self.is_mine(shard) {
            self.held.remove(&shard);
        }
    }

    /// The record has changed in this version; nothing means that it was deleted.
    pub fn see_record(&mut self, version: Version, record: Option<Record>) {
        self.view.learn_record(version, record);
    }

    /// A state has changed in this version, and is of this epoch; nothing means that it was deleted.
    pub fn see_state(&mut self, shard: Shard, version: Version, epoch: Option<Epoch>) {
        self.view.learn_state(shard, version, epoch);
    }

    // === The gate ===

    /// Whether this replica holds a shard's Lease, by its own clock. Holding its [own](Holder::shard) is being ready.
    pub fn holds(&self, shard: Shard, now: Instant) -> bool {
        self.is_mine(shard)
            && self
                .held
                .get(&shard)
                .is_some_and(|held| self.timing.may_start(held.renewed, now, Duration::ZERO))
    }

    /// Whether this replica serves a shard: it holds the Lease by its own clock, has looked since it took it, and the Lease says that nothing older than the
    /// record's epoch is served any more.
    ///
    /// The last makes a change of the record that this replica sees late harmless: who took the Lease in between has put the new epoch on it.
    pub fn serves(&self, shard: Shard, now: Instant) -> bool {
        self.may_start(shard, now, Duration::ZERO)
    }

    /// Whether an attempt to send for a key that ends within `within` may start now.
    pub fn may_send(&self, key: &ShardKey, now: Instant, within: Duration) -> bool {
        let Some(record) = self.view.record() else {
            return false;
        };
        let shard = Shard::of(key, record.active);
        self.may_start(shard, now, within)
            && self.held.get(&shard).is_some_and(|held| {
                let was = |previous| Shard::of(key, previous).index;
                held.book.as_ref().is_some_and(|book| {
                    book.state.epoch == record.epoch
                        && record.previous.is_none_or(|previous| {
                            // Rule 4: what was adopted is written, or that has failed for too long.
                            book.durable.contains(&was(previous))
                                || held.gave_up(Step::Save)
                                    && book.state.adopted.contains(&was(previous))
                        })
                })
            })
    }

    fn may_start(&self, shard: Shard, now: Instant, within: Duration) -> bool {
        let epoch = self.record().map(|record| record.epoch);
        self.stop.is_none()
            && self.is_mine(shard)
            && self.view.lease(shard).map(|lease| lease.acknowledged) == epoch
            && self.held.get(&shard).is_some_and(|held| {
                held.look == Look::Done && self.timing.may_start(held.renewed, now, within)
            })
    }

    /// Begins an attempt to send, if it may start: until it has ended, nothing is acknowledged or let go that it could belong to.
    #[must_use]
    pub fn begin_send(&mut self, key: &ShardKey, now: Instant, within: Duration) -> bool {
        let may = self.may_send(key, now, within);
        if may {
            *self.sending.entry(*key).or_default() += 1;
        }
        may
    }

    /// An attempt to send has ended, one way or another. What is known of its outcome belongs into the [alerts](Self::alerts_mut) before this.
    pub fn end_send(&mut self, key: &ShardKey) {
        if let Some(attempts) = self.sending.get_mut(key) {
            *attempts -= 1;
            if *attempts == 0 {
                self.sending.remove(key);
            }
        }
    }

    // === What a shard remembers ===

    /// The alerts of a shard that this replica holds, once they have been read.
    pub fn alerts(&self, shard: Shard) -> Option<&A> {
        Some(&self.held.get(&shard)?.book.as_ref()?.state.alerts)
    }

    /// The same, to be changed: the next [`poll`](Self::poll) writes them. Nothing, too, once they were written a last time.
    pub fn alerts_mut(&mut self, shard: Shard) -> Option<&mut A> {
        let sealing = self.pending.values().any(|pending| {
            pending.object == Object::State(shard)
                && matches!(pending.purpose, Purpose::Save(_, Some(_)))
        });
        let epoch = self.view.record()?.epoch;
        let held = self.held.get_mut(&shard)?;
        let book = held.book.as_mut()?;
        if sealing || held.last_written == Some(epoch) {
            return None;
        }
        book.touch();
        Some(&mut book.state.alerts)
    }

    /// Whether the alerts of a shard are written as they are now.
    pub fn is_saved(&self, shard: Shard) -> bool {
        let held = self.held.get(&shard);
        held.and_then(|held| held.book.as_ref())
            .is_some_and(held::Book::is_saved)
    }

    // === The turn ===

    /// Looks at how things are, and says what to ask for. It can be called at any time, and asks for nothing twice.
    pub fn poll(&mut self, now: Instant) -> Output<A> {
        self.not_before.retain(|_, until| *until > now);
        self.no_delete_before.retain(|_, until| *until > now);
        for object in std::mem::take(&mut self.doubtful) {
            self.read(object, Purpose::Read, now);
        }
        if self.stop.is_some() {
            self.work_on_stop(now);
        } else if self.synced {
            self.work(now);
        }
        self.tell(now);
        Output {
            requests: std::mem::take(&mut self.requests),
            changes: std::mem::take(&mut self.changes),
        }
    }

    fn tell(&mut self, now: Instant) {
        let record = self.record().cloned();
        if self.told.1 != record {
            self.changes.extend(record.clone().map(Change::Record));
            self.told.1 = record;
        }
        let serves: BTreeSet<_> = self.held.keys().copied().collect();
        let serves = serves
            .into_iter()
            .filter(|shard| self.serves(*shard, now))
            .collect();
        let before = std::mem::replace(&mut self.told.0, serves);
        let (before, serves) = (&before, &self.told.0);
        let left = before.difference(serves).map(|shard| Change::Left(*shard));
        self.changes.extend(left);
        let new = serves
            .difference(before)
            .map(|shard| Change::Serves(*shard));
        self.changes.extend(new);
    }

    // === Small things ===

    /// What is seen.
    pub const fn view(&self) -> &View {
        &self.view
    }

    /// The record, if it is one that this version of the program can follow.
    fn record(&self) -> Option<&Record> {
        self.view.record().filter(|record| &*record.hash == HASH_ID)
    }

    /// Whether this replica holds a shard's Lease, as far as it sees.
    fn is_mine(&self, shard: Shard) -> bool {
        let lease = self.view.lease(shard);
        lease.is_some_and(|lease| lease.held_by.is(&self.me))
    }

    /// Whether an attempt to send is under way for a key of this shard.
    fn is_busy(&self, shard: Shard) -> bool {
        self.sending.keys().any(|key| shard.owns(key))
    }

    /// Whether a write to an object can be asked for now: there is one at a time, none while it is being read again, and none right after a failure.
    fn is_free(&self, object: Object) -> bool {
        !self.not_before.contains_key(&object)
            && !self.pending.values().any(|pending| {
                pending.object == object
                    && (pending.purpose.writes() || matches!(pending.purpose, Purpose::Read))
            })
    }

    fn ask(&mut self, object: Object, purpose: Purpose, call: Call<A>, now: Instant) -> RequestId {
        let id = RequestId(self.next_id);
        self.next_id += 1;
        let sent = now;
        self.pending.insert(
            id,
            Pending {
                object,
                sent,
                purpose,
            },
        );
        self.requests.push(Request { id, call });
        id
    }

    fn read(&mut self, object: Object, purpose: Purpose, now: Instant) -> RequestId {
        let call = match object {
            Object::Record => Call::ReadRecord,
            Object::Lease(shard) => Call::ReadLease(shard),
            Object::State(shard) => Call::ReadState(shard),
        };
        self.ask(object, purpose, call, now)
    }
}
