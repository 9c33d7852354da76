//! Objects from files, folders and standard input, as `kubectl get -o json`, `-o yaml` and `kubectl cluster-info dump` write them.

mod newest;

use std::{
    ffi::OsStr,
    fmt, fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use self::newest::newest_time;
use crate::cluster::{Failure, Object};

/// What was found in some files.
#[derive(Debug, Default)]
pub struct Input {
    /// Objects of the watched kinds, in the order of the files.
    pub objects: Vec<Object>,
    /// How many objects are of other kinds, and were left out.
    pub unwatched: usize,
    /// The newest time that the objects tell: about when they were read from their cluster.
    pub newest: Option<Timestamp>,
    /// What could not be read. Everything else was.
    pub errors: Vec<FileError>,
    /// How many lists, also empty ones.
    lists: usize,
}

/// Something in a file that cannot be read.
#[derive(Debug, Serialize)]
pub struct FileError {
    /// The file as it was named, or found in a folder; empty if it is about no single file.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub file: String,
    /// The line, from 1, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The column in bytes, from 1, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// What is wrong.
    pub reason: FileReason,
}

/// Why something in a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FileReason {
    /// The file itself cannot be.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is no text.
    #[error("is not UTF-8{}", if *.utf16 { ", but UTF-16: convert it, or write it from a shell that does not change it" } else { "" })]
    NotUtf8 {
        /// Whether it looks like UTF-16, which some shells make of redirected output.
        utf16: bool,
    },
    /// It holds no object at all, not even an empty list.
    #[error("holds no Kubernetes object")]
    Empty,
    /// It is no JSON, or not of the shape of an object.
    #[error("{0}")]
    Json(String),
    /// It is no YAML.
    #[error("{0}")]
    Yaml(String),
    /// A value that is no object, such as the text of a table.
    #[error("is no Kubernetes object: write it with `kubectl get -o json` or `-o yaml`")]
    NoObject,
    /// An object does not say what it is.
    #[error("is no Kubernetes object: it has no `kind`")]
    NoKind,
    /// A folder holds no file that could hold objects.
    #[error("holds no file that ends in .json, .jsonl, .ndjson, .yaml or .yml")]
    EmptyFolder,
    /// There are objects, but no time as of which to judge them.
    #[error("no object tells a time: say with --at when they were read from their cluster")]
    NoTime,
    /// A live cluster does not tell.
    #[error("{server}: {failure}")]
    Cluster {
        /// The URL of the API server.
        server: String,
        /// What went wrong.
        failure: Failure,
    },
    /// Fields of an object are not what they should be.
    #[error("{object}: fields that cannot be read, and count as absent: {count}")]
    Malformed {
        /// The object, `Kind/namespace/name`.
        object: String,
        /// How many fields.
        count: u32,
    },
}

