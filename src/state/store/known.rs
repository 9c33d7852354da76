//! What is known of a state in the cluster, from the last read and the writes since.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::ConfigMap;

use super::{
    super::{
        codec::{self, CodecError},
        config_map::{self, HEAD, Header, Number},
        records::{Part, Record, Records},
    },
    Failed, Job, version_of,
};
use crate::{
    coordinator::Names,
    shard::ownership::{Shard, State, Version, Writer},
};

/// A state in the cluster.
#[derive(Debug)]
pub(super) struct Known<R> {
    /// The latest version that this follows from.
    pub seen: Version,
    /// What the head says; none if there is no head, or it cannot be read.
    pub header: Option<Header>,
    /// The `ConfigMap`s, those that the head does not name among them.
    pub slots: BTreeMap<Number, Slot<R>>,
}

/// One `ConfigMap` of a state.
#[derive(Debug)]
pub(super) struct Slot<R> {
    pub version: Version,
    pub writer: Option<Writer>,
    /// None if that was not looked at, or cannot be read.
    pub content: Option<Arc<Part<R>>>,
}

/// What cannot be read, and why: a `ConfigMap`, or none where there should be one.
pub(super) type Damaged = Vec<(Option<ConfigMap>, CodecError)>;

impl<R> Default for Known<R> {
    fn default() -> Self {
        Self {
            seen: Version(0),
            header: None,
            slots: BTreeMap::new(),
        }
    }
}

impl<R: Record> Known<R> {
    /// The version of the state: that of its head.
    pub fn version(&self) -> Option<Version> {
        self.slots.get(&HEAD).map(|slot| slot.version)
    }

    /// Whether the cluster has what is to be written, by the same writer.
    pub fn has(&self, job: &Job<R>) -> bool {
        let Job {
            number,
            part,
            over: _,
            header,
            writer,
        } = job;
        self.slots.get(number).is_some_and(|slot| {
            slot.writer == *writer
                && slot
                    .content
                    .as_ref()
                    .is_some_and(|content| Arc::ptr_eq(content, part) || content == part)
                && (header.is_none() || self.header == *header)
        })
    }

    /// Notes what was written.
    pub fn put(&mut self, number: Number, slot: Slot<R>) {
        self.seen = self.seen.max(slot.version);
        self.slots.insert(number, slot);
    }

    /// Forgets the `ConfigMap`s that have none of these numbers, and returns them.
    pub fn take_others(&mut self, named: &[Number]) -> BTreeMap<Number, Slot<R>> {
        let (named, others) = std::mem::take(&mut self.slots)
            .into_iter()
            .partition(|(number, _)| named.contains(number));
        self.slots = named;
        others
    }
}

/// Makes a state of the `ConfigMap`s of a list of the version `seen`. There is none without a head.
///
/// # Errors
///
/// Versions that are not numbers.
#[expect(clippy::type_complexity, reason = "used once")]
pub(super) fn read<R: Record>(
    names: &Names,
    shard: Shard,
    seen: Version,
    maps: Vec<ConfigMap>,
) -> Result<(Known<R>, Option<State<Records<R>>>, Damaged), Failed> {
    let mut known = Known {
        seen,
        ..Known::default()
    };
    let mut placed = BTreeMap::new();
    for map in maps {
        // What has the labels but not the name is nothing of ours.
        let Some((_, number)) = names.place(&map.metadata).filter(|(of, _)| *of == shard) else {
            continue;
        };
        let slot = Slot {
            version: version_of(map.metadata.resource_version.as_deref())?,
            writer: config_map::writer(&map.metadata),
            content: None,
        };
        known.slots.insert(number, slot);
        placed.insert(number, map);
    }
    let Some(head) = placed.get(&HEAD) else {
        return Ok((known, None, Vec::new()));
    };

    let mut state = State {
        writer: config_map::writer(&head.metadata),
        ..State::default()
    };
    let mut damaged = Vec::new();
    match config_map::header(&head.metadata) {
        Ok(header) => {
            let mut parts = Vec::new();
            for number in config_map::numbers(header.parts) {
                let decoded = placed.get(&number).map_or_else(
                    || Err(CodecError::NoObject(names.part(shard, number))),
                    decode,
                );
                match decoded {
                    Ok(part) => {
                        let part = Arc::new(part);
                        if let Some(slot) = known.slots.get_mut(&number) {
                            slot.content = Some(Arc::clone(&part));
                        }
                        parts.push(part);
                    }
                    Err(error) => {
                        damaged.push((placed.remove(&number), error));
                        parts.push(Arc::default());
                    }
                }
            }
            state.epoch = header.epoch;
            state.adopted.clone_from(&header.adopted);
            state.alerts = Records::from_parts(parts);
            known.header = Some(header);
        }
        // Nothing can be told without it, not even of which epoch the state is: 0 is before the first, so it counts as empty.
        Err(error) => {
            let why = error.to_string();
            let others = placed.split_off(&(HEAD + 1)).into_values();
            damaged.push((placed.remove(&HEAD), error));
            damaged.extend(others.map(|map| (Some(map), CodecError::Head(why.clone()))));
        }
    }
    Ok((known, Some(state), damaged))
}

fn decode<R: Record>(map: &ConfigMap) -> Result<Part<R>, CodecError> {
    let version = config_map::format_version(&map.metadata)?;
    codec::decode(version, config_map::bytes(map)?)
}
