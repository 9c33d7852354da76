//! One part of the cluster.

use std::fmt;

use super::super::{ShardKey, Sharder};

/// One of `total` parts of the cluster. It has a Lease and a state of its own.
///
/// The shards of one total are a *generation*: together they own every key exactly once. Shards of two generations overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard {
    // First, so that the shards of a generation are neighbours in every ordered collection.
    /// How many shards the generation has, at least 1.
    pub total: u32,
    /// Which of them this is, below `total`.
    pub index: u32,
}

impl Shard {
    /// The shard of a generation that owns a key. A total of 0 counts as 1.
    pub fn of(key: &ShardKey, total: u32) -> Self {
        Self {
            total: at_least_1(total),
            index: Sharder::owner_of(key.as_str(), total),
        }
    }

    /// All shards of a generation. A total of 0 counts as 1.
    pub fn all(total: u32) -> impl Iterator<Item = Self> {
        let total = at_least_1(total);
        (0..total).map(move |index| Self { total, index })
    }

    /// Whether this shard owns a key.
    pub fn owns(self, key: &ShardKey) -> bool {
        Self::of(key, self.total).index == self.index
    }

    /// The shards of another generation that can have a key in common with this one: `h mod a == i` and `h mod b == j` for some `h` exactly
    /// when `i` and `j` are equal modulo the greatest common divisor of `a` and `b`.
    pub fn overlaps(self, total: u32) -> impl Iterator<Item = Self> {
        let divisor = gcd(self.total, at_least_1(total));
        Self::all(total).filter(move |other| other.index % divisor == self.index % divisor)
    }
}

impl From<Sharder> for Shard {
    fn from(sharder: Sharder) -> Self {
        Self {
            total: sharder.total(),
            index: sharder.index(),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-of-{}", self.index, self.total)
    }
}

const fn at_least_1(total: u32) -> u32 {
    if total == 0 { 1 } else { total }
}

const fn gcd(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    at_least_1(a)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Subject;

    #[test]
    fn shards_overlap_exactly_where_they_have_keys_in_common() {
        let keys: Vec<_> = (0..2000)
            .map(|number| {
                ShardKey::of(&Subject {
                    kind: "Deployment".into(),
                    namespace: "shop".into(),
                    name: format!("app-{number}").into(),
                })
            })
            .collect();
        for (old, new) in [(1, 3), (3, 4), (4, 8), (8, 5), (6, 4), (3, 1)] {
            for shard in Shard::all(new) {
                let mut common: Vec<_> = keys
                    .iter()
                    .filter(|key| shard.owns(key))
                    .map(|key| Shard::of(key, old))
                    .collect();
                common.sort();
                common.dedup();
                assert_eq!(shard.overlaps(old).collect::<Vec<_>>(), common, "{shard}");
            }
        }
    }

    #[test]
    fn a_total_of_0_counts_as_1() {
        let only = Shard { total: 1, index: 0 };
        assert_eq!(Shard::all(0).collect::<Vec<_>>(), [only]);
        assert_eq!(only.overlaps(0).collect::<Vec<_>>(), [only]);
        assert_eq!(Shard::from(Sharder::default()), only);
        assert_eq!(only.to_string(), "0-of-1");
    }
}
