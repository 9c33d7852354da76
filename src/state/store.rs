//! Reads and writes states, each `ConfigMap` on condition that nobody else has written it since.

mod known;

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::{
    StreamExt as _,
    stream::{self, FuturesUnordered},
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, PostParams, Preconditions},
    core::{ObjectList, ObjectMeta},
};

use super::{
    codec::{self, CodecError},
    config_map::{self, Content, HEAD, Header, Number},
    records::{Part, Record, Records},
};
use crate::{
    cluster::Clock,
    coordinator::{
        Names, States,
        names::version,
        trouble::{Lost, Resource, Verb, in_time},
    },
    faults::{self, Point},
    shard::ownership::{Answer, Shard, State, Version, Writer},
};
use known::{Known, Slot};

/// Parts that are written, or deleted, side by side.
const SIDE_BY_SIDE: usize = 8;

/// The states of an installation.
///
/// It remembers what it has read and written last, so that only what has changed is written, and only over what was read.
#[derive(Debug)]
pub struct Store<R> {
    api: Api<ConfigMap>,
    names: Names,
    clock: Clock,
    memory: Mutex<Memory<R>>,
}

#[derive(Debug)]
struct Memory<R> {
    known: HashMap<Shard, Known<R>>,
    /// Damaged objects that were kept aside, so that this is said once.
    kept: HashSet<(String, Version)>,
    /// What went wrong last with a state, by what was tried, so that it is said once.
    said: HashMap<(Shard, What), String>,
}

/// A call that failed, or several. Worse ones are greater.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Failed {
    // First, so that it decides which one is worse.
    lost: Lost,
    /// Why, for people.
    why: String,
}

impl Failed {
    const CONFLICT: Self = Self {
        lost: Lost::Conflict,
        why: String::new(),
    };

    fn refused(why: &impl ToString) -> Self {
        Self {
            lost: Lost::Refused,
            why: why.to_string(),
        }
    }
}

/// What is tried with a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum What {
    Read,
    Write,
    Delete,
}

impl What {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Delete => "delete",
        }
    }
}

/// A `ConfigMap` to be written.
#[derive(Debug)]
struct Job<R> {
    number: Number,
    part: Arc<Part<R>>,
    over: Option<Version>,
    header: Option<Header>,
    writer: Option<Writer>,
}

/// The same, as bytes.
#[derive(Debug)]
struct Packed<R> {
    job: Job<R>,
    bytes: Vec<u8>,
}

impl<R: Record> Store<R> {
    /// The states of an installation. The client must not retry by itself: that would be silent, and for minutes. The clock is for the
    /// time that people are shown.
    pub fn new(client: Client, names: Names, clock: Clock) -> Self {
        Self {
            api: Api::namespaced(client, &names.namespace),
            names,
            clock,
            memory: Mutex::new(Memory {
                known: HashMap::new(),
                kept: HashSet::new(),
                said: HashMap::new(),
            }),
        }
    }

    async fn try_read(&self, shard: Shard) -> Result<(Version, Option<State<Records<R>>>), Failed> {
        let params = ListParams::default().labels(&self.names.shard_selector(shard));
        let ObjectList {
            metadata, items, ..
        } = self.call(Verb::List, self.api.list(&params)).await?;
        let seen = version_of(metadata.resource_version.as_deref())?;
        let names = self.names.clone();
        let (known, state, damaged) =
            blocking(move || known::read(&names, shard, seen, items)).await??;
        let version = known.version().unwrap_or(seen);
        self.remember(shard, known);
        let keeping = damaged
            .into_iter()
            .map(|(map, error)| self.keep(shard, map, error));
        stream::iter(keeping)
            .buffer_unordered(SIDE_BY_SIDE)
            .collect::<()>()
            .await;
        Ok((version, state))
    }

