//! The record as the API server keeps it: a `ConfigMap`.
//!
//! A record that cannot be read is not *no* record: in place of a missing one, one with a new epoch would be written. Nor is there anything in it to go by. So for a
//! replica that has not seen a good one, it is one of a hash that nobody has ([`unreadable`]): the replica takes no part, is not ready, and says so. One
//! that has seen a good one goes by that, as if its watch were late, which the rules allow for at any time: what is paged is still paged, but nobody
//! who takes a Lease anew can serve. Programs write only what they can read, so this is a person's doing, and a person ends it: by repairing or by deleting it.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::ObjectMeta;

use super::names::{MAX_TOTAL, Names};
use crate::shard::ownership::{HASH_ID, Record, Version};

const EPOCH: &str = "epoch";
const ACTIVE: &str = "active";
const PREVIOUS: &str = "previous";
const HASH: &str = "hash";

/// A record that cannot be gone by.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RecordError {
    /// A field is missing, or empty.
    #[error("it has no {0:?}")]
    Missing(&'static str),
    /// A field is not the number that it should be.
    #[error("its {0:?} is {1:?}, which is no whole number from {2} to {3}")]
    OutOfRange(&'static str, String, u64, u64),
}

/// Reads a record. Of one with another hash, which is of another version of this program, only the hash has to be there.
///
/// # Errors
///
/// Something is missing, or not what it should be.
pub fn read(object: &ConfigMap) -> Result<Record, RecordError> {
    let data = object.data.as_ref();
    let field = |name| {
        let text = data.and_then(|data| data.get(name)).map(|text| text.trim());
        text.filter(|text| !text.is_empty())
    };
    let total = |name| number(name, field(name), 1, MAX_TOTAL.into());
    let hash: Arc<str> = field(HASH).ok_or(RecordError::Missing(HASH))?.into();
    let read = || {
        Ok(Record {
            epoch: number(EPOCH, field(EPOCH), 1, u64::MAX)?,
            active: total(ACTIVE)?.try_into().unwrap_or(MAX_TOTAL),
            previous: match field(PREVIOUS) {
                Some(_) => Some(total(PREVIOUS)?.try_into().unwrap_or(MAX_TOTAL)),
                None => None,
            },
            hash: Arc::clone(&hash),
        })
    };
    match read() {
        Err(_) if &*hash != HASH_ID => Ok(nobodys(Arc::clone(&hash))),
        result => result,
    }
}

/// A record that fits nobody, in place of one that cannot be read.
pub(super) fn unreadable() -> Record {
    nobodys("unreadable".into())
}

fn nobodys(hash: Arc<str>) -> Record {
    Record {
        epoch: 0,
        active: 1,
        previous: None,
        hash,
    }
}

fn number(
    name: &'static str,
    text: Option<&str>,
    least: u64,
    most: u64,
) -> Result<u64, RecordError> {
    let text = text.ok_or(RecordError::Missing(name))?;
    text.parse()
        .ok()
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| RecordError::OutOfRange(name, text.to_owned(), least, most))
}

/// The object to send. `old` is the one that is replaced: what is foreign in it stays.
pub(super) fn object(
    names: &Names,
    record: &Record,
    expect: Option<Version>,
    old: Option<ConfigMap>,
) -> ConfigMap {
    let old = old.unwrap_or_default();
    let mut metadata = ObjectMeta {
        name: Some(names.record()),
        namespace: Some(names.namespace.clone()),
        resource_version: expect.map(|version| version.0.to_string()),
        managed_fields: None,
        ..old.metadata
    };
    names.label(&mut metadata, None);
    let Record {
        epoch,
        active,
        previous,
        hash,
    } = record;
    let mut data: BTreeMap<String, String> = old.data.unwrap_or_default();
    data.insert(EPOCH.into(), epoch.to_string());
    data.insert(ACTIVE.into(), active.to_string());
    data.insert(HASH.into(), hash.to_string());
    match previous {
        Some(previous) => data.insert(PREVIOUS.into(), previous.to_string()),
        None => data.remove(PREVIOUS),
    };
    ConfigMap {
        metadata,
        data: Some(data),
        ..old
    }
}
