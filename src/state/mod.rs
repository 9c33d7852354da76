//! What is remembered across restarts, crashes and hand-overs: one state for each shard, in `ConfigMap`s.
//!
//! A state maps subjects to records. In memory it is [`Records`]: parts that are shared until they change, so that a snapshot costs next to nothing. In the
//! cluster each part is a `ConfigMap` of its own (about 64 KiB, compressed), so that a change costs one part and not all. The first one, the *head*, says
//! how many there are and for which epoch; it is written last, so a state is never seen half laid out. [`Store`] reads and writes them, each on condition that
//! nobody else has written it since.

mod codec;
mod config_map;
mod record;
mod records;
mod store;
#[cfg(test)]
mod testing;

pub use config_map::{
    ADOPTED, ALERTS, EPOCH, HOLDER, LEASE_TRANSITIONS, PARTS, STATE_VERSION, Summary, WRITTEN_AT,
};
pub use record::{Ended, Remembered};
pub use records::{Record, Records};
pub use store::Store;
