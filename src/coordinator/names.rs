//! What the objects in the API server are called.

use std::collections::BTreeMap;

use kube::core::ObjectMeta;

use crate::shard::ownership::{Shard, Version};

/// The largest total that is read from a name or from the record. What is decided runs over all shards of a total: one that somebody made up must not
/// stall every replica.
pub const MAX_TOTAL: u32 = 10_000;

/// The prefix of alertkube's own labels and annotations, with its slash.
const OWN: &str = "alertkube.io/";
/// The label of the deployment that an object belongs to.
const INSTANCE: &str = "app.kubernetes.io/instance";
const INDEX: &str = "alertkube.io/shard-index";
const TOTAL: &str = "alertkube.io/shard-total";

/// Where the objects of one deployment are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// The namespace.
    pub namespace: String,
    /// The name of the deployment (`ALERTKUBE_NAME`).
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

    /// A label selector for all objects of this deployment.
    pub fn selector(&self) -> String {
        format!("{INSTANCE}={}", self.name)
    }

    /// A label selector for all objects of this deployment that belong to a shard.
    pub fn shards_selector(&self) -> String {
        format!("{},{TOTAL}", self.selector())
    }

    /// Labels an object as one of this deployment's, and of this shard's. Foreign labels stay.
    pub fn label(&self, metadata: &mut ObjectMeta, shard: Option<Shard>) {
        let labels = metadata.labels.get_or_insert_default();
        let mut set = |key: &str, value: String| labels.insert(key.to_owned(), value);
        set("app.kubernetes.io/name", "alertkube".to_owned());
        set(INSTANCE, self.name.clone());
        if let Some(shard) = shard {
            set(INDEX, shard.index.to_string());
            set(TOTAL, shard.total.to_string());
        }
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

/// The version of an object, if it is one that can be compared.
pub(super) fn version(text: Option<&str>) -> Option<Version> {
    text?.parse().ok().map(Version)
}

/// One of alertkube's own annotations.
pub(super) fn annotation<'a>(metadata: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    let annotations = metadata.annotations.as_ref()?;
    annotations.get(&format!("{OWN}{name}")).map(String::as_str)
}

/// Sets one of alertkube's own annotations, or takes it away.
pub(super) fn annotate(
    annotations: &mut BTreeMap<String, String>,
    name: &str,
    value: Option<String>,
) {
    let key = format!("{OWN}{name}");
    match value {
        Some(value) => annotations.insert(key, value),
        None => annotations.remove(&key),
    };
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
