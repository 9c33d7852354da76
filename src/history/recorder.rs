//! Writing a history from what the watches see.

use std::{
    collections::HashSet,
    hash::Hasher as _,
    io::{self, Write},
};

use fnv::FnvHasher;
use jiff::Timestamp;
use serde::Serialize;

use super::line::{Part, Type};
use crate::{
    cluster::{Event, KindId, Object},
    text,
};

/// Writes what is seen as lines. Of what is well it keeps a hash of its UID: so it tells what is new from what has changed.
#[derive(Debug)]
pub struct Recorder<W> {
    out: W,
    cluster: String,
    kinds: &'static [KindId],
    known: HashSet<u64>,
    latest: Timestamp,
    lines: u64,
}

/// A line as it is written. Its fields are in the order in which people read them.
#[derive(Serialize)]
struct Line<'a> {
    time: Timestamp,
    r#type: Type,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kinds: Option<Vec<&'static str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    of: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<Part>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lasting: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<&'a Object>,
}

impl Line<'_> {
    const fn new(time: Timestamp, r#type: Type) -> Self {
        Self {
            time,
            r#type,
            cluster: None,
            kinds: None,
            of: None,
            part: None,
            lasting: None,
            message: None,
            object: None,
        }
    }
}

impl<W: Write> Recorder<W> {
    /// A recording of these kinds; the first thing that is seen begins it. `cluster` is the label of that name; empty for none.
    pub fn new(out: W, cluster: impl Into<String>, kinds: &'static [KindId]) -> Self {
        Self {
            out,
            cluster: cluster.into(),
            kinds,
            known: HashSet::new(),
            latest: Timestamp::MIN,
            lines: 0,
        }
    }

    /// Writes what a watch has seen.
    ///
    /// # Errors
    ///
    /// The output cannot be written to.
    pub fn take(&mut self, kind: KindId, event: &Event, now: Timestamp) -> io::Result<()> {
        // A clock that is corrected may go back by a little; a history does not.
        self.latest = self.latest.max(now);
        if self.lines == 0 {
            // Not earlier: only an answer of the API server tells its time.
            let cluster = std::mem::take(&mut self.cluster);
            self.write(&Line {
                cluster: (!cluster.is_empty()).then_some(&cluster),
                kinds: Some(self.kinds.iter().map(|kind| kind.as_str()).collect()),
                ..Line::new(self.latest, Type::Recording)
            })?;
        }
        let latest = self.latest;
        let line = |r#type| Line::new(latest, r#type);
        let snapshot = |part| Line {
            of: Some(kind.as_str()),
            part: Some(part),
            ..line(Type::Snapshot)
        };
        let line = match event {
            Event::ListStarted => snapshot(Part::Begin),
            Event::ListDone => snapshot(Part::End),
            Event::Listed(object, _) => {
                self.known.insert(hash(object));
                Line {
                    object: Some(object),
                    ..line(Type::Snapshot)
                }
            }
            Event::Applied(object, _) => {
                let r#type = if self.known.insert(hash(object)) {
                    Type::Added
                } else {
                    Type::Modified
                };
                Line {
                    object: Some(object),
                    ..line(r#type)
                }
            }
            Event::Deleted(object) => {
                self.known.remove(&hash(object));
                Line {
                    object: Some(object),
                    ..line(Type::Deleted)
                }
            }
            Event::Failed(failure) => Line {
                of: Some(kind.as_str()),
                lasting: failure.reason.is_permanent().then_some(true),
                message: Some(text::one_line(&failure.message)),
                ..line(Type::Error)
            },
            Event::Restored => Line {
                of: Some(kind.as_str()),
                ..line(Type::Restored)
            },
        };
        self.write(&line)
    }

    /// Writes out what is held back.
    ///
    /// # Errors
    ///
    /// The output cannot be written to.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// How many lines were written.
    pub const fn lines(&self) -> u64 {
        self.lines
    }

    fn write(&mut self, line: &Line<'_>) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, line)?;
        self.out.write_all(b"\n")?;
        self.lines += 1;
        Ok(())
    }
}

fn hash(object: &Object) -> u64 {
    let mut hasher = FnvHasher::default();
    hasher.write(object.meta().uid.as_bytes());
    hasher.finish()
}
