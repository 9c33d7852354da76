//! What the API server keeps: a Lease for each shard, one record, and the shards' states.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::{super::ShardKey, HeldBy, Holder, Shard};

/// A counter of generations: it grows with each change of the active one. 0 is before the first.
pub type Epoch = u64;

/// The id of the way from a key to the index of its shard. A generation is only shared by replicas that hash alike.
pub const HASH_ID: &str = "fnv1a64-fnv1a32";

/// An object's `resourceVersion`. They are compared as numbers, as Kubernetes guarantees since 1.35 (KEP-5504), and as etcd's revisions have always been.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// The Lease of a shard.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lease {
    /// Who holds it.
    pub held_by: HeldBy,
    /// `renewTime`, as a value that is only compared for equality: its holder changes it with each renewal, and nothing else does. It is never compared with a clock.
    pub renewed: i64,
    /// For how long it lasts without a renewal: as its holder says, whose setting may differ from one's own.
    pub duration: Duration,
    /// `leaseTransitions`: how often its holder has changed.
    pub transitions: u32,
    /// The epoch up to which its holders have stopped serving older generations.
    pub acknowledged: Epoch,
    /// The acknowledgement was given although the state could not be written a last time.
    pub incomplete: bool,
    /// The epoch whose previous generation is wholly in this shard's written state, as far as it concerns this shard.
    pub adopted: Epoch,
    /// The replica with this shard's index asks its heir to let go. A name that cannot be read counts as none.
    pub claimed_by: Option<Holder>,
}

/// Which generation is active.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Grows with each change of the active generation.
    pub epoch: Epoch,
    /// The total of the generation that is served.
    pub active: u32,
    /// The total of the generation that was served before, until it has been handed over.
    pub previous: Option<u32>,
    /// How keys are hashed: [`HASH_ID`], if as here.
    pub hash: Arc<str>,
}

/// Who wrote a state: the token that a new holder writes to every part of it before it serves, so that a former one finds out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writer {
    /// The replica.
    pub holder: Holder,
    /// `leaseTransitions` of the Lease under which it wrote.
    pub transitions: u32,
}

/// What a shard remembers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State<A> {
    /// Who wrote it; nothing if that cannot be told.
    pub writer: Option<Writer>,
    /// The epoch in which it was written. It counts for nothing in any other, but to be adopted in the next one.
    pub epoch: Epoch,
    /// The indices of the shards of the previous generation whose alerts are in it, as far as they are this shard's.
    pub adopted: BTreeSet<u32>,
    /// The alerts.
    pub alerts: A,
}

/// Alerts by key, as far as a hand-over needs them.
pub trait Alerts: Clone + Default {
    /// Takes in what another state knows about the keys of `shard`. What is known here already is newer, and stays.
    fn adopt(&mut self, other: &Self, shard: Shard);

    /// What is known here that is not known in the same way in `written`.
    #[must_use]
    fn beyond(&self, written: &Self) -> Self;
}

impl<T: Clone + PartialEq> Alerts for BTreeMap<ShardKey, T> {
    fn adopt(&mut self, other: &Self, shard: Shard) {
        for (key, alert) in other.iter().filter(|(key, _)| shard.owns(key)) {
            self.entry(*key).or_insert_with(|| alert.clone());
        }
    }

    fn beyond(&self, written: &Self) -> Self {
        self.iter()
            .filter(|(key, alert)| written.get(*key) != Some(*alert))
            .map(|(key, alert)| (*key, alert.clone()))
            .collect()
    }
}
