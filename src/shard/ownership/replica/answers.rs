//! From answers to what is known.

use tokio::time::Instant;

use super::{
    super::{Alerts, Shard, State, Version},
    Answer, Change, Object, Pending, Purpose, Replica, RequestId, Step,
    held::{Book, Held, Look, Snapshot},
};

/// How a request went, apart from what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Good,
    Conflict,
    Refused,
    Unknown,
}

impl<A: Alerts> Replica<A> {
    /// Takes in what became of a request. An id that is not known, or was answered before, is ignored.
    pub fn answer(&mut self, id: RequestId, answer: Answer<A>, now: Instant) {
        let Some(Pending {
            object,
            sent,
            purpose,
        }) = self.pending.remove(&id)
        else {
            return;
        };
        let (outcome, state) = self.take_in(object, answer, now);
        match outcome {
            Outcome::Good => {}
            Outcome::Conflict => {
                self.doubtful.insert(object);
            }
            Outcome::Refused | Outcome::Unknown => {
                let until = now + self.timing.retry_period() / 2;
                let map = match purpose {
                    Purpose::Delete(_) => &mut self.no_delete_before,
                    _ => &mut self.not_before,
                };
                map.insert(object, until);
                if purpose.writes() && outcome == Outcome::Unknown {
                    self.doubtful.insert(object);
                }
            }
        }
        match (object, purpose) {
            (Object::Lease(shard), Purpose::Delete(version)) if outcome == Outcome::Good => {
                self.view.forget_lease(shard, version);
            }
            (Object::State(shard), Purpose::Delete(version)) if outcome == Outcome::Good => {
                self.view.forget_state(shard, version);
            }
            (Object::Lease(shard), purpose) => {
                self.answer_to_lease(shard, &purpose, outcome, sent);
                self.note_read(shard, outcome == Outcome::Good);
            }
            (Object::Record, Purpose::Look(shard)) => {
                if let Some(held) = self.held.get_mut(&shard)
                    && held.look == Look::Asked(id)
                {
                    held.look = match outcome {
                        Outcome::Good => Look::Done,
                        Outcome::Conflict | Outcome::Refused | Outcome::Unknown => Look::Due,
                    };
                }
            }
            (Object::State(shard), Purpose::Save(snapshot, last)) => {
                let version = state.map(|(version, _)| version);
                self.answer_to_save(shard, snapshot, last, outcome, version, now);
            }
            (Object::State(shard), Purpose::Load(epoch)) => {
                self.answer_to_load(shard, id, epoch, state, now);
            }
            (Object::State(old), Purpose::Adopt(shard)) => {
                self.answer_to_adopt(shard, old, id, state, now);
            }
            (Object::State(_) | Object::Record, _) => {}
        }
    }

    /// Learns what an answer says about its object, whatever it was asked for.
    #[expect(clippy::type_complexity, reason = "used once")]
    fn take_in(
        &mut self,
        object: Object,
        answer: Answer<A>,
        now: Instant,
    ) -> (Outcome, Option<(Version, Option<State<A>>)>) {
        match (answer, object) {
            (Answer::Lease(version, lease), Object::Lease(shard)) => {
                self.see_lease(shard, version, lease, now);
                (Outcome::Good, None)
            }
            (Answer::Record(version, record), Object::Record) => {
                self.see_record(version, record);
                (Outcome::Good, None)
            }
            (Answer::State(version, state), Object::State(shard)) => {
                let epoch = state.as_ref().map(|state| state.epoch);
                self.see_state(shard, version, epoch);
                (Outcome::Good, Some((version, state)))
            }
            (Answer::Deleted, _) => (Outcome::Good, None),
            (Answer::Conflict, _) => (Outcome::Conflict, None),
            (Answer::Refused, _) => (Outcome::Refused, None),
            // Of another object than was asked for: it tells nothing.
            (Answer::Unknown | Answer::Lease(..) | Answer::Record(..) | Answer::State(..), _) => {
                (Outcome::Unknown, None)
            }
        }
    }

