//! Objects as serialised bytes, one version counter, and the history that watches read.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    ops::Bound::{Excluded, Included, Unbounded},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Map, Value};
use tokio::sync::watch;

use super::{ApiError, Resource, selector::Selector};
use crate::cluster::Clock;

/// What follows the object in a line of a watch.
const END_OF_LINE: &[u8] = b"}\n";

/// What stands for the index in the texts of a template.
const INDEX: &str = "{index}";

/// The version of a template: a number that nothing else in an object is.
pub(super) const TEMPLATE: u64 = u64::MAX;

/// A stored object: its JSON, and the few fields that the server itself reads.
#[derive(Debug)]
pub struct Object {
    pub(super) namespace: Box<str>,
    pub(super) name: Box<str>,
    pub(super) uid: Box<str>,
    pub(super) version: u64,
    pub(super) labels: Box<[(Box<str>, Box<str>)]>,
    /// The JSON and [`END_OF_LINE`]: all watchers and lists share these bytes.
    line: Bytes,
    /// How long the leading `{"apiVersion":...,"kind":...,` is: items of a list have none. 0 in raw objects: they are served verbatim.
    header: usize,
}

impl Object {
    /// `metadata.namespace`; empty if cluster-scoped.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// `metadata.resourceVersion`.
    pub fn resource_version(&self) -> u64 {
        self.version
    }

    /// The object's JSON.
    pub fn bytes(&self) -> Bytes {
        self.line.slice(..self.line.len() - END_OF_LINE.len())
    }

    /// The object, parsed; null if it was put raw and is no JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes()).unwrap_or_default()
    }

    /// The rest of a watch line that begins with `{"type":...,"object":`.
    pub(super) fn line(&self) -> Bytes {
        self.line.clone()
    }

    /// The object as an item of a list: what to write first, and the bytes that follow.
    pub(super) fn item(&self) -> (&'static str, Bytes) {
        let rest = self
            .line
            .slice(self.header..self.line.len() - END_OF_LINE.len());
        (if self.header == 0 { "" } else { "{" }, rest)
    }

    /// Serialises an object whose metadata is complete.
    pub(super) fn seal(
        resource: &Resource,
        version: u64,
        mut object: Map<String, Value>,
    ) -> Result<Arc<Self>, ApiError> {
        object.remove("apiVersion");
        object.remove("kind");
        let metadata = object
            .get_mut("metadata")
            .and_then(Value::as_object_mut)
            .ok_or_else(|| ApiError::bad_request("metadata must be an object"))?;
        metadata.insert("resourceVersion".into(), version.to_string().into());
        let text = |field: &str| -> Box<str> {
            metadata
                .get(field)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .into()
        };
        let (namespace, name, uid) = (text("namespace"), text("name"), text("uid"));
        let labels = metadata
            .get("labels")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .filter_map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into())))
            .collect();

        let mut line = format!(
            r#"{{"apiVersion":"{}","kind":"{}","#,
            resource.api_version(),
            resource.kind
        )
        .into_bytes();
        let header = line.len();
        serde_json::to_writer(&mut line, &object)
            .map_err(|error| ApiError::bad_request(error.to_string()))?;
        line.remove(header); // the object's own opening brace
        line.extend_from_slice(END_OF_LINE);
        Ok(Arc::new(Self {
            namespace,
            name,
            uid,
            version,
            labels,
            // A boxed slice holds no spare capacity: 100,000 objects cost their bytes.
            line: Bytes::from(line.into_boxed_slice()),
            header,
        }))
    }

    pub(super) fn raw(namespace: &str, name: &str, version: u64, json: &[u8]) -> Arc<Self> {
        Arc::new(Self {
            namespace: namespace.into(),
            name: name.into(),
            uid: uid(version).into(),
            version,
            labels: Box::default(),
            line: Bytes::from([json, END_OF_LINE].concat().into_boxed_slice()),
            header: 0,
        })
    }

    /// A copy of a template ([`Object::seal`]ed at version [`TEMPLATE`]), made without parsing it: [`INDEX`] becomes the index.
    pub(super) fn copy(&self, index: usize, version: u64) -> Arc<Self> {
        let fill = |text: &str| -> Box<str> { text.replace(INDEX, &format!("{index:05}")).into() };
        let uid = uid(version);
        let line = fill(&String::from_utf8_lossy(&self.line))
            .replace(&TEMPLATE.to_string(), &version.to_string())
            .replace(&*self.uid, &uid);
        Arc::new(Self {
            namespace: fill(&self.namespace),
            name: fill(&self.name),
            uid: uid.into(),
            version,
            labels: self
                .labels
                .iter()
                .map(|(key, value)| (key.clone(), fill(value)))
                .collect(),
            line: Bytes::from(line.into_bytes().into_boxed_slice()),
            header: self.header,
        })
    }

    /// The same object at another version; raw ones stay as they are but for the version.
    pub(super) fn at(&self, resource: &Resource, version: u64) -> Arc<Self> {
        match self.json() {
            Value::Object(object) if self.header > 0 => Self::seal(resource, version, object),
            _ => Err(ApiError::bad_request("raw")),
        }
        .unwrap_or_else(|_| Self::raw(&self.namespace, &self.name, version, &self.bytes()))
    }
}

