//! How long nobody serves a shard: the time to restart with many alerts in the state, and from the end of a replica, by a clean stop and by a kill, to
//! the first page of its heir. Prints one table.
//!
//! `cargo bench --bench handover` runs real processes against a cluster in memory, which shares the processor with them. Numbers after `--` are
//! numbers of alerts: `cargo bench --bench handover -- 1000`. Linux only, as `footprint`.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::disallowed_macros,
    reason = "a benchmark prints, and may fail"
)]

mod support;

use std::time::Duration;

use alertkube::{
    cluster::{Clock, Subject},
    shard::{ShardKey, Sharder},
    sim::{Options, PODS, Server, pods::mk_pod},
};
use tokio::{
    sync::mpsc::{self, UnboundedReceiver},
    time::{Instant, sleep, timeout},
};

use support::{
    Arrival, PATIENCE, POD, Program, break_one, head, next_about, receive, row, run, sizes,
};

/// Alerts in the state of a replica that restarts.
const SIZES: [usize; 3] = [1_000, 10_000, 50_000];

/// How often each way to end a replica is tried.
const ROUNDS: usize = 5;

/// Replicas, of which one ends.
const REPLICAS: [&str; 2] = ["0", "1"];

fn main() {
    head();
    run(async {
        for alerts in sizes(&SIZES) {
            restart(alerts).await;
        }
        take_over().await;
    });
}

/// A replica with so many alerts stops and starts again.
async fn restart(alerts: usize) {
    let clock = Clock::system();
    let server = Server::start(Options::new(clock.clone())).await.unwrap();
    let broken = mk_pod("load", POD).oom_killed(clock.now(), 1);
    server
        .store()
        .create_copies(&PODS, broken.build(), alerts)
        .unwrap();
    let (sender, mut arrivals) = mpsc::unbounded_channel();
    let webhook = receive(sender).await;

    let started = Instant::now();
    let program = Program::start(&server.url(), &webhook, &[]);
    for _ in 0..alerts {
        timeout(PATIENCE, arrivals.recv()).await.unwrap().unwrap();
    }
    row(
        &format!("{alerts} alerts: from start to the last page, s"),
        seconds(started),
        None,
    );
    row(
        &format!("{alerts} alerts: resident memory, MiB"),
        program.memory_mib("VmRSS"),
        None,
    );
    let stopping = Instant::now();
    program.terminate();
    row(
        &format!("{alerts} alerts: to stop, with its last write, s"),
        seconds(stopping),
        None,
    );

    let started = Instant::now();
    let program = Program::start(&server.url(), &webhook, &[]);
    program.ready().await;
    row(
        &format!("{alerts} alerts: from start to ready, s"),
        seconds(started),
        None,
    );
    // Whatever it would tell again comes at once.
    sleep(Duration::from_secs(3)).await;
    row(
        &format!("{alerts} alerts: resident memory after a restart, MiB"),
        program.memory_mib("VmRSS"),
        None,
    );
    row(
        &format!("{alerts} alerts: told again"),
        count(&mut arrivals),
        Some(0.0),
    );
    drop(program);
    server.stop().await;
}

/// One of two replicas ends, and just then something breaks that was its own.
async fn take_over() {
    let clock = Clock::system();
    let server = Server::start(Options::new(clock.clone())).await.unwrap();
    let healthy = mk_pod("load", POD).build();
    server.store().create_copies(&PODS, healthy, 400).unwrap();
    let (sender, mut arrivals) = mpsc::unbounded_channel();
    let webhook = receive(sender).await;
    let start = |index: &str| {
        let variables = [
            ("ALERTKUBE_SHARD_TOTAL", "2"),
            ("ALERTKUBE_SHARD_INDEX", index),
        ];
        Program::start(&server.url(), &webhook, &variables)
    };
    let mut replicas = REPLICAS.map(start).map(Some);
    let mut unused = 0..400;
    for (how, end) in [
        ("clean stop", Program::terminate as fn(Program)),
        ("kill", drop::<Program>),
    ] {
        let mut waits = Vec::new();
        for round in 0..ROUNDS {
            let victim = round % REPLICAS.len();
            for replica in replicas.iter().flatten() {
                replica.ready().await;
            }
            let workload = unused.find(|index| owner(*index) == victim).unwrap();
            let ending = Instant::now();
            end(replicas[victim].take().unwrap());
            break_one(server.store(), &clock, workload);
            let page = next_about(&mut arrivals, &format!("web-{workload:05}")).await;
            waits.push(page.duration_since(ending).as_secs_f64());
            replicas[victim] = Some(start(REPLICAS[victim]));
        }
        waits.sort_by(f64::total_cmp);
        row(
            &format!("from a {how} to the first page of the heir, p50, s"),
            waits[ROUNDS / 2],
            None,
        );
        row(
            &format!("from a {how} to the first page of the heir, most, s"),
            waits[ROUNDS - 1],
            None,
        );
    }
    drop(replicas);
    server.stop().await;
}

/// The index of the shard that owns a Deployment.
fn owner(workload: usize) -> usize {
    let subject = Subject {
        kind: "Deployment".into(),
        namespace: "load".into(),
        name: format!("web-{workload:05}").into(),
    };
    Sharder::owner_of(ShardKey::of(&subject).as_str(), 2) as usize
}

fn seconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64()
}

fn count(arrivals: &mut UnboundedReceiver<Arrival>) -> f64 {
    let mut messages = 0.0;
    while arrivals.try_recv().is_ok() {
        messages += 1.0;
    }
    messages
}
