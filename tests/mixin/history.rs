//! Histories: what happened to a few objects, as files that people can read.
//!
//! A file under `histories/` is one history. All its times are told from the moment at which things go wrong (or, in a history of things that go well, at which
//! they begin to move):
//!
//! ```yaml
//! history: a container that ends as soon as it starts   # what happens, as the page tells it
//! about: [KubePodCrashLooping]                          # the alerts that it is about, also if none fires
//! lasts: 40m                                            # until when it is followed
//! steps:                                                # in the order of their times
//! - at: -10m
//!   objects: [...]                                      # new objects, as `kubectl get -o yaml` prints them
//! - at: 2s
//!   changes:                                            # changes of objects, found by kind and name
//!   - {kind: Pod, name: web-1, status: {phase: Failed}}
//! - at: 20m
//!   gone: [Pod/web-1]                                   # objects that were deleted
//! ```
//!
//! A change is merged as `kubectl patch` does it: `null` removes a field; of a list whose items have a `type` or a `name`, the items with the same one are changed, and the
//! others stay; any other list is replaced. In objects and changes, a text like `+2m40s` or `-24h` is the time that long after, or before, the moment from which the
//! history counts.

use std::{collections::BTreeMap, fs, path::Path};

use alertkube::cluster::Object;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        apps::v1 as apps, autoscaling::v2 as autoscaling, batch::v1 as batch, core::v1 as core,
        policy::v1 as policy,
    },
    kube_aggregator::pkg::apis::apiregistration::v1::APIService as ApiService,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

/// The moment from which histories count. Any would do.
pub const ORIGIN: Timestamp = Timestamp::constant(1_795_168_800, 0);

/// What happened to a few objects.
pub struct History {
    /// The name of its file, without the ending.
    pub name: String,
    /// What happened, in a sentence.
    pub sentence: String,
    /// The alerts that it is about.
    pub about: Vec<String>,
    /// Until when it is followed.
    pub ends: Timestamp,
    /// What was seen, in order.
    pub steps: Vec<(Timestamp, Step)>,
}

/// What was seen at one time.
pub enum Step {
    /// An object that is new or has changed, as it is then.
    Seen(Value),
    /// The object is gone; as it was last.
    Gone(Value),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    history: String,
    about: Vec<String>,
    lasts: String,
    steps: Vec<Written>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    at: String,
    #[serde(default)]
    objects: Vec<Value>,
    #[serde(default)]
    changes: Vec<Map<String, Value>>,
    #[serde(default)]
    gone: Vec<String>,
}

/// Every history, in order of their names.
pub fn all(folder: &Path) -> Vec<History> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    files.iter().map(|file| read(file)).collect()
}

fn read(path: &Path) -> History {
    let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
    let text = fs::read_to_string(path).unwrap();
    let file: File = serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut now: BTreeMap<String, Value> = BTreeMap::new();
    let mut steps: Vec<(Timestamp, Step)> = Vec::new();
    for written in file.steps {
        let place = format!("{name}, {}", written.at);
        let at = time(&written.at).unwrap_or_else(|| panic!("{place}: not a time"));
        assert!(
            steps.last().is_none_or(|(before, _)| *before <= at),
            "{place}: out of order"
        );
        for mut object in written.objects {
            resolve(&mut object);
            let new = now.insert(key(&object), object.clone()).is_none();
            assert!(new, "{place}: {} is there already", key(&object));
            check(&place, &object);
            steps.push((at, Step::Seen(object)));
        }
        for mut change in written.changes {
            let (kind, named) = (change.remove("kind"), change.remove("name"));
            let (kind, named) = (kind.unwrap_or_default(), named.unwrap_or_default());
            let key = format!("{}/{}", text_of(&kind), text_of(&named));
            let object = now.get_mut(&key);
            let object = object.unwrap_or_else(|| panic!("{place}: there is no {key}"));
            let mut change = Value::Object(change);
            resolve(&mut change);
            let before = object.clone();
            merge(object, change);
            assert_ne!(before, *object, "{place}: changes nothing of {key}");
            check(&place, object);
            steps.push((at, Step::Seen(object.clone())));
        }
        for key in written.gone {
            let object = now.remove(&key);
            let object = object.unwrap_or_else(|| panic!("{place}: there is no {key}"));
            steps.push((at, Step::Gone(object)));
        }
    }
    let ends = time(&file.lasts).unwrap_or_else(|| panic!("{name}: lasts is no time"));
    assert!(
        steps.last().is_some_and(|(last, _)| *last < ends),
        "{name}: it ends before its last step"
    );
    History {
        name,
        sentence: file.history,
        about: file.about,
        ends,
        steps,
    }
}

