//! Carries out what a replica asks for.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};

use k8s_openapi::api::{coordination::v1::Lease as LeaseObject, core::v1::ConfigMap};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, ObjectList, PostParams, Preconditions},
    core::ObjectMeta,
};

use super::{
    States,
    lease::{self, Draft},
    locked,
    names::{Names, version},
    record,
    trouble::{Lost, Resource, Trouble, Troubles, Verb, in_time},
};
use crate::{
    cluster::Clock,
    faults::{self, Point},
    shard::ownership::{Answer, Call, HASH_ID, HeldBy, Lease, Record, Shard, Version},
};

/// The way to the API server. Nothing is tried twice here: whoever decides looks again first.
#[derive(Debug)]
pub(super) struct Transport<S> {
    pub names: Names,
    clock: Clock,
    leases: Api<LeaseObject>,
    records: Api<ConfigMap>,
    pub states: S,
    known: Mutex<Known>,
    pub troubles: Arc<Troubles>,
}

/// The objects as they were last seen, so that what is foreign in them stays when they are written.
#[derive(Debug, Default)]
struct Known {
    leases: BTreeMap<Shard, Seen<LeaseObject>>,
    record: Option<Seen<ConfigMap>>,
    /// Whether the last record that could be told is one to go by.
    good_record: bool,
}

#[derive(Debug)]
struct Seen<K> {
    version: Version,
    /// Nothing: there is no object.
    object: Option<K>,
}

impl<S> Transport<S> {
    pub fn new(names: Names, clock: Clock, leases: Client, records: Client, states: S) -> Self {
        let namespace = &names.namespace;
        Self {
            clock,
            leases: Api::namespaced(leases, namespace),
            records: Api::namespaced(records, namespace),
            states,
            known: Mutex::default(),
            troubles: Arc::new(Troubles::new(namespace.clone())),
            names,
        }
    }

    /// Notes a Lease, and reads it.
    pub fn see_lease(
        &self,
        shard: Shard,
        version: Version,
        object: Option<LeaseObject>,
    ) -> Option<Lease> {
        let lease = object.as_ref().map(lease::read);
        let mut known = self.known();
        let seen = newer(known.leases.remove(&shard), version, object);
        known.leases.insert(shard, seen);
        lease
    }

