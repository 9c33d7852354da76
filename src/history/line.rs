//! What a line of a history says.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::cluster::{KindId, Object};

/// What was seen.
#[derive(Debug, Clone)]
pub enum Seen {
    /// A recording begins. What was seen before of these kinds is not known to be so any more, until each of them is listed.
    Recording {
        /// The name of the cluster; empty if it has none.
        cluster: String,
        /// The kinds that are watched.
        kinds: Vec<KindId>,
    },
    /// A list of all objects of a kind begins, or is complete.
    Snapshot(KindId, Part),
    /// An object of a list.
    Listed(Object),
    /// An object that is new, or has changed.
    Applied(Object),
    /// An object that is gone.
    Deleted(Object),
    /// The watch of a kind has failed. If it is `lasting`, nobody waits for the kind.
    Failed {
        /// The kind.
        kind: KindId,
        /// Whether only a person can end that.
        lasting: bool,
    },
    /// The watch of a kind goes on where it has failed.
    Restored(KindId),
    /// Something about a kind without rules.
    Unwatched,
}

/// Which part of a list a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// It begins.
    Begin,
    /// It was complete.
    End,
}

/// A line as it is read.
#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a line of a history, as `alertkube record` writes it"
)]
pub(super) struct Line<'a> {
    pub time: jiff::Timestamp,
    pub r#type: Type,
    #[serde(borrow)]
    pub object: Option<&'a RawValue>,
    pub of: Option<String>,
    pub part: Option<Part>,
    pub cluster: Option<String>,
    pub kinds: Option<Vec<String>>,
    pub lasting: Option<bool>,
    /// For people.
    #[expect(dead_code, reason = "a field that is known, and not asked for")]
    pub message: Option<String>,
}

/// What a line is. The first three are those of Kubernetes' watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Type {
    Added,
    Modified,
    Deleted,
    Snapshot,
    Recording,
    Error,
    Restored,
}
