//! What is written down of a receiver's queue, so that it outlives the process.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Standing, message::Owed};
use crate::{
    alert::{Alert, Labels, Notice, Resolution, State, Transition},
    cluster::Subject,
    rules,
    shard::ShardKey,
};

/// How many members of an alert are written down with what is owed about it. The description names as many as anybody reads.
const MEMBERS: usize = 50;

/// What another version of the program has written besides, by its fields' names. It is not understood, and carried along, so that it is still there for
/// those who understand it.
pub type Besides = Map<String, Value>;

/// What one receiver holds and is owed about one alert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Debt {
    /// The alert's identity.
    pub identity: Labels,
    /// What it holds as firing, as far as it has confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<Standing>,
    /// What it may hold as firing besides, after attempts whose end is unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubtful: Vec<Standing>,
    /// What it has yet to be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owed: Option<OwedDebt>,
    /// What is not understood.
    #[serde(flatten)]
    pub besides: Besides,
}

/// What a receiver has yet to be told, as it is written down: `Owed` without the moment of this process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwedDebt {
    /// The newest transition.
    pub notice: Arc<Notice>,
    /// How many there are.
    pub transitions: u32,
    /// Whether one of them began the alert.
    pub fired: bool,
    /// Whether one of them ended it.
    pub ended: bool,
}

impl Debt {
    /// Since when the condition of the alert stands, or stood, of which it tells last.
    pub fn starts_at(&self) -> Option<Timestamp> {
        let held = self.doubtful.last().or(self.standing.as_ref());
        let owed = self.owed.as_ref();
        owed.map(|owed| owed.notice.alert.starts_at)
            .or_else(|| held.map(|held| held.starts_at))
    }

    /// Whether the receiver was told nothing since, and is owed nothing else: then `newer` tells more.
    pub fn has_had_nothing_since(&self, newer: &Self) -> bool {
        self.owed.is_none()
            && (&self.standing, &self.doubtful) == (&newer.standing, &newer.doubtful)
    }

    /// The receiver has to be told this, too.
    pub fn owe(&mut self, notice: &Notice) {
        let (transitions, fired, ended) = match &self.owed {
            Some(owed) => (owed.transitions, owed.fired, owed.ended),
            None => (0, false, false),
        };
        let transition = notice.transition;
        self.owed = Some(OwedDebt {
            notice: Arc::new(notice.clone()),
            transitions: transitions.saturating_add(1),
            fired: fired || transition == Transition::Fired,
            ended: ended || matches!(transition, Transition::Resolved(_)),
        });
    }

    /// What ends it, for an alert that there is no more, although nobody saw it end; nothing, if its end is owed already.
    pub fn end(&self, subject: &Subject, now: Timestamp) -> Option<Notice> {
        let alert = match (
            &self.owed,
            self.standing.as_ref().or_else(|| self.doubtful.first()),
        ) {
            (Some(owed), _) if owed.is_over() => return None,
            (Some(owed), _) => owed.notice.alert.clone(),
            (None, Some(held)) => held.alert(subject),
            (None, None) => return None,
        };
        Some(Notice {
            transition: Transition::Resolved(Resolution::Recovered),
            alert: Alert {
                state: State::Resolved,
                ends_at: Some(now),
                ..alert
            },
            at: now,
        })
    }
}

impl OwedDebt {
    fn is_over(&self) -> bool {
        matches!(self.notice.transition, Transition::Resolved(_))
    }
}

impl Standing {
    /// The alert, as far as it can be told from what the receiver holds.
    fn alert(&self, subject: &Subject) -> Alert {
        let Self {
            labels,
            annotations,
            starts_at,
            reference: _,
        } = self.clone();
        let label = |name| labels.get(name).unwrap_or_default();
        let rule = rules::named(label("alertname")).unwrap_or(&rules::RETIRED);
        Alert {
            rule,
            subject: subject.clone(),
            shard_key: ShardKey::of(subject),
            severity: label("severity").parse().unwrap_or(rule.severity),
            reason: label("reason").into(),
            state: State::Firing,
            labels,
            annotations,
            starts_at,
            fires_at: starts_at,
            ends_at: None,
            members: Vec::new(),
        }
    }
}

impl From<&Owed> for OwedDebt {
    fn from(owed: &Owed) -> Self {
        let mut notice = Arc::clone(&owed.notice);
        if notice.alert.members.len() > MEMBERS {
            Arc::make_mut(&mut notice).alert.members.truncate(MEMBERS);
        }
        Self {
            notice,
            transitions: owed.transitions,
            fired: owed.fired,
            ended: owed.ended,
        }
    }
}

/// Where it is written down what receivers hold and are owed.
pub trait Ledger: Send + Sync + 'static {
    /// These are all the debts of a receiver about a subject now.
    fn note(&self, receiver: &'static str, subject: &Subject, debts: Vec<Debt>);
}