    /// Notes the record, and reads it. An error, if there is no telling it: see [`record`].
    pub fn see_record(
        &self,
        version: Version,
        object: Option<ConfigMap>,
    ) -> Result<Option<Record>, Untellable> {
        let read = object.as_ref().map(record::read);
        let mut known = self.known();
        let latest = known
            .record
            .as_ref()
            .is_none_or(|seen| version > seen.version);
        let good = known.good_record;
        if latest {
            known.good_record = match &read {
                None => false,
                Some(Ok(record)) => &*record.hash == HASH_ID,
                // It is as if the last good one was still there.
                Some(Err(_)) => good,
            };
        }
        known.record = Some(newer(known.record.take(), version, object));
        drop(known);
        match read {
            None => Ok(None),
            Some(Ok(record)) => Ok(Some(record)),
            Some(Err(error)) => {
                if latest {
                    let Names { namespace, .. } = &self.names;
                    let name = self.names.record();
                    let what = if good {
                        "what it said before goes on, but no shard can change hands"
                    } else {
                        "this replica takes no part"
                    };
                    tracing::error!(
                        "the ConfigMap {namespace}/{name} cannot be read: {error}; {what}. Repair it. If it is deleted instead, a new one is written, but what has been paged for is forgotten"
                    );
                }
                if good {
                    Err(Untellable)
                } else {
                    Ok(Some(record::unreadable()))
                }
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        locked(&self.known)
    }

    async fn call_api<T>(
        &self,
        verb: Verb,
        resource: Resource,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, Lost> {
        self.note(verb, resource, in_time(request).await)
    }

    /// Says what failed. A conflict is how things work, and so is an object that is gone.
    fn note<T>(
        &self,
        verb: Verb,
        resource: Resource,
        result: Result<T, Trouble>,
    ) -> Result<T, Lost> {
        if result.is_ok() {
            self.troubles.worked(verb, resource);
        }
        result.map_err(|trouble| {
            let lost = trouble.lost(verb);
            if lost != Lost::Conflict {
                self.troubles.failed(verb, resource, &trouble);
            }
            lost
        })
    }

    async fn write_lease(&self, draft: Draft<'_>) -> Result<(Version, Lease), Lost> {
        let (shard, name) = (draft.shard, self.names.lease(draft.shard));
        let old = self.known().leases.get(&shard).and_then(|seen| {
            let object = seen.object.as_ref();
            object.cloned()
        });
        faults::pass(step(old.as_ref(), draft.lease));
        let object = self.write(
            Resource::Lease,
            &self.leases,
            &name,
            draft.expect,
            old,
            |old| draft.object(old),
        );
        let object = object.await?;
        faults::pass(Point::WroteLease);
        let version = self.version(Verb::Update, Resource::Lease, &object.metadata)?;
        let lease = lease::read(&object);
        self.see_lease(shard, version, Some(object));
        Ok((version, lease))
    }

    async fn write_record(
        &self,
        record: &Record,
        expect: Option<Version>,
    ) -> Result<(Version, Record), Lost> {
        let old = self
            .known()
            .record
            .as_ref()
            .and_then(|seen| seen.object.clone());
        let name = self.names.record();
        faults::pass(Point::WriteRecord);
        let object = self.write(
            Resource::ConfigMap,
            &self.records,
            &name,
            expect,
            old,
            |old| record::object(&self.names, record, expect, old),
        );
        let object = object.await?;
        faults::pass(Point::WroteRecord);
        let version = self.version(Verb::Update, Resource::ConfigMap, &object.metadata)?;
        // It can be read: it was written here.
        _ = self.see_record(version, Some(object));
        Ok((version, record.clone()))
    }

    /// Creates or replaces an object, if it is as expected.
    async fn write<K>(
        &self,
        resource: Resource,
        api: &Api<K>,
        name: &str,
        expect: Option<Version>,
        old: Option<K>,
        object: impl FnOnce(Option<K>) -> K,
    ) -> Result<K, Lost>
    where
        K: kube::Resource + Clone + std::fmt::Debug + serde::Serialize,
        K: serde::de::DeserializeOwned,
    {
        let params = PostParams::default();
        Ok(match (expect, old) {
            (None, _) => {
                let object = object(None);
                let request = api.create(&params, &object);
                self.call_api(Verb::Create, resource, request).await?
            }
            (Some(_), Some(old)) => {
                let object = object(Some(old));
                let request = api.replace(name, &params, &object);
                self.call_api(Verb::Update, resource, request).await?
            }
            // It was seen, and is gone since.
            (Some(_), None) => return Err(Lost::Conflict),
        })
    }

    async fn delete<K>(
        &self,
        resource: Resource,
        api: &Api<K>,
        name: &str,
        expect: Version,
    ) -> Result<(), Lost>
    where
        K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                resource_version: Some(expect.0.to_string()),
                uid: None,
            }),
            ..DeleteParams::default()
        };
        let request = async {
            match api.delete(name, &params).await {
                // It is gone: what was wanted.
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                result => result.map(drop),
            }
        };
        self.call_api(Verb::Delete, resource, request).await
    }

    /// Reads an object, not from a cache. A list, because that has a version also where the object does not exist.
    async fn read<K>(
        &self,
        resource: Resource,
        api: &Api<K>,
        name: &str,
    ) -> Result<(Version, Option<K>), Lost>
    where
        K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        let params = ListParams::default().fields(&format!("metadata.name={name}"));
        let list: ObjectList<K> = self
            .call_api(Verb::List, resource, api.list(&params))
            .await?;
        let listed = version(list.metadata.resource_version.as_deref());
        let found = list.items.into_iter().find(|item| item.name_any() == name);
        let version = match &found {
            Some(object) => self.version(Verb::List, resource, object.meta())?,
            None => self.note(Verb::List, resource, listed.ok_or(Trouble::NO_VERSION))?,
        };
        Ok((version, found))
    }

    fn version(
        &self,
        verb: Verb,
        resource: Resource,
        metadata: &ObjectMeta,
    ) -> Result<Version, Lost> {
        let version = version(metadata.resource_version.as_deref());
        self.note(verb, resource, version.ok_or(Trouble::NO_VERSION))
    }

    /// Does what was asked, and says what became of it.
    pub async fn carry_out<A>(&self, call: Call<A>) -> Done<A>
    where
        S: States<A>,
    {
        let result = match call {
            Call::WriteLease {
                shard,
                lease,
                renew,
                expect,
            } => {
                let draft = Draft {
                    names: &self.names,
                    shard,
                    lease: &lease,
                    renew,
                    expect,
                    now: self.clock.now(),
                };
                let written = self.write_lease(draft).await;
                written.map(|(version, lease)| Answer::Lease(version, Some(lease)))
            }
            Call::WriteRecord { record, expect } => {
                let written = self.write_record(&record, expect).await;
                written.map(|(version, record)| Answer::Record(version, Some(record)))
            }
            Call::DeleteLease(shard, version) => {
                faults::pass(Point::DeleteLease);
                let name = self.names.lease(shard);
                let deleted = self.delete(Resource::Lease, &self.leases, &name, version);
                deleted.await.map(|()| Answer::Deleted)
            }
            Call::ReadLease(shard) => {
                let name = self.names.lease(shard);
                let found = self.read(Resource::Lease, &self.leases, &name).await;
                found.map(|(version, object)| {
                    Answer::Lease(version, self.see_lease(shard, version, object))
                })
            }
            Call::ReadRecord => {
                let name = self.names.record();
                let found = self.read(Resource::ConfigMap, &self.records, &name).await;
                found.map(|(version, object)| {
                    let told = self.see_record(version, object);
                    told.map_or(Answer::Refused, |record| Answer::Record(version, record))
                })
            }
            Call::WriteState {
                shard,
                state,
                expect,
            } => {
                let (answer, bytes) = self.states.write(shard, state, expect).await;
                let wrote = Some((shard, bytes.try_into().unwrap_or(u64::MAX)));
                return Done { answer, wrote };
            }
            Call::ReadState(shard) => Ok(self.states.read(shard).await),
            Call::DeleteState(shard, version) => Ok(self.states.delete(shard, version).await),
        };
        Done {
            answer: result.unwrap_or_else(Lost::answer),
            wrote: None,
        }
    }
}

/// What became of a call.
pub(super) struct Done<A> {
    pub answer: Answer<A>,
    /// How many bytes of this shard's state were sent.
    pub wrote: Option<(Shard, u64)>,
}

/// What there is can neither be gone by nor be taken for absent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Untellable;

/// Which step the write of a Lease is.
fn step(old: Option<&LeaseObject>, new: &Lease) -> Point {
    if new.held_by == HeldBy::Nobody {
        Point::FreeLease
    } else if old.is_some_and(|old| lease::read(old).acknowledged < new.acknowledged) {
        Point::Acknowledge
    } else {
        Point::HoldLease
    }
}

fn newer<K: ResourceExt>(seen: Option<Seen<K>>, version: Version, object: Option<K>) -> Seen<K> {
    seen.filter(|seen| seen.version >= version)
        .unwrap_or_else(|| Seen {
            version,
            object: object.map(|mut object| {
                // As much again as the rest, and it is not sent back.
                object.managed_fields_mut().clear();
                object
            }),
        })
}
