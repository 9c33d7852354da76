//! The program's metrics. The only module that knows the crate `prometheus`.
//!
//! Every series exists from the start: label values are closed sets, so that a rate over a counter sees its first increment, and an alerting rule never waits for
//! a series to appear. What is known as a state rather than as events is asked for at each scrape ([`Metrics::at_scrape`]).

mod define;
mod gauges;
mod ownership;
mod watch;

use std::{
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use define::Define;
pub use gauges::Gauges;
pub use ownership::Ownership;
use prometheus::{HistogramVec, IntCounterVec, Registry, TextEncoder};
pub use watch::WatchEvent;

use crate::{
    alert::{Severity, Transition},
    cluster::{FailureReason, KindId},
    notify::Reason,
    rules::Rule,
};

/// Buckets for one exchange with a receiver: from a write to a pipe to the time-out of 10 s.
const SEND_BUCKETS: [f64; 11] = [
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0,
];

/// Buckets from a decision to its delivery: 1 ms is an idle program and a near receiver; 10 and 50 ms are its goals for p50 and p99; seconds are retries; 300 s is the
/// longest wait between two attempts, so what is above it has failed at least twice in a row.
const DELIVERY_BUCKETS: [f64; 14] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0,
];

/// The metrics of the program.
pub struct Metrics {
    registry: Registry,
    watch_events: IntCounterVec,
    watch_restarts: IntCounterVec,
    watch_failures: IntCounterVec,
    malformed: IntCounterVec,
    transitions: IntCounterVec,
    delivered: IntCounterVec,
    failed: IntCounterVec,
    dropped: IntCounterVec,
    refused: IntCounterVec,
    coalesced: IntCounterVec,
    send_seconds: HistogramVec,
    delivery_seconds: HistogramVec,
    gauges: Gauges,
    scrape: Mutex<Vec<AtScrape>>,
}

