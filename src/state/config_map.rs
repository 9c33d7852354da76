//! How a state is laid out in `ConfigMap`s: names, labels, annotations.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::{
    ByteString, api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::{
    codec::{CodecError, VERSION},
    records::MAX_PARTS,
};
use crate::{
    coordinator::{Names, SHARD_INDEX_LABEL, SHARD_TOTAL_LABEL, names::annotation},
    shard::ownership::{Epoch, Holder, Shard, Version, Writer},
};

/// The annotation with the version of the format.
pub const STATE_VERSION: &str = "alertkube.io/state-version";
/// The annotation of a head with the epoch in which the state was written.
pub const EPOCH: &str = "alertkube.io/epoch";
/// The annotation of a head with the indices of the shards of the previous generation that were adopted: `0,2`.
pub const ADOPTED: &str = "alertkube.io/adopted";
/// The annotation of a head with the number of parts, itself included.
pub const PARTS: &str = "alertkube.io/parts";
/// The annotation with the replica that wrote the part.
pub const HOLDER: &str = "alertkube.io/holder";
/// The annotation with `leaseTransitions` of the Lease under which the part was written.
pub const LEASE_TRANSITIONS: &str = "alertkube.io/lease-transitions";
/// The annotation with the number of subjects in the part, for people.
pub const ALERTS: &str = "alertkube.io/alerts";
/// The annotation with the time at which the part was written, for people.
pub const WRITTEN_AT: &str = "alertkube.io/written-at";
/// The annotation of a copy that was kept aside: why.
const KEPT_BECAUSE: &str = "alertkube.io/kept-because";

/// The key of the bytes in a `ConfigMap`.
const DATA_KEY: &str = "state";

/// Numbers the `ConfigMap`s of a state. The head is 0. Part `p` of `n` is number `n + p`, which no other layout uses: so a new layout is written beside the
/// one that the head still names, and comes into force with the head, as a whole.
pub(super) type Number = u32;

/// The number of the head.
pub(super) const HEAD: Number = 0;

/// The numbers of a state of so many parts, in the order of the parts.
pub(super) fn numbers(parts: u32) -> impl Iterator<Item = Number> {
    (0..parts).map(move |part| if part == 0 { HEAD } else { parts + part })
}

/// What only the head of a state says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub epoch: Epoch,
    pub adopted: BTreeSet<u32>,
    /// A power of two, at most [`MAX_PARTS`].
    pub parts: u32,
}

/// What a `ConfigMap` of a state says, apart from its name.
#[derive(Debug, Clone)]
pub(super) struct Content {
    /// Of the head only.
    pub header: Option<Header>,
    pub writer: Option<Writer>,
    /// Subjects in it.
    pub alerts: usize,
    pub written_at: Timestamp,
    pub bytes: Vec<u8>,
}

impl Names {
    /// The name of a `ConfigMap` of a shard's state.
    pub(super) fn part(&self, shard: Shard, number: Number) -> String {
        let head = self.state(shard);
        if number == HEAD {
            head
        } else {
            format!("{head}-{number}")
        }
    }

    /// The number of a `ConfigMap` of a shard's state; none if it is not one.
    fn number(&self, shard: Shard, name: &str) -> Option<Number> {
        let rest = name.strip_prefix(&self.state(shard))?;
        let number = if rest.is_empty() {
            HEAD
        } else {
            rest.strip_prefix('-')?.parse().ok()?
        };
        (self.part(shard, number) == name).then_some(number)
    }

