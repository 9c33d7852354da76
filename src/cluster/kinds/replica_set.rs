//! The trimmed ReplicaSet.

use crate::cluster::{Meta, lenient::trimmed};

trimmed! {
    /// A ReplicaSet.
    pub struct ReplicaSet {
        /// `metadata`.
        pub metadata: Meta = "metadata",
    }
}
