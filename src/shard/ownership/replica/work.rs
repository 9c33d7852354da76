//! From what is decided to what is asked for.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::{
    super::{Action, Alerts, Epoch, HeldBy, Lease, Shard, State, Version, Writer, decide},
    Call, Object, Purpose, Replica, Step,
    held::{Basis, Book, Look},
};

/// A Lease as it is to become: all that one turn has to change about it goes into one write.
struct Draft {
    lease: Lease,
    expect: Option<Version>,
    /// Whether there is anything to write.
    needed: bool,
}

/// Whether a state was written a last time.
enum LastWrite {
    Done,
    NotYet,
    /// Paging comes first.
    GivenUp,
}

impl<A: Alerts> Replica<A> {
    pub(super) fn work(&mut self, now: Instant) {
        let situation = self.situation(now);
        let mut drafts = BTreeMap::new();
        let actions = if self.allowed {
            decide(situation)
        } else {
            situation.leave()
        };
        for action in actions {
            match action {
                Action::Hold(shard) => self.hold(shard, &mut drafts, now),
                Action::Release(shard) => self.release(shard, &mut drafts, now),
                Action::Claim(shard) => {
                    self.edit(shard, &mut drafts, |me, draft| {
                        draft.lease.claimed_by = Some(me.me.clone());
                        draft.needed = true;
                    });
                }
                Action::Acknowledge(shard, epoch) => {
                    self.acknowledge(shard, epoch, &mut drafts, now);
                }
                Action::WriteRecord(record) => {
                    let expect = self.view.record_version();
                    if self.is_free(Object::Record) {
                        let call = Call::WriteRecord { record, expect };
                        self.ask(Object::Record, Purpose::Write, call, now);
                    }
                }
                Action::DeleteLease(shard) => {
                    if let Some(version) = self.view.lease_version(shard) {
                        let call = Call::DeleteLease(shard, version);
                        self.delete(Object::Lease(shard), version, call, now);
                    }
                }
                Action::DeleteState(shard) => {
                    if let Some(version) = self.view.state_version(shard) {
                        let call = Call::DeleteState(shard, version);
                        self.delete(Object::State(shard), version, call, now);
                    }
                }
            }
        }
        self.serve(&mut drafts, now);
        for (shard, draft) in drafts.into_iter().filter(|(_, draft)| draft.needed) {
            let renew = draft.lease.held_by.is(&self.me);
            let call = Call::WriteLease {
                shard,
                lease: draft.lease,
                renew,
                expect: draft.expect,
            };
            let purpose = if renew {
                Purpose::Renew
            } else {
                Purpose::Write
            };
            self.ask(Object::Lease(shard), purpose, call, now);
        }
    }

    /// Changes the draft of a Lease, unless it cannot be written now.
    fn edit(
        &self,
        shard: Shard,
        drafts: &mut BTreeMap<Shard, Draft>,
        change: impl FnOnce(&Self, &mut Draft),
    ) {
        if self.is_free(Object::Lease(shard)) {
            let draft = drafts.entry(shard).or_insert_with(|| Draft {
                lease: self.view.lease(shard).cloned().unwrap_or_default(),
                expect: self.view.lease_version(shard),
                needed: false,
            });
            change(self, draft);
        }
    }

    fn hold(&mut self, shard: Shard, drafts: &mut BTreeMap<Shard, Draft>, now: Instant) {
        self.edit(shard, drafts, |me, draft| {
            let lease = &mut draft.lease;
            if !lease.held_by.is(&me.me) {
                lease.held_by = HeldBy::Replica(me.me.clone());
                lease.transitions = lease.transitions.saturating_add(1);
                // A claim is answered once, by the turn that it has had; a claimant that lives repeats it.
                lease.claimed_by = None;
                draft.needed = true;
            }
            lease.duration = me.timing.lease_duration();
            draft.needed |= me.is_renewal_due(shard, now);
        });
        // Rule 6: after the Lease was taken, not before; and not by a watch. Nor while it is being read again, since it may be somebody else's.
        let due = self
            .held
            .get(&shard)
            .is_some_and(|held| held.look == Look::Due);
        let free = self.is_free(Object::Lease(shard));
        if due && free && !self.not_before.contains_key(&Object::Record) {
            let id = self.read(Object::Record, Purpose::Look(shard), now);
            if let Some(held) = self.held.get_mut(&shard) {
                held.look = Look::Asked(id);
            }
        }
    }