    async fn try_write(
        &self,
        shard: Shard,
        state: &State<Records<R>>,
        known: &mut Known<R>,
        sent_bytes: &mut usize,
    ) -> Result<Version, Failed> {
        let State {
            writer,
            epoch,
            adopted,
            alerts,
        } = state;
        let parts = alerts.parts();
        let header = Header {
            epoch: *epoch,
            adopted: adopted.clone(),
            parts: u32::try_from(parts.len()).unwrap_or(u32::MAX),
        };
        let numbers: Vec<_> = config_map::numbers(header.parts).collect();
        let jobs: Vec<_> = numbers
            .iter()
            .zip(parts)
            .map(|(&number, part)| Job {
                number,
                part: Arc::clone(part),
                over: known.slots.get(&number).map(|slot| slot.version),
                header: (number == HEAD).then(|| header.clone()),
                writer: writer.clone(),
            })
            .filter(|job| !known.has(job))
            .collect();
        let mut packed = blocking(move || pack(jobs))
            .await?
            .map_err(|error| Failed::refused(&error))?;
        let head = packed.pop_if(|packed| packed.job.number == HEAD);

        let mut failures = Vec::new();
        let mut running = FuturesUnordered::new();
        let mut waiting = packed.into_iter();
        loop {
            // After a failure, only what is on its way is waited for.
            while failures.is_empty()
                && running.len() < SIDE_BY_SIDE
                && let Some(packed) = waiting.next()
            {
                *sent_bytes += packed.bytes.len();
                running.push(self.put(shard, packed));
            }
            match running.next().await {
                Some(Ok((number, slot))) => known.put(number, slot),
                Some(Err(failed)) => failures.push(failed),
                None => break,
            }
        }
        if let Some(worst) = failures.into_iter().max() {
            return Err(worst);
        }

        if let Some(head) = head {
            *sent_bytes += head.bytes.len();
            let (number, slot) = self.put(shard, head).await?;
            known.put(number, slot);
            known.header = Some(header);
            self.remove_unnamed(shard, known, &numbers).await;
        }
        known.version().ok_or(Failed::CONFLICT)
    }

    /// Creates or replaces one `ConfigMap`.
    async fn put(&self, shard: Shard, packed: Packed<R>) -> Result<(Number, Slot<R>), Failed> {
        let Packed { job, bytes } = packed;
        let Job {
            number,
            part,
            over,
            header,
            writer,
        } = job;
        let content = Content {
            header,
            writer: writer.clone(),
            alerts: part.len(),
            written_at: self.clock.now(),
            bytes,
        };
        let map = self.names.config_map(shard, number, content, over);
        let params = PostParams::default();
        faults::pass(Point::WriteState);
        let written = if over.is_none() {
            self.call(Verb::Create, self.api.create(&params, &map))
                .await?
        } else {
            let name = self.names.part(shard, number);
            self.call(Verb::Update, self.api.replace(&name, &params, &map))
                .await?
        };
        faults::pass(Point::WroteState);
        let slot = Slot {
            version: version_of(written.metadata.resource_version.as_deref())?,
            writer,
            content: Some(part),
        };
        Ok((number, slot))
    }

    /// Removes the parts of other layouts. They do no harm, so it does not matter whether that succeeds: whoever comes to use them again finds out.
    async fn remove_unnamed(&self, shard: Shard, known: &mut Known<R>, named: &[Number]) {
        let unnamed = known.take_others(named);
        let removals = unnamed.into_iter().map(|(number, slot)| async move {
            let name = self.names.part(shard, number);
            if let Err(failed) = self.remove(&name, None, slot.version).await {
                tracing::debug!(
                    name,
                    ?failed,
                    "a part that is not needed any more stays for now"
                );
            }
        });
        stream::iter(removals)
            .buffer_unordered(SIDE_BY_SIDE)
            .collect::<()>()
            .await;
    }

