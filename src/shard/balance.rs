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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Subject;

    fn key(kind: &str, namespace: &str, name: &str) -> ShardKey {
        ShardKey::of(&Subject {
            kind: kind.into(),
            namespace: namespace.into(),
            name: name.into(),
        })
    }

    /// 12,000 subjects as clusters have them: teams with stages, the same few names in each, jobs, stateful sets, agents, nodes.
    fn realistic() -> Vec<ShardKey> {
        let mut keys = Vec::new();
        for team in 0..95 {
            for stage in ["dev", "staging", "prod"] {
                let namespace = format!("team-{team:02}-{stage}");
                for number in 0..20 {
                    keys.push(key("Deployment", &namespace, &format!("service-{number}")));
                }
                for name in [
                    "api", "web", "worker", "frontend", "gateway", "cache", "auth", "billing",
                ] {
                    keys.push(key("Deployment", &namespace, name));
                }
                for name in ["postgres", "redis", "kafka", "rabbitmq", "minio"] {
                    keys.push(key("StatefulSet", &namespace, name));
                }
                for name in ["backup", "report", "cleanup", "sync", "rotate-keys"] {
                    keys.push(key("CronJob", &namespace, name));
                }
                keys.push(key("DaemonSet", &namespace, "log-agent"));
            }
        }
        for number in 0.. {
            if keys.len() == 12_000 {
                break;
            }
            keys.push(key(
                "Node",
                "",
                &format!("ip-10-0-{}-{}", number / 256, number % 256),
            ));
        }
        keys
    }

    #[test]
    fn realistic_subjects_are_balanced() {
        let keys = realistic();
        assert_eq!(keys.len(), 12_000);
        for total in 2..=16 {
            let balance = Balance::new(keys.iter().copied(), total);
            assert!(balance.max_to_mean() <= 1.15, "{total}: {balance:?}");
            assert_eq!(balance.empty_shards(), 0, "{total}");
            assert_eq!(
                balance
                    .shards()
                    .map(|(_, subjects)| subjects)
                    .sum::<usize>(),
                12_000
            );
            assert_eq!(balance.shards().count(), total as usize);
        }
    }

    #[test]
    fn no_shard_is_empty_where_namespace_and_name_are_alike() {
        for suffix in ["", "-api"] {
            let names: Vec<_> = (0..1000).map(|number| format!("app-{number}")).collect();
            let keys = names
                .iter()
                .map(|name| key("Deployment", name, &format!("{name}{suffix}")));
            for total in 2..=16 {
                let balance = Balance::new(keys.clone(), total);
                assert_eq!(balance.empty_shards(), 0, "{balance:?}");
            }
            // The reason for hashing twice: the bare text leaves half of the shards empty.
            let odd = names
                .iter()
                .filter(|name| {
                    Sharder::owner_of(&format!("Deployment/{name}/{name}{suffix}"), 2) == 1
                })
                .count();
            assert!(odd == 0 || odd == 1000, "{odd}");
        }
    }

    #[test]
    fn a_total_that_is_doubled_moves_half() {
        let keys = realistic();
        let share = |from, to| moved(keys.iter().copied(), from, to) as f64 / keys.len() as f64;
        assert!(share(3, 3) == 0.0 && share(0, 1) == 0.0);
        for (from, to, expected) in [
            (2, 4, 0.5),
            (4, 8, 0.5),
            (1, 3, 0.667),
            (2, 3, 0.667),
            (4, 5, 0.8),
        ] {
            let share = share(from, to);
            assert!((share - expected).abs() < 0.02, "{from} to {to}: {share}");
        }
    }

    #[test]
    fn nothing_is_in_balance() {
        for total in [0, 1, u32::MAX] {
            let balance = Balance::new([], total);
            assert!((balance.max_to_mean() - 1.0).abs() < f64::EPSILON);
            assert_eq!((balance.total, balance.subjects()), (total.max(1), 0));
        }
        let one = Balance::new([key("Node", "", "node-1")], 4);
        assert_eq!(one.empty_shards(), 3);
        assert!((one.max_to_mean() - 4.0).abs() < f64::EPSILON);
        assert_eq!(
            one.shards().collect::<Vec<_>>(),
            [(0, 0), (1, 1), (2, 0), (3, 0)]
        );
    }
}