/// A unique id, from the version at which an object was created.
pub(super) fn uid(version: u64) -> String {
    format!("5e551017-0000-4000-8000-{version:012x}")
}

/// A change, for watches.
#[derive(Debug, Clone)]
pub(super) struct Change {
    /// The object after the change; when it was deleted, as it was last, at the version of the deletion.
    pub(super) object: Arc<Object>,
    /// The object before the change.
    pub(super) before: Option<Arc<Object>>,
    /// Whether this was the deletion.
    pub(super) deleted: bool,
}

/// A page of a list.
#[derive(Debug)]
pub(super) struct Page {
    /// The version at which the whole list is consistent.
    pub(super) version: u64,
    pub(super) objects: Vec<Arc<Object>>,
    /// The token of the next page.
    pub(super) next: Option<String>,
}

type Key = (Box<str>, Box<str>);

/// The objects of one resource.
#[derive(Debug, Default)]
pub(super) struct Collection {
    pub(super) objects: BTreeMap<Key, Arc<Object>>,
    changes: VecDeque<Change>,
    /// Changes up to this version are forgotten.
    compacted: u64,
}

impl Collection {
    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<&Arc<Object>> {
        self.objects.get(&(namespace.into(), name.into()))
    }

    /// The changes after a version, oldest first.
    fn since(&self, version: u64) -> impl DoubleEndedIterator<Item = &Change> {
        let start = self
            .changes
            .partition_point(|change| change.object.version <= version);
        self.changes.range(start..)
    }

    fn check_age(&self, version: u64) -> Result<(), ApiError> {
        if version < self.compacted {
            return Err(ApiError::too_old(version, self.compacted));
        }
        Ok(())
    }

    /// The selected objects as they were at `version`, from after `start`, by namespace and name: up to `limit`, and whether there are more.
    fn page(
        &self,
        version: u64,
        start: Option<Key>,
        selector: &Selector,
        limit: usize,
    ) -> (Vec<Arc<Object>>, bool) {
        // What has changed since is taken back: an object is what it was before the first of its later changes.
        let mut rewound: BTreeMap<Key, Option<&Arc<Object>>> = BTreeMap::new();
        for Change { object, before, .. } in self.since(version).rev() {
            rewound.insert(
                (object.namespace.clone(), object.name.clone()),
                before.as_ref(),
            );
        }
        let start = start.map_or_else(
            || Included((selector.namespace().unwrap_or_default().into(), "".into())),
            Excluded,
        );
        let mut current = self
            .objects
            .range((start.clone(), Unbounded))
            .filter(|(key, _)| !rewound.contains_key(*key))
            .peekable();
        let mut old = rewound
            .range((start, Unbounded))
            .filter_map(|(key, object)| Some((key, (*object)?)))
            .peekable();

        let mut page = Vec::new();
        loop {
            let next = match (current.peek(), old.peek()) {
                (Some((left, _)), Some((right, _))) if right < left => old.next(),
                (None, _) => old.next(),
                (Some(_), _) => current.next(),
            };
            let Some(((namespace, _), object)) = next else {
                return (page, false);
            };
            if selector.is_past(namespace) {
                return (page, false);
            }
            if selector.matches(object) {
                if page.len() == limit {
                    return (page, true);
                }
                page.push(Arc::clone(object));
            }
        }
    }
}

/// All objects, behind one lock.
#[derive(Debug)]
pub(super) struct State {
    pub(super) version: u64,
    collections: HashMap<(&'static str, &'static str), Collection>,
    /// Changes that are kept for each resource.
    history: usize,
}

impl State {
    pub(super) fn collection(&mut self, resource: &Resource) -> &mut Collection {
        self.collections
            .entry((resource.group, resource.plural))
            .or_default()
    }

