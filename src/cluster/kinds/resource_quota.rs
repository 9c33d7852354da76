//! The trimmed ResourceQuota.

use crate::cluster::{Meta, lenient::trimmed};

trimmed! {
    /// A ResourceQuota.
    pub struct ResourceQuota {
        /// `metadata`.
        pub metadata: Meta = "metadata",
    }
}
