//! What is wrong with the file, and how it is told: the place, the line, and a caret.

use std::{fmt::Write as _, io, path::PathBuf};

/// A place in the file. Both numbers begin at 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

impl Default for Place {
    /// The start of the file.
    fn default() -> Self {
        Self { line: 1, column: 1 }
    }
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be read.
    #[error("cannot read the configuration file {}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file is too large to be one that somebody wrote.
    #[error("the configuration file {} is larger than {} KiB: is it the right one?", .path.display(), .limit_bytes / 1024)]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The most that is read.
        limit_bytes: u64,
    },
    /// What is in the file is not valid: everything that is wrong with it.
    #[error("{}", list(.problems))]
    Invalid {
        /// In the order of the file.
        problems: Vec<FileProblem>,
    },
}

/// One thing that is wrong with the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", shown(self))]
pub struct FileProblem {
    /// The file, as it was named.
    pub file: String,
    /// Where it is wrong.
    pub at: Place,
    /// The text of that line.
    pub line: String,
    /// How many characters are wrong; at least one.
    pub length: usize,
    /// What is wrong, and what to do.
    pub message: String,
}

fn list(problems: &[FileProblem]) -> String {
    let mut text = match problems.len() {
        1 => "the configuration file is not valid:".to_owned(),
        n => format!("the configuration file is not valid, for {n} reasons:"),
    };
    for problem in problems {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n{problem}");
    }
    text
}

fn shown(problem: &FileProblem) -> String {
    let FileProblem {
        file,
        at: Place { line, column },
        line: text,
        length,
        message,
    } = problem;
    // Nothing in the file may move the cursor, except for tabs, which the caret follows.
    let visible: String = text
        .chars()
        .map(|c| {
            if c.is_control() && c != '\t' {
                '\u{fffd}'
            } else {
                c
            }
        })
        .collect();
    let indent: String = visible
        .chars()
        .chain(std::iter::repeat(' '))
        .take(column - 1)
        .map(|c| if c == '\t' { '\t' } else { ' ' })
        .collect();
    let carets = "^".repeat(*length);
    let number = line.to_string();
    let margin = " ".repeat(number.len());
    format!(
        "{file}:{line}:{column}: {message}\n  {number} | {visible}\n  {margin} | {indent}{carets}"
    )
}

/// The candidate that was probably meant, if one is near enough to be more than a guess.
pub(super) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let word = word.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| {
            let likeness = strsim::normalized_damerau_levenshtein(&word, &candidate.to_lowercase());
            (likeness, candidate)
        })
        .filter(|(likeness, _)| *likeness >= 0.5)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, candidate)| candidate)
}
