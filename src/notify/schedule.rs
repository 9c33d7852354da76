//! Whose turn it is: by time, and among those whose time has come, by rank.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use tokio::time::Instant;

use crate::alert::Severity;

/// An entry. Ids grow, so among equals the older one goes first.
pub type EntryId = u64;

/// Who goes first of those whose time has come: what has not failed yet (so that what fails again and again holds up nobody), and of these what matters most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    failing: bool,
    severity: Reverse<Severity>,
}

impl Rank {
    /// The rank of a message of this severity.
    pub const fn new(failing: bool, severity: Severity) -> Self {
        Self {
            failing,
            severity: Reverse(severity),
        }
    }
}

/// A queue of entries.
#[derive(Debug, Default)]
pub struct Schedule {
    places: BTreeMap<EntryId, Place>,
    /// Those whose time has not come, as far as was looked.
    waiting: BTreeSet<(Instant, EntryId)>,
    /// The others.
    ready: BTreeSet<(Rank, EntryId)>,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    due: Instant,
    rank: Rank,
    ready: bool,
}

impl Schedule {
    /// An empty queue.
    pub const fn new() -> Self {
        Self {
            places: BTreeMap::new(),
            waiting: BTreeSet::new(),
            ready: BTreeSet::new(),
        }
    }

    /// Queues an entry, or changes its place.
    pub fn put(&mut self, id: EntryId, due: Instant, rank: Rank) {
        self.remove(id);
        let ready = false;
        self.places.insert(id, Place { due, rank, ready });
        self.waiting.insert((due, id));
    }

    /// When the turn of an entry comes, or came; nothing if it is not queued.
    pub fn due(&self, id: EntryId) -> Option<Instant> {
        self.places.get(&id).map(|place| place.due)
    }

    /// Takes an entry out.
    pub fn remove(&mut self, id: EntryId) {
        if let Some(place) = self.places.remove(&id) {
            if place.ready {
                self.ready.remove(&(place.rank, id));
            } else {
                self.waiting.remove(&(place.due, id));
            }
        }
    }

    /// Takes out the entry whose turn it is.
    pub fn next(&mut self, now: Instant) -> Option<EntryId> {
        while let Some(&(due, id)) = self.waiting.first()
            && due <= now
        {
            self.waiting.pop_first();
            if let Some(place) = self.places.get_mut(&id) {
                place.ready = true;
                self.ready.insert((place.rank, id));
            }
        }
        let (_, id) = self.ready.pop_first()?;
        self.places.remove(&id);
        Some(id)
    }

    /// The turn of some entries comes now, if it has not come before.
    pub fn hurry(&mut self, now: Instant, which: impl Fn(EntryId) -> bool) {
        for (id, place) in &mut self.places {
            if place.due > now && which(*id) {
                self.waiting.remove(&(place.due, *id));
                self.waiting.insert((now, *id));
                place.due = now;
            }
        }
    }

    /// When the next turn comes; in the past if it has.
    pub fn deadline(&self) -> Option<Instant> {
        match self.ready.first() {
            Some((_, id)) => self.due(*id),
            None => self.waiting.first().map(|(due, _)| *due),
        }
    }

    /// Whether nobody waits.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty() && self.waiting.is_empty() && self.ready.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn first_what_has_not_failed_then_what_matters_then_what_is_old() {
        let now = Instant::now();
        let mut schedule = Schedule::new();
        for (id, failing, severity) in [
            (1, true, Severity::Critical),
            (2, false, Severity::Info),
            (3, false, Severity::Critical),
            (4, true, Severity::Warning),
            (5, false, Severity::Critical),
        ] {
            schedule.put(id, now, Rank::new(failing, severity));
        }
        schedule.put(6, now + SECOND, Rank::new(false, Severity::Critical));
        let order: Vec<_> = std::iter::from_fn(|| schedule.next(now)).collect();
        assert_eq!(order, [3, 5, 2, 1, 4]);
        assert_eq!(schedule.deadline(), Some(now + SECOND));
        assert_eq!(schedule.next(now + SECOND), Some(6));
        assert!(schedule.is_empty() && schedule.deadline().is_none());
    }

    #[test]
    fn a_place_can_change_also_when_its_turn_has_come() {
        let now = Instant::now();
        let mut schedule = Schedule::new();
        let rank = |severity| Rank::new(false, severity);
        for id in 1..=3 {
            schedule.put(id, now, rank(Severity::Warning));
        }
        assert_eq!(schedule.next(now), Some(1));
        assert_eq!(schedule.deadline(), Some(now));
        schedule.put(3, now, rank(Severity::Critical));
        assert_eq!(schedule.next(now), Some(3));
        schedule.remove(2);
        assert!(schedule.is_empty());

        schedule.put(4, now + SECOND, rank(Severity::Info));
        schedule.hurry(now, |id| id != 4);
        assert_eq!(schedule.next(now), None);
        schedule.hurry(now, |id| id == 4);
        assert_eq!(schedule.next(now), Some(4));
        assert!(schedule.is_empty());
    }
}
