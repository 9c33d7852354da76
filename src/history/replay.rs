//! What would have been paged: a history through the engine, in its own time.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::line::{Part, Seen};
use crate::{
    alert::{Alert, Engine, Notice},
    cluster::KindId,
    rules::Tuning,
};

/// Feeds a history to an engine as the controller would have done: what was seen at a time is taken over together, then time passes; and between two such times
/// everything that comes due happens at its own. As there, nothing is decided before every kind is listed.
#[derive(Debug)]
pub struct Replay {
    engine: Engine,
    /// Of a history that has lists, the kinds of which none is complete yet.
    waits: BTreeSet<KindId>,
    now: Option<Timestamp>,
    notices: Vec<Notice>,
}

/// A time that is before what was seen already.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("{time} is before {before}, which was seen already")]
pub struct Unordered {
    /// The time.
    pub time: Timestamp,
    /// The time that was seen already.
    pub before: Timestamp,
}

impl Replay {
    /// A replay that has seen nothing yet, of a cluster of which every kind is seen. `cluster` is the label of that name; empty for none.
    pub fn new(cluster: &str) -> Self {
        let mut engine = Engine::new(cluster);
        for &kind in KindId::ALL {
            engine.list_started(kind);
            engine.list_done(kind, Timestamp::MIN);
        }
        Self {
            engine,
            waits: BTreeSet::new(),
            now: None,
            notices: Vec::new(),
        }
    }

    /// The same, with what is changed of the rules.
    #[must_use]
    pub fn tuned(mut self, tuning: Tuning) -> Self {
        self.engine = self.engine.tuned(tuning);
        self
    }

    /// Takes over what was seen at a time.
    ///
    /// # Errors
    ///
    /// The time is before that of what was seen already.
    pub fn see(&mut self, time: Timestamp, seen: &Seen) -> Result<(), Unordered> {
        self.pass_until(time)?;
        match seen {
            Seen::Recording { cluster: _, kinds } => {
                for &kind in kinds {
                    self.engine.blind(kind);
                    self.waits.insert(kind);
                }
            }
            Seen::Snapshot(kind, Part::Begin) => self.engine.list_started(*kind),
            Seen::Snapshot(kind, Part::End) => {
                self.engine.list_done(*kind, time);
                self.waits.remove(kind);
            }
            Seen::Listed(object) | Seen::Applied(object) => self.engine.observe(object, time),
            Seen::Deleted(object) => self.engine.gone(&object.meta().uid, time),
            Seen::Failed { kind, lasting } => {
                self.engine.blind(*kind);
                if *lasting {
                    self.waits.remove(kind);
                }
            }
            Seen::Restored(kind) => self.engine.sighted(*kind),
            Seen::Unwatched => {}
        }
        Ok(())
    }

    /// Lets time pass until then, including all that comes due at that time.
    ///
    /// # Errors
    ///
    /// The time is before that of what was seen already.
    pub fn finish(&mut self, time: Timestamp) -> Result<(), Unordered> {
        self.pass_until(time)?;
        self.decide(time);
        Ok(())
    }

    /// What has happened since the last call, in order.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// The alerts that stand now, pending ones too.
    pub fn alerts(&self) -> Vec<Alert> {
        self.now
            .map(|now| self.engine.alerts(now))
            .unwrap_or_default()
    }

    /// The kinds that were begun to be recorded, and of which no list was complete. While there are any, nothing is decided.
    pub fn waits_for(&self) -> impl Iterator<Item = KindId> {
        self.waits.iter().copied()
    }

    /// Lets everything happen that comes due before `time`. What comes due at it has to wait: what is seen then comes first.
    fn pass_until(&mut self, time: Timestamp) -> Result<(), Unordered> {
        match self.now {
            Some(before) if time < before => return Err(Unordered { time, before }),
            // More was seen at the same time.
            Some(now) if time == now => return Ok(()),
            Some(now) => {
                self.decide(now);
                while let Some(due) = self.engine.next_deadline().filter(|&due| due < time)
                    && self.waits.is_empty()
                {
                    // It may have come due while nothing was decided.
                    let due = due.max(self.now.unwrap_or(due));
                    self.decide(due);
                }
            }
            None => {}
        }
        self.now = Some(time);
        Ok(())
    }

    fn decide(&mut self, time: Timestamp) {
        self.now = Some(time);
        if self.waits.is_empty() {
            self.engine.advance(time);
            self.notices.extend(self.engine.take_notices());
        }
    }
}
