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
#[error("ALERTKUBE_SHARD_INDEX: to be written")]
pub struct ShardError;

impl Default for Sharder {
    fn default() -> Self {
        Self { index: 0, total: 1 }
    }
}

impl Sharder {
    /// Stub until the real one is merged.
    ///
    /// # Errors
    ///
    /// An index out of range.
    pub fn parse(total: Option<&str>, index: Option<&str>) -> Result<Self, ShardError> {
        let (Some(total), Some(index)) = (total, index) else {
            return Ok(Self::default());
        };
        let total = total.parse().map_err(|_| ShardError)?;
        let index = index.parse().map_err(|_| ShardError)?;
        if index >= total {
            return Err(ShardError);
        }
        Ok(Self { index, total })
    }

    /// Whether this replica acts on the subject with this key: `fnv1a32(key) mod total == index`.
    pub fn owns(&self, key: &str) -> bool {
        fnv1a32(key.as_bytes()) % self.total == self.index
    }
}
