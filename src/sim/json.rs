//! Objects as JSON values: their metadata, and merge patches.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{ApiError, Resource};

/// The namespace and name of an object.
pub(super) fn key(resource: &Resource, object: &Value) -> Result<(String, String), ApiError> {
    if !object["metadata"].is_object() {
        return Err(ApiError::bad_request("metadata must be an object"));
    }
    let name = text(object, "name").unwrap_or_default();
    if name.is_empty() {
        return Err(ApiError::invalid(
            resource,
            "",
            "metadata.name: Required value: name is required",
        ));
    }
    let namespace = match text(object, "namespace") {
        _ if !resource.namespaced => "",
        None | Some("") => "default",
        Some(namespace) => namespace,
    };
    Ok((namespace.to_owned(), name.to_owned()))
}

/// A text of the metadata.
pub(super) fn text<'a>(object: &'a Value, field: &str) -> Option<&'a str> {
    object["metadata"][field]
        .as_str()
        .filter(|text| !text.is_empty())
}

/// Sets a field; null takes it away.
pub(super) fn set(object: &mut Value, field: &str, value: &Value) {
    let Some(object) = object.as_object_mut() else {
        return;
    };
    if value.is_null() {
        object.remove(field);
    } else {
        object.insert(field.to_owned(), value.clone());
    }
}

pub(super) fn map(object: Value) -> Map<String, Value> {
    match object {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

pub(super) fn has_finalizers(object: &Value) -> bool {
    object["metadata"]["finalizers"]
        .as_array()
        .is_some_and(|finalizers| !finalizers.is_empty())
}

/// A time as Kubernetes writes it: whole seconds, UTC.
pub(super) fn time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

pub(super) fn merge_patch(object: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (field, value) in patch {
        if value.is_null() {
            set(object, field, value);
        } else {
            merge_patch(&mut object[field.as_str()], value);
        }
    }
}
