//! `alertkube shard status`: who serves which shard, as the cluster says.

mod look;
mod view;

use std::io::{self, IsTerminal as _, StdoutLock, Write as _};

use anyhow::Context as _;

use self::{look::look_twice, view::Status};
use crate::{
    cli::{Exit, cluster::ClusterArgs},
    coordinator,
    settings::{self, Settings},
};

/// Shows which shards are served, by whom, and what they remember
///
/// Reads the Leases, the states and the record of this installation (`ALERTKUBE_NAME`) once. It needs the rights to list Leases and ConfigMaps in their
/// namespace, and runs anywhere.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,

    /// The namespace of the installation, if not the one that the environment says
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    /// How to print the result
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

const AFTER_HELP: &str = "\
Exit codes:
  0  every shard of the active generation is served
  1  one is not, or it could not be read
  2  bad usage or settings";

/// How the result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// For people
    Table,
    /// For programs
    Json,
}

/// Reads, prints, and says with the exit code whether all is served.
///
/// # Errors
///
/// It cannot be read, or the output cannot be written to.
pub fn run(args: &Args, settings: &Settings, out: &mut StdoutLock<'_>) -> anyhow::Result<Exit> {
    let cluster = args.cluster.open()?;
    let namespace = args.namespace.as_ref().or(settings.namespace.as_ref());
    let names = coordinator::Names {
        namespace: namespace.map_or_else(|| cluster.namespace().to_owned(), Clone::clone),
        name: settings.name.clone(),
    };
    let seen = cluster.ask("Lease", async |client| {
        look_twice(&client, &names, cluster.clock()).await
    })?;
    let seen = seen.with_context(|| {
        format!(
            "cannot tell who serves what of {}/{}, at {}",
            names.namespace,
            names.name,
            cluster.server()
        )
    })?;
    let status = Status::new(&names, &seen);
    let colour = settings::colour(out.is_terminal());
    let printed = match args.output {
        Output::Table => status.write_table(out, colour),
        Output::Json => serde_json::to_writer_pretty(&mut *out, &status)
            .map_err(io::Error::from)
            .and_then(|()| writeln!(out)),
    };
    match printed {
        // Whoever reads has read enough. The exit code still says how it is.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        printed => printed.context("cannot write the result")?,
    }
    Ok(if status.is_served() {
        Exit::Success
    } else {
        Exit::Failure
    })
}

#[cfg(test)]
mod tests;
