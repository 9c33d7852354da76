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
    rules,
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
            Engine::new(cluster),
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
            () = controller.run(stream::select_all(watches), synced, until) => Ok(()),
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
mod tests {
    use std::net::SocketAddr;

    use axum::http::StatusCode;
    use jiff::SignedDuration;
    use tokio::sync::mpsc;

    use super::*;
    use crate::{
        notify::{Late, Message, Reference, SendError},
        shard::ownership::Timing,
        sim::{self, Fault, On, PODS, Server, pods::mk_pod},
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

        async fn send(&self, _: &Message) -> Result<Option<Reference>, SendError> {
            _ = self.0.send(());
            Ok(None)
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
            cluster: Some(String::new()),
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
            cluster: Some(String::new()),
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
            cluster: Some(String::new()),
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

    /// What a program serves.
    struct Shown {
        address: SocketAddr,
        client: reqwest::Client,
    }

    impl Shown {
        /// What is served at a path, and its status.
        async fn fetch(&self, path: &str) -> (u16, String) {
            let url = format!("http://{}{path}", self.address);
            let response = self.client.get(url).send().await.unwrap();
            (response.status().as_u16(), response.text().await.unwrap())
        }

        /// Waits until `/readyz` says this.
        async fn until_ready_says(&self, what: &str) -> u16 {
            loop {
                let (status, text) = self.fetch("/readyz?verbose").await;
                if text.contains(what) {
                    return status;
                }
            }
        }
    }

    #[tokio::test]
    async fn it_is_alive_and_says_what_it_waits_for_while_the_api_server_is_down_at_its_start() {
        cluster::install_crypto_provider();
        let clock = Clock::system();
        let server = Server::start(sim::Options::new(clock.clone()))
            .await
            .unwrap();
        let down = Fault::Refuse(StatusCode::SERVICE_UNAVAILABLE, None);
        let down = server.faults().inject(down, On::any());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let shown = Shown {
            address: listener.local_addr().unwrap(),
            client: crate::notify::test_client(),
        };
        let mut config = server.kube_config();
        // As of what connects for real.
        config.default_retry = false;
        let app = App::new(Options {
            config,
            clock,
            sharder: Sharder::default(),
            cluster: None,
            listener: Some(listener),
            receivers: Vec::new(),
            membership: Some(membership::Options {
                name: "alertkube".into(),
                namespace: "monitoring".into(),
                pod_name: None,
                timing: Timing::default(),
                takeover: true,
            }),
        })
        .unwrap();
        let stop = CancellationToken::new();
        let running = tokio::spawn(app.run(stop.clone()));

        let waits = "[-]waits for the API server to tell which cluster this is";
        assert_eq!(shown.until_ready_says(waits).await, 503);
        assert_eq!(shown.fetch("/livez").await, (200, "ok\n".to_owned()));
        assert_eq!(shown.fetch("/metrics").await.0, 200);
        down.lift();
        assert_eq!(shown.until_ready_says("[+]shard 0-of-1 held").await, 200);
        stop.cancel();
        running.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_alive_however_long_it_waits() {
        cluster::install_crypto_provider();
        let nobody = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let health = Health::new(KindId::ALL);
        let waited = tokio::time::timeout(
            Duration::from_secs(1000),
            prepare(&nobody, None, None, &health),
        );
        waited.await.unwrap_err();
        assert_eq!(health.live(), Ok(()));
    }
}
