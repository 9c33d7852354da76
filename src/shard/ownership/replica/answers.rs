//! From answers to what is known.

use tokio::time::Instant;

use super::{
    super::{Alerts, Epoch, Shard, State, Version, Writer},
    Answer, Change, Object, Pending, Purpose, Replica, RequestId, Step,
    held::{Basis, Book, Found, Held, Look, Snapshot},
};

/// How a request went, apart from what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Good,
    Conflict,
    Refused,
    Unknown,
}

/// A write of a state.
struct Save<A> {
    snapshot: Snapshot<A>,
    last: Option<Epoch>,
    sent: Instant,
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
        // Its holder reads it again as a whole: see `Basis::Stale`.
        let is_save = matches!(purpose, Purpose::Save(..));
        match outcome {
            Outcome::Good => {}
            Outcome::Conflict if is_save => {}
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
                if purpose.writes() && !is_save && outcome == Outcome::Unknown {
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
                if matches!(purpose, Purpose::Read) && outcome == Outcome::Good {
                    let looked = self.looked.entry(shard).or_insert(sent);
                    *looked = sent.max(*looked);
                }
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
                let save = Save {
                    snapshot,
                    last,
                    sent,
                };
                self.answer_to_save(shard, save, outcome, version, now);
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
                self.view.learn_state(shard, version, epoch);
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
        purpose: &Purpose<A>,
        outcome: Outcome,
        sent: Instant,
    ) {
        match (purpose, outcome) {
            // Unless the watch has already shown that it went to somebody else after that.
            (Purpose::Renew, Outcome::Good) if self.is_mine(shard) => {
                let held = self.held.entry(shard).or_insert_with(|| Held::new(sent));
                held.renewed = held.renewed.max(sent);
            }
            // Somebody else wrote it, if only a mark: nothing starts before it was read, and the record after it. If it went to somebody else, all is forgotten then.
            (_, Outcome::Conflict) => {
                if let Some(held) = self.held.get_mut(&shard) {
                    held.look = Look::Due;
                }
            }
            _ => {}
        }
        if outcome == Outcome::Good
            && let Some(held) = self.held.get_mut(&shard)
        {
            held.unsure = held.unsure.filter(|since| sent < *since);
        }
    }

    fn answer_to_save(
        &mut self,
        shard: Shard,
        save: Save<A>,
        outcome: Outcome,
        version: Option<Version>,
        now: Instant,
    ) {
        let Save {
            snapshot,
            last,
            sent,
        } = save;
        let timing = self.timing;
        let Some(held) = self.held.get_mut(&shard) else {
            return;
        };
        let step = last.map_or(Step::Save, Step::LastWrite);
        match (outcome, version) {
            (Outcome::Good, Some(version)) => {
                held.succeeded(step);
                if let Some(book) = &mut held.book {
                    if book.written(version, snapshot, sent) {
                        self.changes.push(Change::Saved(shard));
                    }
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
                if let Some(book) = &mut held.book {
                    book.basis = Basis::Stale;
                }
                if outcome == Outcome::Conflict {
                    held.unsure = Some(now);
                    self.doubtful.insert(Object::Lease(shard));
                    // One that happens again and again is a failure like any other.
                    if held.is_failing(step) {
                        let until = now + timing.retry_period() / 2;
                        self.not_before.insert(Object::State(shard), until);
                    }
                }
                if held.failed(step, &timing, now) {
                    self.changes.push(Change::Incomplete(shard, step));
                }
            }
        }
    }

    fn answer_to_load(
        &mut self,
        shard: Shard,
        id: RequestId,
        epoch: Epoch,
        found: Option<(Version, Option<State<A>>)>,
        now: Instant,
    ) {
        let timing = self.timing;
        let token = self.token(shard);
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
        let again = held
            .book
            .as_ref()
            .is_some_and(|book| book.basis == Basis::Stale && book.state.epoch == epoch);
        // Others are ahead, and this replica sees it late: the epoch is a later one, or the Lease has gone to somebody else after it had been this replica's.
        // What it would write over that state would be lost to them.
        let ahead = |state: &State<A>| {
            let transitions = |writer: Option<&Writer>| writer.map(|writer| writer.transitions);
            state.epoch > epoch
                || again
                    && state.epoch == epoch
                    && transitions(state.writer.as_ref()) > transitions(token.as_ref())
        };
        let found = match found {
            Some((_, Some(state))) if ahead(&state) && !held.gave_up(step) => {
                self.doubtful.extend([Object::Record, Object::Lease(shard)]);
                let until = now + timing.retry_period() / 2;
                self.not_before.insert(Object::State(shard), until);
                None
            }
            found => found,
        };
        if let Some(found) = found {
            // Only this step: that it can be read does not mean that it can be written.
            held.succeeded(Step::Load);
            self.next_book += 1;
            match &mut held.book {
                Some(book) if again && book.judge(&found, token.as_ref()) == Found::Nothing => {
                    book.go_on(&found);
                }
                Some(book) if book.basis == Basis::Unread && book.state.epoch == epoch => {
                    let found = Book::new(self.next_book, epoch, Some(found), now);
                    book.read_late(shard, found);
                }
                book => {
                    let new = Book::new(self.next_book, epoch, Some(found), now);
                    let lost = book.replace(new);
                    self.lose(shard, lost);
                }
            }
        } else if held.failed(step, &timing, now) {
            if step == Step::Load && !again {
                self.next_book += 1;
                held.book = Some(Book::unread(self.next_book, epoch, now));
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
