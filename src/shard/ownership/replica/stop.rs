//! Stopping: first the sending, then the writing, then letting go.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::{
    super::{Alerts, HeldBy, Shard},
    Call, Object, Purpose, Replica,
};

/// How far a stop is.
#[derive(Debug)]
pub(super) enum Stop {
    /// Sends are in flight.
    Sending,
    /// The states are being written: none is tried again that could not be, since time is short.
    Saving,
    /// The Leases that are left to free, and whether each has been read since the stop began. They are read again first: an answer that was lost, or
    /// a claim of somebody else's, must not leave one behind.
    Freeing(BTreeMap<Shard, bool>),
}

impl<A: Alerts> Replica<A> {
    /// Stops: from now on nothing is sent. [`poll`](Self::poll) goes on until [`is_stopped`](Self::is_stopped).
    pub fn stop(&mut self) {
        self.stop.get_or_insert(Stop::Sending);
    }

    /// Whether everything that was held is free. A process that ends earlier leaves its Leases to expire.
    pub fn is_stopped(&self) -> bool {
        matches!(&self.stop, Some(Stop::Freeing(left)) if left.is_empty())
    }

    pub(super) fn work_on_stop(&mut self, now: Instant) {
        if matches!(self.stop, Some(Stop::Sending)) && self.sending.is_empty() {
            self.stop = Some(Stop::Saving);
        }
        if matches!(self.stop, Some(Stop::Saving)) {
            let shards: Vec<_> = self.held.keys().copied().collect();
            for shard in shards {
                self.save_changes(shard, now);
            }
        }
        // A write that was under way may be without the last changes: they follow, and so this waits for nothing else than writes.
        let writing = self
            .pending
            .values()
            .any(|pending| pending.purpose.writes());
        if matches!(self.stop, Some(Stop::Saving)) && !writing {
            let seen = self.view.leases().map(|(shard, _)| shard);
            let left = seen.chain([self.me.shard()]).map(|shard| (shard, false));
            self.stop = Some(Stop::Freeing(left.collect()));
            self.held.clear();
        }
        self.free(now);
    }

    fn free(&mut self, now: Instant) {
        let Some(Stop::Freeing(left)) = &mut self.stop else {
            return;
        };
        let mut left = std::mem::take(left);
        left.retain(|shard, read| {
            let object = Object::Lease(*shard);
            if !self.is_free(object) {
                return true;
            }
            if !*read {
                self.read(object, Purpose::Read, now);
                return true;
            }
            let Some(mut lease) = self.view.lease(*shard).cloned() else {
                return false;
            };
            if lease.held_by.is(&self.me) {
                lease.held_by = HeldBy::Nobody;
            } else if lease.claimed_by.as_ref() == Some(&self.me) {
                lease.claimed_by = None;
            } else {
                return false;
            }
            let call = Call::WriteLease {
                shard: *shard,
                lease,
                renew: false,
                expect: self.view.lease_version(*shard),
            };
            self.ask(object, Purpose::Write, call, now);
            true
        });
        self.stop = Some(Stop::Freeing(left));
    }

    /// Notes that a Lease was read, or has to be read again.
    pub(super) fn note_read(&mut self, shard: Shard, known: bool) {
        if let Some(Stop::Freeing(left)) = &mut self.stop
            && let Some(read) = left.get_mut(&shard)
        {
            *read = known;
        }
    }
}
