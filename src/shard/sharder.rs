//! The one place that knows this replica's index and the total.

use super::fnv1a32;

/// Which part of the cluster this replica acts on. Made once, before anything else starts; the default owns everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sharder {
    index: u32,
    total: u32,
}

/// An index or a total that cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("to be written")]
pub struct ShardError;

impl Default for Sharder {
    fn default() -> Self {
        Self { index: 0, total: 1 }
    }
}

impl Sharder {
    /// Whether this replica acts on the subject with this key: `fnv1a32(key) mod total == index`.
    pub fn owns(&self, key: &str) -> bool {
        fnv1a32(key.as_bytes()) % self.total == self.index
    }
}