    /// What to show people about states, from the metadata of their `ConfigMap`s. Those that no head names do not count.
    pub fn summaries<'a>(
        &self,
        metas: impl IntoIterator<Item = &'a ObjectMeta>,
    ) -> BTreeMap<Shard, Summary> {
        let placed: Vec<_> = metas
            .into_iter()
            .filter_map(|meta| {
                self.place(meta)
                    .map(|(shard, number)| (shard, number, meta))
            })
            .collect();
        let mut summaries: BTreeMap<Shard, (u32, Summary)> = BTreeMap::new();
        for (shard, _, meta) in placed.iter().filter(|(_, number, _)| *number == HEAD) {
            let header = header(meta);
            let summary = Summary {
                epoch: header.as_ref().map_or(0, |header| header.epoch),
                writer: writer(meta),
                alerts: 0,
                written_at: None,
            };
            let parts = header.map_or(1, |header| header.parts);
            summaries.insert(*shard, (parts, summary));
        }
        for (shard, number, meta) in placed {
            if let Some((parts, summary)) = summaries.get_mut(&shard)
                && numbers(*parts).any(|named| named == number)
            {
                summary.alerts += read::<usize>(meta, ALERTS).unwrap_or_default();
                summary.written_at = summary.written_at.max(read(meta, WRITTEN_AT));
            }
        }
        let entries = summaries.into_iter();
        entries
            .map(|(shard, (_, summary))| (shard, summary))
            .collect()
    }

    /// Which `ConfigMap` of which state it is.
    pub(super) fn place(&self, meta: &ObjectMeta) -> Option<(Shard, Number)> {
        let label = |key| meta.labels.as_ref()?.get(key)?.parse().ok();
        let shard = Shard {
            total: label(SHARD_TOTAL_LABEL)?,
            index: label(SHARD_INDEX_LABEL)?,
        };
        let number = self.number(shard, meta.name.as_deref()?)?;
        (shard.index < shard.total).then_some((shard, number))
    }

    /// A `ConfigMap` to be written over that of version `over`, or created.
    pub(super) fn config_map(
        &self,
        shard: Shard,
        number: Number,
        content: Content,
        over: Option<Version>,
    ) -> ConfigMap {
        let Content {
            header,
            writer,
            alerts,
            written_at,
            bytes,
        } = content;
        let mut annotations = BTreeMap::new();
        let mut say = |key: &str, value: String| annotations.insert(key.to_owned(), value);
        say(STATE_VERSION, VERSION.to_string());
        say(ALERTS, alerts.to_string());
        say(WRITTEN_AT, written_at.to_string());
        if let Some(Writer {
            holder,
            transitions,
        }) = writer
        {
            say(HOLDER, holder.to_string());
            say(LEASE_TRANSITIONS, transitions.to_string());
        }
        if let Some(Header {
            epoch,
            adopted,
            parts,
        }) = header
        {
            let adopted: Vec<_> = adopted.iter().map(ToString::to_string).collect();
            say(EPOCH, epoch.to_string());
            say(ADOPTED, adopted.join(","));
            say(PARTS, parts.to_string());
        }
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(self.part(shard, number)),
                labels: Some(self.labels(Some(shard))),
                annotations: Some(annotations),
                resource_version: over.map(|Version(version)| version.to_string()),
                ..ObjectMeta::default()
            },
            binary_data: Some([(DATA_KEY.to_owned(), ByteString(bytes))].into()),
            ..ConfigMap::default()
        }
    }

    /// A copy of a `ConfigMap` that cannot be read, to be kept aside. It has a name that follows from the version, so that it is kept once; and not the labels of
    /// a shard.
    pub(super) fn kept(&self, damaged: ConfigMap, why: &CodecError) -> ConfigMap {
        let meta = damaged.metadata;
        let name = meta.name.unwrap_or_default();
        let version = meta.resource_version.unwrap_or_default();
        let mut annotations = meta.annotations.unwrap_or_default();
        annotations.insert(KEPT_BECAUSE.to_owned(), why.to_string());
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(format!("{name}-kept-{version}")),
                labels: Some(self.labels(None)),
                annotations: Some(annotations),
                ..ObjectMeta::default()
            },
            binary_data: damaged.binary_data,
            data: damaged.data,
            ..ConfigMap::default()
        }
    }
}

/// What there is to say about a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The epoch in which it was written; 0 if that cannot be told.
    pub epoch: Epoch,
    /// Who wrote its head.
    pub writer: Option<Writer>,
    /// How many subjects are remembered.
    pub alerts: usize,
    /// When any of it was last written, by its writer's clock.
    pub written_at: Option<Timestamp>,
}

/// Who wrote it, if that can be told.
pub(super) fn writer(meta: &ObjectMeta) -> Option<Writer> {
    Some(Writer {
        holder: read::<Holder>(meta, HOLDER)?,
        transitions: read(meta, LEASE_TRANSITIONS)?,
    })
}

/// What a head says.
pub(super) fn header(meta: &ObjectMeta) -> Result<Header, CodecError> {
    let version = format_version(meta)?;
    if version > VERSION {
        return Err(CodecError::Newer(version));
    }
    let adopted = annotation(meta, ADOPTED).ok_or(CodecError::Annotation(ADOPTED))?;
    let indices = adopted.split(',').filter(|index| !index.is_empty());
    let sound = |parts: &u32| parts.is_power_of_two() && *parts as usize <= MAX_PARTS;
    Ok(Header {
        epoch: read(meta, EPOCH).ok_or(CodecError::Annotation(EPOCH))?,
        adopted: indices
            .map(|index| index.parse().map_err(|_| CodecError::Annotation(ADOPTED)))
            .collect::<Result<_, _>>()?,
        parts: read(meta, PARTS)
            .filter(sound)
            .ok_or(CodecError::Annotation(PARTS))?,
    })
}

