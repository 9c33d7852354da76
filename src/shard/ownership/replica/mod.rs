//! What one replica does: a state machine without I/O. What is decided becomes requests, answers become what it knows.

mod answers;
mod gate;
mod held;
mod known;
mod memory;
mod pace;
mod request;
mod stop;
mod work;

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;

use self::{
    held::{Held, Snapshot},
    known::Told,
    stop::Stop,
};
use super::{
    super::ShardKey, Alerts, Covered, Epoch, HASH_ID, HeldBy, Holder, Lease, Record, Shard,
    Situation, Timing, Version, View, coverage::Coverage,
};

pub use request::{Answer, Call, Change, Leave, Output, Request, RequestId, Step};

/// One replica. Its transport
///
/// - tells it what its watches bring (`see_...`), and that they have synced;
/// - calls [`poll`](Self::poll) after each of these, after each answer, after each change of the [alerts](Self::alerts_mut), at the
///   [next deadline](Self::next_deadline), and every [retry period](Timing::retry_period) (with some jitter);
/// - sends each request that comes of it, with a time-out, and gives back the [answer](Self::answer); and says [how much](Self::wrote) was written;
/// - wraps each attempt to send in [`begin_send`](Self::begin_send) and [`end_send`](Self::end_send).
///
/// All times are its own monotonic clock's.
#[derive(Debug)]
pub struct Replica<A> {
    me: Holder,
    takeover: bool,
    allowed: bool,
    timing: Timing,
    view: View,
    coverage: Coverage,
    synced: bool,
    held: BTreeMap<Shard, Held<A>>,
    /// What could not be written of shards before they were lost.
    unwritten: BTreeMap<Shard, A>,
    /// Attempts to send that are under way, by key. They outlive the Lease under which they began.
    sending: BTreeMap<ShardKey, u32>,
    stop: Option<Stop>,

    next_id: u64,
    pending: BTreeMap<RequestId, Pending<A>>,
    /// Objects that were not as expected, or whose write has an unknown outcome: to be read again before the next write.
    doubtful: BTreeSet<Object>,
    /// When the last reads of Leases that were answered were sent.
    looked: BTreeMap<Shard, Instant>,
    /// Objects for which the API server has just failed: not before then.
    not_before: BTreeMap<Object, Instant>,
    /// The same for deleting, which may be refused for ever (it is a right of its own), and must hold up nothing else.
    no_delete_before: BTreeMap<Object, Instant>,

