//! The trimmed Job.

use crate::cluster::{Meta, lenient::trimmed};

trimmed! {
    /// A Job.
    pub struct Job {
        /// `metadata`.
        pub metadata: Meta = "metadata",
    }
}