    /// Stores a change whose object carries the next version.
    pub(super) fn commit(&mut self, resource: &Resource, object: Arc<Object>, deleted: bool) {
        self.version = object.version;
        let history = self.history;
        let collection = self.collection(resource);
        let key = (object.namespace.clone(), object.name.clone());
        let before = if deleted {
            collection.objects.remove(&key)
        } else {
            collection.objects.insert(key, Arc::clone(&object))
        };
        collection.changes.push_back(Change {
            object,
            before,
            deleted,
        });
        while collection.changes.len() > history {
            if let Some(change) = collection.changes.pop_front() {
                collection.compacted = change.object.version;
            }
        }
    }
}

/// The objects of the cluster in memory. Cheap to clone; all clones are the same store.
#[derive(Debug, Clone)]
pub struct Store {
    state: Arc<Mutex<State>>,
    /// The latest version: wakes watches.
    latest: watch::Sender<u64>,
    pub(super) clock: Clock,
}

impl Store {
    pub(super) fn new(clock: Clock, history: usize) -> Self {
        Self {
            state: Arc::new(Mutex::new(State {
                version: 1,
                collections: HashMap::new(),
                history,
            })),
            latest: watch::Sender::new(1),
            clock,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a change and wakes the watches if it made a new version.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let (result, version) = {
            let mut state = self.lock();
            (change(&mut state), state.version)
        };
        // Two writers may get here in the other order: the version must not go back.
        self.latest.send_if_modified(|latest| {
            let newer = version > *latest;
            *latest = version.max(*latest);
            newer
        });
        result
    }

    /// The latest version of the whole store.
    pub fn version(&self) -> u64 {
        self.lock().version
    }

    /// How many objects of a resource there are.
    pub fn len(&self, resource: &Resource) -> usize {
        self.lock().collection(resource).objects.len()
    }

    /// An object.
    ///
    /// # Errors
    ///
    /// 404 if it is not there.
    pub fn get(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<Object>, ApiError> {
        self.lock()
            .collection(resource)
            .get(namespace, name)
            .cloned()
            .ok_or_else(|| ApiError::not_found(resource, name))
    }

    /// Forgets all history: watches that resume, and lists that continue, from before now get 410.
    pub fn compact(&self) {
        let mut state = self.lock();
        let version = state.version;
        for collection in state.collections.values_mut() {
            collection.changes.clear();
            collection.compacted = version;
        }
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.latest.subscribe()
    }

    /// A page of the list at `version` (default: now), or the page that a token asks for.
    pub(super) fn list(
        &self,
        resource: &Resource,
        selector: &Selector,
        version: Option<u64>,
        limit: Option<usize>,
        token: Option<&str>,
    ) -> Result<Page, ApiError> {
        let (version, start) = match token {
            None => (version, None),
            Some(token) => {
                let (version, key) = parse_token(token)
                    .ok_or_else(|| ApiError::bad_request("continue key is not valid"))?;
                (Some(version), Some(key))
            }
        };
        let mut state = self.lock();
        let now = state.version;
        let version = version.unwrap_or(now);
        let collection = state.collection(resource);
        if let Err(error) = collection.check_age(version) {
            return Err(if token.is_some() {
                ApiError::new(
                    StatusCode::GONE,
                    "the continue token is too old: its version has been compacted; list again from the start",
                )
            } else {
                error
            });
        }
        let (objects, more) =
            collection.page(version, start, selector, limit.unwrap_or(usize::MAX));
        let next = objects
            .last()
            .filter(|_| more)
            .map(|last| format!("{version}:{}/{}", last.namespace, last.name));
        Ok(Page {
            version,
            objects,
            next,
        })
    }

    /// Up to `limit` changes after a version, and the version up to which they are all.
    pub(super) fn changes(
        &self,
        resource: &Resource,
        after: u64,
        limit: usize,
    ) -> Result<(Vec<Change>, u64), ApiError> {
        let mut state = self.lock();
        let now = state.version;
        let collection = state.collection(resource);
        collection.check_age(after)?;
        let changes: Vec<_> = collection.since(after).take(limit).cloned().collect();
        let reached = match changes.last() {
            Some(last) if changes.len() == limit => last.object.version,
            _ => now.max(after),
        };
        Ok((changes, reached))
    }
}

fn parse_token(token: &str) -> Option<(u64, Key)> {
    let (version, key) = token.split_once(':')?;
    let (namespace, name) = key.split_once('/')?;
    Some((version.parse().ok()?, (namespace.into(), name.into())))
}
