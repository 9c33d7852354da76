//! Several replicas in one process, with a cluster in memory, in real time: Leases, states and watches go over HTTP, and everything fails now and then. The Leases are
//! short, so that a story takes seconds.
//!
//! More stories: `REPLICAS_SEEDS=0..50 cargo test --test replicas -- --nocapture`, which prints the figures of each, too; a range of one seed replays it, as far
//! as real time allows.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod network;
mod oracle;
mod receiver;
mod world;

use std::{io::Write as _, ops::Range};

use tokio::task::JoinSet;

/// What is tried when nothing else is asked for.
const SEEDS: Range<u64> = 0..3;

/// So many stories run side by side.
const AT_ONCE: usize = 3;

fn seeds() -> Range<u64> {
    let Some(range) = std::env::var_os("REPLICAS_SEEDS") else {
        return SEEDS;
    };
    let range = range.to_str().unwrap();
    let (first, end) = range.split_once("..").unwrap();
    first.parse().unwrap()..end.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_fails_every_condition_is_told_and_ends() {
    alertkube::cluster::install_crypto_provider();
    let mut stories = JoinSet::new();
    let mut failed = Vec::new();
    let mut seeds = seeds();
    loop {
        while stories.len() < AT_ONCE
            && let Some(seed) = seeds.next()
        {
            stories.spawn(async move { (seed, world::story(seed).await) });
        }
        let Some(story) = stories.join_next().await else {
            break;
        };
        let (seed, report) = story.unwrap();
        let _ = writeln!(std::io::stderr(), "seed {seed}: {}", report.figures);
        if !report.wrong.is_empty() {
            failed.push(format!("seed {seed}:\n{}", report.wrong.join("\n")));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
