//! `alertkube run`: the program itself.

use std::io::{self, IsTerminal as _};

use anyhow::Context as _;
use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{Exit, cluster::ClusterArgs};
use crate::{
    app::{App, Options},
    cluster::Clock,
    notify::{
        self,
        receivers::{Stdout, Style, Webhook},
    },
    settings::{self, Settings},
};

/// Threads that run everything but what blocks: the controller is one task, and receivers mostly wait.
const WORKER_THREADS: usize = 2;

/// Watches the cluster and pages (the default)
///
/// Connects to the cluster of the current kubeconfig context, or to the one that it runs in. Pages go to standard output, and to the webhook if
/// `ALERTKUBE_WEBHOOK_URL` is set. Everything else is logged to standard error.
#[derive(Debug, Default, clap::Args)]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Runs until it is told to stop.
///
/// # Errors
///
/// It cannot start, or a part of it failed for good.
pub fn run(args: &Args, settings: Settings) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKER_THREADS)
        .enable_all()
        .build()?;
    runtime.block_on(serve(args, settings))?;
    Ok(Exit::Success)
}

async fn serve(args: &Args, settings: Settings) -> anyhow::Result<()> {
    // Without `..`: a new setting cannot be forgotten here. Logging is set up already.
    let Settings {
        sharder,
        name,
        cluster,
        listen,
        webhook_url,
        log: _,
        log_format: _,
    } = settings;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let listener = TcpListener::bind(listen).await.with_context(|| {
        format!("cannot listen on {listen}: set ALERTKUBE_LISTEN to an address that is free")
    })?;
    let config = args.cluster.connect().await?;
    info!(
        version = env!("CARGO_PKG_VERSION"),
        name,
        server = %config.cluster_url,
        listen = %listener.local_addr()?,
        shard_index = sharder.index(),
        shard_total = sharder.total(),
        "starting"
    );

    let webhook = webhook_url
        .map(|url| anyhow::Ok(Webhook::new(notify::http_client()?, url, String::new())?))
        .transpose()?;
    let mut app = App::new(Options {
        config,
        clock: Clock::system(),
        sharder,
        cluster,
        listener: Some(listener),
        receivers: if webhook.is_some() {
            vec!["stdout", "webhook"]
        } else {
            vec!["stdout"]
        },
    })?;
    app.deliver_to(Stdout::new(style(), io::stdout()));
    if let Some(webhook) = webhook {
        app.deliver_to(webhook);
    }

    let stop = CancellationToken::new();
    let running = app.run(stop.clone());
    let told = async {
        told_to_stop(&mut terminate, &mut interrupt).await;
        info!("told to stop; once more aborts");
        stop.cancel();
        told_to_stop(&mut terminate, &mut interrupt).await;
        warn!("told to stop again: ending at once");
    };
    tokio::select! {
        result = running => Ok(result?),
        () = told => anyhow::bail!("aborted: what was owed is not delivered"),
    }
}

async fn told_to_stop(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// For people on a terminal, for programs elsewhere.
fn style() -> Style {
    let is_terminal = io::stdout().is_terminal();
    match (is_terminal, settings::colour(is_terminal)) {
        (true, true) => Style::Colour,
        (true, false) => Style::Plain,
        (false, _) => Style::Json,
    }
}
