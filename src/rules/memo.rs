//! What a rule remembers of one object between two looks at it: a few times with a number or a text each.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::time::before;

/// No rule looks further back than this.
const RETENTION: Duration = Duration::from_secs(24 * 3600);

/// The memory of one object: small, serialisable, empty for nearly all. It is kept by the engine, and persisted with the alerts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memo {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    marks: Vec<Mark>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    values: BTreeMap<Box<str>, Value>,
}

/// What something is, and since when it is that. However old it is, it counts, until it is forgotten by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Value {
    value: Box<str>,
    since: Timestamp,
}

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
            .marks
            .iter()
            .any(|mark| &*mark.what == what && mark.at == at && mark.value == value);
        if !known {
            self.marks.push(Mark {
                what: what.into(),
                at,
                value,
            });
            self.marks.sort_by_key(|mark| mark.at);
        }
    }

    /// Adds what another memory of the same object has.
    pub fn merge(&mut self, other: &Self) {
        for Mark { what, at, value } in &other.marks {
            self.mark(what, *at, *value);
        }
        for (what, other) in &other.values {
            match self.values.get_mut(what) {
                // The one that has been so for longer has seen more; another value than here has been replaced since.
                Some(known) if known.value == other.value => {
                    known.since = known.since.min(other.since);
                }
                Some(_) => {}
                None => {
                    self.values.insert(what.clone(), other.clone());
                }
            }
        }
    }

    /// Since when `what` has this value, as far as it was seen: since now, if it had another one at the last look.
    pub fn since(&mut self, what: &str, value: &str, now: Timestamp) -> Timestamp {
        match self.values.get_mut(what) {
            Some(known) if *known.value == *value => known.since,
            Some(known) => {
                known.value = value.into();
                known.since = now;
                now
            }
            None => {
                let (value, since) = (value.into(), now);
                self.values.insert(what.into(), Value { value, since });
                now
            }
        }
    }

    /// What `what` was at the last look.
    pub fn value(&self, what: &str) -> Option<&str> {
        self.values.get(what).map(|known| &*known.value)
    }

    /// Forgets what `what` is.
    pub fn forget_value(&mut self, what: &str) {
        self.values.remove(what);
    }

    /// What is remembered of `what`, oldest first.
    pub fn marks<'a>(
        &'a self,
        what: &'a str,
    ) -> impl DoubleEndedIterator<Item = (Timestamp, i64)> + 'a {
        self.marks
            .iter()
            .filter(move |mark| &*mark.what == what)
            .map(|mark| (mark.at, mark.value))
    }

    /// Forgets all of `what` but the newest `count` marks, so that what happens every second takes no more room than what happens every hour.
    pub fn keep_newest(&mut self, what: &str, count: usize) {
        let mut surplus = self.marks(what).count().saturating_sub(count);
        self.marks.retain(|mark| {
            let forget = surplus > 0 && &*mark.what == what;
            surplus -= usize::from(forget);
            !forget
        });
    }

    /// Forgets what happened at `time` or before.
    pub fn forget(&mut self, time: Timestamp) {
        self.marks.retain(|mark| mark.at > time);
    }

    /// Forgets what is too old for any rule.
    pub fn prune(&mut self, now: Timestamp) {
        self.forget(before(now, RETENTION));
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty() && self.values.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_memo_keeps_each_event_once_and_in_order_of_time() {
        let mut memo = Memo::default();
        for (what, at, value) in [
            ("app", 20, 2),
            ("app", 10, 1),
            ("app", 20, 2),
            ("web", 15, 7),
        ] {
            memo.mark(what, second(at), value);
        }
        let marks: Vec<_> = memo.marks("app").collect();
        assert_eq!(marks, [(second(10), 1), (second(20), 2)]);
        memo.forget(second(15));
        assert_eq!(memo.marks("web").count(), 0);
        assert_eq!(memo.marks("app").count(), 1);
        memo.prune(second(20).checked_add(RETENTION).unwrap());
        assert!(memo.is_empty());
    }

    #[test]
    fn a_value_is_known_since_it_was_first_seen_and_never_too_old() {
        let mut memo = Memo::default();
        assert_eq!(memo.since("replicas", "2/3", second(10)), second(10));
        assert_eq!(memo.since("replicas", "2/3", second(20)), second(10));
        assert_eq!(memo.since("replicas", "1/3", second(30)), second(30));
        memo.prune(second(30).checked_add(RETENTION * 2).unwrap());
        assert_eq!(memo.since("replicas", "1/3", second(90)), second(30));

        let mut earlier = Memo::default();
        earlier.since("replicas", "1/3", second(25));
        earlier.since("updated", "1", second(5));
        memo.merge(&earlier);
        assert_eq!(memo.since("replicas", "1/3", second(90)), second(25));
        let mut other = Memo::default();
        other.since("replicas", "3/3", second(1));
        memo.merge(&other);
        assert_eq!(memo.since("replicas", "1/3", second(90)), second(25));

        assert_eq!(memo.value("replicas"), Some("1/3"));
        memo.forget_value("replicas");
        assert_eq!(memo.value("replicas"), None);
        assert!(!memo.is_empty());
        memo.forget_value("updated");
        assert!(memo.is_empty());
    }

    #[test]
    fn only_the_newest_of_one_thing_are_kept_when_asked() {
        let mut memo = Memo::default();
        for at in 1..=5 {
            memo.mark("app", second(at), at);
            memo.mark("web", second(at), at);
        }
        memo.keep_newest("app", 3);
        assert_eq!(
            memo.marks("app")
                .map(|(_, value)| value)
                .collect::<Vec<_>>(),
            [3, 4, 5]
        );
        assert_eq!(memo.marks("web").count(), 5);
        memo.keep_newest("web", 9);
        assert_eq!(memo.marks("web").count(), 5);
    }
}