impl FileError {
    /// Something that is not about one file: it is about a live cluster, or all of the files.
    pub fn of_no_file(reason: FileReason) -> Self {
        Self {
            file: String::new(),
            line: None,
            column: None,
            reason,
        }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.file.is_empty() {
            return self.reason.fmt(f);
        }
        f.write_str(&self.file)?;
        for place in [self.line, self.column].into_iter().flatten() {
            write!(f, ":{place}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl Serialize for FileReason {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads the objects in files and folders; `-` is standard input.
pub fn read(sources: &[PathBuf]) -> Input {
    let mut input = Input::default();
    for source in sources {
        if source == Path::new("-") {
            let mut bytes = Vec::new();
            let read = io::stdin().lock().read_to_end(&mut bytes);
            input.file("standard input", read.map(|_| bytes));
        } else if source.is_dir() {
            let before = input.found();
            input.folder(source);
            if before == input.found() {
                // Most likely another folder was meant: it must not look like a cluster that is well.
                let name = source.display().to_string();
                input.error(&name, None, FileReason::EmptyFolder);
            }
        } else {
            input.file(&source.display().to_string(), fs::read(source));
        }
    }
    input
}

/// Where a document stands, to say where an error is.
#[derive(Clone, Copy)]
struct Origin<'a> {
    file: &'a str,
    /// The text of the whole file, if what is looked at is a part of it.
    text: Option<&'a str>,
    /// The line at which the document begins, if it is not.
    line: usize,
}

/// What an object says about itself, wherever in its text it says it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "a Kubernetes object")]
struct Envelope<'a> {
    api_version: Option<String>,
    kind: Option<String>,
    /// `null` is an empty list: so Go writes one.
    #[serde(borrow, default, deserialize_with = "present")]
    items: Option<&'a RawValue>,
}

/// A field that is there, also if it is `null`.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl Input {
    /// Reads every file in a folder, and the folders in it, whose name says that it holds objects.
    fn folder(&mut self, folder: &Path) {
        let entries = fs::read_dir(folder)
            .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
        let mut paths: Vec<PathBuf> = match entries {
            Ok(paths) => paths,
            Err(error) => {
                self.error(&folder.display().to_string(), None, error);
                return;
            }
        };
        paths.sort();
        for path in paths {
            // A link to a folder is not followed: it may lead in a circle.
            if path.is_dir() {
                if !path.is_symlink() {
                    self.folder(&path);
                }
            } else if matches!(
                path.extension().and_then(OsStr::to_str),
                Some("json" | "jsonl" | "ndjson" | "yaml" | "yml")
            ) {
                self.file(&path.display().to_string(), fs::read(&path));
            }
        }
    }

    fn file(&mut self, file: &str, content: io::Result<Vec<u8>>) {
        let content = match content {
            Ok(content) => content,
            Err(error) => return self.error(file, None, error),
        };
        let before = self.found();
        let Ok(text) = str::from_utf8(&content) else {
            let utf16 = content.starts_with(&[0xff, 0xfe]) || content.starts_with(&[0xfe, 0xff]);
            return self.error(file, None, FileReason::NotUtf8 { utf16 });
        };
        let text = text.trim_start_matches('\u{feff}');
        // JSON is YAML as well, but its own parser is much faster.
        if text.trim_start().starts_with(['{', '[']) {
            self.json(file, text);
        } else {
            self.yaml(file, text);
        }
        if before == self.found() {
            self.error(file, None, FileReason::Empty);
        }
    }

    /// A number that grows with whatever is found.
    fn found(&self) -> usize {
        self.objects.len() + self.unwatched + self.errors.len() + self.lists
    }

    /// Reads one JSON document after another. After one that is broken it goes on at the next line that begins an object: in JSON lines
    /// that is the next object, and otherwise what is nested is indented.
    fn json(&mut self, file: &str, text: &str) {
        let origin = Origin {
            file,
            text: Some(text),
            line: 1,
        };
        let mut at = 0;
        loop {
            let mut documents =
                serde_json::Deserializer::from_str(&text[at..]).into_iter::<&RawValue>();
            let error = loop {
                match documents.next() {
                    Some(Ok(document)) => self.document(origin, document, None),
                    Some(Err(error)) => break error,
                    None => return,
                }
            };
            self.json_error(origin, &text[at..], &error);
            let broken = text[at + documents.byte_offset()..].trim_start();
            match broken.find("\n{") {
                Some(next) => at = text.len() - broken.len() + next + 1,
                None => return,
            }
        }
    }

    fn yaml(&mut self, file: &str, text: &str) {
        for (line, document) in yaml_documents(text) {
            let origin = Origin {
                file,
                text: None,
                line,
            };
            // A whole cluster is more than the default budget allows; expanding aliases is limited apart from it.
            let options = serde_saphyr::options! {
                budget: None,
                with_snippet: false,
                // As with JSON.
                duplicate_keys: serde_saphyr::DuplicateKeyPolicy::PassThrough,
            };
            // By way of JSON, because the kind, which says how to read the rest, may come last.
            let json = serde_saphyr::from_str_with_options::<serde_json::Value>(document, options)
                .map(|value| serde_json::value::to_raw_value(&value));
            match json {
                Ok(Ok(json)) if json.get() == "null" => {} // Only comments, or nothing.
                Ok(Ok(json)) => self.document(origin, &json, None),
                Ok(Err(error)) => {
                    self.error(
                        file,
                        Some((line, None)),
                        FileReason::Json(error.to_string()),
                    );
                }
                Err(error) => {
                    let place = error.location().map(|at| {
                        let within = usize::try_from(at.line()).unwrap_or(1);
                        let column = usize::try_from(at.column()).ok();
                        (line + within.saturating_sub(1), column)
                    });
                    // Its own text ends in a place, which is one within this document only.
                    let text = error.without_snippet().to_string();
                    let reason = text
                        .split_once(" at line ")
                        .map_or(text.as_str(), |(reason, _)| reason);
                    let reason = FileReason::Yaml(reason.to_owned());
                    self.error(file, place.or(Some((line, None))), reason);
                }
            }
        }
    }

    /// Reads an object, a list of objects, or an array of them. The items of a typed list (`PodList`) do not say what they are: the list does.
    fn document(&mut self, origin: Origin<'_>, document: &RawValue, of_list: Option<(&str, &str)>) {
        let json = document.get();
        if json.starts_with('[') {
            return self.items(origin, document, None);
        }
        if !json.starts_with('{') {
            let place = origin.place(json, 1, 1);
            return self.error(origin.file, Some(place), FileReason::NoObject);
        }
        let envelope: Envelope<'_> = match serde_json::from_str(json) {
            Ok(envelope) => envelope,
            Err(error) => return self.json_error(origin, json, &error),
        };
        let (api_version, kind) = match (&envelope.api_version, &envelope.kind) {
            (Some(api_version), Some(kind)) => (api_version.as_str(), kind.as_str()),
            (api_version, kind) => {
                let (of_version, of_kind) = of_list.unwrap_or_default();
                (
                    api_version.as_deref().unwrap_or(of_version),
                    kind.as_deref().unwrap_or(of_kind),
                )
            }
        };
        if let Some(items) = envelope.items
            && (kind.is_empty() || kind.ends_with("List"))
        {
            let of_list = kind
                .strip_suffix("List")
                .filter(|kind| !kind.is_empty())
                .map(|kind| (api_version, kind));
            return self.items(origin, items, of_list);
        }
        if kind.is_empty() {
            let place = origin.place(json, 1, 1);
            return self.error(origin.file, Some(place), FileReason::NoKind);
        }

        self.newest = self.newest.max(newest_time(api_version, json));
        match Object::decode(
            api_version,
            kind,
            &mut serde_json::Deserializer::from_str(json),
        ) {
            Ok(Some((object, malformed))) => {
                if malformed > 0 {
                    let reason = FileReason::Malformed {
                        object: object.object_ref().to_string(),
                        count: malformed,
                    };
                    let place = origin.place(json, 1, 1);
                    self.error(origin.file, Some(place), reason);
                }
                self.objects.push(object);
            }
            Ok(None) => self.unwatched += 1,
            Err(error) => self.json_error(origin, json, &error),
        }
    }

