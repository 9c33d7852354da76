//! The configuration file: how the rules are set. Everything that is wrong with it is found at once, and is told with its place.

mod problem;
mod reader;
mod show;
#[cfg(test)]
mod tests;
mod tree;

pub use problem::{FileError, FileProblem, Place};
pub use show::value as show;

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use serde::Serialize;

use self::reader::Reader;
use crate::rules::{Rule, Tuning};

/// The most that is read of a file. One with every setting of every rule takes less than a tenth of it.
const LIMIT_BYTES: u64 = 1024 * 1024;

/// Where a field of a rule is set: the line, by the rule's name and the field's.
type Origins = BTreeMap<(&'static str, &'static str), usize>;

/// A configuration file, validated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// The label `cluster` of every alert, if it is said; not empty. `ALERTKUBE_CLUSTER` goes before it.
    pub cluster: Option<String>,
    /// How the rules are set.
    pub tuning: Tuning,
    file: String,
    origins: Origins,
}

impl Config {
    /// Reads the file.
    ///
    /// # Errors
    ///
    /// It cannot be read, or what is in it is not valid: all of that in one error.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let read = |source: io::Error| FileError::Read {
            path: path.to_owned(),
            source,
        };
        let mut text = String::new();
        let file = File::open(path).map_err(read)?;
        file.take(LIMIT_BYTES + 1)
            .read_to_string(&mut text)
            .map_err(read)?;
        if text.len() as u64 > LIMIT_BYTES {
            return Err(FileError::TooLarge {
                path: path.to_owned(),
                limit_bytes: LIMIT_BYTES,
            });
        }
        Self::parse(&path.display().to_string(), &text)
    }

    /// Reads a file's text. `file` is what it is called in messages.
    ///
    /// # Errors
    ///
    /// It is not valid: everything that is wrong with it.
    pub fn parse(file: &str, text: &str) -> Result<Self, FileError> {
        let text = text.trim_start_matches('\u{feff}');
        let mut reader = Reader {
            file,
            text,
            problems: Vec::new(),
            tuning: Tuning::default(),
            origins: Origins::new(),
        };
        let cluster = match tree::read(text) {
            Ok(root) => reader.file(&root),
            Err(broken) => {
                let at = broken.at.unwrap_or_default();
                reader.problem(at, 1, format!("this is not valid YAML: {}", broken.reason));
                None
            }
        };
        let Reader {
            mut problems,
            tuning,
            origins,
            file: _,
            text: _,
        } = reader;
        if !problems.is_empty() {
            problems.sort_by_key(|problem| problem.at);
            return Err(FileError::Invalid { problems });
        }
        Ok(Self {
            cluster,
            tuning,
            file: file.to_owned(),
            origins,
        })
    }

    /// Where a field of the rule is set (`enabled`, `severity`, `for` or a threshold), as `file:line`.
    pub fn origin(&self, rule: &Rule, field: &str) -> Option<String> {
        let mut origins = self.origins.iter();
        let found = origins.find(|((name, known), _)| *name == rule.name && *known == field);
        found.map(|(_, line)| format!("{}:{line}", self.file))
    }

    /// What is changed of a rule for all its alerts.
    pub fn changed(&self, rule: &Rule) -> Vec<Changed> {
        let Some(setting) = self.tuning.of(rule) else {
            return Vec::new();
        };
        show::fields(rule, setting)
            .into_iter()
            .filter_map(|(name, value, default)| {
                Some(Changed {
                    name,
                    value: value?,
                    default,
                    origin: self.origin(rule, name).unwrap_or_default(),
                })
            })
            .collect()
    }
}

/// A field of a rule that is changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// Its key in the file.
    pub name: &'static str,
    /// What it is set to, as the file has it.
    pub value: String,
    /// What it would be.
    pub default: String,
    /// Where it is set: `file:line`.
    pub origin: String,
}
