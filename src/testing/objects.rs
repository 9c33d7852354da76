//! What the API server keeps for replicas, without an API server.

use std::collections::BTreeMap;

use tokio::time::Instant;

use crate::shard::ownership::{
    Alerts, Answer, Call, Lease, Record, Replica, Shard, State, Version,
};

/// What the API server has.
pub struct Objects<A> {
    /// Of the last change.
    pub version: u64,
    /// The record.
    pub record: Option<(Version, Record)>,
    /// The Leases.
    pub leases: BTreeMap<Shard, (Version, Lease)>,
    /// The states.
    pub states: BTreeMap<Shard, (Version, State<A>)>,
}

/// Writes an object, if it is of the version that is expected.
fn put<T: Clone>(
    version: Version,
    slot: &mut Option<(Version, T)>,
    expect: Option<Version>,
    object: T,
) -> Option<T> {
    let fits = slot.as_ref().map(|(version, _)| *version) == expect;
    fits.then(|| slot.insert((version, object)).1.clone())
}

impl<A: Clone> Objects<A> {
    /// The version of the next change.
    pub fn next(&mut self) -> Version {
        self.version += 1;
        Version(self.version)
    }

    /// Carries out a call.
    pub fn call(&mut self, call: Call<A>) -> Answer<A> {
        let version = self.next();
        match call {
            Call::WriteLease {
                shard,
                mut lease,
                renew,
                expect,
            } => {
                lease.renewed += i64::from(renew);
                let mut slot = self.leases.remove(&shard);
                let written = put(version, &mut slot, expect, lease);
                self.leases.extend(slot.map(|slot| (shard, slot)));
                written.map_or(Answer::Conflict, |lease| {
                    Answer::Lease(version, Some(lease))
                })
            }
            Call::WriteRecord { record, expect } => {
                let written = put(version, &mut self.record, expect, record);
                written.map_or(Answer::Conflict, |record| {
                    Answer::Record(version, Some(record))
                })
            }
            Call::WriteState {
                shard,
                state,
                expect,
            } => {
                let mut slot = self.states.remove(&shard);
                let written = put(version, &mut slot, expect, state);
                self.states.extend(slot.map(|slot| (shard, slot)));
                written.map_or(Answer::Conflict, |state| {
                    Answer::State(version, Some(state))
                })
            }
            Call::DeleteLease(shard, expect) => match self.leases.get(&shard) {
                Some((version, _)) if *version == expect => {
                    self.leases.remove(&shard);
                    Answer::Deleted
                }
                _ => Answer::Conflict,
            },
            Call::DeleteState(shard, expect) => match self.states.get(&shard) {
                Some((version, _)) if *version == expect => {
                    self.states.remove(&shard);
                    Answer::Deleted
                }
                _ => Answer::Conflict,
            },
            Call::ReadLease(shard) => match self.leases.get(&shard) {
                Some((version, lease)) => Answer::Lease(*version, Some(lease.clone())),
                None => Answer::Lease(version, None),
            },
            Call::ReadRecord => match &self.record {
                Some((version, record)) => Answer::Record(*version, Some(record.clone())),
                None => Answer::Record(version, None),
            },
            Call::ReadState(shard) => match self.states.get(&shard) {
                Some((version, state)) => Answer::State(*version, Some(state.clone())),
                None => Answer::State(version, None),
            },
        }
    }
}

impl<A: Alerts> Objects<A> {
    /// A replica's watches bring all that there is now.
    pub fn show(&self, replica: &mut Replica<A>, now: Instant) {
        let Self {
            version: _,
            record,
            leases,
            states,
        } = self;
        if let Some((version, record)) = record {
            replica.see_record(*version, Some(record.clone()));
        }
        for (shard, (version, lease)) in leases {
            replica.see_lease(*shard, *version, Some(lease.clone()), now);
        }
        for (shard, (version, state)) in states {
            replica.see_state(*shard, *version, Some(state.epoch));
        }
    }
}

impl<A> Default for Objects<A> {
    fn default() -> Self {
        Self {
            version: 0,
            record: None,
            leases: BTreeMap::new(),
            states: BTreeMap::new(),
        }
    }
}
