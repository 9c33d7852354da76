//! Who serves what, as it is seen: for metrics, logs and people.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::{Holder, Shard, View};

/// A shard that somebody has to serve, and who does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Covered {
    /// The shard: of the active generation, or of the previous one while it is not handed over.
    pub shard: Shard,
    /// Who serves it.
    pub by: By,
    /// Since when this is seen so, by one's own clock.
    pub since: Instant,
}

/// Who serves a shard: who holds its Lease, and has renewed it in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum By {
    /// The replica of its index and its total.
    Own(Holder),
    /// Another replica.
    Heir(Holder),
    /// No replica.
    Nobody,
}

/// Since when it is who serves what.
#[derive(Debug, Default)]
pub(super) struct Coverage(BTreeMap<Shard, (By, Instant)>);

impl Coverage {
    /// Notes how things are.
    pub fn note(&mut self, view: &View, now: Instant) {
        let covered = self.at(view, now).into_iter();
        self.0 = covered
            .map(|covered| (covered.shard, (covered.by, covered.since)))
            .collect();
    }

    /// How things are now, in the order of the shards.
    pub fn at(&self, view: &View, now: Instant) -> Vec<Covered> {
        let mut covered: Vec<_> = wanted(view)
            .into_iter()
            .map(|shard| {
                let by = by(view, shard, now);
                let before = self.0.get(&shard).filter(|(before, _)| *before == by);
                let since = before.map_or(now, |(_, since)| *since);
                Covered { shard, by, since }
            })
            .collect();
        covered.sort_by_key(|covered| covered.shard);
        covered
    }
}

/// The shards of the active generation, and those of the previous one whose end has not been acknowledged: after that nobody needs to hold them.
fn wanted(view: &View) -> Vec<Shard> {
    let Some(record) = view.record() else {
        return Vec::new();
    };
    let open = |shard: &Shard| {
        let lease = view.lease(*shard);
        lease.is_none_or(|lease| lease.acknowledged < record.epoch)
    };
    let previous = record.previous.into_iter().flat_map(Shard::all);
    Shard::all(record.active)
        .chain(previous.filter(open))
        .collect()
}

fn by(view: &View, shard: Shard, now: Instant) -> By {
    let lease = view.lease(shard).filter(|_| view.is_fresh(shard, now));
    match lease.and_then(|lease| lease.held_by.replica()) {
        Some(holder) if holder.owns(shard) => By::Own(holder.clone()),
        Some(holder) => By::Heir(holder.clone()),
        None => By::Nobody,
    }
}
