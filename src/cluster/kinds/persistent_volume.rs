//! The trimmed PersistentVolume.

use crate::cluster::{Meta, lenient::trimmed};

trimmed! {
    /// A PersistentVolume.
    pub struct PersistentVolume {
        /// `metadata`.
        pub metadata: Meta = "metadata",
    }
}
