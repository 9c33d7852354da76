//! The trimmed DaemonSet.

use crate::cluster::{Meta, lenient::trimmed};

trimmed! {
    /// A DaemonSet.
    pub struct DaemonSet {
        /// `metadata`.
        pub metadata: Meta = "metadata",
    }
}
