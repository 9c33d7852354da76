//! What was asked of the API server, counted for metrics.

use super::transport::Done;
use crate::shard::ownership::{Answer, Call};

/// Requests by what became of them, since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// They succeeded.
    pub ok: u64,
    /// The object was of another version than expected.
    pub conflict: u64,
    /// They failed, without an effect.
    pub refused: u64,
    /// They failed, and may have had an effect.
    pub unknown: u64,
}

/// What was asked since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Reads, writes and deletions of Leases, without the watch.
    pub leases: Outcomes,
    /// Writes of states, whatever the number of their parts.
    pub state_writes: Outcomes,
    /// Bytes that were sent for these.
    pub state_bytes: u64,
}

/// Where a call counts.
#[derive(Debug, Clone, Copy)]
pub(super) enum Counted {
    Lease,
    StateWrite,
    Nowhere,
}

impl Counted {
    pub const fn of<A>(call: &Call<A>) -> Self {
        match call {
            Call::WriteLease { .. } | Call::ReadLease(_) | Call::DeleteLease(..) => Self::Lease,
            Call::WriteState { .. } => Self::StateWrite,
            Call::WriteRecord { .. }
            | Call::ReadRecord
            | Call::ReadState(_)
            | Call::DeleteState(..) => Self::Nowhere,
        }
    }
}

impl Traffic {
    pub(super) fn count<A>(&mut self, counted: Counted, done: &Done<A>) {
        self.state_bytes += done.wrote.map_or(0, |(_, bytes)| bytes);
        let outcomes = match counted {
            Counted::Lease => &mut self.leases,
            Counted::StateWrite => &mut self.state_writes,
            Counted::Nowhere => return,
        };
        *match done.answer {
            Answer::Lease(..) | Answer::Record(..) | Answer::State(..) | Answer::Deleted => {
                &mut outcomes.ok
            }
            Answer::Conflict => &mut outcomes.conflict,
            Answer::Refused => &mut outcomes.refused,
            Answer::Unknown => &mut outcomes.unknown,
        } += 1;
    }
}
