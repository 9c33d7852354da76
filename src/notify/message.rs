//! What a receiver is told about one alert.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::alert::{Alert, Labels, Notice, Resolution, State, Transition};

/// What a receiver is owed about one alert: its newest state, against what the receiver was told last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// What has happened since the receiver was told last.
    pub event: Event,
    /// The alert: as it is now, or as it was at its end.
    pub alert: Alert,
    /// When the event happened (the newest, if there were several), by the API server's clock.
    pub at: Timestamp,
    /// Other label sets under which the receiver may hold this very alert as firing, because its severity or its reason was another one. Where the
    /// label set is the identity, they end with this message.
    pub stale: Vec<Standing>,
    /// How the receiver knows this alert, as it said when it took the message before.
    pub reference: Option<Reference>,
    /// How many transitions this message stands for: 1, or more if some came while the receiver could not be reached.
    pub transitions: u32,
    /// Send as little as possible: the full message was refused, and its content may be why.
    pub minimal: bool,
}

/// What has happened to an alert since the receiver was told last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// It fires.
    Fired,
    /// It still fires, with another severity or reason.
    Changed,
    /// It is over.
    Resolved(Resolution),
    /// It fired and is over, and the receiver was told of neither.
    FiredAndResolved(Resolution),
}

impl Event {
    /// Whether the alert fires after it.
    pub const fn is_firing(self) -> bool {
        matches!(self, Self::Fired | Self::Changed)
    }
}

/// How a receiver is told of an alert that was over before it could be told that it fired. It always is told: somebody must learn of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Late {
    /// In one message, [`Event::FiredAndResolved`]. For people: a backlog is read faster.
    OneMessage,
    /// As if nothing had happened: that it fired, then that it is over. For programs: many ignore the end of what they never saw begin.
    FireThenResolve,
}

/// An alert as a receiver holds it: firing, under these labels. Small, so that it can be persisted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Standing {
    /// The labels that were delivered.
    pub labels: Labels,
    /// The annotations that were delivered.
    pub annotations: Labels,
    /// Since when its condition stood.
    pub starts_at: Timestamp,
    /// How the receiver knows it, if it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Reference>,
}

/// How a receiver knows an alert that it was told of: the id of a message that it can change later, for example. It means nothing to anybody else. No secret: it is
/// written down, and may be logged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Reference(Box<str>);

impl Reference {
    /// The longest one, in bytes: there is one for each alert in the state.
    pub const MAX_BYTES: usize = 256;

    /// A reference; nothing, if the text is empty or too long to be one.
    pub fn new(text: &str) -> Option<Self> {
        (1..=Self::MAX_BYTES)
            .contains(&text.len())
            .then(|| Self(text.into()))
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&Alert> for Standing {
    fn from(alert: &Alert) -> Self {
        Self {
            labels: alert.labels.clone(),
            annotations: alert.annotations.clone(),
            starts_at: alert.starts_at,
            reference: None,
        }
    }
}

impl Message {
    /// The message that says what a notice says, for an alert of which the receiver knows all that came before.
    pub fn of(notice: &Notice) -> Self {
        let event = match notice.transition {
            Transition::Fired => Event::Fired,
            Transition::Changed => Event::Changed,
            Transition::Resolved(why) => Event::Resolved(why),
        };
        Self::new(event, notice)
    }

    /// A message about the newest notice.
    pub(super) fn new(event: Event, notice: &Notice) -> Self {
        let mut alert = notice.alert.clone();
        let mut at = notice.at;
        if event.is_firing() && matches!(notice.transition, Transition::Resolved(_)) {
            // What was over before it could be told is told in two steps, and this is the first.
            alert.state = State::Firing;
            alert.ends_at = None;
            at = alert.fires_at;
        }
        Self {
            event,
            alert,
            at,
            stale: Vec::new(),
            reference: None,
            transitions: 1,
            minimal: false,
        }
    }

    /// How long the condition has stood, or stood.
    pub fn duration(&self) -> Duration {
        self.alert.duration(self.at)
    }

    /// When the condition was over: for a resolved alert, always a time.
    pub fn ends_at(&self) -> Timestamp {
        self.alert.ends_at.unwrap_or(self.at)
    }
}

/// A transition of an alert that a receiver has yet to be told of, with the ones before it that it replaces.
#[derive(Debug, Clone)]
pub struct Owed {
    /// The newest one.
    pub notice: Arc<Notice>,
    /// How many there are.
    pub transitions: u32,
    /// Whether one of them began the alert.
    pub fired: bool,
    /// Whether one of them ended it.
    pub ended: bool,
    /// When the first of them came.
    pub since: Instant,
}

impl Owed {
    /// The debt of one notice.
    pub fn new(notice: Arc<Notice>, now: Instant) -> Self {
        Self {
            transitions: 1,
            fired: notice.transition == Transition::Fired,
            ended: matches!(notice.transition, Transition::Resolved(_)),
            notice,
            since: now,
        }
    }

    /// Whether the newest one ended the alert.
    pub fn is_over(&self) -> bool {
        matches!(self.notice.transition, Transition::Resolved(_))
    }

    /// Adds what came later.
    #[must_use]
    pub fn and_then(self, newer: Option<Self>) -> Self {
        let Some(newer) = newer else { return self };
        Self {
            notice: newer.notice,
            transitions: self.transitions.saturating_add(newer.transitions),
            fired: self.fired || newer.fired,
            ended: self.ended || newer.ended,
            since: self.since,
        }
    }
}