    async fn try_delete(&self, shard: Shard, version: Version) -> Result<(), Failed> {
        let params = ListParams::default().labels(&self.names.shard_selector(shard));
        let list = self
            .call(Verb::List, self.api.list_metadata(&params))
            .await?;
        let metas: Vec<_> = list.items.into_iter().map(|item| item.metadata).collect();
        let is_head = |meta: &&ObjectMeta| self.names.place(meta) == Some((shard, HEAD));
        // Without a head there is no state to delete. Parts may be of one that is being created: its head comes last.
        let Some(head) = metas.iter().find(is_head) else {
            return Ok(());
        };
        if version_of(head.resource_version.as_deref())? != version {
            return Err(Failed::CONFLICT);
        }
        let others = metas.iter().filter(|meta| !is_head(meta));
        let removals: Vec<_> = others.map(|meta| self.remove_listed(meta)).collect();
        let outcomes: Vec<_> = stream::iter(removals)
            .buffer_unordered(SIDE_BY_SIDE)
            .collect()
            .await;
        if let Some(worst) = outcomes.into_iter().filter_map(Result::err).max() {
            return Err(worst);
        }
        self.remove_listed(head).await
    }

    async fn remove_listed(&self, meta: &ObjectMeta) -> Result<(), Failed> {
        let name = meta.name.as_deref().unwrap_or_default();
        let version = version_of(meta.resource_version.as_deref())?;
        faults::pass(Point::DeleteState);
        self.remove(name, meta.uid.clone(), version).await
    }

    /// Deletes one `ConfigMap` of this version.
    async fn remove(
        &self,
        name: &str,
        uid: Option<String>,
        version: Version,
    ) -> Result<(), Failed> {
        let params = DeleteParams::default().preconditions(Preconditions {
            resource_version: Some(version.0.to_string()),
            uid,
        });
        self.call(Verb::Delete, self.api.delete(name, &params))
            .await?;
        Ok(())
    }

    /// Keeps a copy of what cannot be read, and says so, once.
    async fn keep(&self, shard: Shard, damaged: Option<ConfigMap>, error: CodecError) {
        const MEANS: &str = "it counts as empty: what was paged may be paged again, with the same keys, and the resolve of what has ended may be missing";
        let namespace = &self.names.namespace;
        let Some(map) = damaged else {
            tracing::error!(%shard, namespace, "a part of the state cannot be used: {error}; {MEANS}");
            return;
        };
        let name = map.metadata.name.clone().unwrap_or_default();
        let version = version(map.metadata.resource_version.as_deref());
        let seen = (name, version.unwrap_or(Version(0)));
        if self.lock().kept.contains(&seen) {
            return;
        }
        let copy = self.names.kept(map, &error);
        let kept = copy.metadata.name.clone().unwrap_or_default();
        match self
            .call(Verb::Create, self.api.create(&PostParams::default(), &copy))
            .await
        {
            // A conflict: somebody has kept the same version before.
            Ok(_)
            | Err(Failed {
                lost: Lost::Conflict,
                ..
            }) => {
                tracing::error!(%shard, namespace, name = seen.0, "a part of the state cannot be used: {error}; {MEANS}; a copy is kept as ConfigMap {kept}, delete it when it is of no more use");
                self.lock().kept.insert(seen);
            }
            Err(Failed { why, .. }) => {
                tracing::error!(%shard, namespace, name = seen.0, "a part of the state cannot be used: {error}; {MEANS}; no copy could be kept: {why}");
            }
        }
    }

    /// Logs a failure, unless it is the same as the last one.
    fn say(&self, what: What, shard: Shard, failed: &Failed) -> Answer<Records<R>> {
        let Failed { lost, why } = failed;
        let verb = what.as_str();
        if *lost == Lost::Conflict {
            tracing::debug!(%shard, "cannot {verb} the state: somebody else has written it");
        } else {
            let said = self.lock().said.insert((shard, what), why.clone());
            if said.as_ref() != Some(why) {
                let namespace = &self.names.namespace;
                tracing::warn!(%shard, namespace, "cannot {verb} the state: {why}");
            }
        }
        lost.answer()
    }