/// The version of the format.
pub(super) fn format_version(meta: &ObjectMeta) -> Result<u32, CodecError> {
    read(meta, STATE_VERSION).ok_or(CodecError::Annotation(STATE_VERSION))
}

/// The bytes of a part.
pub(super) fn bytes(map: &ConfigMap) -> Result<&[u8], CodecError> {
    let data = map.binary_data.as_ref();
    data.and_then(|data| data.get(DATA_KEY))
        .map(|bytes| &*bytes.0)
        .ok_or(CodecError::NoBytes)
}

fn read<T: std::str::FromStr>(meta: &ObjectMeta, key: &str) -> Option<T> {
    annotation(meta, key)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::testing::{SHARD, writer};

    fn names() -> Names {
        named("alertkube")
    }

    fn named(name: &str) -> Names {
        Names {
            namespace: "monitoring".into(),
            name: name.into(),
        }
    }

    fn map(number: Number, epoch: Option<Epoch>, written_at: &str) -> ConfigMap {
        let content = Content {
            header: epoch.map(|epoch| Header {
                epoch,
                adopted: [0, 2].into(),
                parts: 2,
            }),
            writer: Some(writer(7)),
            alerts: 10,
            written_at: written_at.parse().unwrap(),
            bytes: vec![1, 2, 3],
        };
        names().config_map(SHARD, number, content, Some(Version(42)))
    }

    #[test]
    fn a_head_looks_as_documented() {
        let map = map(HEAD, Some(5), "2026-11-02T12:00:00Z");
        insta::assert_json_snapshot!(serde_json::to_value(map).unwrap(), @r#"
        {
          "apiVersion": "v1",
          "binaryData": {
            "state": "AQID"
          },
          "kind": "ConfigMap",
          "metadata": {
            "annotations": {
              "alertkube.io/adopted": "0,2",
              "alertkube.io/alerts": "10",
              "alertkube.io/epoch": "5",
              "alertkube.io/holder": "1/3/alertkube-1_000000000007",
              "alertkube.io/lease-transitions": "7",
              "alertkube.io/parts": "2",
              "alertkube.io/state-version": "1",
              "alertkube.io/written-at": "2026-11-02T12:00:00Z"
            },
            "labels": {
              "alertkube.io/shard-index": "1",
              "alertkube.io/shard-total": "3",
              "app.kubernetes.io/instance": "alertkube",
              "app.kubernetes.io/name": "alertkube"
            },
            "name": "alertkube-state-1-of-3",
            "resourceVersion": "42"
          }
        }
        "#);
    }

    #[test]
    fn no_two_layouts_share_a_part_but_the_head() {
        let all: Vec<_> = (0..=10)
            .flat_map(|exponent| numbers(1 << exponent).skip(1))
            .collect();
        let distinct: BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
        assert!(!all.contains(&HEAD));
        assert_eq!(numbers(4).collect::<Vec<_>>(), [0, 5, 6, 7]);
    }

    #[test]
    fn a_config_map_is_known_by_its_labels_and_its_name() {
        let head = map(HEAD, Some(5), "2026-11-02T12:00:00Z").metadata;
        assert_eq!(names().place(&head), Some((SHARD, HEAD)));
        assert_eq!(named("other").place(&head), None);
        let part = map(3, None, "2026-11-02T12:00:00Z").metadata;
        assert_eq!(names().place(&part), Some((SHARD, 3)));
        for (label, value) in [
            (SHARD_INDEX_LABEL, "3"),
            (SHARD_INDEX_LABEL, "x"),
            (SHARD_TOTAL_LABEL, "4"),
        ] {
            let mut odd = head.clone();
            odd.labels
                .as_mut()
                .unwrap()
                .insert(label.into(), value.into());
            assert_eq!(names().place(&odd), None, "{label}={value}");
        }
    }

    #[test]
    fn a_summary_counts_the_parts_that_the_head_names() {
        let metas = [
            map(HEAD, Some(5), "2026-11-02T12:00:00Z").metadata,
            map(3, None, "2026-11-02T12:00:07Z").metadata,
            // Of another layout.
            map(5, None, "2026-11-02T13:00:00Z").metadata,
        ];
        let summary = Summary {
            epoch: 5,
            writer: Some(writer(7)),
            alerts: 20,
            written_at: Some("2026-11-02T12:00:07Z".parse().unwrap()),
        };
        assert_eq!(names().summaries(&metas), [(SHARD, summary)].into());
        assert_eq!(names().summaries(&metas[1..]), BTreeMap::new());
    }
}
