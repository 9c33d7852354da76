//! The objects that are to be looked at again at a time, whether they have changed by then or not.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;

use crate::cluster::{KindId, Object};

/// What rules have asked to look at again, by kind. Nothing of it outlives the process: whoever sees an object asks anew.
#[derive(Debug, Default)]
pub(super) struct Looks(BTreeMap<KindId, OfKind>);

#[derive(Debug, Default)]
struct OfKind {
    by_time: BTreeMap<(Timestamp, Box<str>), Look>,
    /// By UID.
    times: HashMap<Box<str>, Timestamp>,
}

/// An object as it was seen last.
#[derive(Debug)]
pub(super) struct Look {
    pub object: Object,
    /// The list that last had it.
    pub list: u64,
}

impl Looks {
    /// The object is to be looked at at this time, or is not; whatever was asked for before.
    pub fn set(&mut self, object: &Object, list: u64, time: Option<Timestamp>) {
        let (kind, uid) = (object.kind(), &object.meta().uid);
        if time.is_none() && !self.0.contains_key(&kind) {
            return;
        }
        let of_kind = self.0.entry(kind).or_default();
        of_kind.forget(uid);
        if let Some(time) = time {
            let object = object.clone();
            of_kind.times.insert(uid.clone(), time);
            let look = Look { object, list };
            of_kind.by_time.insert((time, uid.clone()), look);
        }
    }

    /// The object is gone.
    pub fn forget(&mut self, uid: &str) {
        for of_kind in self.0.values_mut() {
            of_kind.forget(uid);
        }
    }

    /// A complete list of the kind did not have those that are not of it.
    pub fn keep(&mut self, kind: KindId, list: u64) {
        if let Some(of_kind) = self.0.get_mut(&kind) {
            let OfKind { by_time, times } = of_kind;
            by_time.retain(|(_, uid), look| {
                let had = look.list == list;
                if !had {
                    times.remove(uid);
                }
                had
            });
        }
    }

    /// When the next is due, of the kinds that are seen.
    pub fn next(&self, sees: impl Fn(KindId) -> bool) -> Option<Timestamp> {
        let in_view = self.0.iter().filter(|(kind, _)| sees(**kind));
        in_view
            .filter_map(|(_, of_kind)| of_kind.by_time.keys().next())
            .map(|(time, _)| *time)
            .min()
    }

    /// Those that are due at `now`, of the kinds that are seen: what nobody sees may have changed long ago.
    pub fn take_due(&mut self, now: Timestamp, sees: impl Fn(KindId) -> bool) -> Vec<Look> {
        let mut due = Vec::new();
        for of_kind in self.0.iter_mut().filter(|(kind, _)| sees(**kind)) {
            while let Some(first) = of_kind.1.by_time.first_entry()
                && first.key().0 <= now
            {
                let ((_, uid), look) = first.remove_entry();
                of_kind.1.times.remove(&uid);
                due.push(look);
            }
        }
        due
    }
}

impl OfKind {
    fn forget(&mut self, uid: &str) {
        if let Some((uid, time)) = self.times.remove_entry(uid) {
            self.by_time.remove(&(time, uid));
        }
    }
}
