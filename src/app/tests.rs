//! The program as a value.

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

/// An app that only pages to [`Told`].
fn watching(config: kube::Config) -> Options {
    Options {
        config,
        clock: Clock::system(),
        sharder: Sharder::default(),
        cluster: Some(String::new()),
        listener: None,
        receivers: vec!["told"],
        membership: None,
    }
}

/// Where nobody listens.
fn nobody() -> kube::Config {
    kube::Config::new("http://127.0.0.1:1".parse().unwrap())
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
    let mut app = App::new(watching(nobody())).unwrap();
    app.deliver_to(Told(mpsc::unbounded_channel().0));
    let metrics = Arc::clone(&app.metrics);
    let run = Box::pin(app.run(CancellationToken::new()));
    tokio::time::timeout(Duration::from_secs(200), run)
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

    let mut app = App::new(watching(server.kube_config())).unwrap();
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
    let app = App::new(Options {
        receivers: Vec::new(),
        ..watching(nobody())
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
        clock,
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
        ..watching(config)
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
    let (nobody, health) = (nobody(), Health::new(&[KindId::Pod]));
    let waited = tokio::time::timeout(
        Duration::from_secs(1000),
        prepare(&nobody, None, None, &health),
    );
    waited.await.unwrap_err();
    assert_eq!(health.live(), Ok(()));
}
