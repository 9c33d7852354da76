//! What a rule remembers of one object between two looks at it: a few times with a number each.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// No rule looks further back than this.
const RETENTION: Duration = Duration::from_secs(24 * 3600);

/// The memory of one object: small, serialisable, empty for nearly all. It is kept by the engine, and persisted with the alerts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memo(Vec<Mark>);

/// One remembered event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Mark {
    /// What it is about: a container, a counter.
    what: Box<str>,
    /// When it happened.
    at: Timestamp,
    /// The number that goes with it.
    value: i64,
}

impl Memo {
    /// Remembers that `what` had `value` at `at`, once.
    pub fn mark(&mut self, what: &str, at: Timestamp, value: i64) {
        let known = self
            .0
            .iter()
            .any(|mark| &*mark.what == what && mark.at == at && mark.value == value);
        if !known {
            self.0.push(Mark {
                what: what.into(),
                at,
                value,
            });
            self.0.sort_by_key(|mark| mark.at);
        }
    }

    /// What is remembered of `what`, oldest first.
    pub fn marks<'a>(
        &'a self,
        what: &'a str,
    ) -> impl DoubleEndedIterator<Item = (Timestamp, i64)> + 'a {
        self.0
            .iter()
            .filter(move |mark| &*mark.what == what)
            .map(|mark| (mark.at, mark.value))
    }

    /// Forgets what happened at `time` or before.
    pub fn forget(&mut self, time: Timestamp) {
        self.0.retain(|mark| mark.at > time);
    }

    /// Forgets what is too old for any rule.
    pub fn prune(&mut self, now: Timestamp) {
        self.forget(now.saturating_sub(RETENTION).unwrap_or(Timestamp::MIN));
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
