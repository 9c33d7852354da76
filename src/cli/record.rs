//! `alertkube record`: what the watches see, as a history that `replay` reads.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use futures::{StreamExt as _, stream};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    Exit,
    cluster::{ClusterArgs, known_name},
};
use crate::{
    cluster::{self, Clock, Event, KindId, Tap, WatchOptions},
    history::Recorder,
    settings::Settings,
    text,
};

/// How many events are written before the file is brought up to date, if there is no pause before.
const BATCH: usize = 256;

/// Writes what it sees of a cluster to a file, for `replay`
///
/// Every object when the recording begins, and every change from then on, as JSON lines. Of the objects only those fields are written that the
/// rules read: no environment, no labels and annotations but a few of Kubernetes' own, no Secrets. It is what a container or a controller says of a
/// failure that may tell more than you like. It goes on until it is told to stop (Ctrl-C).
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,

    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// Write over the file if there is one
    #[arg(long)]
    overwrite: bool,
}

const AFTER_HELP: &str = "\
Examples:
  alertkube record -o last-night.jsonl
  alertkube replay last-night.jsonl";

/// Records until it is told to stop.
///
/// # Errors
///
/// It cannot start, or the file cannot be written to.
pub fn run(args: &Args, settings: Settings) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(record(args, settings))?;
    Ok(Exit::Success)
}

async fn record(args: &Args, settings: Settings) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let connection = args.cluster.connect().await?;
    let out = BufWriter::new(create(&args.output, args.overwrite)?);
    let name = known_name(settings.cluster, &connection).unwrap_or_default();
    info!(
        server = cluster::server(&connection.config),
        file = %args.output.display(),
        "recording; Ctrl-C ends it"
    );
    let stop = CancellationToken::new();
    let told = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stop.cancel();
    };
    let clock = Clock::system();
    let watching = watch(&connection.config, &clock, &name, out, stop.clone());
    let mut watching = std::pin::pin!(watching);
    let lines = tokio::select! {
        lines = &mut watching => lines?,
        () = told => watching.await?,
    };
    info!(lines, file = %args.output.display(), "recorded");
    Ok(())
}

/// The file, which must be new unless it may be written over.
fn create(file: &Path, overwrite: bool) -> anyhow::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true);
    if overwrite {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    options.open(file).map_err(|error| {
        let what = if error.kind() == io::ErrorKind::AlreadyExists {
            "there is one already: name another, or write over it with --overwrite"
        } else {
            "cannot be written"
        };
        anyhow::Error::new(error).context(format!("{}: {what}", file.display()))
    })
}

/// Records every kind until `stop`, and says how many lines were written.
async fn watch(
    config: &kube::Config,
    clock: &Clock,
    cluster: &str,
    out: impl Write,
    stop: CancellationToken,
) -> anyhow::Result<u64> {
    let mut watches = Vec::new();
    for &kind in KindId::ALL {
        let tap = Tap::new(kind.as_str(), clock.clone());
        let client = cluster::client(config, &tap)?;
        let events = kind.watch(client, tap, WatchOptions::default());
        watches.push(events.map(move |event| (kind, event)).boxed());
    }
    let mut events = stream::select_all(watches).ready_chunks(BATCH);
    let mut recorder = Recorder::new(out, cluster, KindId::ALL);
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            batch = events.next() => {
                let now = clock.now();
                for (kind, event) in batch.into_iter().flatten() {
                    tell(kind, &event, recorder.lines());
                    recorder.take(kind, &event, now).context(WRITE)?;
                }
                // Nothing else is there to be read yet, or much was written.
                recorder.flush().context(WRITE)?;
            }
        }
    }
    recorder.flush().context(WRITE)?;
    Ok(recorder.lines())
}

/// What is wrong if a line cannot be written.
const WRITE: &str = "cannot write the history";

/// Says how it goes.
fn tell(kind: KindId, event: &Event, lines: u64) {
    match event {
        Event::ListDone => info!(kind = kind.as_str(), lines, "all of the kind is recorded"),
        Event::Failed(failure) => {
            warn!(kind = kind.as_str(), "{}", text::one_line(&failure.message));
        }
        Event::Restored => info!(kind = kind.as_str(), "the watch is back"),
        Event::ListStarted | Event::Listed(..) | Event::Applied(..) | Event::Deleted(_) => {}
    }
}

#[cfg(test)]
mod tests;
