//! The trimmed PersistentVolumeClaim.

use crate::cluster::{Meta, lenient::trimmed};

trimmed! {
    /// A PersistentVolumeClaim.
    pub struct PersistentVolumeClaim {
        /// `metadata`.
        pub metadata: Meta = "metadata",
    }
}
