//! What happens to replicas in a cluster, under a steady flow of failures and recoveries that the oracle judges.

mod faults;
mod rescale;

use std::{sync::Arc, time::Duration};

use fastrand::Rng;

use crate::{
    bed::{Bed, name},
    oracle::{Bounds, Flow},
    support::{PATIENCE, Pod, eventually, say},
};

/// How long a Lease lasts that nobody renews, by default.
const LEASE: Duration = Duration::from_secs(15);

/// With nothing going wrong: an update, a write of the state, a message; on a machine that is busy with other tests.
const CALM: Duration = Duration::from_secs(8);

/// With this many overlapping faults: each may take the owner away once more, for its Lease, a look, and what a busy machine adds.
const fn bounds(overlapping: u32) -> Bounds {
    Bounds {
        calm: CALM,
        faulty: CALM.saturating_add(
            LEASE
                .saturating_add(Duration::from_secs(5))
                .saturating_mul(overlapping),
        ),
    }
}

/// What the choices of a scenario follow from. Another one is chosen by `SHARDED_SEED`; which it is stands before the figures.
fn seed() -> u64 {
    chosen("SHARDED_SEED").unwrap_or(1)
}

/// A number that whoever runs the tests has chosen.
fn chosen(variable: &str) -> Option<u64> {
    let text = std::env::var_os(variable)?;
    let number = text.to_str().and_then(|text| text.parse().ok());
    Some(number.unwrap_or_else(|| panic!("{variable} is not a number: {}", text.display())))
}

/// One of that many replicas, at random.
fn any(bed: &Bed, rng: &mut Rng, total: u32) -> Arc<Pod> {
    bed.kubelet.pod(&name(rng.u32(..total)))
}

/// A time that was chosen at random, while the flow goes on.
async fn pause(rng: &mut Rng, range: std::ops::Range<u64>) {
    tokio::time::sleep(Duration::from_millis(rng.u64(range))).await;
}

/// Waits until all of that many replicas are ready.
async fn wait_all_ready(bed: &Bed, total: u32) {
    let names = crate::bed::names(total);
    bed.kubelet.wait_ready(PATIENCE, &names).await;
}

/// Waits until the process of a pod was started again and is ready.
async fn wait_restarted(pod: &Pod, restarts: u32) {
    let what = format!("{} to be ready after {restarts} restarts", pod.name());
    eventually(what, PATIENCE, async || {
        (pod.restarts() >= restarts && pod.is_ready()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn with_no_fault_everything_is_told_once() {
    let bed = Bed::with_replicas(2).await;
    let flow = Flow::start(&bed, "no fault", seed()).await;
    flow.wait_for_more(100).await;
    flow.finish(bounds(0)).await;
}
