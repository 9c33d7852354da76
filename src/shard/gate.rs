//! The emit gate: may this replica send for a subject now?

use std::{fmt, time::Duration};

use tokio::time::Instant;

use super::{ShardKey, Sharder};

/// Decides whether this replica may send for a subject. It is asked twice: before any work is put into a notice (saves work), and right before
/// each attempt to send (correctness).
pub trait Gate: fmt::Debug + Send + Sync + 'static {
    /// Whether an attempt to send that ends within `within` may start now, as far as ownership goes.
    fn may_send(&self, key: &ShardKey, within: Duration) -> bool;

    /// Begins such an attempt, if it may start. It is under way until its permit is dropped.
    fn begin(&self, key: &ShardKey, within: Duration) -> Permission {
        self.may_send(key, within).into()
    }
}

/// The answer to [`Gate::begin`].
#[derive(Debug)]
pub enum Permission {
    /// It may start.
    Granted(Permit),
    /// Not before then: what it promises is not durable yet. If it becomes so earlier, that will be said.
    NotBefore(Instant),
    /// This replica does not own the subject, or not for long enough.
    Refused,
}

impl From<bool> for Permission {
    fn from(may: bool) -> Self {
        if may {
            Self::Granted(Permit::default())
        } else {
            Self::Refused
        }
    }
}

/// An attempt to send that is under way. While there is one, its shard is not given away. Dropping it ends it; what is known of its outcome must
/// have been noted before.
#[derive(Default)]
pub struct Permit(Option<Box<dyn FnOnce() + Send>>);

impl Permit {
    /// A permit that does something at its end.
    pub fn new(end: impl FnOnce() + Send + 'static) -> Self {
        Self(Some(Box::new(end)))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(end) = self.0.take() {
            end();
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Permit")
    }
}

impl Gate for Sharder {
    /// Static sharding: ownership never changes, so the time does not matter.
    fn may_send(&self, key: &ShardKey, _within: Duration) -> bool {
        self.owns(key.as_str())
    }
}
