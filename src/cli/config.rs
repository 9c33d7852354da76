//! `alertkube config`: whether a configuration file is valid, and what follows from it.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use super::Exit;
use crate::settings::{
    self,
    file::{Config, FileError},
};

/// Where the configuration is.
#[derive(Debug, Default, clap::Args)]
pub struct ConfigArgs {
    /// The configuration file: how the rules are set [default: ALERTKUBE_CONFIG, else none]
    #[arg(long, value_name = "FILE")]
    #[expect(clippy::doc_markdown, reason = "it is the help")]
    config: Option<PathBuf>,
}

impl ConfigArgs {
    /// The configuration: of the file that the command line names, else of that which the environment does, else the defaults.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is not valid.
    pub fn read(&self, from_env: Option<&Path>) -> Result<Config, FileError> {
        let path = self.config.as_deref().or(from_env);
        path.map_or_else(|| Ok(Config::default()), Config::read)
    }
}

/// Checks and shows the configuration file
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Says whether a configuration file is valid: prints `ok`, or everything that is wrong with it
    ///
    /// Exits with 1 if it is not valid, or cannot be read.
    Check {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Prints the configuration as it is in effect, as YAML, with every default as a comment
    Show(ConfigArgs),
}

/// Runs the command.
///
/// # Errors
///
/// The file is not valid, or the output cannot be written to.
pub fn run(command: &Command) -> anyhow::Result<Exit> {
    let mut out = io::stdout().lock();
    match command {
        Command::Check { file } => match Config::read(file) {
            Ok(_) => writeln!(out, "ok")?,
            // Whoever asks about a file has used the program rightly: it is no error of usage.
            Err(error) => {
                super::exit::report(&error.into());
                return Ok(Exit::Failure);
            }
        },
        Command::Show(args) => {
            let config = args.read(settings::config_file().as_deref())?;
            write!(out, "{}", config.to_yaml())?;
        }
    }
    Ok(Exit::Success)
}
