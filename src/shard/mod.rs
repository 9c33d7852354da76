//! Sharding: which replica acts on what. Everything that computes with an index or a total is here.

mod gate;
mod key;
mod sharder;

pub use gate::Gate;
pub use key::{ShardKey, fnv1a32};
pub use sharder::{ShardError, Sharder};
