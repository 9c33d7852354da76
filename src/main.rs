//! The command line of alertkube, and nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    alertkube::cli::main()
}