    fn answer_to_lease(
        &mut self,
        shard: Shard,
        purpose: &Purpose,
        outcome: Outcome,
        sent: Instant,
    ) {
        match (purpose, outcome) {
            // Unless the watch has already shown that it went to somebody else after that.
            (Purpose::Renew, Outcome::Good) if self.is_mine(shard) => {
                let held = self.held.entry(shard).or_insert_with(|| Held::new(sent));
                held.renewed = held.renewed.max(sent);
            }
            // Somebody else wrote it: look again before doing anything.
            (_, Outcome::Conflict) => {
                self.held.remove(&shard);
            }
            _ => {}
        }
    }

    fn answer_to_save(
        &mut self,
        shard: Shard,
        snapshot: Snapshot,
        last: Option<u64>,
        outcome: Outcome,
        version: Option<Version>,
        now: Instant,
    ) {
        let timing = self.timing;
        let Some(held) = self.held.get_mut(&shard) else {
            return;
        };
        let step = last.map_or(Step::Save, Step::LastWrite);
        match (outcome, version) {
            (Outcome::Good, Some(version)) => {
                held.succeeded(step);
                if let Some(book) = &mut held.book {
                    book.written(version, snapshot);
                    held.last_written = last.or(held.last_written);
                }
            }
            (Outcome::Refused, _) => {
                if held.failed(step, &timing, now) {
                    self.changes.push(Change::Incomplete(shard, step));
                }
            }
            // What is written now is not known: read it again.
            (Outcome::Good | Outcome::Conflict | Outcome::Unknown, _) => {
                held.book = None;
                if outcome == Outcome::Unknown && held.failed(step, &timing, now) {
                    self.changes.push(Change::Incomplete(shard, step));
                }
            }
        }
    }

    fn answer_to_load(
        &mut self,
        shard: Shard,
        id: RequestId,
        epoch: u64,
        found: Option<(Version, Option<State<A>>)>,
        now: Instant,
    ) {
        let timing = self.timing;
        let current = self.record().map_or(epoch, |record| record.epoch);
        let step = if current > epoch {
            Step::LastWrite(current)
        } else {
            Step::Load
        };
        let Some(held) = self.held.get_mut(&shard) else {
            return;
        };
        if held.loading != Some(id) {
            return;
        }
        held.loading = None;
        // One of a later epoch: others are ahead, and this replica sees it late. What it would write over that state would be lost to them.
        let ahead = |found: &(Version, Option<State<A>>)| {
            let state = found.1.as_ref();
            state.is_some_and(|state| state.epoch > epoch)
        };
        let found = match found {
            Some(found) if ahead(&found) && !held.gave_up(step) => {
                self.doubtful.extend([Object::Record, Object::Lease(shard)]);
                let until = now + timing.retry_period() / 2;
                self.not_before.insert(Object::State(shard), until);
                None
            }
            found => found,
        };
        if let Some((version, state)) = found {
            // Only this step: that it can be read does not mean that it can be written.
            held.succeeded(Step::Load);
            let book = Book::new(epoch, state.map(|state| (version, state)));
            match &mut held.book {
                Some(old) if old.unread && old.state.epoch == epoch => old.read_late(shard, book),
                other => *other = Some(book),
            }
        } else if held.failed(step, &timing, now) {
            if step == Step::Load {
                held.book = Some(Book::unread(epoch));
            }
            self.changes.push(Change::Incomplete(shard, step));
        }
    }

    fn answer_to_adopt(
        &mut self,
        shard: Shard,
        old: Shard,
        id: RequestId,
        found: Option<(Version, Option<State<A>>)>,
        now: Instant,
    ) {
        let timing = self.timing;
        let incomplete = self.view.lease(old).is_some_and(|lease| lease.incomplete);
        let Some(held) = self.held.get_mut(&shard) else {
            return;
        };
        let Some(book) = &mut held.book else {
            return;
        };
        if book.adopting.get(&old.index) != Some(&id) {
            return;
        }
        book.adopting.remove(&old.index);
        let step = Step::Adopt(old.index);
        match found {
            Some((_, state)) => {
                book.adopt(shard, old.index, state.as_ref());
                held.succeeded(step);
                if incomplete {
                    self.changes.push(Change::Incomplete(shard, step));
                }
            }
            None => {
                if held.failed(step, &timing, now) {
                    if let Some(book) = &mut held.book {
                        book.adopt(shard, old.index, None);
                    }
                    self.changes.push(Change::Incomplete(shard, step));
                }
            }
        }
    }
}
