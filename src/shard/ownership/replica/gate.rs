//! The gate: rule 5, and what waits for the state to be written.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    super::{super::ShardKey, Alerts, Shard},
    Change, Leave, Replica, Step,
    held::{Book, Held, Look},
};

impl<A: Alerts> Replica<A> {
    /// Whether this replica holds a shard's Lease, by its own clock. Holding its [own](super::super::Holder::shard) is being ready.
    pub fn holds(&self, shard: Shard, now: Instant) -> bool {
        self.is_mine(shard)
            && self
                .held
                .get(&shard)
                .is_some_and(|held| self.timing.may_start(held.renewed, now, Duration::ZERO))
    }

    /// The shards whose Leases are this replica's still, as far as it has seen, and could not be renewed in time.
    pub fn expired(&self, now: Instant) -> impl Iterator<Item = Shard> {
        let mine = self.held.keys().filter(|shard| self.is_mine(**shard));
        mine.filter(move |shard| !self.holds(**shard, now)).copied()
    }

    /// Whether this replica serves a shard: it holds the Lease by its own clock, has looked since it took it, and the Lease says that nothing older than the
    /// record's epoch is served any more.
    ///
    /// The last makes a change of the record that this replica sees late harmless: who took the Lease in between has put the new epoch on it.
    pub fn serves(&self, shard: Shard, now: Instant) -> bool {
        self.may_start(shard, now, Duration::ZERO)
    }

    /// Whether an attempt to send for a key that ends within `within` may start now, apart from what was [promised](Self::promise) for it.
    ///
    /// The state must have been written since it was read, or 2 s must have passed.
    pub fn may_send(&self, key: &ShardKey, now: Instant, within: Duration) -> bool {
        self.sender(key, now, within)
            .is_some_and(|(_, book)| book.fenced || book.fence_until <= now)
    }

    /// Begins an attempt to send, if it may start: until it has ended, nothing is acknowledged or let go that it could belong to.
    ///
    /// What waits for the state to be written does so for 2 s.
    pub fn begin_send(&mut self, key: &ShardKey, now: Instant, within: Duration) -> Leave {
        let Some((shard, book)) = self.sender(key, now, within) else {
            return Leave::Refused;
        };
        let fence = (!book.fenced).then_some(book.fence_until);
        let wait = fence.max(book.promises.until(key));
        if let Some(until) = wait {
            if now < until {
                return Leave::NotBefore(until);
            }
            if fence.is_some() || book.promises.is_urgent(key) {
                self.sent_unsaved += 1;
                self.tell_unsaved(shard);
            }
        }
        *self.sending.entry(*key).or_default() += 1;
        Leave::Granted
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

    /// How many attempts to send have begun although the state that they belong to was not written.
    pub const fn sent_unsaved(&self) -> u64 {
        self.sent_unsaved
    }

    /// The shard for which an attempt to send for a key could start now, if it need not wait for a write, and what is remembered about it.
    fn sender(&self, key: &ShardKey, now: Instant, within: Duration) -> Option<(Shard, &Book<A>)> {
        let record = self.view.record()?;
        let shard = Shard::of(key, record.active);
        let held = self.held.get(&shard)?;
        let book = held.book.as_ref()?;
        let adopted = |previous| {
            let was = Shard::of(key, previous).index;
            // Rule 4: what was adopted is written, or that has failed for too long.
            book.durable.contains(&was)
                || held.gave_up(Step::Save) && book.state.adopted.contains(&was)
        };
        let may = self.may_start(shard, now, within)
            && book.state.epoch == record.epoch
            && record.previous.is_none_or(adopted);
        may.then_some((shard, book))
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

    pub(super) fn tell_unsaved(&mut self, shard: Shard) {
        let book = self.held.get_mut(&shard).and_then(Held::book_mut);
        if let Some(book) = book
            && !std::mem::replace(&mut book.told_unsaved, true)
        {
            self.changes.push(Change::Unsaved(shard));
        }
    }
}
