//! The trimmed StatefulSet.

use crate::cluster::{Meta, lenient::trimmed};

trimmed! {
    /// A StatefulSet.
    pub struct StatefulSet {
        /// `metadata`.
        pub metadata: Meta = "metadata",
    }
}
