//! How the program ends.

use std::{
    error::Error,
    io::{self, Write as _},
    process::ExitCode,
};

use crate::{
    settings::{SettingsError, file::FileError},
    shard::ShardError,
};

/// How the program ends: the exit codes that the help documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// All is well.
    Success = 0,
    /// Something failed.
    Failure = 1,
    /// Bad usage or settings: nothing was tried. `clap` uses the same.
    Usage = 2,
    /// A scan found what `--fail-on` asks about.
    Found = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Prints an error with its causes, and says how to end.
pub fn report(error: &anyhow::Error) -> Exit {
    let exit = exit_of(error);
    if exit != Exit::Success {
        // If nobody listens, the exit code still tells.
        let _ = write!(io::stderr(), "{}", with_causes(error));
    }
    exit
}

fn exit_of(error: &anyhow::Error) -> Exit {
    if is_broken_pipe(error) {
        // Whoever reads our output has read enough (`alertkube scan | head`).
        Exit::Success
    } else if is_about_settings(error) {
        Exit::Usage
    } else {
        Exit::Failure
    }
}

fn is_about_settings(error: &anyhow::Error) -> bool {
    error.is::<SettingsError>() || error.is::<ShardError>() || error.is::<FileError>()
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

fn with_causes(error: &anyhow::Error) -> String {
    let mut text = format!("error: {error}\n");
    let mut said = error.to_string();
    for cause in error.chain().skip(1).map(<dyn Error>::to_string) {
        // Some libraries repeat the cause in their own text.
        if !said.ends_with(&cause) {
            text.push_str("  caused by: ");
            text.push_str(&cause);
            text.push('\n');
        }
        said = cause;
    }
    text
}

#[cfg(test)]
mod tests {
    use anyhow::{Context as _, anyhow};

    use super::*;

    #[test]
    fn an_error_is_printed_with_its_causes_once() {
        let error = anyhow!("connection refused")
            .context("connect: connection refused")
            .context("cannot list pods");
        assert_eq!(
            with_causes(&error),
            "error: cannot list pods\n  caused by: connect: connection refused\n"
        );
    }

    #[test]
    fn bad_settings_and_failures_end_differently() {
        let settings = SettingsError::Invalid(Vec::new());
        assert_eq!(exit_of(&settings.into()), Exit::Usage);
        assert_eq!(exit_of(&anyhow!("no")), Exit::Failure);
    }

    #[test]
    fn a_reader_that_has_gone_is_no_error() {
        let gone = io::Error::from(io::ErrorKind::BrokenPipe);
        let error = Err::<(), _>(gone).context("cannot write").unwrap_err();
        assert_eq!(exit_of(&error), Exit::Success);
    }
}
