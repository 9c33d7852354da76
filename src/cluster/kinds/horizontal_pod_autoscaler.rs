//! The trimmed HorizontalPodAutoscaler.

use crate::cluster::{Meta, lenient::trimmed};

trimmed! {
    /// A HorizontalPodAutoscaler.
    pub struct HorizontalPodAutoscaler {
        /// `metadata`.
        pub metadata: Meta = "metadata",
    }
}