    /// Makes a call, and waits for it no longer than is useful.
    async fn call<T>(
        &self,
        verb: Verb,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, Failed> {
        in_time(request).await.map_err(|trouble| Failed {
            lost: trouble.lost(verb),
            why: trouble.text(verb, Resource::ConfigMap, &self.names.namespace),
        })
    }

    /// Remembers what is known of a state, unless something newer is.
    fn remember(&self, shard: Shard, known: Known<R>) {
        let mut memory = self.lock();
        let newer = memory.known.get(&shard);
        if newer.is_none_or(|newer| newer.seen <= known.seen) {
            memory.known.insert(shard, known);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Memory<R>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Record> States<Records<R>> for Store<R> {
    /// Forgets what was read and written of the states of other shards: those that are not held any more, or are gone. A write of one that was
    /// forgotten is a conflict until it has been read again.
    fn retain(&self, keep: impl Fn(Shard) -> bool) {
        let mut memory = self.lock();
        memory.known.retain(|shard, _| keep(*shard));
        memory.said.retain(|(shard, _), _| keep(*shard));
    }

    /// Reads a state, not from a cache: with one list, so that its parts are of one moment and absence has a version too. What is damaged or of a newer
    /// version counts as empty, is kept aside, and said.
    async fn read(&self, shard: Shard) -> Answer<Records<R>> {
        match self.try_read(shard).await {
            Ok((version, state)) => {
                self.lock().said.remove(&(shard, What::Read));
                Answer::State(version, state)
            }
            Err(failed) => self.say(What::Read, shard, &failed),
        }
    }

    /// Writes a state over that of the version `expect`, or creates it: what has changed, and what is of another writer. The head goes last: with it, the state as a
    /// whole is as it should be. Returns the head's version, and the number of bytes sent.
    ///
    /// If it fails, some parts may have been written, each as it was or as it was to be. After a refusal the same write can simply be tried again; after a conflict or
    /// an unknown outcome the state must be read before.
    async fn write(
        &self,
        shard: Shard,
        state: State<Records<R>>,
        expect: Option<Version>,
    ) -> (Answer<Records<R>>, usize) {
        let known = self.lock().known.remove(&shard);
        // Without a read before there can still be nothing.
        let mut known = known.unwrap_or_default();
        let mut sent_bytes = 0;
        let written = if known.version() == expect {
            self.try_write(shard, &state, &mut known, &mut sent_bytes)
                .await
        } else {
            Err(Failed::CONFLICT)
        };
        self.remember(shard, known);
        let answer = match written {
            Ok(version) => {
                self.lock().said.remove(&(shard, What::Write));
                Answer::State(version, Some(state))
            }
            Err(failed) => self.say(What::Write, shard, &failed),
        };
        (answer, sent_bytes)
    }

    /// Deletes a state whose head is of this version, with all that has its shard's labels. The head goes last.
    async fn delete(&self, shard: Shard, version: Version) -> Answer<Records<R>> {
        match self.try_delete(shard, version).await {
            Ok(()) => {
                self.retain(|other| other != shard);
                Answer::Deleted
            }
            Err(failed) => self.say(What::Delete, shard, &failed),
        }
    }
}

/// The head comes last.
fn pack<R: Record>(mut jobs: Vec<Job<R>>) -> Result<Vec<Packed<R>>, CodecError> {
    jobs.sort_by_key(|job| job.number == HEAD);
    let packed = jobs.into_iter().map(|job| {
        let bytes = codec::encode(&job.part)?;
        Ok(Packed { job, bytes })
    });
    packed.collect()
}

/// Runs what takes long beside the runtime, which has other things to do.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failed> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Failed::refused(&format!("cannot pack or unpack the state: {error}")))
}

fn version_of(resource_version: Option<&str>) -> Result<Version, Failed> {
    version(resource_version).ok_or_else(|| Failed {
        lost: Lost::Unknown,
        why: "cannot use an answer: its resourceVersion is not a number".to_owned(),
    })
}

#[cfg(test)]
mod tests;
