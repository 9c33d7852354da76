//! How evenly subjects spread over shards, and what a change of the total moves.

use std::collections::BTreeMap;

use super::{ShardKey, Sharder};

/// How many of some subjects each of `total` shards owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Balance {
    total: u32,
    subjects: usize,
    /// Shards that own none are left out, so that a total of millions costs nothing.
    by_shard: BTreeMap<u32, usize>,
}

impl Balance {
    /// Counts the subjects with these keys over `total` shards. A total of 0 counts as 1.
    pub fn new(keys: impl IntoIterator<Item = ShardKey>, total: u32) -> Self {
        let mut balance = Self {
            total: total.max(1),
            subjects: 0,
            by_shard: BTreeMap::new(),
        };
        for key in keys {
            balance.subjects += 1;
            *balance
                .by_shard
                .entry(Sharder::owner_of(key.as_str(), total))
                .or_default() += 1;
        }
        balance
    }

    /// How many shards there are.
    pub const fn total(&self) -> u32 {
        self.total
    }

    /// How many subjects there are.
    pub const fn subjects(&self) -> usize {
        self.subjects
    }

    /// Each shard's index, with the number of its subjects.
    pub fn shards(&self) -> impl Iterator<Item = (u32, usize)> + '_ {
        (0..self.total).map(|index| {
            let subjects = self.by_shard.get(&index).copied().unwrap_or_default();
            (index, subjects)
        })
    }

    /// How many shards own nothing.
    pub fn empty_shards(&self) -> usize {
        (self.total as usize).saturating_sub(self.by_shard.len())
    }

    /// The subjects of the busiest shard, relative to the mean: 1 is perfect. 1, too, where there are no subjects.
    pub fn max_to_mean(&self) -> f64 {
        let max = self.by_shard.values().copied().max().unwrap_or_default();
        if max == 0 {
            return 1.0;
        }
        max as f64 * f64::from(self.total) / self.subjects as f64
    }
}

/// How many of the subjects with these keys change their owner when the total changes from one number to another. From N to N+1 that is
/// about N/(N+1) of them; from N to 2N, half: the least possible.
pub fn moved(keys: impl IntoIterator<Item = ShardKey>, from: u32, to: u32) -> usize {
    keys.into_iter()
        .filter(|key| Sharder::owner_of(key.as_str(), from) != Sharder::owner_of(key.as_str(), to))
        .count()
}
