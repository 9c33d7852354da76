//! What a shard remembers: to be read, changed, and written.

use tokio::time::Instant;

use super::{
    super::{super::ShardKey, Alerts, Shard, Version},
    Change, Object, Purpose, Replica, Step,
    held::{Basis, Held},
};

impl<A: Alerts> Replica<A> {
    /// The alerts of a shard that this replica holds, once they have been read.
    pub fn alerts(&self, shard: Shard) -> Option<&A> {
        Some(&self.held.get(&shard)?.book.as_ref()?.state.alerts)
    }

    /// The same, to be changed: they are written within about a second, or at once if something is [promised](Self::promise). Nothing, too, once they were written a
    /// last time.
    pub fn alerts_mut(&mut self, shard: Shard) -> Option<&mut A> {
        let sealing = self.pending.values().any(|pending| {
            pending.object == Object::State(shard)
                && matches!(pending.purpose, Purpose::Save(_, Some(_)))
        });
        let epoch = self.view.record()?.epoch;
        let held = self.held.get_mut(&shard)?;
        let sealed =
            held.last_written == Some(epoch) || held.gave_up(Step::LastWrite(epoch)) || sealing;
        let book = held.book.as_mut()?;
        if sealed {
            return None;
        }
        book.touch();
        Some(&mut book.state.alerts)
    }

    /// Something is about to be sent for a key for the first time, and its [alerts](Self::alerts_mut) say so by now: they are written at once, and
    /// [`begin_send`](Self::begin_send) waits for that, for 2 s.
    pub fn promise(&mut self, key: &ShardKey, now: Instant) {
        self.wait_for_save(key, true, now);
    }

    /// The same for what is no page: no write is made for it before its time, and [`begin_send`](Self::begin_send) waits for that a minute. So who takes over after a
    /// crash knows that the page before was delivered, and does not repeat it for what is over; nor takes what began again since for what goes on.
    pub fn await_save(&mut self, key: &ShardKey, now: Instant) {
        self.wait_for_save(key, false, now);
    }

    /// Whether a send for a key waits for a write.
    pub fn waits_for_save(&self, key: &ShardKey) -> bool {
        let books = self.held.values().filter_map(|held| held.book.as_ref());
        books
            .into_iter()
            .any(|book| book.promises.until(key).is_some())
    }

    fn wait_for_save(&mut self, key: &ShardKey, urgent: bool, now: Instant) {
        let active = self.record().map(|record| Shard::of(key, record.active));
        let Some(shard) = self.home(key).or(active) else {
            return;
        };
        if let Some(book) = self.held.get_mut(&shard).and_then(Held::book_mut) {
            book.promise(*key, urgent, now);
        }
    }

    /// Whether the alerts of a shard are written as they are now.
    #[cfg(test)]
    pub fn is_saved(&self, shard: Shard) -> bool {
        let held = self.held.get(&shard);
        held.and_then(|held| held.book.as_ref())
            .is_some_and(super::held::Book::is_saved)
    }

    /// What could not be written of a shard before it was lost, once. Whoever serves it next does not know it.
    pub fn take_unwritten(&mut self, shard: Shard) -> Option<A> {
        self.unwritten.remove(&shard)
    }

    /// A shard's state is of this version now. If it is held here, and that was not its holder, then it is read again, and written as it should be.
    pub(super) fn mind_the_state(&mut self, shard: Shard, version: Version) {
        let is_active = self
            .record()
            .is_some_and(|record| record.active == shard.total);
        let may_be_mine = self.pending.values().any(|pending| {
            pending.object == Object::State(shard) && matches!(pending.purpose, Purpose::Save(..))
        });
        let book = self.held.get_mut(&shard).and_then(Held::book_mut);
        if let Some(book) = book
            && is_active
            && !may_be_mine
            && book.basis == Basis::Read
            && book.version.is_some_and(|known| known < version)
        {
            book.basis = Basis::Stale;
            book.touch();
            self.changes.push(Change::Meddled(shard));
        }
    }

    /// About since when, in any state, there is a change that is not written.
    pub fn unsaved_since(&self) -> Option<Instant> {
        let books = self.held.values().filter_map(|held| held.book.as_ref());
        books.filter_map(|book| book.unsaved_since).min()
    }

    /// When the last good renewal was sent: the oldest, of those of the Leases that are held.
    pub fn renewed_at(&self) -> Option<Instant> {
        self.held.values().map(|held| held.renewed).min()
    }

    /// So many bytes were written for a shard's state, successfully or not. The more, the later comes the next write that nobody waits for: on average it is 64 KiB a
    /// second.
    pub fn wrote(&mut self, shard: Shard, bytes: u64, now: Instant) {
        if let Some(held) = self.held.get_mut(&shard) {
            held.pace.wrote(bytes, now);
        }
    }

    /// When [`poll`](Self::poll) has something to do that only time brings, and that should not wait for the next turn: to write what was put off, or to say that sends
    /// do not wait any more. As of the last turn.
    pub const fn next_deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Notes how long changes are not written, says that sends do not wait any more for the first write, and finds the next deadline.
    pub(super) fn note_changes(&mut self, now: Instant) {
        let epoch = self.record().map(|record| record.epoch);
        let mut late = Vec::new();
        for (shard, held) in &mut self.held {
            if let Some(book) = &mut held.book {
                book.note_changes(now);
                if !book.fenced && book.fence_until <= now && epoch == Some(book.state.epoch) {
                    late.push(*shard);
                }
            }
        }
        for shard in late {
            self.tell_unsaved(shard);
        }
        let deadlines = self.held.iter().filter_map(|(shard, held)| {
            let book = held.book.as_ref()?;
            let put_off = if book.is_urgent() {
                None
            } else {
                held.pace.next()
            };
            let failed = self.not_before.get(&Object::State(*shard)).copied();
            let save = put_off.max(failed).filter(|_| !book.is_saved());
            let fence = (!book.fenced).then_some(book.fence_until);
            // What is over and not done by this turn waits for something else.
            [save, fence]
                .into_iter()
                .flatten()
                .filter(|at| *at > now)
                .min()
        });
        self.deadline = deadlines.min();
    }
}
