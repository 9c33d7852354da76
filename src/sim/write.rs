//! Writes: create, update, patch and delete, with the metadata that the server keeps.

use std::{sync::Arc, time::Duration};

use http::StatusCode;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::{
    ApiError, Put, Resource,
    json::{has_finalizers, key, map, merge_patch, set, text, time},
    store::{Object, State, Store, TEMPLATE, uid},
};

/// The answer to a write that was decided from an older version (`OptimisticLockErrorMsg`).
const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// Metadata that only the server writes.
const SYSTEM_FIELDS: [&str; 5] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
];

/// How to delete an object: `DeleteOptions`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeleteOptions {
    /// Seconds that a Pod on a node has to end; its own `terminationGracePeriodSeconds` if unset. 0 removes it now, as its kubelet
    /// does when it has ended.
    pub grace_period_seconds: Option<i64>,
    /// What must hold, or nothing is deleted.
    pub preconditions: Preconditions,
}

/// What must hold for a deletion.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Preconditions {
    /// The object's uid.
    pub uid: Option<String>,
    /// The object's version.
    pub resource_version: Option<String>,
}

impl DeleteOptions {
    /// Removes the object now.
    pub fn now() -> Self {
        Self {
            grace_period_seconds: Some(0),
            ..Self::default()
        }
    }
}

/// Which part of an object an update writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// All but the status, if that is a subresource.
    Main,
    /// The status only.
    Status,
    /// Everything: a cluster whose kubelet is part of the caller.
    All,
}

impl Store {
    /// Creates an object as it is given, status and creation time included: what a kubelet has done to it since, all at once.
    /// Only `metadata.name` (and `namespace`) must be right: types are not checked, so malformed objects can be stored too.
    ///
    /// # Errors
    ///
    /// 409 `AlreadyExists`; 422 without a name or with a version; 400 if it is not an object.
    pub fn create(&self, resource: &Resource, object: Value) -> Result<Arc<Object>, ApiError> {
        self.change(|state| self.create_in(state, resource, object))
    }

    /// Creates many objects that differ only where their texts have `{index}`, which is replaced by 00000, 00001, ... Much faster than to
    /// create them one by one.
    ///
    /// # Errors
    ///
    /// As of [`Store::create`]. The copies before the one that exists already are there then.
    pub fn create_copies(
        &self,
        resource: &Resource,
        mut template: Value,
        count: usize,
    ) -> Result<(), ApiError> {
        self.complete(resource, &mut template, TEMPLATE)?;
        let template = Object::seal(resource, TEMPLATE, map(template))?;
        self.change(|state| {
            for index in 0..count {
                let copy = template.copy(index, state.version + 1);
                let collection = state.collection(resource);
                if collection.get(copy.namespace(), copy.name()).is_some() {
                    return Err(ApiError::already_exists(resource, copy.name()));
                }
                state.commit(resource, copy, false);
            }
            Ok(())
        })
    }

