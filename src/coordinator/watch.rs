//! Leases, the record and the states, as they change.
//!
//! kube-runtime's watcher says what is there, and what is gone, but not in which version: and a version is what a [`Replica`] takes objects in by, those that do not exist
//! among them. So this lists and watches by itself. These are few and small objects: every failure, and every end, is followed by a fresh list.
//!
//! [`Replica`]: crate::shard::ownership::Replica

use std::{collections::BTreeSet, convert::Infallible, time::Duration};

use futures::{StreamExt as _, TryStreamExt as _, stream::BoxStream};
use kube::{
    Api, ResourceExt,
    api::{ListParams, ObjectList, PartialObjectMeta, WatchEvent, WatchParams},
};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{
    names::version,
    trouble::{Resource, Trouble, Troubles, Verb},
};
use crate::{cluster::Backoff, shard::ownership::Version};

/// How long the API server is asked to serve a watch, in seconds; at random, so that not all start anew together.
const WATCH_SECONDS: std::ops::RangeInclusive<u32> = 60..=75;
/// How much longer its end is waited for. Then the connection is dead.
const GRACE: Duration = Duration::from_secs(5);
/// How long a list may take.
const LIST: Duration = Duration::from_secs(30);
/// A watch that ended sooner was not served: the next one waits.
const SHORT: Duration = Duration::from_secs(10);

/// What is seen of an object.
#[derive(Debug)]
pub(super) struct Seen<K> {
    /// Since when it is so.
    pub version: Version,
    /// Its name.
    pub name: String,
    /// Nothing: there is none of this name.
    pub object: Option<K>,
}

/// Where to look.
pub(super) trait Source: Send + Sync {
    /// What is there.
    type Object: ResourceExt + Clone + Send;

    /// What kind of resource it is, to name it.
    fn resource(&self) -> Resource;

    /// Lists.
    fn list(
        &self,
        params: &ListParams,
    ) -> impl Future<Output = kube::Result<ObjectList<Self::Object>>> + Send;

    /// Watches from a version on.
    fn watch(
        &self,
        params: &WatchParams,
        version: &str,
    ) -> impl Future<Output = kube::Result<Events<Self::Object>>> + Send;
}

type Events<K> = BoxStream<'static, kube::Result<WatchEvent<K>>>;

/// Whole objects.
pub(super) struct Whole<K>(pub Resource, pub Api<K>);

/// The metadata of objects that may be large.
pub(super) struct Metadata<K>(pub Resource, pub Api<K>);

/// What an object is made of that can be watched.
pub(super) trait Kind:
    kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + Sync + 'static
{
}

impl<K> Kind for K where
    K: kube::Resource
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

impl<K: Kind> Source for Whole<K> {
    type Object = K;

    fn resource(&self) -> Resource {
        self.0
    }

    async fn list(&self, params: &ListParams) -> kube::Result<ObjectList<K>> {
        self.1.list(params).await
    }

    async fn watch(&self, params: &WatchParams, version: &str) -> kube::Result<Events<K>> {
        Ok(self.1.watch(params, version).await?.boxed())
    }
}

impl<K: Kind> Source for Metadata<K>
where
    PartialObjectMeta<K>: ResourceExt,
{
    type Object = PartialObjectMeta<K>;

    fn resource(&self) -> Resource {
        self.0
    }

    async fn list(&self, params: &ListParams) -> kube::Result<ObjectList<PartialObjectMeta<K>>> {
        self.1.list_metadata(params).await
    }

    async fn watch(
        &self,
        params: &WatchParams,
        version: &str,
    ) -> kube::Result<Events<PartialObjectMeta<K>>> {
        Ok(self.1.watch_metadata(params, version).await?.boxed())
    }
}

/// Which objects.
#[derive(Debug, Clone)]
pub(super) enum Selection {
    /// Those with these labels.
    Labels(String),
    /// The one of this name.
    Name(String),
}

impl Selection {
    fn list(&self) -> ListParams {
        match self {
            Self::Labels(labels) => ListParams::default().labels(labels),
            Self::Name(name) => ListParams::default().fields(&format!("metadata.name={name}")),
        }
    }

    fn watch(&self, seconds: u32) -> WatchParams {
        // Nothing is resumed, so there is no place to be kept fresh by bookmarks.
        let params = WatchParams::default().timeout(seconds).disable_bookmarks();
        match self {
            Self::Labels(labels) => params.labels(labels),
            Self::Name(name) => params.fields(&format!("metadata.name={name}")),
        }
    }
}

