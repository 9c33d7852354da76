//! How many nodes there are: how many of them make one fault of the cluster.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use jiff::Timestamp;

use super::{
    engine::{CLUSTER, hash},
    entry::Entry,
};
use crate::time::after;

/// At least so many nodes of a cluster, or of a zone.
const LEAST: usize = 3;

/// And at least one of so many.
const ONE_OF: usize = 5;

/// How long a node is young: images are pulled, drivers installed, and what runs on each node is not to be expected yet.
const YOUNG: Duration = Duration::from_secs(600);

/// The nodes of a cluster: a number each, and its zone.
#[derive(Debug, Default)]
pub(super) struct Census {
    nodes: HashMap<u64, Node>,
    list: u64,
    /// Until when nodes are young, by name.
    young: HashMap<Box<str>, Timestamp>,
}

#[derive(Debug, PartialEq, Eq)]
struct Node {
    zone: Box<str>,
    /// The list that last had it.
    list: u64,
}

impl Census {
    /// A list of all nodes begins.
    pub const fn list_started(&mut self) {
        self.list += 1;
    }

    /// It is complete: the others are gone.
    pub fn list_done(&mut self) {
        let list = self.list;
        self.nodes.retain(|_, node| node.list == list);
    }

    /// A node is there. Whether that is news.
    pub fn see(&mut self, node: u64, zone: &str) -> bool {
        let list = self.list;
        if let Some(known) = self
            .nodes
            .get_mut(&node)
            .filter(|known| *known.zone == *zone)
        {
            known.list = list;
            return false;
        }
        let zone = zone.into();
        self.nodes.insert(node, Node { zone, list });
        true
    }

    /// A node of this name was made at this time.
    pub fn note_age(&mut self, name: &str, made: Timestamp, now: Timestamp) {
        let until = after(made, YOUNG);
        if until > now && !self.young.contains_key(name) {
            self.young.retain(|_, until| *until > now);
        }
        if until > now {
            self.young.insert(name.into(), until);
        } else {
            self.young.remove(name);
        }
    }

    /// Until when a node is young, if it is.
    pub fn young_until(&self, name: &str, now: Timestamp) -> Option<Timestamp> {
        let until = self.young.get(name).copied();
        until.filter(|until| *until > now)
    }

    /// Whether a node that is gone was there.
    pub fn gone(&mut self, node: u64) -> bool {
        self.nodes.remove(&node).is_some()
    }

    /// Tells an alert about the cluster how many nodes it takes.
    pub fn count(&self, entry: &mut Entry, now: Timestamp) {
        if &*entry.key.subject.kind == CLUSTER {
            let faulty = entry.members.iter().filter(|(_, member)| member.seen);
            let quorum = self.quorum(faulty.map(|(uid, _)| hash(uid)));
            entry.set_quorum(quorum, now);
        }
    }

    /// How many nodes it takes until their fault is one of the cluster, if these have it: so many of the cluster, or of one of its zones.
    fn quorum(&self, faulty: impl Iterator<Item = u64>) -> usize {
        let share = |nodes: usize| nodes.div_ceil(ONE_OF).max(LEAST);
        let mut faulty_in: BTreeMap<&str, usize> = BTreeMap::new();
        for node in faulty {
            if let Some(node) = self.nodes.get(&node) {
                *faulty_in.entry(&node.zone).or_default() += 1;
            }
        }
        // Most zones have no such node, and few others enough of them.
        faulty_in.retain(|_, faulty| *faulty >= LEAST);
        let mut nodes_in: BTreeMap<&str, usize> = BTreeMap::new();
        if !faulty_in.is_empty() {
            for node in self.nodes.values() {
                if faulty_in.contains_key(&*node.zone) {
                    *nodes_in.entry(&node.zone).or_default() += 1;
                }
            }
        }
        let of_zones = nodes_in.into_iter().filter_map(|(zone, nodes)| {
            let share = share(nodes);
            (faulty_in[zone] >= share).then_some(share)
        });
        of_zones
            .chain([share(self.nodes.len())])
            .min()
            .unwrap_or(LEAST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many nodes in each of these zones, numbered through.
    fn census(zones: &[(&str, u64)]) -> Census {
        let mut census = Census::default();
        let mut next = 0;
        for (zone, nodes) in zones {
            for _ in 0..*nodes {
                assert!(census.see(next, zone));
                next += 1;
            }
        }
        census
    }

    #[test]
    fn it_takes_three_nodes_and_a_fifth_of_the_cluster_or_of_a_zone() {
        for (zones, faulty, quorum) in [
            (&[("", 2)][..], 0..2, 3),
            (&[("", 10)], 0..3, 3),
            (&[("", 16)], 0..3, 4),
            (&[("", 200)], 0..3, 40),
            // One zone of three.
            (&[("a", 5), ("b", 100), ("c", 100)], 0..5, 3),
            (&[("a", 40), ("b", 40), ("c", 40)], 0..7, 24),
            (&[("a", 40), ("b", 40), ("c", 40)], 0..8, 8),
            // Scattered: one in each.
            (&[("a", 1), ("b", 1), ("c", 1)], 0..3, 3),
        ] {
            let census = census(zones);
            assert_eq!(
                census.quorum(faulty.clone()),
                quorum,
                "{zones:?} {faulty:?}"
            );
        }
    }

    #[test]
    fn a_new_list_forgets_the_nodes_that_it_does_not_have() {
        let mut census = census(&[("", 100)]);
        census.list_started();
        for node in 0..10 {
            assert!(!census.see(node, ""));
        }
        census.list_done();
        assert_eq!(census.quorum(0..0), 3);
        assert!(census.gone(3));
        assert!(!census.gone(3) && !census.gone(50));
    }
}
