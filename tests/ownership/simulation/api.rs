//! An API server: objects with versions, and their past, since watches are late.

use std::{collections::BTreeMap, rc::Rc};

use alertkube::shard::{
    ShardKey,
    ownership::{Answer, Call, Lease, Record, Shard, State, Version},
};

/// What is known of the condition that a key stands for: its version, whether it fires, and whether that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    pub version: u64,
    pub firing: bool,
    pub sent: bool,
}

pub type Memory = BTreeMap<ShardKey, Known>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    Record,
    Lease(Shard),
    State(Shard),
}

#[derive(Debug, Clone)]
pub enum Object {
    Record(Record),
    Lease(Lease),
    State(Rc<State<Memory>>),
}

/// One version of an object; nothing: it was deleted in that version.
#[derive(Debug, Clone)]
pub struct Past {
    pub at: f64,
    pub version: Version,
    pub object: Option<Object>,
}

#[derive(Debug, Default)]
pub struct Api {
    pub past: BTreeMap<Name, Vec<Past>>,
    version: u64,
    /// Grows with each change that is not a mere renewal.
    pub changes: u64,
    /// Until when writes to Leases are refused, ...
    pub no_lease_writes: f64,
    /// ... writes to states, ...
    pub no_state_writes: f64,
    /// ... and reads, watches included.
    pub no_reads: f64,
    /// Writes of pods that are gone, each with the version it expects: until then they land right after the next read of their state.
    pub late: BTreeMap<Shard, (f64, Version, State<Memory>)>,
    /// Writes that should not have been possible.
    pub violations: Vec<String>,
}

impl Api {
    pub fn get(&self, name: Name) -> Option<&Object> {
        self.past.get(&name)?.last()?.object.as_ref()
    }

    pub fn record(&self) -> Option<&Record> {
        match self.get(Name::Record)? {
            Object::Record(record) => Some(record),
            _ => None,
        }
    }

    pub fn lease(&self, shard: Shard) -> Option<&Lease> {
        match self.get(Name::Lease(shard))? {
            Object::Lease(lease) => Some(lease),
            _ => None,
        }
    }

    pub fn state(&self, shard: Shard) -> Option<Rc<State<Memory>>> {
        match self.get(Name::State(shard))? {
            Object::State(state) => Some(Rc::clone(state)),
            _ => None,
        }
    }

    pub fn state_and_version(&self, shard: Shard) -> Option<(Version, Rc<State<Memory>>)> {
        let last = self.past.get(&Name::State(shard))?.last()?;
        Some((last.version, self.state(shard)?))
    }

    /// Whether what is known of a key, or something newer, is in any state.
    pub fn has(&self, key: &ShardKey, version: u64) -> bool {
        self.past.values().any(|past| {
            let last = past.last().and_then(|past| past.object.as_ref());
            matches!(last, Some(Object::State(state))
                if state.alerts.get(key).is_some_and(|known| known.version >= version))
        })
    }

    /// All that there is.
    pub fn names(&self) -> impl Iterator<Item = Name> {
        let exists = |past: &Vec<Past>| past.last().is_some_and(|past| past.object.is_some());
        self.past
            .iter()
            .filter(move |(_, past)| exists(past))
            .map(|(name, _)| *name)
    }

    pub fn call(&mut self, at: f64, call: &Call<Memory>) -> Answer<Memory> {
        match call {
            Call::WriteLease {
                shard,
                lease,
                renew,
                expect,
            } => {
                if at < self.no_lease_writes {
                    return Answer::Refused;
                }
                let mut lease = lease.clone();
                lease.renewed += i64::from(*renew);
                let old = self.lease(*shard).cloned();
                let Some(version) = self.write(
                    at,
                    Name::Lease(*shard),
                    *expect,
                    Some(Object::Lease(lease.clone())),
                ) else {
                    return Answer::Conflict;
                };
                let renewed = lease.renewed;
                let quiet = old.is_some_and(|old| Lease { renewed, ..old } == lease);
                self.changes += u64::from(!quiet);
                Answer::Lease(version, Some(lease))
            }
            Call::WriteRecord { record, expect } => {
                let object = Some(Object::Record(record.clone()));
                let Some(version) = self.write(at, Name::Record, *expect, object) else {
                    return Answer::Conflict;
                };
                self.changes += 1;
                Answer::Record(version, Some(record.clone()))
            }
            Call::WriteState {
                shard,
                state,
                expect,
            } => {
                if at < self.no_state_writes {
                    return Answer::Refused;
                }
                let old = self.state(*shard);
                let object = Some(Object::State(Rc::new(state.clone())));
                match self.write(at, Name::State(*shard), *expect, object) {
                    Some(version) => {
                        self.check_fence(*shard, old.as_deref(), state);
                        Answer::State(version, Some(state.clone()))
                    }
                    None => Answer::Conflict,
                }
            }
            Call::DeleteLease(shard, version) => self.delete(at, Name::Lease(*shard), *version),
            Call::DeleteState(shard, version) => self.delete(at, Name::State(*shard), *version),
            _ if at < self.no_reads => Answer::Refused,
            Call::ReadLease(shard) => {
                Answer::Lease(self.read(Name::Lease(*shard)), self.lease(*shard).cloned())
            }
            Call::ReadRecord => Answer::Record(self.read(Name::Record), self.record().cloned()),
            Call::ReadState(shard) => {
                let state = self.state(*shard).map(|state| (*state).clone());
                let version = self.read(Name::State(*shard));
                if let Some((until, expect, state)) = self.late.remove(shard)
                    && at < until
                {
                    let object = Some(Object::State(Rc::new(state)));
                    self.write(at, Name::State(*shard), Some(expect), object);
                }
                Answer::State(version, state)
            }
        }
    }

    /// Each writer names itself; one that held the Lease earlier writes nothing over what a later one has written; and the later one knows what the earlier one has
    /// written, however late that was.
    fn check_fence(&mut self, shard: Shard, old: Option<&State<Memory>>, new: &State<Memory>) {
        let Some(writer) = &new.writer else {
            self.violations.push(format!("{shard} has no writer"));
            return;
        };
        if let Some(old) = old
            && old.epoch == new.epoch
            && let Some(before) = &old.writer
            && before != writer
        {
            let newer = |(key, known): &(&ShardKey, &Known)| {
                let new = new.alerts.get(*key);
                new.is_none_or(|new| (new.version, new.sent) < (known.version, known.sent))
            };
            if before.transitions > writer.transitions || old.alerts.iter().any(|it| newer(&it)) {
                self.violations
                    .push(format!("{shard}: {writer:?} writes over {before:?}"));
            }
        }
    }

    /// The version of an object, or, where there is none, that of the list that shows it.
    fn read(&self, name: Name) -> Version {
        let object = self.get(name).and_then(|_| self.past[&name].last());
        object.map_or(Version(self.version), |past| past.version)
    }

    fn delete(&mut self, at: f64, name: Name, version: Version) -> Answer<Memory> {
        match self.write(at, name, Some(version), None) {
            Some(_) => Answer::Deleted,
            None => Answer::Conflict,
        }
    }

    fn write(
        &mut self,
        at: f64,
        name: Name,
        expect: Option<Version>,
        object: Option<Object>,
    ) -> Option<Version> {
        let past = self.past.entry(name).or_default();
        let now = past.last().filter(|past| past.object.is_some());
        if now.map(|past| past.version) != expect {
            return None;
        }
        self.version += 1;
        let version = Version(self.version);
        past.push(Past {
            at,
            version,
            object,
        });
        while past.len() > 1 && past[1].at < at - 10.0 {
            past.remove(0);
        }
        Some(version)
    }
}