/// Watches for ever, and tells what it sees; and once, when all that there is has been seen.
pub(super) async fn watch<S: Source>(
    source: S,
    selection: Selection,
    troubles: &Troubles,
    complete: oneshot::Sender<()>,
    see: impl FnMut(Seen<S::Object>) + Send,
) -> Infallible {
    let resource = source.resource();
    let mut watch = Watch {
        source,
        selection,
        troubles,
        see,
        complete: Some(complete),
        names: BTreeSet::new(),
    };
    let mut backoff = Backoff::default();
    loop {
        let started = Instant::now();
        let result = watch.turn().await;
        if let Err((verb, trouble)) = &result {
            troubles.failed(*verb, resource, trouble);
        }
        // One that was served to its end is followed at once; after a failure, or if the server does not mean to serve, there is a pause.
        if result.is_err() || started.elapsed() < SHORT {
            sleep(backoff.next(Instant::now(), fastrand::f64())).await;
        }
    }
}

struct Watch<'a, S, F> {
    source: S,
    selection: Selection,
    troubles: &'a Troubles,
    see: F,
    complete: Option<oneshot::Sender<()>>,
    /// What there is, as far as it was seen.
    names: BTreeSet<String>,
}

type Failed = (Verb, Trouble);

impl<S: Source, F: FnMut(Seen<S::Object>)> Watch<'_, S, F> {
    /// A list, and what follows it, until that ends.
    async fn turn(&mut self) -> Result<(), Failed> {
        let (listed, objects) = self.list(self.selection.list()).await?;
        let mut missing = std::mem::take(&mut self.names);
        for object in objects {
            missing.remove(&object.name_any());
            self.tell(Verb::List, object)?;
        }
        // If one of the looks fails, the others are still due.
        self.names.extend(missing.iter().cloned());
        for name in missing {
            self.look(name).await?;
        }
        if let Some(complete) = self.complete.take() {
            // Nobody waits any more when it stops.
            _ = complete.send(());
        }

        let seconds = fastrand::u32(WATCH_SECONDS);
        let end = Instant::now() + Duration::from_secs(seconds.into()) + GRACE;
        let late = |_| {
            (
                Verb::Watch,
                Trouble::Odd("it is silent, as a connection that is dead"),
            )
        };
        let params = self.selection.watch(seconds);
        let from = listed.0.to_string();
        let events = self.source.watch(&params, &from);
        let opened = timeout_at(end, events).await.map_err(late)?;
        let mut events = opened.map_err(failed(Verb::Watch))?;
        self.troubles.worked(Verb::Watch, self.source.resource());
        while let Some(event) = timeout_at(end, events.try_next())
            .await
            .map_err(late)?
            .map_err(failed(Verb::Watch))?
        {
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    self.tell(Verb::Watch, object)?;
                }
                WatchEvent::Deleted(object) => self.look(object.name_any()).await?,
                WatchEvent::Bookmark(_) => {}
                WatchEvent::Error(status) => {
                    return Err((Verb::Watch, kube::Error::Api(status).into()));
                }
            }
        }
        Ok(())
    }

    async fn list(&mut self, params: ListParams) -> Result<(Version, Vec<S::Object>), Failed> {
        let list = timeout(LIST, self.source.list(&params))
            .await
            .map_err(|_| (Verb::List, Trouble::Late(LIST)))?
            .map_err(failed(Verb::List))?;
        let version = version(list.metadata.resource_version.as_deref());
        self.troubles.worked(Verb::List, self.source.resource());
        Ok((
            version.ok_or((Verb::List, Trouble::NO_VERSION))?,
            list.items,
        ))
    }

    fn tell(&mut self, verb: Verb, object: S::Object) -> Result<(), Failed> {
        let version = version(object.resource_version().as_deref());
        let version = version.ok_or((verb, Trouble::NO_VERSION))?;
        let name = object.name_any();
        self.names.insert(name.clone());
        (self.see)(Seen {
            version,
            name,
            object: Some(object),
        });
        Ok(())
    }

    /// Looks whether what is not selected any more is gone: it may have lost its labels, and be there. To take that for absence would be to try for ever to create it.
    async fn look(&mut self, name: String) -> Result<(), Failed> {
        let (version, objects) = self.list(Selection::Name(name.clone()).list()).await?;
        if let Some(object) = objects.into_iter().next() {
            return self.tell(Verb::List, object);
        }
        self.names.remove(&name);
        (self.see)(Seen {
            version,
            name,
            object: None,
        });
        Ok(())
    }
}

fn failed(verb: Verb) -> impl FnOnce(kube::Error) -> Failed {
    move |error| (verb, error.into())
}
