//! Sharding: which replica acts on what. Everything that computes with an index or a total is here.

mod balance;
mod gate;
mod key;
pub mod ownership;
mod sharder;

pub use balance::{Balance, moved};
pub use gate::{Gate, Permission, Permit};
pub use key::{ShardKey, fnv1a32};
pub use sharder::{ShardError, Sharder};
