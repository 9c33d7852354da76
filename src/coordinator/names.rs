//! What the objects in the API server are called.

use std::collections::BTreeMap;

use kube::core::ObjectMeta;

use crate::shard::ownership::{Shard, Version};

/// The largest total that is read from a name or from the record. What is decided runs over all shards of a total: one that somebody made up must not
/// stall every replica.
pub const MAX_TOTAL: u32 = 10_000;

/// The label with the program's name, on all that it keeps.
pub const NAME_LABEL: &str = "app.kubernetes.io/name";
/// The label with the installation's name.
pub const INSTANCE_LABEL: &str = "app.kubernetes.io/instance";
/// The label with a shard's index.
pub const SHARD_INDEX_LABEL: &str = "alertkube.io/shard-index";
/// The label with the number of shards of its generation.
pub const SHARD_TOTAL_LABEL: &str = "alertkube.io/shard-total";

/// What the objects of one installation are called, and where they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// The namespace.
    pub namespace: String,
    /// The name of the installation (`ALERTKUBE_NAME`).
    pub name: String,
}

impl Names {
    /// The name of a shard's Lease. (See [`Sharder::lease_name`](crate::shard::Sharder::lease_name).)
    pub fn lease(&self, shard: Shard) -> String {
        format!("{}-shard-{shard}", self.name)
    }

    /// The shard whose Lease has this name.
    pub fn shard_of_lease(&self, name: &str) -> Option<Shard> {
        self.shard(name, "-shard-")
    }

    /// The shard whose state has this name: its first part, which the others hang on.
    pub fn shard_of_state(&self, name: &str) -> Option<Shard> {
        self.shard(name, "-state-")
    }

    /// The name of the record.
    pub fn record(&self) -> String {
        format!("{}-generation", self.name)
    }

    /// The name of a shard's state: of its first part, which the others hang on. (See
    /// [`Sharder::state_config_map_name`](crate::shard::Sharder::state_config_map_name).)
    pub fn state(&self, shard: Shard) -> String {
        format!("{}-state-{shard}", self.name)
    }

    /// The labels of what is kept for this installation, and for this shard.
    pub fn labels(&self, shard: Option<Shard>) -> BTreeMap<String, String> {
        let mut labels = BTreeMap::new();
        let mut set = |key: &str, value: String| labels.insert(key.to_owned(), value);
        set(NAME_LABEL, "alertkube".to_owned());
        set(INSTANCE_LABEL, self.name.clone());
        if let Some(Shard { total, index }) = shard {
            set(SHARD_INDEX_LABEL, index.to_string());
            set(SHARD_TOTAL_LABEL, total.to_string());
        }
        labels
    }

    /// Labels an object as one of this installation's, and of this shard's. Foreign labels stay.
    pub fn label(&self, metadata: &mut ObjectMeta, shard: Option<Shard>) {
        let labels = metadata.labels.get_or_insert_default();
        labels.extend(self.labels(shard));
    }

    /// A label selector for all objects of this installation.
    pub fn selector(&self) -> String {
        format!("{INSTANCE_LABEL}={}", self.name)
    }

    /// A label selector for all objects of this installation that belong to a shard.
    pub fn shards_selector(&self) -> String {
        format!("{},{SHARD_TOTAL_LABEL}", self.selector())
    }

    /// A label selector for the objects of one shard.
    pub fn shard_selector(&self, shard: Shard) -> String {
        let labels = self.labels(Some(shard)).into_iter();
        let terms: Vec<_> = labels
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        terms.join(",")
    }

    fn shard(&self, name: &str, infix: &str) -> Option<Shard> {
        shard_from(name.strip_prefix(&self.name)?.strip_prefix(infix)?)
    }
}

/// Reads what a [`Shard`] is written as, and nothing else: `1-of-3`, up to a total of [`MAX_TOTAL`].
pub fn shard_from(text: &str) -> Option<Shard> {
    let (index, total) = text.split_once("-of-")?;
    let shard = Shard {
        total: total.parse().ok()?,
        index: index.parse().ok()?,
    };
    let sound = shard.index < shard.total && shard.total <= MAX_TOTAL;
    (sound && shard.to_string() == text).then_some(shard)
}

/// The version of an object. Kubernetes gives every object one, and since 1.35 promises that it is a number. 0 is none: a write over it would be unconditional.
pub(crate) fn version(text: Option<&str>) -> Option<Version> {
    let version = text?.parse().ok()?;
    (version != 0).then_some(Version(version))
}

/// An annotation, if it is there.
pub(crate) fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    let annotations = metadata.annotations.as_ref()?;
    annotations.get(key).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::Sharder;

    fn names() -> Names {
        Names {
            namespace: "monitoring".into(),
            name: "ak".into(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for (index, total) in [(0, 1), (2, 3), (9_999, 10_000)] {
            let sharder = Sharder::new(index, total).unwrap();
            let shard = Shard::from(sharder);
            assert_eq!(names().lease(shard), sharder.lease_name("ak"));
            assert_eq!(
                names().shard_of_lease(&sharder.lease_name("ak")),
                Some(shard)
            );
            assert_eq!(
                names().shard_of_state(&sharder.state_config_map_name("ak")),
                Some(shard)
            );
        }
    }

    #[test]
    fn any_other_name_is_nothing_of_ours() {
        for name in [
            "",
            "ak",
            "ak-shard-",
            "ak-shard-0",
            "ak-shard-0-of-",
            "ak-shard--of-1",
            "ak-shard-1-of-1",
            "ak-shard-0-of-0",
            "ak-shard-00-of-1",
            "ak-shard-+0-of-1",
            "ak-shard-0-of-01",
            "ak-shard-0-of-1-of-1",
            "ak-shard-0-of-10001",
            "ak-shard-0-of-4294967296",
            "ak2-shard-0-of-1",
            "shard-0-of-1",
            "ak-state-0-of-1",
            "ak-shard-0-of-1-2",
        ] {
            assert_eq!(names().shard_of_lease(name), None, "{name}");
        }
        assert_eq!(names().shard_of_state("ak-state-0-of-3-1"), None);
    }
}