    /// Stops first; then lets the sends in flight end and writes what has changed, keeping the Lease; then lets go.
    fn release(&mut self, shard: Shard, drafts: &mut BTreeMap<Shard, Draft>, now: Instant) {
        if let Some(held) = self.held.get_mut(&shard) {
            // Without a look it is not served. What is known of it is kept until the Lease is seen to be free: it may still be renewed instead.
            held.look = Look::Due;
        }
        let busy = self.is_busy(shard);
        let saving = !busy && self.save_changes(shard, now);
        self.edit(shard, drafts, |me, draft| {
            if busy || saving {
                draft.needed |= me.is_renewal_due(shard, now);
            } else {
                draft.lease.held_by = HeldBy::Nobody;
                draft.needed = true;
            }
        });
    }

    /// Not at each of the turns that a change brings, or every change anywhere would make every replica write every Lease.
    fn is_renewal_due(&self, shard: Shard, now: Instant) -> bool {
        self.held.get(&shard).is_none_or(|held| {
            now.saturating_duration_since(held.renewed) >= self.timing.retry_period() / 2
        })
    }

    /// Writes what has changed in a state that is about to be let go. Whether that is to be waited for: one failure is enough, since time is short, and
    /// what was decided was written before it was sent.
    pub(super) fn save_changes(&mut self, shard: Shard, now: Instant) -> bool {
        let unsaved = self.held.get(&shard).is_some_and(|held| {
            let book = held.book.as_ref();
            !held.is_failing(Step::Save) && book.is_some_and(Book::is_to_be_saved)
        });
        if unsaved {
            self.save(shard, None, now);
        }
        unsaved
    }

    /// Rule 4. What the new epoch takes is not served any more since it was seen (see [`Replica::serves`]); now the sends in flight must have ended, and
    /// the state of a shard that is handed over be written a last time. That write is also a fence: a former holder's, decided from an older version, fails.
    fn acknowledge(
        &mut self,
        shard: Shard,
        epoch: Epoch,
        drafts: &mut BTreeMap<Shard, Draft>,
        now: Instant,
    ) {
        if self.is_busy(shard) || !self.held.contains_key(&shard) {
            return;
        }
        let previous = self.record().and_then(|record| record.previous);
        let last_write = if previous == Some(shard.total) {
            self.write_last(shard, epoch, now)
        } else {
            LastWrite::Done
        };
        let incomplete = match last_write {
            LastWrite::NotYet => return,
            LastWrite::Done => false,
            LastWrite::GivenUp => true,
        };
        self.edit(shard, drafts, |_, draft| {
            draft.lease.acknowledged = epoch;
            draft.lease.incomplete = incomplete;
            draft.needed = true;
        });
    }

    fn write_last(&mut self, shard: Shard, epoch: Epoch, now: Instant) -> LastWrite {
        let ending = epoch.saturating_sub(1);
        let Some(held) = self.held.get(&shard) else {
            return LastWrite::NotYet;
        };
        if held.last_written == Some(epoch) {
            return LastWrite::Done;
        }
        if held.gave_up(Step::LastWrite(epoch)) {
            return LastWrite::GivenUp;
        }
        // Somebody else may have it by now, and be ahead.
        if !self.holds(shard, now) {
            return LastWrite::NotYet;
        }
        match &held.book {
            Some(book) if book.state.epoch == ending && book.basis == Basis::Read => {
                self.save(shard, Some(epoch), now);
            }
            Some(_) | None => self.load(shard, ending, now),
        }
        LastWrite::NotYet
    }

