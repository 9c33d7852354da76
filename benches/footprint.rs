//! What `alertkube run` costs: memory, processor time, and how long a page takes to leave. Prints one table.
//!
//! `cargo bench` measures the real program, as a process of its own, against a cluster in memory: healthy pods of the size and shape of real
//! ones. Linux only, because the figures come from `/proc`. Numbers after `--` are cluster sizes: `cargo bench -- 1000`.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::disallowed_macros,
    reason = "a benchmark prints, and may fail"
)]

mod support;

use std::time::Duration;

use alertkube::{
    cluster::Clock,
    sim::{Options, PODS, Server, pods::mk_pod},
};
use tokio::{sync::mpsc, time::sleep};

use support::{POD, Program, break_one, head, next_about, receive, row, run, sizes};

/// The sizes of clusters, in pods.
const SIZES: [usize; 2] = [10_000, 100_000];

/// Pages whose way from the status write to the receiver is timed.
const PAGES: usize = 300;

fn main() {
    head();
    run(async {
        for pods in sizes(&SIZES) {
            measure(pods).await;
        }
    });
}

async fn measure(pods: usize) {
    let clock = Clock::system();
    let server = Server::start(Options::new(clock.clone())).await.unwrap();
    let store = server.store();
    let template = mk_pod("load", POD).build();
    let size = template.to_string().len();
    store.create_copies(&PODS, template, pods).unwrap();

    let (sender, mut arrivals) = mpsc::unbounded_channel();
    let webhook = receive(sender).await;
    let program = Program::start(&server.url(), &webhook, &[]);
    program.ready().await;
    let cpu = program.cpu_seconds();
    // What the list needed for a moment is given back, or not, within this.
    sleep(Duration::from_secs(2)).await;

    let bounds = match pods {
        10_000 => (Some(25.0), Some(0.5)),
        100_000 => (Some(60.0), None),
        _ => (None, None),
    };
    let what = format!("{pods} healthy pods of {:.1} KB", size as f64 / 1000.0);
    row(
        &format!("{what}: resident memory, MiB"),
        program.memory_mib("VmRSS"),
        bounds.0,
    );
    row(
        &format!("{what}: its peak, MiB"),
        program.memory_mib("VmHWM"),
        None,
    );
    row(
        &format!("{what}: CPU to list, decode and evaluate, s"),
        cpu,
        bounds.1,
    );

    let mut waits = Vec::new();
    for index in 0..PAGES.min(pods) {
        let written = break_one(store, &clock, index);
        let arrived = next_about(&mut arrivals, &format!("web-{index:05}")).await;
        waits.push(arrived.duration_since(written).as_secs_f64() * 1000.0);
    }
    waits.sort_by(f64::total_cmp);
    let percentile = |part: usize| waits[(waits.len() * part / 100).min(waits.len() - 1)];
    row(
        &format!("{pods} pods: status write to request, p50, ms"),
        percentile(50),
        Some(10.0),
    );
    row(
        &format!("{pods} pods: status write to request, p99, ms"),
        percentile(99),
        Some(50.0),
    );
    drop(program);
    server.stop().await;
}
