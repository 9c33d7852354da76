//! The trimmed PodDisruptionBudget.

use crate::cluster::{Meta, lenient::trimmed};

trimmed! {
    /// A PodDisruptionBudget.
    pub struct PodDisruptionBudget {
        /// `metadata`.
        pub metadata: Meta = "metadata",
    }
}
