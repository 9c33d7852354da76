//! What is known as a state rather than as events: asked for whenever the metrics are read.

use std::{collections::BTreeMap, fmt, time::Duration};

use jiff::SignedDuration;
use prometheus::{Gauge, GaugeVec};

use super::{
    define::Define,
    ownership::{Ownership, OwnershipGauges},
};
use crate::{
    alert::{Severity, State},
    cluster::KindId,
    rules::Rule,
};

/// The gauges that are set when the metrics are read.
pub struct Gauges {
    watch_lag: GaugeVec,
    watch_synced: GaugeVec,
    watch_degraded: GaugeVec,
    findings: GaugeVec,
    alerts: GaugeVec,
    subjects: GaugeVec,
    queue: GaugeVec,
    queue_age: GaugeVec,
    clock_offset: Gauge,
    ownership: OwnershipGauges,
}

impl fmt::Debug for Gauges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gauges").finish_non_exhaustive()
    }
}

/// The states in which there are alerts. One that has resolved is forgotten.
const STATES: [State; 3] = [State::Pending, State::Firing, State::Inhibited];

impl Gauges {
    /// Every gauge at zero.
    pub(super) fn new(
        define: &Define,
        kinds: &[&str],
        rules: &[&str],
        receivers: &[&str],
    ) -> Result<Self, prometheus::Error> {
        let severities = Severity::ALL.map(Severity::as_str);
        Ok(Self {
            watch_lag: define.gauges(
                "watch_lag_seconds",
                "Time since the API server was last heard on the watch of a kind, or since the start.",
                &[("kind", kinds)],
            )?,
            watch_synced: define.gauges(
                "watch_synced",
                "Whether the first list of a kind is complete (1) or not (0).",
                &[("kind", kinds)],
            )?,
            watch_degraded: define.gauges(
                "watch_degraded",
                "Whether a kind cannot be watched (1): nobody is paged for what happens to it now.",
                &[("kind", kinds)],
            )?,
            findings: define.gauges(
                "findings",
                "Objects that show the condition of a rule now, in the whole cluster.",
                &[("alertname", rules)],
            )?,
            alerts: define.gauges(
                "alerts",
                "Alerts by state and severity, in the whole cluster.",
                &[
                    ("state", &STATES.map(State::as_str)),
                    ("severity", &severities),
                ],
            )?,
            subjects: define.gauges(
                "subjects",
                "Subjects with an alert, by whether this replica pages for them (owned) or another one does (foreign).",
                &[("owner", &["owned", "foreign"])],
            )?,
            queue: define.gauges(
                "notification_queue_length",
                "Alerts of which a receiver is owed something.",
                &[("receiver", receivers)],
            )?,
            queue_age: define.gauges(
                "notification_queue_age_seconds",
                "Age of the oldest thing that a receiver is owed; 0 if nothing is.",
                &[("receiver", receivers)],
            )?,
            clock_offset: define.gauge(
                "clock_offset_seconds",
                "The API server's clock minus this machine's.",
                &[],
            )?,
            ownership: OwnershipGauges::new(define)?,
        })
    }

    /// The time since the API server was last heard on the watch of a kind.
    pub fn watch_lag(&self, kind: KindId, lag: Duration) {
        self.watch_lag
            .with_label_values(&[kind.as_str()])
            .set(lag.as_secs_f64());
    }

    /// Whether the first list of a kind is complete, and whether it cannot be watched now.
    pub fn watch(&self, kind: KindId, synced: bool, degraded: bool) {
        let kind = [kind.as_str()];
        self.watch_synced
            .with_label_values(&kind)
            .set(f64::from(u8::from(synced)));
        self.watch_degraded
            .with_label_values(&kind)
            .set(f64::from(u8::from(degraded)));
    }

    /// The number of objects that show the condition of a rule.
    pub fn findings(&self, rule: &Rule, objects: usize) {
        self.findings
            .with_label_values(&[rule.name])
            .set(objects as f64);
    }

    /// The number of alerts by state and severity; what is not named has none.
    pub fn alerts(&self, alerts: &BTreeMap<(State, Severity), usize>) {
        for state in STATES {
            for severity in Severity::ALL {
                let count = alerts.get(&(state, severity)).copied().unwrap_or_default();
                self.alerts
                    .with_label_values(&[state.as_str(), severity.as_str()])
                    .set(count as f64);
            }
        }
    }

    /// The number of subjects with an alert: of this replica, and of others.
    pub fn subjects(&self, owned: usize, foreign: usize) {
        self.subjects
            .with_label_values(&["owned"])
            .set(owned as f64);
        self.subjects
            .with_label_values(&["foreign"])
            .set(foreign as f64);
    }

    /// The length of a receiver's queue, and the age of the oldest thing in it.
    pub fn queue(&self, receiver: &str, length: usize, age: Duration) {
        self.queue.with_label_values(&[receiver]).set(length as f64);
        self.queue_age
            .with_label_values(&[receiver])
            .set(age.as_secs_f64());
    }

    /// Who serves what, and what is remembered.
    pub fn ownership(&self, ownership: &Ownership) {
        self.ownership.show(ownership);
    }

    /// The API server's clock minus this machine's.
    pub fn clock_offset(&self, offset: SignedDuration) {
        self.clock_offset.set(offset.as_secs_f64());
    }
}
