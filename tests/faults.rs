//! The program in one process with a cluster in memory: what the real API server does not do on demand. The app, its client, its watches and its queues are
//! the real ones.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use alertkube::{
    app::{App, Options},
    cluster::{Clock, install_crypto_provider},
    notify::{Event, Late, Message, Receiver, Reference, SendError},
    shard::Sharder,
    sim::{self, DeleteOptions, End, Fault, On, PODS, Server, Verb, pods::mk_pod},
};
use axum::http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

/// No step takes this long.
const PATIENCE: Duration = Duration::from_secs(120);

/// Keeps what it was told, in order.
#[derive(Clone)]
struct Recorder(Arc<watch::Sender<Vec<Told>>>);

/// One message: when it came, about which workload, and whether the alert fires.
#[derive(Debug, Clone)]
struct Told {
    at: Instant,
    workload: String,
    firing: bool,
}

impl Recorder {
    fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Vec::new())))
    }

    fn told(&self) -> Vec<Told> {
        self.0.borrow().clone()
    }

    async fn wait_for(&self, what: &str, holds: impl FnMut(&Vec<Told>) -> bool) {
        let mut told = self.0.subscribe();
        let waited = timeout(PATIENCE, told.wait_for(holds)).await;
        assert!(
            waited.is_ok(),
            "never came: {what}; was told {:#?}",
            self.told()
        );
    }
}

impl Receiver for Recorder {
    fn name(&self) -> &'static str {
        "recorder"
    }

    fn late(&self) -> Late {
        Late::FireThenResolve
    }

    fn max_in_flight(&self) -> usize {
        4
    }

    async fn send(&self, message: &Message) -> Result<Option<Reference>, SendError> {
        let firing = match message.event {
            Event::Fired | Event::Changed => true,
            Event::Resolved(_) | Event::FiredAndResolved(_) => false,
        };
        let workload = message.alert.labels.get("workload").unwrap().to_owned();
        self.0.send_modify(|told| {
            told.push(Told {
                at: Instant::now(),
                workload,
                firing,
            });
        });
        Ok(None)
    }
}

/// A cluster, and the program that watches it.
struct World {
    server: Server,
    recorder: Recorder,
    stop: CancellationToken,
    apps: JoinSet<()>,
}

impl World {
    /// `clock` is the program's; the cluster has its own.
    async fn start(cluster: Clock, clock: Clock) -> Self {
        install_crypto_provider();
        let server = Server::start(sim::Options::new(cluster)).await.unwrap();
        let (recorder, stop) = (Recorder::new(), CancellationToken::new());
        let mut app = App::new(Options {
            config: server.kube_config(),
            clock,
            sharder: Sharder::default(),
            cluster: Some(String::new()),
            listener: None,
            receivers: vec![recorder.name()],
            membership: None,
        })
        .unwrap();
        app.deliver_to(recorder.clone());
        let mut apps = JoinSet::new();
        let running = app.run(stop.clone());
        apps.spawn(async move { Box::pin(running).await.unwrap() });
        Self {
            server,
            recorder,
            stop,
            apps,
        }
    }

    async fn end(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.apps.join_next().await {
            ended.unwrap();
        }
        self.server.stop().await;
    }
}

/// A pod of the Deployment `name`. If `stuck`, its init container has been running for 16 minutes, which pages at once; else it is well, which resolves at once.
fn pod(name: &str, stuck: bool, now: Timestamp) -> Value {
    let pod = mk_pod("shop", format!("{name}-7d9c5b8f6-x2x4q"));
    if stuck {
        pod.init_stuck(now - SignedDuration::from_mins(16)).build()
    } else {
        pod.build()
    }
}

/// The API server's clock is ten minutes off ours. A readiness that failed 4 min 57 s ago, as the API server counts, pages in 3 s: neither at once nor in ten minutes.
#[tokio::test]
async fn a_clock_that_is_ten_minutes_off_changes_nothing() {
    for minutes in [-10, 10] {
        let own = Clock::system();
        let cluster = Clock::starting_at(own.now() + SignedDuration::from_mins(minutes), 1.0);
        let world = World::start(cluster.clone(), own).await;
        let since = cluster.now() - SignedDuration::from_secs(297);
        let due = Instant::now() + Duration::from_secs(3);
        let unready = mk_pod("shop", "web-7d9c5b8f6-x2x4q")
            .not_ready(since)
            .build();
        world.server.store().create(&PODS, unready).unwrap();
        world
            .recorder
            .wait_for("the page", |told| !told.is_empty())
            .await;
        let told = &world.recorder.told()[0];
        // The header has whole seconds, and so have the object's times.
        let early = due.saturating_duration_since(told.at);
        let late = told.at.saturating_duration_since(due);
        assert!(
            early < Duration::from_secs(2) && late < Duration::from_secs(10),
            "{early:?} early, {late:?} late"
        );
        world.end().await;
    }
}