/// The time that long after [`ORIGIN`].
fn time(text: &str) -> Option<Timestamp> {
    let duration: SignedDuration = text.trim_start_matches('+').parse().ok()?;
    Some(ORIGIN + duration)
}

/// Puts times where a text tells one from [`ORIGIN`].
fn resolve(value: &mut Value) {
    match value {
        Value::String(text) if text.starts_with(['+', '-']) => {
            if let Some(time) = time(text) {
                *text = time.to_string();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(resolve),
        Value::Object(fields) => fields.values_mut().for_each(resolve),
        _ => {}
    }
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn key(object: &Value) -> String {
    let (kind, name) = (&object["kind"], &object["metadata"]["name"]);
    format!("{}/{}", text_of(kind), text_of(name))
}

/// Changes the value as `kubectl patch` does.
fn merge(value: &mut Value, change: Value) {
    match (value, change) {
        (Value::Object(fields), Value::Object(changes)) => {
            for (name, change) in changes {
                if change.is_null() {
                    fields.remove(&name);
                } else {
                    merge(fields.entry(name).or_insert(Value::Null), change);
                }
            }
        }
        (Value::Array(items), Value::Array(changes)) if changes.iter().all(|c| id(c).is_some()) => {
            for change in changes {
                match items.iter_mut().find(|item| id(item) == id(&change)) {
                    Some(item) => merge(item, change),
                    None => items.push(change),
                }
            }
        }
        (value @ Value::Null, Value::Object(changes)) => {
            *value = Value::Object(Map::new());
            merge(value, Value::Object(changes));
        }
        (value, change) => *value = change,
    }
}

/// By what an item of a list is known.
fn id(item: &Value) -> Option<&str> {
    item.get("type").or_else(|| item.get("name"))?.as_str()
}

/// What the engine sees of the object.
pub fn decode(object: &Value) -> Object {
    let (version, kind) = (text_of(&object["apiVersion"]), text_of(&object["kind"]));
    match Object::decode(version, kind, object) {
        Ok(Some((object, 0))) => object,
        other => panic!("{}: cannot be decoded: {other:?}", key(object)),
    }
}

/// Fails if Kubernetes' own type does not know all that is written: a misspelt field would be skipped without a word.
fn check(place: &str, object: &Value) {
    let whole = match text_of(&object["kind"]) {
        "Pod" => whole::<core::Pod>(object),
        "Node" => whole::<core::Node>(object),
        "Deployment" => whole::<apps::Deployment>(object),
        "StatefulSet" => whole::<apps::StatefulSet>(object),
        "DaemonSet" => whole::<apps::DaemonSet>(object),
        "Job" => whole::<batch::Job>(object),
        "HorizontalPodAutoscaler" => whole::<autoscaling::HorizontalPodAutoscaler>(object),
        "PodDisruptionBudget" => whole::<policy::PodDisruptionBudget>(object),
        "ResourceQuota" => whole::<core::ResourceQuota>(object),
        "PersistentVolume" => whole::<core::PersistentVolume>(object),
        "APIService" => whole::<ApiService>(object),
        kind => panic!("{place}: no histories of {kind} are known: add it here, and to ksm.rs"),
    };
    let whole =
        whole.unwrap_or_else(|e| panic!("{place}: {} is no object of its kind: {e}", key(object)));
    let lost = lost(object, &whole);
    assert!(
        lost.is_none(),
        "{place}: {} has no field {}",
        key(object),
        lost.unwrap_or_default()
    );
}

fn whole<K: DeserializeOwned + Serialize>(object: &Value) -> serde_json::Result<Value> {
    serde_json::to_value(K::deserialize(object)?)
}

/// A field that is written and not read.
fn lost(written: &Value, read: &Value) -> Option<String> {
    match (written, read) {
        (Value::Object(fields), Value::Object(read)) => {
            fields
                .iter()
                .find_map(|(name, value)| match read.get(name) {
                    Some(read) => lost(value, read).map(|path| format!("{name}.{path}")),
                    // Empty values are left out when the whole type is written.
                    None if matches!(value, Value::Array(items) if items.is_empty()) => None,
                    None if matches!(value, Value::Object(fields) if fields.is_empty()) => None,
                    None => Some(name.clone()),
                })
        }
        (Value::Array(items), Value::Array(read)) => items
            .iter()
            .zip(read)
            .find_map(|(item, read)| lost(item, read)),
        _ => None,
    }
}