    requests: Vec<Request<A>>,
    changes: Vec<Change>,
    /// What was said last about the shards served, and the record.
    told: (BTreeSet<Shard>, Option<Record>),
    /// What was said to be known.
    known: BTreeMap<Shard, Told>,
    /// Numbers the books.
    next_book: u64,
    /// When the next turn is due, whatever else comes.
    deadline: Option<Instant>,
    /// Attempts to send that did not wait for a write any more.
    sent_unsaved: u64,
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
struct Pending<A> {
    object: Object,
    sent: Instant,
    purpose: Purpose<A>,
}

/// What a request is for.
#[derive(Debug)]
enum Purpose<A> {
    /// To write something that is only noted.
    Write,
    /// To delete this version.
    Delete(Version),
    /// To hold a Lease.
    Renew,
    /// To write a state; before an acknowledgement, a last time.
    Save(Snapshot<A>, Option<Epoch>),
    /// To know an object again.
    Read,
    /// To read the record after having taken this shard's Lease.
    Look(Shard),
    /// To read the own state, for this epoch.
    Load(Epoch),
    /// To read the state of a shard of the previous generation, for this shard.
    Adopt(Shard),
}

impl<A> Purpose<A> {
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
            allowed: true,
            timing,
            view: View::default(),
            coverage: Coverage::default(),
            synced: false,
            held: BTreeMap::new(),
            unwritten: BTreeMap::new(),
            sending: BTreeMap::new(),
            stop: None,
            next_id: 0,
            pending: BTreeMap::new(),
            doubtful: BTreeSet::new(),
            looked: BTreeMap::new(),
            not_before: BTreeMap::new(),
            no_delete_before: BTreeMap::new(),
            requests: Vec::new(),
            changes: Vec::new(),
            told: (BTreeSet::new(), None),
            known: BTreeMap::new(),
            next_book: 0,
            deadline: None,
            sent_unsaved: 0,
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
            let lost = self.held.remove(&shard);
            let freed = self.view.lease(shard).map(|lease| &lease.held_by) == Some(&HeldBy::Nobody);
            if lost.is_some() && freed && !self.me.owns(shard) {
                // Whoever it was let go for has the first turn: two replicas, each in the other's place, would let go and take again without a pause.
                let until = now + self.timing.retry_period() / 2;
                self.not_before.insert(Object::Lease(shard), until);
            }
            self.lose(shard, lost.and_then(|held| held.book));
        }
    }

    /// The record has changed in this version; nothing means that it was deleted.
    pub fn see_record(&mut self, version: Version, record: Option<Record>) {
        self.view.learn_record(version, record);
    }

    /// A state has changed in this version, and is of this epoch; nothing means that it was deleted.
    pub fn see_state(&mut self, shard: Shard, version: Version, epoch: Option<Epoch>) {
        if self.view.learn_state(shard, version, epoch) {
            self.mind_the_state(shard, version);
        }
    }

    // === What it may do, and what others do ===

    /// Whether this replica may take part, as it does from the start. One that may not lets go of what it holds, in order, takes nothing, and says nothing: so does
    /// one whose total [does not fit](fn@super::fit).
    pub const fn allow(&mut self, allowed: bool) {
        self.allowed = allowed;
    }

    /// Whether another replica of this total is up that stays when there are only so many: when this one is told to stop, and its ordinal is not wanted any more,
    /// then somebody is there to take over.
    pub fn has_successor(&self, replicas: u32, now: Instant) -> bool {
        self.view
            .leases()
            .filter(|(shard, _)| self.view.is_fresh(*shard, now))
            .filter_map(|(_, lease)| lease.held_by.replica())
            .any(|other| *other != self.me && other.ordinal < replicas && other.total == replicas)
    }

    /// Who serves each shard that matters, and since when that is so, as it was seen at the turns so far. See [`Covered`].
    pub fn coverage(&self, now: Instant) -> Vec<Covered> {
        self.coverage.at(&self.view, now)
    }

    /// The ordinal of the next replica in the ring that is up, from the index of a shard on: who is to see to it that the shard is served.
    pub fn heir_of(&self, shard: Shard, now: Instant) -> u32 {
        self.situation(now).heir_of(shard)
    }

    /// Reads a shard's Lease at the next turn, not from a cache: a watch can stand still for a while without anybody noticing.
    pub fn look_at(&mut self, shard: Shard) {
        self.doubtful.insert(Object::Lease(shard));
    }

    /// When the last such read that was answered was sent, if there was one.
    pub fn looked_at(&self, shard: Shard) -> Option<Instant> {
        self.looked.get(&shard).copied()
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
        self.note_changes(now);
        self.coverage.note(&self.view, now);
        self.tell(now);
        self.tell_known();
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

    const fn situation(&self, now: Instant) -> Situation<'_> {
        Situation {
            view: &self.view,
            me: &self.me,
            takeover: self.takeover,
            now,
        }
    }

    /// Who this replica is.
    pub const fn me(&self) -> &Holder {
        &self.me
    }

    /// What is seen.
    pub const fn view(&self) -> &View {
        &self.view
    }

    /// The record, if it is one that this version of the program can follow.
    fn record(&self) -> Option<&Record> {
        self.view.record().filter(|record| &*record.hash == HASH_ID)
    }

    /// The shards whose Leases this replica has taken, as far as it sees.
    pub fn held(&self) -> impl Iterator<Item = Shard> {
        self.held.keys().copied()
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

    fn ask(
        &mut self,
        object: Object,
        purpose: Purpose<A>,
        call: Call<A>,
        now: Instant,
    ) -> RequestId {
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

    fn read(&mut self, object: Object, purpose: Purpose<A>, now: Instant) -> RequestId {
        let call = match object {
            Object::Record => Call::ReadRecord,
            Object::Lease(shard) => Call::ReadLease(shard),
            Object::State(shard) => Call::ReadState(shard),
        };
        self.ask(object, purpose, call, now)
    }
}
