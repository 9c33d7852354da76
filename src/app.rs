//! The program as a value: made, given its receivers, run until it is told to stop. `run` runs one, the demo several, tests any.

use std::{sync::Arc, time::Duration};

use futures::{
    StreamExt as _,
    future::join_all,
    stream::{self, FuturesUnordered},
};
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::{info, warn};

use crate::{
    alert::Engine,
    cluster::{self, Clock, ConnectError, KindId, Tap, WatchOptions},
    controller::Controller,
    http::{self, Health, Metrics},
    notify::{Receiver, Worker},
    rules,
    shard::Sharder,
};

/// How long what is owed is still delivered after the program was told to stop; Kubernetes kills it 30 s after telling it, by default.
const DRAIN: Duration = Duration::from_secs(10);

/// What an app is made from.
#[derive(Debug)]
pub struct Options {
    /// Where the API server is.
    pub config: kube::Config,
    /// Its time.
    pub clock: Clock,
    /// The part of the cluster to page for.
    pub sharder: Sharder,
    /// The label `cluster`; empty for none.
    pub cluster: String,
    /// Where `/metrics`, `/livez` and `/readyz` are served, if at all.
    pub listener: Option<TcpListener>,
    /// The names of the receivers that will be added.
    pub receivers: Vec<&'static str>,
}

/// The program.
#[derive(Debug)]
pub struct App {
    config: kube::Config,
    clock: Clock,
    sharder: Sharder,
    cluster: String,
    listener: Option<TcpListener>,
    metrics: Arc<Metrics>,
    health: Health,
    workers: Vec<Worker>,
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
    /// Metrics and health can no longer be served.
    #[error("cannot serve metrics and health")]
    Serve(#[source] std::io::Error),
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
        } = options;
        let rules: Vec<_> = rules::all().collect();
        let metrics = Metrics::new(sharder.index(), sharder.total(), &rules, &receivers)?;
        let health = Health::new(KindId::ALL);
        health.show_in(&metrics);
        Ok(Self {
            config,
            clock,
            sharder,
            cluster,
            listener,
            metrics: Arc::new(metrics),
            health,
            workers: Vec::new(),
        })
    }

    /// Adds a receiver, and starts its task.
    pub fn deliver_to(&mut self, receiver: impl Receiver) {
        let worker = Worker::spawn(receiver, Arc::new(self.sharder), Arc::clone(&self.metrics));
        self.workers.push(worker);
    }

    /// Watches and pages until `stop`. Then delivers what is owed, for a while, and ends.
    ///
    /// # Errors
    ///
    /// A part of the program that must not end did.
    pub async fn run(self, stop: CancellationToken) -> Result<(), AppError> {
        let Self {
            config,
            clock,
            sharder,
            cluster,
            listener,
            metrics,
            health,
            mut workers,
        } = self;
        let mut watches = Vec::new();
        for &kind in KindId::ALL {
            let tap = Tap::new(kind.as_str(), clock.clone());
            // One client a kind: all users of one share its connection's queue.
            let client = cluster::client(&config, &tap)?;
            let heard = tap.clone();
            metrics.at_scrape(move |gauges| {
                // Before the first answer there is no lag to tell.
                let lag = heard.last_byte().map(|last| last.elapsed());
                gauges.watch_lag(kind, lag.unwrap_or_default());
            });
            let events = kind.watch(client, tap, WatchOptions::default());
            watches.push(events.map(move |event| (kind, event)));
        }
        let handles = workers.iter().map(Worker::handle).collect();
        let controller = Controller::new(
            Engine::new(cluster),
            Arc::new(sharder),
            clock,
            handles,
            Arc::clone(&metrics),
            health.clone(),
        );

        let serving = listener.map(|listener| {
            // Served until the very end: who waits for a drain wants to see it.
            AbortOnDropHandle::new(tokio::spawn(http::serve(
                listener,
                metrics,
                health,
                CancellationToken::new(),
            )))
        });
        let served = async {
            match serving {
                Some(serving) => serving
                    .await
                    .unwrap_or_else(|panic| Err(std::io::Error::other(panic))),
                None => std::future::pending().await,
            }
        };
        let ended = async {
            let mut ended: FuturesUnordered<_> = workers.iter_mut().map(Worker::ended).collect();
            if ended.next().await.is_none() {
                // There is none.
                std::future::pending::<()>().await;
            }
        };
        let result = tokio::select! {
            () = controller.run(stream::select_all(watches), stop) => Ok(()),
            served = served => Err(AppError::Serve(served.err().unwrap_or_else(|| std::io::Error::other("the server ended")))),
            () = ended => Err(AppError::Receiver),
        };
        info!("stopping: delivering what is owed");
        let owed: usize = join_all(workers.into_iter().map(|worker| worker.shutdown(DRAIN)))
            .await
            .into_iter()
            .sum();
        if owed > 0 {
            warn!(alerts = owed, "stopped with messages undelivered");
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn without_receivers_it_runs_until_it_is_told_to_stop() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let nobody = "http://127.0.0.1:9".parse().unwrap();
        let app = App::new(Options {
            config: kube::Config::new(nobody),
            clock: Clock::system(),
            sharder: Sharder::default(),
            cluster: String::new(),
            listener: None,
            receivers: Vec::new(),
        })
        .unwrap();
        let stop = CancellationToken::new();
        let running = tokio::spawn(app.run(stop.clone()));
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert!(!running.is_finished());
        stop.cancel();
        running.await.unwrap().unwrap();
    }
}
