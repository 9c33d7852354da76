//! The program as a value: made, given its receivers, run until it is told to stop. `run` runs one, the demo several, tests any.

use std::{sync::Arc, time::Duration};

use futures::{
    StreamExt as _,
    future::join_all,
    stream::{self, FuturesUnordered},
};
use tokio::{net::TcpListener, sync::oneshot, time::Instant};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::{info, warn};

use crate::{
    alert::Engine,
    cluster::{self, Clock, ConnectError, KindId, Tap, WatchOptions},
    controller::Controller,
    custody::Custody,
    http::{self, Health, Metrics},
    membership::{self, Membership},
    notify::{Ledger, Receiver, Worker},
    rules,
    shard::{Gate, Sharder},
};

/// How long what is owed is still delivered after the program was told to stop, where nothing is remembered; Kubernetes kills it 30 s after telling it, by default.
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
        })
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
        } = self;
        let time = clock.clone();
        metrics.at_scrape(move |gauges| gauges.clock_offset(time.offset()));
        let started = Instant::now();
        let mut watches = Vec::new();
        for &kind in KindId::ALL {
            let tap = Tap::new(kind.as_str(), clock.clone());
            // One client a kind: all users of one share its connection's queue.
            let client = cluster::client(&config, &tap)?;
            let heard = tap.clone();
            metrics.at_scrape(move |gauges| {
                let last = heard.last_byte().unwrap_or(started);
                gauges.watch_lag(kind, last.elapsed());
            });
            let events = kind.watch(client, tap, WatchOptions::default());
            watches.push(events.map(move |event| (kind, event)));
        }
        let handles = workers.iter().map(Worker::handle).collect();
        let (membership, custody) = membership.unzip();
        let (synced, is_synced) = oneshot::channel();
        let drain = if membership.is_some() {
            // What is owed is written down, and whoever serves the shard next delivers it.
            Duration::ZERO
        } else {
            DRAIN
        };
        let controller = Controller::new(
            Engine::new(cluster),
            gate,
            custody,
            clock.clone(),
            handles,
            Arc::clone(&metrics),
            health.clone(),
        );
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

        let serving = listener.map(|listener| {
            // Served until the very end: who waits for a drain wants to see it.
            let (metrics, health) = (Arc::clone(&metrics), health.clone());
            AbortOnDropHandle::new(tokio::spawn(http::serve(listener, metrics, health)))
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
            () = controller.run(stream::select_all(watches), synced, until) => Ok(()),
            failed = taking_part => failed,
            served = served => Err(AppError::Serve(served.err().unwrap_or_else(|| std::io::Error::other("the server ended")))),
            () = ended => Err(AppError::Receiver),
        };
        info!("stopping: delivering what is owed");
        let owed: usize = join_all(workers.into_iter().map(|worker| worker.shutdown(drain)))
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
    use jiff::SignedDuration;
    use tokio::sync::mpsc;

    use super::*;
    use crate::{
        notify::{Late, Message, SendError},
        sim::{self, PODS, Server, pods::mk_pod},
    };

    /// A receiver that says when it got something.
    struct Told(mpsc::UnboundedSender<()>);

    impl Receiver for Told {
        fn name(&self) -> &'static str {
            "told"
        }

        fn late(&self) -> Late {
            Late::FireThenResolve
        }

        fn max_in_flight(&self) -> usize {
            1
        }

        async fn send(&self, _: &Message) -> Result<(), SendError> {
            _ = self.0.send(());
            Ok(())
        }
    }

    /// The value of a series.
    fn value(metrics: &Metrics, series: &str) -> f64 {
        let text = metrics.render().unwrap();
        let series = format!("alertkube_{series} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&series));
        line.unwrap().parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_server_that_was_never_heard_is_silent_since_the_start() {
        cluster::install_crypto_provider();
        let mut app = App::new(Options {
            // Nobody listens there.
            config: kube::Config::new("http://127.0.0.1:1".parse().unwrap()),
            clock: Clock::system(),
            sharder: Sharder::default(),
            cluster: String::new(),
            listener: None,
            receivers: vec!["told"],
            membership: None,
        })
        .unwrap();
        app.deliver_to(Told(mpsc::unbounded_channel().0));
        let metrics = Arc::clone(&app.metrics);
        tokio::time::timeout(Duration::from_secs(200), app.run(CancellationToken::new()))
            .await
            .unwrap_err();
        assert!(value(&metrics, r#"watch_lag_seconds{kind="Pod"}"#) >= 200.0);
    }

    #[tokio::test]
    async fn a_page_leaves_and_the_metrics_show_the_way_that_it_took() {
        cluster::install_crypto_provider();
        // The API server is 10 minutes ahead of this machine.
        let ahead = SignedDuration::from_mins(10);
        let time = Clock::starting_at(Clock::system().now() + ahead, 1.0);
        let server = Server::start(sim::Options::new(time.clone()))
            .await
            .unwrap();
        let broken = mk_pod("shop", "web-7d9c5b8f6-x2x4q").oom_killed(time.now(), 1);
        server.store().create(&PODS, broken.build()).unwrap();

        let mut app = App::new(Options {
            config: server.kube_config(),
            clock: Clock::system(),
            sharder: Sharder::default(),
            cluster: String::new(),
            listener: None,
            receivers: vec!["told"],
            membership: None,
        })
        .unwrap();
        let (told, mut got) = mpsc::unbounded_channel();
        app.deliver_to(Told(told));
        let metrics = Arc::clone(&app.metrics);
        let stop = CancellationToken::new();
        let running = tokio::spawn(app.run(stop.clone()));
        got.recv().await.unwrap();
        stop.cancel();
        running.await.unwrap().unwrap();

        for series in [
            r#"watch_events_total{kind="Pod",type="listed"}"#,
            r#"alert_transitions_total{severity="warning",transition="fired"}"#,
            r#"notifications_total{receiver="told"}"#,
            r#"notification_duration_seconds_count{receiver="told"}"#,
            r#"detection_to_send_seconds_count{receiver="told"}"#,
        ] {
            let value = value(&metrics, series);
            assert!((value - 1.0).abs() < 1e-9, "{series} is {value}");
        }
        assert!(value(&metrics, r#"watch_lag_seconds{kind="Pod"}"#) > 0.0);
        let offset = value(&metrics, "clock_offset_seconds");
        assert!((offset - 600.0).abs() < 2.0, "{offset}");
    }

    #[tokio::test]
    async fn without_receivers_it_runs_until_it_is_told_to_stop() {
        cluster::install_crypto_provider();
        let nobody = "http://127.0.0.1:9".parse().unwrap();
        let app = App::new(Options {
            config: kube::Config::new(nobody),
            clock: Clock::system(),
            sharder: Sharder::default(),
            cluster: String::new(),
            listener: None,
            receivers: Vec::new(),
            membership: None,
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
