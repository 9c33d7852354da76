//! The Leases, the record and the states, as a replica has seen them.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::{Epoch, Lease, Record, Shard, Version};

/// What a replica knows. Watches are late, and each object's in its own way; what a write or a direct read has told is newer than what its watch brings after
/// that. So each object is taken in by its version, and no view of one ever steps back: a replica that decided from an older one could take back what it
/// has promised.
#[derive(Debug, Clone, Default)]
pub struct View {
    record: Option<Seen<Record>>,
    leases: BTreeMap<Shard, SeenLease>,
    states: BTreeMap<Shard, Seen<Epoch>>,
}

#[derive(Debug, Clone)]
struct Seen<T> {
    version: Version,
    /// Nothing: it was deleted in that version, or did not exist.
    object: Option<T>,
}

#[derive(Debug, Clone)]
struct SeenLease {
    seen: Seen<Lease>,
    /// When it was last seen renewed, or in other hands, on one's own clock.
    alive_at: Instant,
}

impl<T> Seen<T> {
    fn version(&self) -> Option<Version> {
        self.object.as_ref().map(|_| self.version)
    }
}

/// Takes in a version, if it is a newer one.
fn learn<T>(seen: &mut Option<Seen<T>>, version: Version, object: Option<T>) -> bool {
    let newer = seen.as_ref().is_none_or(|seen| version > seen.version);
    if newer {
        *seen = Some(Seen { version, object });
    }
    newer
}

impl View {
    /// Takes in the record. Whether that was news.
    pub fn learn_record(&mut self, version: Version, record: Option<Record>) -> bool {
        learn(&mut self.record, version, record)
    }

    /// Takes in the epoch of a shard's state. Whether that was news.
    pub fn learn_state(&mut self, shard: Shard, version: Version, epoch: Option<Epoch>) -> bool {
        let mut seen = self.states.remove(&shard);
        let newer = learn(&mut seen, version, epoch);
        self.states.extend(seen.map(|seen| (shard, seen)));
        newer
    }

    /// Takes in a Lease. Whether that was news.
    ///
    /// Only a change of holder or of `renewTime` shows that somebody is alive: marks are written by others, too. Times are those at which the change was seen
    /// here; no two replicas' clocks are ever compared.
    pub fn learn_lease(
        &mut self,
        shard: Shard,
        version: Version,
        lease: Option<Lease>,
        now: Instant,
    ) -> bool {
        let Some(old) = self.leases.get_mut(&shard) else {
            let seen = Seen {
                version,
                object: lease,
            };
            let alive_at = now;
            self.leases.insert(shard, SeenLease { seen, alive_at });
            return true;
        };
        if version <= old.seen.version {
            return false;
        }
        let same_life = match (&old.seen.object, &lease) {
            (Some(old), Some(new)) => (&old.held_by, old.renewed) == (&new.held_by, new.renewed),
            (None, None) => true,
            (None, Some(_)) | (Some(_), None) => false,
        };
        if !same_life {
            old.alive_at = now;
        }
        old.seen = Seen {
            version,
            object: lease,
        };
        true
    }

    /// This version of a shard's Lease was deleted; in which version that was will be seen.
    pub fn forget_lease(&mut self, shard: Shard, deleted: Version) {
        if let Some(lease) = self.leases.get_mut(&shard)
            && lease.seen.version == deleted
        {
            lease.seen.object = None;
        }
    }

    /// This version of a shard's state was deleted; in which version that was will be seen.
    pub fn forget_state(&mut self, shard: Shard, deleted: Version) {
        if let Some(state) = self.states.get_mut(&shard)
            && state.version == deleted
        {
            state.object = None;
        }
    }

    /// The record, unless there is none.
    pub fn record(&self) -> Option<&Record> {
        self.record.as_ref()?.object.as_ref()
    }

    /// The version of the record, unless there is none.
    pub fn record_version(&self) -> Option<Version> {
        self.record.as_ref()?.version()
    }

    /// A shard's Lease, unless there is none.
    pub fn lease(&self, shard: Shard) -> Option<&Lease> {
        self.leases.get(&shard)?.seen.object.as_ref()
    }

    /// The version of a shard's Lease, unless there is none.
    pub fn lease_version(&self, shard: Shard) -> Option<Version> {
        self.leases.get(&shard)?.seen.version()
    }

    /// All Leases that there are.
    pub fn leases(&self) -> impl Iterator<Item = (Shard, &Lease)> {
        self.leases
            .iter()
            .filter_map(|(shard, lease)| Some((*shard, lease.seen.object.as_ref()?)))
    }

    /// The epochs of all states that there are.
    pub fn states(&self) -> impl Iterator<Item = (Shard, Epoch)> {
        self.states
            .iter()
            .filter_map(|(shard, state)| Some((*shard, state.object?)))
    }

    /// The version of a shard's state, unless there is none.
    pub fn state_version(&self, shard: Shard) -> Option<Version> {
        self.states.get(&shard)?.version()
    }

    /// Whether a Lease was renewed, or changed hands, within its duration: by one's own clock, and at the time at which that was seen. A Lease that
    /// is seen for the first time counts as renewed now, whatever it says.
    pub fn is_fresh(&self, shard: Shard, now: Instant) -> bool {
        self.leases.get(&shard).is_some_and(|lease| {
            let object = lease.seen.object.as_ref();
            object.is_some_and(|object| {
                now.saturating_duration_since(lease.alive_at) < object.duration
            })
        })
    }
}
