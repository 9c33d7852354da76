//! What listeners were told to be known.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    super::{super::ShardKey, Alerts, Shard},
    Change, Replica, Step,
    held::Book,
};

/// What was told about one shard. It is told anew for another book.
#[derive(Debug, Clone)]
pub(super) struct Told {
    book: u64,
    portions: Portions,
}

/// How much of a shard is known.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Portions {
    All,
    /// In a hand-over from the generation of this total: what was owned by these of its shards.
    Of(u32, BTreeSet<u32>),
}

impl Portions {
    fn have(&self, key: &ShardKey) -> bool {
        match self {
            Self::All => true,
            Self::Of(previous, known) => known.contains(&Shard::of(key, *previous).index),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::All => false,
            Self::Of(_, known) => known.is_empty(),
        }
    }

    /// Whether this can follow what was told before, by telling more.
    fn extend(&self, before: &Self, shard: Shard) -> bool {
        match (before, self) {
            (Self::All, Self::All) => true,
            // The hand-over is over: all of it was told, in portions.
            (Self::Of(previous, known), Self::All) => shard
                .overlaps(*previous)
                .all(|old| known.contains(&old.index)),
            (Self::Of(one, before), Self::Of(other, now)) => one == other && before.is_subset(now),
            (Self::All, Self::Of(..)) => false,
        }
    }
}

impl<A: Alerts> Replica<A> {
    /// The shard in whose [alerts](Self::alerts) it is known what is remembered about a key: a portion of it that was told as [`Known`](Change::Known), and is not
    /// forgotten since, has the key. In a hand-over that is its old shard until that one is written for the last time, and its new one when it has adopted. Whether
    /// something may be sent for it is another question.
    pub fn home(&self, key: &ShardKey) -> Option<Shard> {
        let knowing = |shard: &Shard| {
            self.known.get(shard).is_some_and(|told| {
                shard.owns(key)
                    && told.portions.have(key)
                    && self
                        .known_now(*shard, Some(told))
                        .is_some_and(|now| now.book == told.book)
            })
        };
        // The active one, if two have it.
        let active = self.record().map(|record| Shard::of(key, record.active));
        active
            .filter(knowing)
            .or_else(|| self.known.keys().copied().find(knowing))
    }

    /// A book is lost, or replaced. Of what nobody was told, nobody has changed anything.
    pub(super) fn lose(&mut self, shard: Shard, book: Option<Book<A>>) {
        let told = self.known.get(&shard).map(|told| told.book);
        if let Some(book) = book.filter(|book| told == Some(book.id)) {
            self.keep_unwritten(shard, book.unwritten());
        }
    }

    fn keep_unwritten(&mut self, shard: Shard, mut unwritten: A) {
        if let Some(older) = self.unwritten.remove(&shard) {
            unwritten.adopt(&older, shard);
        }
        self.unwritten.insert(shard, unwritten);
    }

    /// Tells what is known anew, and what is not any more.
    pub(super) fn tell_known(&mut self) {
        let shards: BTreeSet<_> = self.held.keys().chain(self.known.keys()).copied().collect();
        let mut known = BTreeMap::new();
        let mut forgotten = Vec::new();
        for shard in shards {
            let before = self.known.get(&shard);
            let now = self.known_now(shard, before);
            let goes_on = match (before, &now) {
                (Some(before), Some(now)) => {
                    before.book == now.book && now.portions.extend(&before.portions, shard)
                }
                _ => false,
            };
            let told = before.filter(|told| !told.portions.is_empty());
            if let Some(told) = told.filter(|_| !goes_on) {
                forgotten.push((shard, told.book));
                self.changes.push(Change::Forgot(shard));
            }
            let told = told.filter(|_| goes_on).map(|told| &told.portions);
            match (told, now.as_ref().map(|now| &now.portions)) {
                (None, Some(Portions::All)) => self.changes.push(Change::Known(shard, None)),
                (told, Some(Portions::Of(previous, olds))) => {
                    let new = olds.iter().filter(|old| match told {
                        Some(Portions::Of(_, told)) => !told.contains(old),
                        Some(Portions::All) | None => true,
                    });
                    self.changes.extend(new.map(|index| {
                        let old = Shard {
                            total: *previous,
                            index: *index,
                        };
                        Change::Known(shard, Some(old))
                    }));
                }
                (Some(_), Some(Portions::All)) | (_, None) => {}
            }
            known.extend(now.map(|now| (shard, now)));
        }
        self.known = known;
        for (shard, told) in forgotten {
            let held = self.held.get(&shard).and_then(|held| held.book.as_ref());
            if let Some(book) = held.filter(|book| book.id == told) {
                let unwritten = book.unwritten();
                self.keep_unwritten(shard, unwritten);
            }
        }
    }

    /// What is known about a shard, of which this was told. The gate's clock has no part in it: what is known stays so while a Lease is renewed late.
    fn known_now(&self, shard: Shard, told: Option<&Told>) -> Option<Told> {
        let record = self.record()?;
        let held = self.held.get(&shard)?;
        let book = held.book.as_ref()?;
        if book.state.epoch == record.epoch && shard.total == record.active {
            let acknowledged = self.view.lease(shard).map(|lease| lease.acknowledged);
            let portions = match record.previous {
                None => Portions::All,
                Some(previous) => {
                    let adopted = shard
                        .overlaps(previous)
                        .map(|old| old.index)
                        .filter(|old| book.state.adopted.contains(old));
                    Portions::Of(previous, adopted.collect())
                }
            };
            return (acknowledged == Some(record.epoch)).then_some(Told {
                book: book.id,
                portions,
            });
        }
        // It is being handed over. Until its last write it still has to take in what becomes of the sends in flight.
        let ending = record.previous == Some(shard.total)
            && book.state.epoch.checked_add(1) == Some(record.epoch)
            && held.last_written != Some(record.epoch)
            && !held.gave_up(Step::LastWrite(record.epoch));
        told.filter(|told| ending && told.book == book.id).cloned()
    }
}
