//! What a replica asks of the API server, what it hears, and what it tells.

use tokio::time::Instant;

use super::super::{Epoch, Lease, Record, Shard, State, Version};

/// Numbers requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub(super) u64);

/// Something to ask of the API server. It is to be answered exactly once, with its id.
#[derive(Debug, Clone, PartialEq)]
pub struct Request<A> {
    /// For the answer.
    pub id: RequestId,
    /// What to ask.
    pub call: Call<A>,
}

/// What to ask. Writes are conditional: `expect` is the version that must be there, and nothing means that there must be no object.
#[derive(Debug, Clone, PartialEq)]
pub enum Call<A> {
    /// Create or replace a Lease.
    WriteLease {
        /// Whose.
        shard: Shard,
        /// The new content.
        lease: Lease,
        /// Whether `renewTime` becomes the wall clock's time, in any case a value that differs from the one before. `lease.renewed` is the old one.
        renew: bool,
        /// The version it was decided from.
        expect: Option<Version>,
    },
    /// Create or replace the record.
    WriteRecord {
        /// The new content.
        record: Record,
        /// The version it was decided from.
        expect: Option<Version>,
    },
    /// Create or replace a state.
    WriteState {
        /// Whose.
        shard: Shard,
        /// The new content.
        state: State<A>,
        /// The version it was decided from.
        expect: Option<Version>,
    },
    /// Delete a Lease.
    DeleteLease(Shard, Version),
    /// Delete a state.
    DeleteState(Shard, Version),
    /// Read a Lease, not from a cache. Where there is nothing the version of that is needed, too: a list of one name has it, a 404 has not.
    ReadLease(Shard),
    /// Read the record, in the same way.
    ReadRecord,
    /// Read a state, in the same way.
    ReadState(Shard),
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer<A> {
    /// A Lease as it is since this version: as read, or as written.
    Lease(Version, Option<Lease>),
    /// The record, in the same way.
    Record(Version, Option<Record>),
    /// A state, in the same way.
    State(Version, Option<State<A>>),
    /// Deleted.
    Deleted,
    /// The object is of another version than expected.
    Conflict,
    /// The request failed, and certainly has no effect.
    Refused,
    /// No answer in time, or none that tells: a write may have an effect, even later.
    Unknown,
}

/// What has changed, for those who log, count or act on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The replica serves this shard now.
    Serves(Shard),
    /// It does not any more.
    Left(Shard),
    /// The record is another one.
    Record(Record),
    /// Something failed for too long, and paging goes on without: what stands may be paged again (with the same key), and a resolve may be missing.
    Incomplete(Shard, Step),
    /// What is remembered about a shard was read, as far as it could be: about all of its keys, or, in a hand-over, about those that this shard of the previous
    /// generation owned. Each is said once, until [`Forgot`](Self::Forgot).
    Known(Shard, Option<Shard>),
    /// All that was said to be known of this shard is not any more: its Lease is lost or let go, it was handed over, or somebody else has written its state.
    Forgot(Shard),
    /// Something that was waited for is written: a [promise](super::Replica::promise), or the first write since the state was read.
    Saved(Shard),
    /// Sends do not wait any more, although the state is not written: if this replica ended now, they would be repeated. Said once until a write succeeds.
    Unsaved(Shard),
    /// Somebody else has changed or deleted the state, although this replica holds the shard: it is read again, and written as it should be.
    Meddled(Shard),
}

/// Whether something may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Leave {
    /// It has begun, and has to be [ended](super::Replica::end_send).
    Granted,
    /// Not before it is written, or then, whatever comes first.
    NotBefore(Instant),
    /// No: the shard is not served here, or not for so long.
    Refused,
}

/// What can fail for long, without stopping the paging for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Reading the shard's own state.
    Load,
    /// Reading, or finding complete, the state of this shard of the previous generation.
    Adopt(u32),
    /// Writing the state with what was adopted.
    Save,
    /// Writing the state a last time, before acknowledging this epoch.
    LastWrite(Epoch),
}

/// What comes of looking.
#[derive(Debug, Clone, PartialEq)]
pub struct Output<A> {
    /// To be sent, at once and side by side: there is never more than one write to one object.
    pub requests: Vec<Request<A>>,
    /// What has changed, in order.
    pub changes: Vec<Change>,
}
