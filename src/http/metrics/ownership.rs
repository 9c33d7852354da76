//! Who serves what, as gauges: every replica sees all of it.

use std::time::Duration;

use prometheus::{Gauge, GaugeVec, IntCounterVec};

use super::define::Define;
use crate::{
    coordinator::{Outcomes, Traffic},
    shard::ownership::Shard,
};

/// How a request went: well; the object was of another version; it had no effect; or nobody knows.
const OUTCOMES: [&str; 4] = ["ok", "conflict", "refused", "unknown"];

/// Who serves what, and what is remembered of it.
#[derive(Debug, Default)]
pub struct Ownership {
    /// The shards that this replica serves.
    pub serving: Vec<Shard>,
    /// Shards of the active generation that their own replicas hold, ...
    pub own: usize,
    /// ... that heirs hold, ...
    pub heir: usize,
    /// ... and that nobody holds.
    pub missing: usize,
    /// The record's epoch; 0 if there is no record.
    pub epoch: u64,
    /// The total of the active generation; 0 if there is no record.
    pub active: u32,
    /// The total of the previous one while it is handed over, else 0.
    pub previous: u32,
    /// How long that has lasted.
    pub hand_over: Duration,
    /// Leases that are held of generations that are neither.
    pub foreign_leases: usize,
    /// How long ago the oldest good renewal was, of the Leases that are held.
    pub renewal_age: Duration,
    /// Since when there is a change that is not written.
    pub unsaved: Duration,
    /// The subjects of which something is remembered.
    pub remembered: usize,
    /// Pages that left before what they promise was written, so far.
    pub pages_unsaved: u64,
    /// Whether the `StatefulSet` wants another number of replicas than the total.
    pub replicas_differ: bool,
    /// Whether another replica holds the own shard.
    pub standing_by: bool,
    /// What was asked of the API server so far.
    pub traffic: Traffic,
}

/// The gauges, and counters that are kept elsewhere.
pub(super) struct OwnershipGauges {
    serving: GaugeVec,
    shards: GaugeVec,
    epoch: Gauge,
    active: Gauge,
    previous: Gauge,
    hand_over: Gauge,
    foreign_leases: Gauge,
    renewal_age: Gauge,
    unsaved: Gauge,
    remembered: Gauge,
    pages_unsaved: IntCounterVec,
    replicas_differ: Gauge,
    standing_by: Gauge,
    lease_requests: IntCounterVec,
    state_writes: IntCounterVec,
    state_bytes: IntCounterVec,
}

impl OwnershipGauges {
    pub fn new(define: &Define) -> Result<Self, prometheus::Error> {
        let gauge = |name, help| define.gauge(name, help, &[]);
        Ok(Self {
            serving: define.gauges(
                "shard_serving",
                "The shards that this replica serves (1).",
                &[("shard_index", &[]), ("shard_total", &[])],
            )?,
            shards: define.gauges(
                "generation_shards",
                "Shards of the active generation as this replica sees them: held by their own replica, by an heir, or by nobody (missing).",
                &[("state", &["own", "heir", "missing"])],
            )?,
            epoch: gauge(
                "generation_epoch",
                "The epoch of the generation record; 0 without one.",
            )?,
            active: gauge(
                "generation_active_shards",
                "The number of shards of the active generation; 0 without a record.",
            )?,
            previous: gauge(
                "generation_previous_shards",
                "The number of shards of the generation that is being handed over; 0 if none is.",
            )?,
            hand_over: gauge(
                "generation_hand_over_seconds",
                "How long the hand-over has lasted as this replica has seen it; 0 if there is none.",
            )?,
            foreign_leases: gauge(
                "generation_foreign_leases",
                "Leases that are held of shards of generations that are neither active nor handed over: a rollout is under way.",
            )?,
            renewal_age: gauge(
                "lease_renewal_age_seconds",
                "Time since the last good renewal, of the Lease whose renewal is oldest; 0 if none is held.",
            )?,
            unsaved: gauge(
                "state_unsaved_seconds",
                "Age of the oldest change of a state that is not written; 0 if there is none.",
            )?,
            remembered: gauge(
                "state_alerts",
                "Subjects of which something is remembered in the states of the shards that this replica serves.",
            )?,
            pages_unsaved: define.counters(
                "pages_unsaved_total",
                "Messages that left before what they promise was written, because the API server refused to take it for too long.",
                &[],
            )?,
            replicas_differ: gauge(
                "statefulset_replicas_differ",
                "Whether the StatefulSet wants another number of replicas than ALERTKUBE_SHARD_TOTAL (1).",
            )?,
            standing_by: gauge(
                "standing_by",
                "Whether another replica holds this one's shard (1).",
            )?,
            lease_requests: define.counters(
                "lease_requests_total",
                "Reads and writes of Leases, by how they went.",
                &[("outcome", &OUTCOMES)],
            )?,
            state_writes: define.counters(
                "state_writes_total",
                "Writes of states, by how they went.",
                &[("outcome", &OUTCOMES)],
            )?,
            state_bytes: define.counters(
                "state_written_bytes_total",
                "What was sent to write states.",
                &[],
            )?,
        })
    }

    pub fn show(&self, shown: &Ownership) {
        self.serving.reset();
        for shard in &shown.serving {
            self.serving
                .with_label_values(&[&shard.index.to_string(), &shard.total.to_string()])
                .set(1.0);
        }
        for (state, count) in [
            ("own", shown.own),
            ("heir", shown.heir),
            ("missing", shown.missing),
        ] {
            self.shards.with_label_values(&[state]).set(count as f64);
        }
        self.epoch.set(shown.epoch as f64);
        self.active.set(shown.active.into());
        self.previous.set(shown.previous.into());
        self.hand_over.set(shown.hand_over.as_secs_f64());
        self.foreign_leases.set(shown.foreign_leases as f64);
        self.renewal_age.set(shown.renewal_age.as_secs_f64());
        self.unsaved.set(shown.unsaved.as_secs_f64());
        self.remembered.set(shown.remembered as f64);
        raise(&self.pages_unsaved, &[], shown.pages_unsaved);
        raise(&self.state_bytes, &[], shown.traffic.state_bytes);
        for (counter, outcomes) in [
            (&self.lease_requests, shown.traffic.leases),
            (&self.state_writes, shown.traffic.state_writes),
        ] {
            let Outcomes {
                ok,
                conflict,
                refused,
                unknown,
            } = outcomes;
            for (outcome, count) in OUTCOMES.iter().zip([ok, conflict, refused, unknown]) {
                raise(counter, &[outcome], count);
            }
        }
        self.replicas_differ
            .set(u8::from(shown.replicas_differ).into());
        self.standing_by.set(u8::from(shown.standing_by).into());
    }
}

/// Raises a counter to what was counted elsewhere.
fn raise(counter: &IntCounterVec, labels: &[&str], count: u64) {
    let counter = counter.with_label_values(labels);
    counter.inc_by(count.saturating_sub(counter.get()));
}
