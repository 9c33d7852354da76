//! What one healthy object of each kind costs: time and allocations to decode it, and to judge it. Prints one table.
//!
//! `cargo bench --bench kinds`. The times include that every allocation is counted, a few nanoseconds each.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    reason = "a benchmark prints, reads the clock, and may fail"
)]

#[path = "../tests/healthy/mod.rs"]
mod healthy;

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use alertkube::{alert::Engine, cluster::KindId};
use healthy::{Healthy, NOW};

/// How often something is done before the clock is read again.
const BATCH: u32 = 100;

/// Batches. The fastest one counts: the others were disturbed.
const BATCHES: u32 = 100;

fn main() {
    println!(
        "{:<26} {:>8} {:>12} {:>12} {:>12} {:>12}",
        "healthy object", "bytes", "decode, ns", "allocations", "judge, ns", "allocations"
    );
    for &kind in KindId::ALL {
        let healthy = Healthy::of(kind);
        let mut engine = Engine::new("");
        engine.list_started(kind);
        let object = healthy.decode();
        engine.observe(&object, NOW);

        let decode = measure(|| drop(black_box(healthy.decode())));
        let judge = measure(|| engine.observe(black_box(&object), NOW));
        println!(
            "{:<26} {:>8} {:>12} {:>12} {:>12} {:>12}",
            kind.as_str(),
            healthy.json.len(),
            decode.nanoseconds,
            decode.allocations,
            judge.nanoseconds,
            judge.allocations
        );
    }
}

/// What it costs to do something once.
struct Cost {
    nanoseconds: u128,
    allocations: u64,
}

fn measure(mut once: impl FnMut()) -> Cost {
    let allocations = allocation_counter::measure(&mut once).count_total;
    let mut fastest = Duration::MAX;
    for _ in 0..BATCHES {
        let start = Instant::now();
        for _ in 0..BATCH {
            once();
        }
        fastest = fastest.min(start.elapsed());
    }
    Cost {
        nanoseconds: (fastest / BATCH).as_nanos(),
        allocations,
    }
}
