//! Directed tests: each rule on its own, and what random histories (`tests/ownership`) rarely get to.

mod bench;
mod handing_over;
mod heirs;
mod known;
mod records;
mod replica;
mod saving;
mod view;

use std::time::Duration;

use tokio::time::Instant;

use super::*;

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn shard(index: u32, total: u32) -> Shard {
    Shard { total, index }
}

fn holder(name: &str) -> Holder {
    name.parse().unwrap()
}

fn mk_record(epoch: Epoch, active: u32, previous: impl Into<Option<u32>>) -> Record {
    Record {
        epoch,
        active,
        previous: previous.into(),
        hash: HASH_ID.into(),
    }
}

/// Held by this replica, which has acknowledged up to this epoch; nobody, if empty.
fn mk_lease(held_by: &str, acknowledged: Epoch) -> Lease {
    Lease {
        held_by: HeldBy::read(held_by),
        duration: s(15),
        acknowledged,
        ..Lease::default()
    }
}

/// What a replica sees.
struct Scene {
    view: View,
    now: Instant,
    version: u64,
    takeover: bool,
}

impl Scene {
    /// A generation that is active and whole, in epoch 1.
    fn steady(total: u32) -> Self {
        Self::empty()
            .record(mk_record(1, total, None))
            .whole(total, 1)
    }

    fn empty() -> Self {
        Self {
            view: View::default(),
            now: Instant::now(),
            version: 0,
            takeover: true,
        }
    }

    fn version(&mut self) -> Version {
        self.version += 1;
        Version(self.version)
    }

    fn record(mut self, record: Record) -> Self {
        let version = self.version();
        self.view.learn_record(version, Some(record));
        self
    }

    fn lease(mut self, shard: Shard, lease: Lease) -> Self {
        let version = self.version();
        self.view.learn_lease(shard, version, Some(lease), self.now);
        self
    }

    fn no_lease(mut self, shard: Shard) -> Self {
        let version = self.version();
        self.view.learn_lease(shard, version, None, self.now);
        self
    }

    fn state(mut self, shard: Shard, epoch: Epoch) -> Self {
        let version = self.version();
        self.view.learn_state(shard, version, Some(epoch));
        self
    }

    /// All Leases of a generation held by their own replicas, named a.
    fn whole(self, total: u32, acknowledged: Epoch) -> Self {
        Shard::all(total).fold(self, |scene, shard| {
            let held_by = format!("{}/{total}/a", shard.index);
            scene.lease(shard, mk_lease(&held_by, acknowledged))
        })
    }

    /// The same as it is seen later, after all holders but these have renewed.
    fn later(mut self, by: Duration, dead: &[&str]) -> Self {
        self.now += by;
        let leases: Vec<_> = self
            .view
            .leases()
            .filter(|(_, lease)| !dead.contains(&&*lease.held_by.to_string()))
            .map(|(shard, lease)| (shard, lease.clone()))
            .collect();
        leases.into_iter().fold(self, |scene, (shard, mut lease)| {
            lease.renewed += i64::from(lease.held_by != HeldBy::Nobody);
            scene.lease(shard, lease)
        })
    }

    fn without_takeover(mut self) -> Self {
        self.takeover = false;
        self
    }

    fn decide(&self, me: &str) -> Vec<Action> {
        decide(Situation {
            view: &self.view,
            me: &holder(me),
            takeover: self.takeover,
            now: self.now,
        })
    }
}
