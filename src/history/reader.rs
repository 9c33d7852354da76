//! Reading a history, line by line.

use std::io::{self, BufRead};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::line::{Line, Seen, Type};
use crate::cluster::{KindId, Object};

/// A line of a history that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{file}:{line}: {error}")]
pub struct HistoryError {
    /// The file as it was named.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    #[source]
    pub error: LineError,
}

/// What is wrong with a line of a history.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// The file cannot be read further.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is no JSON, or not of the shape of a line.
    #[error("column {column}: {reason}")]
    Json {
        /// The column in bytes, from 1.
        column: usize,
        /// What is wrong.
        reason: String,
    },
    /// Something that its type needs is not there.
    #[error("a line of this type needs `{0}`")]
    Missing(&'static str),
    /// Nothing is known of the kind.
    #[error("`{0}` is no kind that has rules: see `alertkube rules`")]
    UnknownKind(String),
    /// An object does not say what it is.
    #[error("the object has no `kind`, or no `metadata.name`")]
    Anonymous,
    /// Fields of an object are not what they should be.
    #[error("{object}: fields that cannot be read: {count}")]
    Malformed {
        /// The object, `Kind/namespace/name`.
        object: String,
        /// How many fields.
        count: u32,
    },
    /// Time goes backwards.
    #[error("{time} is before {before}, the time of the line before: times must not go backwards")]
    Backwards {
        /// The line's time.
        time: Timestamp,
        /// The time of the line before.
        before: Timestamp,
    },
}

/// Reads a history, one line at a time.
#[derive(Debug)]
pub struct Reader<R> {
    file: String,
    input: R,
    line: usize,
    text: Vec<u8>,
    latest: Option<Timestamp>,
    torn: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads `input`, which is called `file` in errors.
    pub fn new(file: impl Into<String>, input: R) -> Self {
        Self {
            file: file.into(),
            input,
            line: 0,
            text: Vec::new(),
            latest: None,
            torn: false,
        }
    }

    /// Reads the next thing that was seen, and when. `None` at the end. Empty lines are skipped.
    ///
    /// # Errors
    ///
    /// A line cannot be read. One at the end of the file that has no line break is no error if it is broken: whoever wrote it was stopped, see [`Reader::torn`].
    pub fn read(&mut self) -> Result<Option<(Timestamp, Seen)>, HistoryError> {
        loop {
            self.text.clear();
            self.line += 1;
            let read = self.input.read_until(b'\n', &mut self.text);
            match read {
                Ok(0) => return Ok(None),
                Ok(_) if self.text.trim_ascii().is_empty() => continue,
                Ok(_) => {}
                Err(error) => return Err(self.error(error.into())),
            }
            let whole = self.text.ends_with(b"\n");
            match parse(&self.text) {
                Err(LineError::Json { .. }) if !whole => {
                    self.torn = true;
                    return Ok(None);
                }
                Err(error) => return Err(self.error(error)),
                Ok((time, seen)) => {
                    if let Some(before) = self.latest.filter(|&before| time < before) {
                        return Err(self.error(LineError::Backwards { time, before }));
                    }
                    self.latest = Some(time);
                    return Ok(Some((time, seen)));
                }
            }
        }
    }

    /// Whether the last line was left out, because it is not whole.
    pub const fn torn(&self) -> bool {
        self.torn
    }

    /// The line that was read last, from 1.
    pub const fn line(&self) -> usize {
        self.line
    }

    fn error(&self, error: LineError) -> HistoryError {
        HistoryError {
            file: self.file.clone(),
            line: self.line,
            error,
        }
    }
}

fn parse(text: &[u8]) -> Result<(Timestamp, Seen), LineError> {
    let line: Line<'_> = serde_json::from_slice(text).map_err(|error| json(&error))?;
    let of = || kind(line.of.as_deref().ok_or(LineError::Missing("of"))?);
    let object = || decode(line.object.ok_or(LineError::Missing("object"))?);
    let wrapped = |wrap: fn(Object) -> Seen| -> Result<Seen, LineError> {
        Ok(object()?.map_or(Seen::Unwatched, wrap))
    };
    let seen = match line.r#type {
        Type::Added | Type::Modified => wrapped(Seen::Applied)?,
        Type::Deleted => wrapped(Seen::Deleted)?,
        Type::Snapshot if line.object.is_some() => wrapped(Seen::Listed)?,
        Type::Snapshot => Seen::Snapshot(of()?, line.part.ok_or(LineError::Missing("part"))?),
        Type::Recording => Seen::Recording {
            kinds: line
                .kinds
                .as_deref()
                .ok_or(LineError::Missing("kinds"))?
                .iter()
                .map(|name| kind(name))
                .collect::<Result<_, LineError>>()?,
            cluster: line.cluster.unwrap_or_default(),
        },
        Type::Error => Seen::Failed {
            kind: of()?,
            lasting: line.lasting.unwrap_or_default(),
        },
        Type::Restored => Seen::Restored(of()?),
    };
    Ok((line.time, seen))
}

fn kind(name: &str) -> Result<KindId, LineError> {
    KindId::named(name).ok_or_else(|| LineError::UnknownKind(name.to_owned()))
}

/// The object; none if its kind has no rules.
fn decode(object: &RawValue) -> Result<Option<Object>, LineError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Envelope {
        #[serde(default)]
        api_version: String,
        kind: Option<String>,
    }

    let of_object = |error: serde_json::Error| LineError::Json {
        column: error.column(),
        reason: format!("object: {}", reason(&error)),
    };
    let json = object.get();
    let Envelope { api_version, kind } = serde_json::from_str(json).map_err(of_object)?;
    let kind = kind.ok_or(LineError::Anonymous)?;
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let decoded = Object::decode(&api_version, &kind, &mut deserializer).map_err(of_object)?;
    let Some((object, malformed)) = decoded else {
        return Ok(None);
    };
    if object.meta().name.is_empty() {
        return Err(LineError::Anonymous);
    }
    if malformed > 0 {
        return Err(LineError::Malformed {
            object: object.object_ref().to_string(),
            count: malformed,
        });
    }
    Ok(Some(object))
}

fn json(error: &serde_json::Error) -> LineError {
    LineError::Json {
        column: error.column(),
        reason: reason(error),
    }
}

/// What is wrong, without the place: that is one within the line only.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let reason = text.rsplit_once(" at line ").map(|(reason, _)| reason);
    reason.unwrap_or(&text).to_owned()
}