    /// Creates an object, or replaces it as a whole, status included, whatever its version.
    ///
    /// # Errors
    ///
    /// As of [`Store::create`], but for `AlreadyExists`.
    pub fn apply(&self, resource: &Resource, mut object: Value) -> Result<Arc<Object>, ApiError> {
        let (namespace, name) = key(resource, &object)?;
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
            metadata.remove("uid");
        }
        self.change(|state| {
            if state.collection(resource).get(&namespace, &name).is_none() {
                return self.create_in(state, resource, object);
            }
            update(state, resource, &namespace, &name, Part::All, |_| {
                Ok(object)
            })
        })
    }

    /// Replaces an object: PUT. The status stays as it is where it is a subresource.
    ///
    /// # Errors
    ///
    /// 409 `Conflict` if the object names another version or uid than the stored one; 404.
    pub fn replace(&self, resource: &Resource, object: Value) -> Result<Arc<Object>, ApiError> {
        let (namespace, name) = key(resource, &object)?;
        self.change(|state| {
            let missing = state.collection(resource).get(&namespace, &name).is_none();
            if missing && resource.put == Put::ReplaceOrCreate {
                // A uid is a precondition; a version is not, for an object that is gone.
                if text(&object, "uid").is_some() {
                    return Err(ApiError::conflict(
                        resource,
                        &name,
                        "Precondition failed: UID in precondition does not match: the object is gone",
                    ));
                }
                let mut object = object;
                if let Some(metadata) = object["metadata"].as_object_mut() {
                    metadata.remove("resourceVersion");
                }
                return self.create_in(state, resource, object);
            }
            update(state, resource, &namespace, &name, Part::Main, |_| Ok(object))
        })
    }

    /// Replaces the status of an object: PUT of `.../status`. Of the rest, version and uid are
    /// checked, and labels and annotations are written, as on the real server.
    ///
    /// # Errors
    ///
    /// As of [`Store::replace`].
    pub fn replace_status(
        &self,
        resource: &Resource,
        object: Value,
    ) -> Result<Arc<Object>, ApiError> {
        let (namespace, name) = key(resource, &object)?;
        self.change(|state| {
            update(state, resource, &namespace, &name, Part::Status, |_| {
                Ok(object)
            })
        })
    }

    /// Applies a merge patch (RFC 7396) to an object: PATCH.
    ///
    /// # Errors
    ///
    /// 404; 409 `Conflict` if the patch names a version or uid that is not the stored one.
    pub fn patch(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<Arc<Object>, ApiError> {
        self.merge(resource, namespace, name, Part::Main, patch)
    }

    /// Applies a merge patch to the status: PATCH of `.../status`, with a body such as `{"status": {...}}`.
    ///
    /// # Errors
    ///
    /// As of [`Store::patch`].
    pub fn patch_status(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<Arc<Object>, ApiError> {
        self.merge(resource, namespace, name, Part::Status, patch)
    }

    fn merge(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        part: Part,
        patch: &Value,
    ) -> Result<Arc<Object>, ApiError> {
        self.change(|state| {
            update(state, resource, namespace, name, part, |mut object| {
                merge_patch(&mut object, patch);
                Ok(object)
            })
        })
    }

    /// Stores bytes under a name and serves them verbatim, whatever they are. To test readers: a real server never does this.
    pub fn put_raw(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        bytes: &[u8],
    ) -> Arc<Object> {
        self.change(|state| {
            let object = Object::raw(namespace, name, state.version + 1, bytes);
            state.commit(resource, Arc::clone(&object), false);
            object
        })
    }

    /// Deletes an object, and returns it as it is then. A Pod on a node that has not ended, and an object with finalizers, only get a
    /// `deletionTimestamp`: the first until it is deleted with grace period 0, the other until an update takes its last finalizer.
    ///
    /// # Errors
    ///
    /// 404; 409 `Conflict` if a precondition does not hold.
    pub fn delete(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Arc<Object>, ApiError> {
        self.change(|state| {
            let current = find(state, resource, namespace, name)?;
            let Preconditions {
                uid,
                resource_version,
            } = &options.preconditions;
            let stale = |wanted: &Option<String>, is: &str| {
                wanted.as_ref().is_some_and(|wanted| wanted != is)
            };
            if stale(uid, &current.uid) || stale(resource_version, &current.version.to_string()) {
                return Err(ApiError::conflict(
                    resource,
                    name,
                    "Precondition failed: UID or ResourceVersion in precondition does not match",
                ));
            }
            let version = state.version + 1;
            let mut object = current.json();
            let grace = grace_period_seconds(resource, &object, options);
            if grace == 0 && !has_finalizers(&object) {
                let last = current.at(resource, version);
                state.commit(resource, Arc::clone(&last), true);
                return Ok(last);
            }
            let metadata = &mut object["metadata"];
            let earlier = metadata["deletionGracePeriodSeconds"].as_i64();
            if earlier.is_some_and(|earlier| earlier <= grace) {
                return Ok(current); // already on its way, no slower
            }
            let seconds = Duration::from_secs(grace.unsigned_abs());
            let end = self.clock.now().saturating_add(seconds);
            metadata["deletionTimestamp"] = time(end.unwrap_or(Timestamp::MAX)).into();
            metadata["deletionGracePeriodSeconds"] = grace.into();
            if resource.status && earlier.is_none() {
                metadata["generation"] = next_generation(metadata).into();
            }
            let object = Object::seal(resource, version, map(object))?;
            state.commit(resource, Arc::clone(&object), false);
            Ok(object)
        })
    }

    fn create_in(
        &self,
        state: &mut State,
        resource: &Resource,
        mut object: Value,
    ) -> Result<Arc<Object>, ApiError> {
        let (namespace, name) = key(resource, &object)?;
        if state.collection(resource).get(&namespace, &name).is_some() {
            return Err(ApiError::already_exists(resource, &name));
        }
        let version = state.version + 1;
        self.complete(resource, &mut object, version)?;
        let object = Object::seal(resource, version, map(object))?;
        state.commit(resource, Arc::clone(&object), false);
        Ok(object)
    }

    /// Gives a new object the metadata that the server sets.
    fn complete(
        &self,
        resource: &Resource,
        object: &mut Value,
        version: u64,
    ) -> Result<(), ApiError> {
        let (namespace, _) = key(resource, object)?;
        if text(object, "resourceVersion").is_some() {
            return Err(ApiError::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "resourceVersion should not be set on objects to be created",
            ));
        }
        let metadata = &mut object["metadata"];
        if !namespace.is_empty() {
            metadata["namespace"] = namespace.into();
        }
        metadata["uid"] = uid(version).into();
        if metadata["creationTimestamp"].is_null() {
            metadata["creationTimestamp"] = time(self.clock.now()).into();
        }
        if resource.status {
            metadata["generation"] = 1.into();
        }
        Ok(())
    }
}

fn find(
    state: &mut State,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> Result<Arc<Object>, ApiError> {
    state
        .collection(resource)
        .get(namespace, name)
        .cloned()
        .ok_or_else(|| ApiError::not_found(resource, name))
}

fn update(
    state: &mut State,
    resource: &Resource,
    namespace: &str,
    name: &str,
    part: Part,
    change: impl FnOnce(Value) -> Result<Value, ApiError>,
) -> Result<Arc<Object>, ApiError> {
    let current = find(state, resource, namespace, name)?;
    let old = current.json();
    let mut new = change(old.clone())?;
    if key(resource, &new)? != (namespace.to_owned(), name.to_owned()) {
        return Err(ApiError::bad_request(
            "metadata.name and metadata.namespace cannot be changed",
        ));
    }

    match text(&new, "resourceVersion") {
        Some(version) if version != current.version.to_string() => {
            return Err(ApiError::conflict(resource, name, MODIFIED));
        }
        None if resource.put == Put::ReplaceOrCreate && part != Part::All => {
            return Err(ApiError::invalid(
                resource,
                name,
                "metadata.resourceVersion: Invalid value: 0: must be specified for an update",
            ));
        }
        _ => {}
    }
    if text(&new, "uid").is_some_and(|uid| uid != &*current.uid) {
        return Err(ApiError::conflict(
            resource,
            name,
            "Precondition failed: UID in precondition does not match",
        ));
    }

    match part {
        Part::Main if resource.status => set(&mut new, "status", &old["status"]),
        Part::Status => {
            // Labels and annotations too can be written with the status.
            let written = std::mem::replace(&mut new, old.clone());
            set(&mut new, "status", &written["status"]);
            for field in ["labels", "annotations"] {
                set(&mut new["metadata"], field, &written["metadata"][field]);
            }
        }
        Part::Main | Part::All => {}
    }
    for field in SYSTEM_FIELDS {
        // Who writes everything may also move the clock back: a builder knows when its pod was created.
        if part != Part::All || new["metadata"][field].is_null() {
            set(&mut new["metadata"], field, &old["metadata"][field]);
        }
    }
    set(
        &mut new["metadata"],
        "namespace",
        &old["metadata"]["namespace"],
    );
    if resource.status && new["spec"] != old["spec"] {
        new["metadata"]["generation"] = next_generation(&old["metadata"]).into();
    }
    new["metadata"]["resourceVersion"] = current.version.to_string().into();
    new["metadata"]["uid"] = (*current.uid).into();
    set(&mut new, "apiVersion", &old["apiVersion"]);
    set(&mut new, "kind", &old["kind"]);
    if new == old {
        return Ok(current); // as on the real server, no change is no new version
    }

    // The last finalizer of an object that waits for nothing else is gone: so is the object.
    let metadata = &new["metadata"];
    let deleted = metadata["deletionGracePeriodSeconds"] == 0 && !has_finalizers(&new);
    let object = Object::seal(resource, state.version + 1, map(new))?;
    state.commit(resource, Arc::clone(&object), deleted);
    Ok(object)
}

fn next_generation(metadata: &Value) -> i64 {
    let generation = metadata["generation"].as_i64().unwrap_or_default();
    generation.saturating_add(1)
}

/// As `CheckGracefulDelete` of the real Pod strategy.
fn grace_period_seconds(resource: &Resource, object: &Value, options: &DeleteOptions) -> i64 {
    let (spec, phase) = (&object["spec"], object["status"]["phase"].as_str());
    let on_node = spec["nodeName"]
        .as_str()
        .is_some_and(|node| !node.is_empty());
    if resource.kind != "Pod" || !on_node || matches!(phase, Some("Succeeded" | "Failed")) {
        return 0;
    }
    let own = || spec["terminationGracePeriodSeconds"].as_i64();
    let wanted = options.grace_period_seconds.or_else(own).unwrap_or(0);
    if wanted < 0 { 1 } else { wanted }
}
