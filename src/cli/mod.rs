//! The command line: one file a command, each thin.

mod files;

use std::process::ExitCode;

/// Runs the program. The exit code is its result.
pub fn main() -> ExitCode {
    ExitCode::SUCCESS
}