    /// Reads the own state, not from a cache.
    fn load(&mut self, shard: Shard, epoch: Epoch, now: Instant) {
        let object = Object::State(shard);
        let free = self.is_free(object);
        if let Some(held) = self.held.get(&shard)
            && held.loading.is_none()
            && held.unsure.is_none()
            && free
        {
            let id = self.read(object, Purpose::Load(epoch), now);
            if let Some(held) = self.held.get_mut(&shard) {
                held.loading = Some(id);
            }
        }
    }

    /// Writes the own state.
    pub(super) fn save(&mut self, shard: Shard, last: Option<Epoch>, now: Instant) {
        let object = Object::State(shard);
        if !self.is_free(object) {
            return;
        }
        let writer = self.token(shard);
        if let Some(held) = self.held.get_mut(&shard)
            && let Some(book) = &held.book
        {
            let call = Call::WriteState {
                shard,
                state: State {
                    writer,
                    ..book.state.clone()
                },
                expect: book.version,
            };
            let purpose = Purpose::Save(book.snapshot(), last);
            held.pace.begin(now);
            self.ask(object, purpose, call, now);
        }
    }

    /// What is written into a state, so that others can tell who has written it.
    pub(super) fn token(&self, shard: Shard) -> Option<Writer> {
        Some(Writer {
            holder: self.me.clone(),
            transitions: self.view.lease(shard)?.transitions,
        })
    }

    /// What serving the shards of the active generation takes: the state of each, what it adopts, and saying so.
    fn serve(&mut self, drafts: &mut BTreeMap<Shard, Draft>, now: Instant) {
        let Some(record) = self.record().cloned() else {
            return;
        };
        let shards: Vec<_> = self.held.keys().copied().collect();
        for shard in shards {
            if shard.total != record.active || !self.serves(shard, now) {
                continue;
            }
            let book = self.held.get(&shard).and_then(|held| held.book.as_ref());
            if book.is_none_or(|book| book.state.epoch != record.epoch || book.basis != Basis::Read)
            {
                self.load(shard, record.epoch, now);
            }
            if let Some(previous) = record.previous {
                self.adopt(shard, previous, record.epoch, drafts, now);
            }
            let due = self.held.get(&shard).is_some_and(|held| {
                held.book.as_ref().is_some_and(|book| {
                    book.state.epoch == record.epoch
                        && book.is_to_be_saved()
                        && (book.is_urgent() || held.pace.allows(now))
                })
            });
            if due {
                self.save(shard, None, now);
            }
        }
    }

    /// Takes over what this shard owns of the previous generation: from each shard of it once, after its acknowledgement was seen.
    fn adopt(
        &mut self,
        shard: Shard,
        previous: u32,
        epoch: Epoch,
        drafts: &mut BTreeMap<Shard, Draft>,
        now: Instant,
    ) {
        let book = self.held.get(&shard).and_then(|held| held.book.as_ref());
        let Some(book) = book.filter(|book| book.state.epoch == epoch) else {
            return;
        };
        let missing = |old: &Shard| {
            !book.state.adopted.contains(&old.index) && !book.adopting.contains_key(&old.index)
        };
        let readable = |old: &Shard| {
            let lease = self.view.lease(*old);
            lease.is_some_and(|lease| lease.acknowledged >= epoch)
                && !self.not_before.contains_key(&Object::State(*old))
        };
        let olds: Vec<_> = shard
            .overlaps(previous)
            .filter(|old| missing(old) && readable(old))
            .collect();
        if shard
            .overlaps(previous)
            .all(|old| book.durable.contains(&old.index))
        {
            self.edit(shard, drafts, |_, draft| {
                if draft.lease.adopted != epoch {
                    draft.lease.adopted = epoch;
                    draft.needed = true;
                }
            });
        }
        for old in olds {
            let id = self.read(Object::State(old), Purpose::Adopt(shard), now);
            let held = self.held.get_mut(&shard);
            if let Some(book) = held.and_then(|held| held.book.as_mut()) {
                book.adopting.insert(old.index, id);
            }
        }
    }

    fn delete(&mut self, object: Object, version: Version, call: Call<A>, now: Instant) {
        if self.is_free(object) && !self.no_delete_before.contains_key(&object) {
            self.ask(object, Purpose::Delete(version), call, now);
        }
    }
}