/// What happens to a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Break,
    Recover,
    Delete,
}

/// What a workload was, and when it became so.
type Truth = Mutex<BTreeMap<String, Vec<(Instant, bool)>>>;

/// Things break and recover while everything that can go wrong with an API server does. In the end the receiver knows what is true; on the way there is
/// no page for what was well all the time, no resolve of what was broken all the time, and nothing is said twice.
async fn a_story_with_faults(seed: u64) {
    let clock = Clock::system();
    let world = World::start(clock.clone(), clock.clone()).await;
    let (store, faults) = (world.server.store().clone(), world.server.faults().clone());
    let mut random = fastrand::Rng::with_seed(seed);
    let names: Vec<String> = (0..8).map(|index| format!("web{index}")).collect();
    let truth = Truth::default();
    let become_so = |name: &str, how: Change| {
        let stuck = how == Change::Break;
        // Noted before and after the write, because the receiver may be told in between.
        let note = || {
            truth
                .lock()
                .unwrap()
                .entry(name.to_owned())
                .or_default()
                .push((Instant::now(), stuck));
        };
        note();
        if how == Change::Delete {
            let _ = store.delete(
                &PODS,
                "shop",
                &format!("{name}-7d9c5b8f6-x2x4q"),
                &DeleteOptions::now(),
            );
        } else {
            store.apply(&PODS, pod(name, stuck, clock.now())).unwrap();
        }
        note();
    };
    for name in &names {
        become_so(name, Change::Recover);
    }
    let mut pace = tokio::time::interval(Duration::from_millis(100));
    for _ in 0..40 {
        let on = On::any().resource(&PODS);
        let injected = match random.u32(0..10) {
            0 => Some(faults.inject(Fault::EndWatches(End::Cut), on)),
            1 => Some(faults.inject(Fault::EndWatches(End::CutWithinLine), on)),
            2 => Some(faults.inject(Fault::EndWatches(End::Clean), on)),
            3 => Some(faults.inject(Fault::ExpireWatches, on)),
            4 => Some(faults.inject(
                Fault::Refuse(StatusCode::GONE, None),
                on.verb(Verb::Watch).times(2),
            )),
            5 => Some(faults.inject(
                Fault::Refuse(StatusCode::INTERNAL_SERVER_ERROR, None),
                on.times(1),
            )),
            6 => Some(faults.inject(
                Fault::Refuse(StatusCode::TOO_MANY_REQUESTS, Some(Duration::from_secs(1))),
                on.times(1),
            )),
            7 => Some(faults.inject(Fault::EmptyWatch, on.times(2))),
            8 => {
                store.compact();
                None
            }
            _ => None,
        };
        for _ in 0..random.usize(1..4) {
            let how = [
                Change::Break,
                Change::Break,
                Change::Recover,
                Change::Delete,
            ][random.usize(0..4)];
            become_so(&names[random.usize(0..names.len())], how);
        }
        // The pace of the story, not a wait for anything: the program gets somewhere in between, or nowhere.
        for _ in 0..random.u32(1..8) {
            pace.tick().await;
        }
        drop(injected);
    }
    faults.clear();
    let standing = |name: &String| truth.lock().unwrap()[name].last().unwrap().1;
    world
        .recorder
        .wait_for("what is true", |told| {
            names.iter().all(|name| {
                let last = told.iter().rev().find(|told| told.workload == *name);
                last.is_some_and(|told| told.firing) == standing(name)
            })
        })
        .await;
    // What is wrong now would be told soon: a last change, which is told after it.
    become_so("last", Change::Break);
    world
        .recorder
        .wait_for("the last page", |told| {
            told.iter().any(|told| told.workload == "last")
        })
        .await;

    assert_told_truly(seed, &world.recorder.told(), &truth.into_inner().unwrap());
    world.end().await;
}

/// Each workload's messages alternate, and tell what it was, in the order in which it was so. They may leave out what nobody could see. When they come says
/// little: a watch that is back may tell within a moment what has happened in ten seconds, and a message may arrive after the next change.
fn assert_told_truly(seed: u64, told: &[Told], truth: &BTreeMap<String, Vec<(Instant, bool)>>) {
    for (name, history) in truth {
        let mut fired = false;
        let mut later = history.iter();
        for told in told.iter().filter(|told| told.workload == *name) {
            assert_ne!(fired, told.firing, "seed {seed}: {name} was told twice");
            assert!(
                later.any(|&(at, stuck)| stuck == told.firing && at <= told.at),
                "seed {seed}: {name} was told to be firing = {}, and was not since the message before",
                told.firing
            );
            fired = told.firing;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_the_api_server_does_the_receiver_learns_what_is_true() {
    let mut stories = JoinSet::new();
    for seed in 0..12 {
        stories.spawn(a_story_with_faults(seed));
    }
    while let Some(story) = stories.join_next().await {
        story.unwrap();
    }
}