/// Sets gauges when the metrics are read.
type AtScrape = Box<dyn Fn(&Gauges) + Send>;

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// Every metric at zero, with a series for each rule and receiver named here. The index and the total of the shard are only shown.
    ///
    /// # Errors
    ///
    /// Never in practice: a name is malformed or used twice, which a test rules out.
    pub fn new(
        shard_index: u32,
        shard_total: u32,
        rules: &[&'static Rule],
        receivers: &[&str],
    ) -> Result<Self, prometheus::Error> {
        let define = Define(Registry::new());
        let kinds: Vec<_> = KindId::ALL.iter().map(|kind| kind.as_str()).collect();
        let rules: Vec<_> = rules.iter().map(|rule| rule.name).collect();
        let events = WatchEvent::ALL.map(WatchEvent::as_str);
        let failures: Vec<_> = FailureReason::ALL
            .iter()
            .map(|reason| reason.as_str())
            .collect();
        let reasons = Reason::ALL.map(Reason::as_str);
        let severities = Severity::ALL.map(Severity::as_str);

        constants(&define, shard_index, shard_total)?;
        Ok(Self {
            watch_events: define.counters(
                "watch_events_total",
                "Objects that lists and watches have told of.",
                &[("kind", &kinds), ("type", &events)],
            )?,
            watch_restarts: define.counters(
                "watch_restarts_total",
                "New lists of a kind after its first one.",
                &[("kind", &kinds)],
            )?,
            watch_failures: define.counters(
                "watch_failures_total",
                "Failures of lists and watches.",
                &[("kind", &kinds), ("reason", &failures)],
            )?,
            malformed: define.counters(
                "malformed_fields_total",
                "Fields that rules read but that were malformed, and so counted as absent.",
                &[("kind", &kinds)],
            )?,
            transitions: define.counters(
                "alert_transitions_total",
                "Transitions of alerts that this replica pages for.",
                &[
                    ("transition", &["fired", "changed", "resolved"]),
                    ("severity", &severities),
                ],
            )?,
            delivered: define.counters(
                "notifications_total",
                "Messages that were delivered.",
                &[("receiver", receivers)],
            )?,
            failed: define.counters(
                "notifications_failed_total",
                "Attempts to deliver that failed.",
                &[("receiver", receivers), ("reason", &reasons)],
            )?,
            dropped: define.counters(
                "notifications_dropped_total",
                "Messages that were given up: refused for good, and their alert is over.",
                &[("receiver", receivers)],
            )?,
            refused: define.counters(
                "notifications_refused_total",
                "Attempts that the emit gate refused, because this replica did not own the subject for long enough.",
                &[("receiver", receivers)],
            )?,
            coalesced: define.counters(
                "notifications_coalesced_total",
                "Transitions that were folded into a later message about the same alert.",
                &[("receiver", receivers)],
            )?,
            send_seconds: define.histograms(
                "notification_duration_seconds",
                "Time of one attempt to deliver.",
                &[("receiver", receivers)],
                &SEND_BUCKETS,
            )?,
            delivery_seconds: define.histograms(
                "detection_to_send_seconds",
                "Time from the transition of an alert to its delivery.",
                &[("receiver", receivers)],
                &DELIVERY_BUCKETS,
            )?,
            gauges: Gauges::new(&define, &kinds, &rules, receivers)?,
            scrape: Mutex::new(Vec::new()),
            registry: define.0,
        })
    }

    /// Counts an object that a list or a watch told of.
    pub fn watch_event(&self, kind: KindId, event: WatchEvent) {
        self.watch_events
            .with_label_values(&[kind.as_str(), event.as_str()])
            .inc();
    }

    /// Counts a new list of a kind after its first.
    pub fn watch_restarted(&self, kind: KindId) {
        self.watch_restarts
            .with_label_values(&[kind.as_str()])
            .inc();
    }

    /// Counts a failure of a list or a watch.
    pub fn watch_failed(&self, kind: KindId, reason: FailureReason) {
        self.watch_failures
            .with_label_values(&[kind.as_str(), reason.as_str()])
            .inc();
    }

    /// Counts malformed fields.
    pub fn malformed(&self, kind: KindId, fields: u32) {
        self.malformed
            .with_label_values(&[kind.as_str()])
            .inc_by(fields.into());
    }

    /// Counts a transition of an alert.
    pub fn transition(&self, transition: Transition, severity: Severity) {
        let transition = match transition {
            Transition::Fired => "fired",
            Transition::Changed => "changed",
            Transition::Resolved(_) => "resolved",
        };
        self.transitions
            .with_label_values(&[transition, severity.as_str()])
            .inc();
    }

    /// Notes an attempt to deliver: it failed for a reason, or arrived.
    pub fn send_finished(&self, receiver: &str, failed: Option<Reason>, took: Duration) {
        match failed {
            None => self.delivered.with_label_values(&[receiver]).inc(),
            Some(reason) => self
                .failed
                .with_label_values(&[receiver, reason.as_str()])
                .inc(),
        }
        self.send_seconds
            .with_label_values(&[receiver])
            .observe(took.as_secs_f64());
    }

    /// Notes how long it took from a transition to its delivery.
    pub fn delivered_after(&self, receiver: &str, waited: Duration) {
        self.delivery_seconds
            .with_label_values(&[receiver])
            .observe(waited.as_secs_f64());
    }

    /// Counts a message that was given up.
    pub fn dropped(&self, receiver: &str) {
        self.dropped.with_label_values(&[receiver]).inc();
    }

    /// Counts attempts that the emit gate refused.
    pub fn refused(&self, receiver: &str, attempts: u64) {
        self.refused.with_label_values(&[receiver]).inc_by(attempts);
    }

    /// Counts transitions that were folded into a later message.
    pub fn coalesced(&self, receiver: &str, transitions: u64) {
        self.coalesced
            .with_label_values(&[receiver])
            .inc_by(transitions);
    }

    /// Sets gauges whenever the metrics are read. What is called must be quick, and must not read the metrics itself.
    pub fn at_scrape(&self, set: impl Fn(&Gauges) + Send + 'static) {
        let mut scrape = self.scrape.lock().unwrap_or_else(PoisonError::into_inner);
        scrape.push(Box::new(set));
    }

    /// All metrics in Prometheus' text format, version 0.0.4.
    ///
    /// # Errors
    ///
    /// A metric cannot be encoded, which a test rules out.
    pub fn render(&self) -> Result<String, prometheus::Error> {
        for set in &*self.scrape.lock().unwrap_or_else(PoisonError::into_inner) {
            set(&self.gauges);
        }
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}

/// What never changes while the program runs.
fn constants(define: &Define, shard_index: u32, shard_total: u32) -> Result<(), prometheus::Error> {
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    define
        .gauge(
            "build_info",
            "Always 1; the version is in the label.",
            &version,
        )?
        .set(1.0);
    define
        .gauge(
            "shard_index",
            "The index of this replica's shard; 0 if unsharded.",
            &[],
        )?
        .set(shard_index.into());
    define
        .gauge("shards", "The number of shards; 1 if unsharded.", &[])?
        .set(shard_total.max(1).into());
    Ok(())
}

#[cfg(test)]
mod tests;
