//! `alertkube run`: the program itself.

use std::{
    io::{self, IsTerminal as _},
    time::Duration,
};

use anyhow::Context as _;
use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    Exit,
    cluster::{ClusterArgs, known_name},
    config::ConfigArgs,
};
use crate::{
    app::{App, Options},
    cluster::{self, Clock},
    membership,
    notify::{
        self,
        receivers::{Stdout, Style, Webhook},
    },
    settings::{self, Settings, SettingsError},
};

/// Watches the cluster and pages (the default)
///
/// Connects to the cluster of the current kubeconfig context, or to the one that it runs in. Pages go to standard output, and to the webhook if
/// `ALERTKUBE_WEBHOOK_URL` is set. Everything else is logged to standard error.
#[derive(Debug, Default, clap::Args)]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,

    #[command(flatten)]
    config: ConfigArgs,

    /// Run alone, and keep nothing in the cluster: no Lease, and no state
    ///
    /// After a restart it has forgotten what it has sent: what stands is paged again, and what ended meanwhile gets no resolve.
    #[arg(long)]
    ephemeral: bool,
}

/// Runs until it is told to stop.
///
/// # Errors
///
/// It cannot start, or a part of it failed for good.
pub fn run(args: &Args, settings: Settings) -> anyhow::Result<Exit> {
    let total = settings.sharder.total();
    if args.ephemeral && total > 1 {
        return Err(SettingsError::Ephemeral { total }.into());
    }
    // One thread: the work is decoding, in one task, and all else waits. More threads spend more time waking each other than they save
    // (half of the processor time of a large list).
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(serve(args, settings));
    // A write to a pipe that nobody reads blocks its thread for ever: it must not hold up the end.
    runtime.shutdown_timeout(Duration::from_secs(1));
    result.map(|()| Exit::Success)
}

async fn serve(args: &Args, settings: Settings) -> anyhow::Result<()> {
    // Without `..`: a new setting cannot be forgotten here. Logging is set up already.
    let Settings {
        sharder,
        name,
        namespace,
        pod_name,
        timing,
        takeover,
        cluster,
        listen,
        webhook_url,
        config: config_file,
        log: _,
        log_format: _,
    } = settings;
    let file = args.config.read(config_file.as_deref())?;
    let cluster = cluster.or(file.cluster);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let listener = TcpListener::bind(listen).await.with_context(|| {
        format!("cannot listen on {listen}: set ALERTKUBE_LISTEN to an address that is free")
    })?;
    let connection = args.cluster.connect().await?;
    let cluster = known_name(cluster, &connection);
    let config = connection.config;
    info!(
        version = env!("CARGO_PKG_VERSION"),
        name,
        server = cluster::server(&config),
        listen = %listener.local_addr()?,
        shard_index = sharder.index(),
        shard_total = sharder.total(),
        "starting"
    );
    if args.ephemeral {
        warn!(
            "ephemeral: no Lease keeps a second replica from paging for the same, and after a restart what was sent is forgotten"
        );
    }

    let membership = (!args.ephemeral).then(|| membership::Options {
        name,
        namespace: namespace.unwrap_or_else(|| config.default_namespace.clone()),
        pod_name,
        timing,
        takeover,
    });

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
        membership,
    })?
    .tuned(file.tuning);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_ephemeral_only_alone() {
        let settings = |total: &str| {
            let vars = [
                ("ALERTKUBE_SHARD_TOTAL", total),
                ("ALERTKUBE_SHARD_INDEX", "0"),
                // It cannot be had, so that nothing starts.
                ("ALERTKUBE_LISTEN", "203.0.113.1:1"),
            ];
            Settings::from_vars(vars.map(|(name, value)| (name.into(), value.into()))).unwrap()
        };
        let args = Args {
            ephemeral: true,
            ..Args::default()
        };
        let error = run(&args, settings("3")).unwrap_err();
        assert!(error.is::<SettingsError>(), "{error}");
        assert_eq!(
            error.to_string(),
            "--ephemeral runs without Leases, and so only alone, but ALERTKUBE_SHARD_TOTAL is 3: unset it (or set it to 1), or leave out --ephemeral"
        );
        let error = run(&args, settings("1")).unwrap_err();
        assert!(error.to_string().contains("cannot listen on"), "{error}");
    }
}
