//! The controller: feeds what the watches see to the engine, and what the engine decides to the receivers. One task owns the engine; nothing in it
//! waits for a receiver.

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures::{Stream, StreamExt as _};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::{
    alert::{Engine, Notice},
    cluster::{Clock, Event, KindId, Object},
    http::{Health, Metrics},
    notify::Receivers,
    shard::Gate,
};

/// How many events are taken over before time passes again, so that a large list does not hold up what comes due.
const BATCH: usize = 256;

/// How often the gauges are brought up to date, and the controller shows that it is alive.
const HOUSEKEEPING: Duration = Duration::from_secs(1);

/// How many malformed objects are remembered, so that each is reported once.
const MALFORMED_REMEMBERED: usize = 1000;

/// The controller.
pub struct Controller {
    engine: Engine,
    gate: Arc<dyn Gate>,
    clock: Clock,
    receivers: Receivers,
    metrics: Metrics,
    health: Health,
    /// The malformed objects that were reported, by UID.
    malformed: HashSet<Box<str>>,
}

impl Controller {
    /// A controller with an engine that has seen nothing yet.
    pub fn new(
        engine: Engine,
        gate: Arc<dyn Gate>,
        clock: Clock,
        receivers: Receivers,
        metrics: Metrics,
        health: Health,
    ) -> Self {
        Self { engine, gate, clock, receivers, metrics, health, malformed: HashSet::new() }
    }

    /// Runs until `stop`, or until there are no more events. What was decided by then is in the receivers' queues.
    pub async fn run(mut self, events: impl Stream<Item = (KindId, Event)>, stop: CancellationToken) {
        let mut events = std::pin::pin!(events.ready_chunks(BATCH));
        let mut housekeeping = Instant::now();
        loop {
            let deadline = self.engine.next_deadline().map(|time| self.clock.instant(time));
            let wake = deadline.map_or(housekeeping, |deadline| deadline.min(housekeeping));
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                batch = events.next() => match batch {
                    Some(batch) => {
                        for (kind, event) in batch {
                            self.take(kind, event);
                        }
                    }
                    None => break,
                },
                () = sleep_until(wake) => {}
            }
            self.engine.advance(self.clock.now());
            for notice in self.engine.take_notices() {
                self.emit(&Arc::new(notice));
            }
            if Instant::now() >= housekeeping {
                self.keep_house();
                housekeeping = Instant::now() + HOUSEKEEPING;
            }
        }
    }
}