    fn items(&mut self, origin: Origin<'_>, items: &RawValue, of_list: Option<(&str, &str)>) {
        self.lists += 1;
        match serde_json::from_str::<Option<Vec<&RawValue>>>(items.get()) {
            Ok(items) => {
                for item in items.into_iter().flatten() {
                    self.document(origin, item, of_list);
                }
            }
            Err(error) => self.json_error(origin, items.get(), &error),
        }
    }

    fn json_error(&mut self, origin: Origin<'_>, json: &str, error: &serde_json::Error) {
        // Its own text ends in a place, which is one within this part of the file only.
        let text = error.to_string();
        let reason = text
            .rsplit_once(" at line ")
            .map_or(text.as_str(), |(reason, _)| reason);
        let place = origin.place(json, error.line(), error.column());
        self.error(
            origin.file,
            Some(place),
            FileReason::Json(reason.to_owned()),
        );
    }

    fn error(
        &mut self,
        file: &str,
        place: Option<(usize, Option<usize>)>,
        reason: impl Into<FileReason>,
    ) {
        self.errors.push(FileError {
            file: file.to_owned(),
            line: place.map(|(line, _)| line),
            column: place.and_then(|(_, column)| column),
            reason: reason.into(),
        });
    }
}

impl Origin<'_> {
    /// The line and column in the file of a line and column in a part of it.
    fn place(self, part: &str, line: usize, column: usize) -> (usize, Option<usize>) {
        let Some(text) = self.text else {
            return (self.line, None);
        };
        // `part` is a slice of `text`: how far into it follows from the addresses.
        let offset = part.as_ptr().addr().saturating_sub(text.as_ptr().addr());
        let before = text.get(..offset).unwrap_or_default();
        let lines_before = before.bytes().filter(|byte| *byte == b'\n').count();
        let column = if line <= 1 {
            before.len() - before.rfind('\n').map_or(0, |at| at + 1) + column
        } else {
            column
        };
        // A parser that has seen nothing yet says column 0.
        (lines_before + line.max(1), Some(column.max(1)))
    }
}

/// The documents of a YAML stream, each with the line at which it begins. A line that begins with `---` always ends a document, also within a
/// text block (YAML 1.2, 9.1.2). Cut up, so that a broken document does not hide the others.
fn yaml_documents(text: &str) -> Vec<(usize, &str)> {
    let mut documents = Vec::new();
    let (mut start, mut first_line, mut at) = (0, 1, 0);
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let marker = line
            .strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']));
        if marker {
            documents.push((first_line, &text[start..at]));
            // What follows the marker on its line belongs to the document.
            (start, first_line) = (at + "---".len(), index + 1);
        }
        at += line.len();
    }
    documents.push((first_line, &text[start..]));
    documents
}

#[cfg(test)]
mod tests;
