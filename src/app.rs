//! The program as a value: made, given its receivers, run until it is told to stop. `run` runs one, the demo several, tests any.

use std::{io, sync::Arc, time::Duration};

use futures::{
    Stream, StreamExt as _,
    future::join_all,
    stream::{self, BoxStream, FuturesUnordered},
};
use tokio::{
    net::TcpListener,
    sync::{oneshot, watch},
    time::{Instant, sleep},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::{info, warn};

use crate::{
    alert::Engine,
    cluster::{self, Clock, ConnectError, KindId, RightsError, Tap, WatchOptions},
    controller::Controller,
    custody::Custody,
    http::{self, Health, Metrics},
    membership::{self, Membership},
    notify::{Ledger, Receiver, Worker},
    rules::{self, Tuning},
    shard::{Gate, Sharder},
};

/// How long what is owed is still delivered after the program was told to stop, where nothing is remembered; Kubernetes kills it 30 s after telling it, by default.
const DRAIN: Duration = Duration::from_secs(10);

/// How often it is shown that the program is alive while it waits for the API server at its start.
const BEAT: Duration = Duration::from_secs(1);

/// What an app is made from.
#[derive(Debug)]
pub struct Options {
    /// Where the API server is.
    pub config: kube::Config,
    /// Its time.
    pub clock: Clock,
    /// The part of the cluster to page for.
    pub sharder: Sharder,
    /// The label `cluster`; empty for none. If it is not known, the cluster is asked, and waited for.
    pub cluster: Option<String>,
    /// Where `/metrics`, `/livez` and `/readyz` are served, if at all.
    pub listener: Option<TcpListener>,
    /// The names of the receivers that will be added.
    pub receivers: Vec<&'static str>,
    /// How it takes part with others, and remembers; without it, it owns its shard for good, and forgets everything when it ends.
    pub membership: Option<membership::Options>,
}

/// The program.
#[derive(Debug)]
pub struct App {
    config: kube::Config,
    clock: Clock,
    membership: Option<(Membership, Custody)>,
    gate: Arc<dyn Gate>,
    cluster: Option<String>,
    listener: Option<TcpListener>,
    metrics: Arc<Metrics>,
    health: Health,
    workers: Vec<Worker>,
    tuning: Tuning,
}

/// Why the program ended, other than by being told to.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The metrics contradict each other.
    #[error("cannot set up the metrics")]
    Metrics(#[from] prometheus::Error),
    /// There is no client for the API server.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Leases and states may not be kept.
    #[error(transparent)]
    Rights(#[from] RightsError),
    /// Metrics and health can no longer be served.
    #[error("cannot serve metrics and health")]
    Serve(#[source] io::Error),
    /// A receiver's task ended: nothing would be delivered any more.
    #[error("the task of a receiver ended by a defect: see the log")]
    Receiver,
}

impl App {
    /// An app without receivers.
    ///
    /// # Errors
    ///
    /// The metrics contradict each other: a defect that a test rules out.
    pub fn new(options: Options) -> Result<Self, AppError> {
        let Options {
            config,
            clock,
            sharder,
            cluster,
            listener,
            receivers,
            membership,
        } = options;
        let rules: Vec<_> = rules::all().collect();
        let metrics = Metrics::new(sharder.index(), sharder.total(), &rules, &receivers)?;
        let health = Health::new(KindId::ALL);
        health.show_in(&metrics);
        let membership = membership.map(|options| Membership::new(options, sharder));
        let gate: Arc<dyn Gate> = match &membership {
            Some((membership, _)) => {
                membership.show_in(&health, &metrics);
                Arc::new(membership.keeper().clone())
            }
            None => Arc::new(sharder),
        };
        Ok(Self {
            config,
            clock,
            membership,
            gate,
            cluster,
            listener,
            metrics: Arc::new(metrics),
            health,
            workers: Vec::new(),
            tuning: Tuning::default(),
        })
    }

    /// The same, with what is changed of the rules.
    #[must_use]
    pub fn tuned(mut self, tuning: Tuning) -> Self {
        self.tuning = tuning;
        self
    }

    /// Adds a receiver, and starts its task.
    pub fn deliver_to(&mut self, receiver: impl Receiver) {
        let ledger = self
            .membership
            .as_ref()
            .map(|(membership, _)| Arc::new(membership.keeper().clone()) as Arc<dyn Ledger>);
        let gate = Arc::clone(&self.gate);
        let worker = Worker::spawn(receiver, gate, ledger, Arc::clone(&self.metrics));
        self.workers.push(worker);
    }

    /// Watches and pages until `stop`. Then lets go of what it holds, which somebody else takes over; or, if it holds nothing, delivers what is owed, for a while.
    ///
    /// # Errors
    ///
    /// A part of the program that must not end did.
    pub async fn run(self, stop: CancellationToken) -> Result<(), AppError> {
        let Self {
            config,
            clock,
            membership,
            gate,
            cluster,
            listener,
            metrics,
            health,
            mut workers,
            tuning,
        } = self;
        let time = clock.clone();
        metrics.at_scrape(move |gauges| gauges.clock_offset(time.offset()));
        let started = Instant::now();
        let mut watches = Vec::new();
        let (relist, again) = watch::channel(0);
        for &kind in KindId::ALL {
            let tap = Tap::new(kind.as_str(), clock.clone());
            // One client a kind: all users of one share its connection's queue.
            let client = cluster::client(&config, &tap)?;
            let heard = tap.clone();
            metrics.at_scrape(move |gauges| {
                let last = heard.last_byte().unwrap_or(started);
                gauges.watch_lag(kind, last.elapsed());
            });
            let begin = move || kind.watch(client.clone(), tap.clone(), WatchOptions::default());
            let events = beginning_again(begin, again.clone());
            watches.push(events.map(move |event| (kind, event)).boxed());
        }
        let mut serving = std::pin::pin!(serve(listener, &metrics, &health));
        let membership = membership.unzip();
        // Served by now: without that, a program that waits for an API server that is down would look like one that has to be restarted.
        let cluster = tokio::select! {
            prepared = prepare(&config, cluster, membership.0.as_ref(), &health) => prepared?,
            failed = &mut serving => return Err(failed),
            () = stop.cancelled() => return Ok(()),
        };
        let (membership, custody) = membership;
        let unserved = membership
            .as_ref()
            .map(|membership| membership.unserved(&cluster));
        let handles = workers.iter().map(Worker::handle).collect();
        let ended = async {
            let mut ended: FuturesUnordered<_> = workers.iter_mut().map(Worker::ended).collect();
            if ended.next().await.is_none() {
                // There is none.
                std::future::pending::<()>().await;
            }
        };
        let (synced, is_synced) = oneshot::channel();
        let drain = if membership.is_some() {
            // What is owed is written down, and whoever serves the shard next delivers it.
            Duration::ZERO
        } else {
            DRAIN
        };
        let controller = Controller::new(
            Engine::new(cluster).tuned(tuning),
            gate,
            custody,
            clock.clone(),
            handles,
            Arc::clone(&metrics),
            health,
        )
        .watching_over_shards(unserved)
        .listing_anew(relist);
        // Until all is let go, the controller goes on: what is in flight ends, and is written down.
        let ended_membership = CancellationToken::new();
        let until = if membership.is_some() {
            ended_membership.clone()
        } else {
            stop.clone()
        };
        let taking_part = async {
            if let Some(membership) = membership {
                membership.run(&config, clock, is_synced, stop).await?;
                ended_membership.cancel();
            }
            std::future::pending::<Result<(), AppError>>().await
        };

        let result = tokio::select! {
            // On the heap, because the engine is a large part of it.
            () = Box::pin(controller.run(stream::select_all(watches), synced, until)) => Ok(()),
            failed = taking_part => failed,
            failed = serving => Err(failed),
            () = ended => Err(AppError::Receiver),
        };
        if !drain.is_zero() {
            info!("stopping: delivering what is owed");
        }
        let owed: usize = join_all(workers.into_iter().map(|worker| worker.shutdown(drain)))
            .await
            .into_iter()
            .sum();
        if owed > 0 && !drain.is_zero() {
            warn!(alerts = owed, "stopped with messages undelivered");
        }
        result
    }
}

/// Serves metrics and health, if anywhere, until the very end: who waits for a drain wants to see it. It ends by a failure only.
fn serve(
    listener: Option<TcpListener>,
    metrics: &Arc<Metrics>,
    health: &Health,
) -> impl Future<Output = AppError> + use<> {
    // A task of its own, which starts now: what is busy here must not keep the kubelet waiting.
    let serving = listener.map(|listener| {
        let (metrics, health) = (Arc::clone(metrics), health.clone());
        AbortOnDropHandle::new(tokio::spawn(http::serve(listener, metrics, health)))
    });
    async {
        let Some(serving) = serving else {
            return std::future::pending().await;
        };
        let served = serving
            .await
            .unwrap_or_else(|panic| Err(io::Error::other(panic)));
        let ended = || io::Error::other("the server ended");
        AppError::Serve(served.err().unwrap_or_else(ended))
    }
}

/// Finds out what has to be known before anything starts: the label `cluster`, which is returned, and whether Leases and states may be kept. While it waits, it
/// says so in `/readyz`, and is alive.
async fn prepare(
    config: &kube::Config,
    known: Option<String>,
    membership: Option<&Membership>,
    health: &Health,
) -> Result<String, AppError> {
    let preparing = async {
        let name = if let Some(name) = known {
            name
        } else {
            health.wait_for(
                "waits for the API server to tell which cluster this is (or set ALERTKUBE_CLUSTER)",
            );
            let client = cluster::client(config, &Tap::new("Namespace", Clock::system()))?;
            let uid = cluster::wait_for_cluster_uid(&client).await;
            uid.unwrap_or_default()
        };
        if let Some(membership) = membership {
            health
                .wait_for("waits for the API server to tell whether Leases and states may be kept");
            let client = cluster::client(config, &Tap::new("Lease", Clock::system()))?;
            cluster::check_rights(&client, membership.namespace()).await?;
        }
        Ok(name)
    };
    let beating = async {
        loop {
            health.beat();
            sleep(BEAT).await;
        }
    };
    let result = tokio::select! {
        result = preparing => result,
        never = beating => never,
    };
    health.wait_over();
    result
}

/// A watch that begins again, with a list, whenever `again` changes. What it would have brought until then is dropped.
fn beginning_again<E>(
    begin: impl Fn() -> BoxStream<'static, E>,
    again: watch::Receiver<u64>,
) -> impl Stream<Item = E> {
    let first = begin();
    stream::unfold(
        (begin, first, again),
        |(begin, mut events, mut again)| async move {
            loop {
                tokio::select! {
                    biased;
                    Ok(()) = again.changed() => events = begin(),
                    event = events.next() => {
                        return event.map(|event| (event, (begin, events, again)));
                    }
                }
            }
        },
    )
}

#[cfg(test)]
mod tests;
