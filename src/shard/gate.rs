//! The emit gate: may this replica send for a subject now?

use std::time::Duration;

use super::{ShardKey, Sharder};

/// Decides whether this replica may send for a subject. It is asked twice: before any work is put into a notice (saves work), and right before
/// each attempt to send (correctness).
pub trait Gate: Send + Sync + 'static {
    /// Whether an attempt to send that ends within `within` may start now.
    fn may_send(&self, key: &ShardKey, within: Duration) -> bool;
}

impl Gate for Sharder {
    /// Static sharding: ownership never changes, so the time does not matter.
    fn may_send(&self, key: &ShardKey, _within: Duration) -> bool {
        self.owns(key.as_str())
    }
}
