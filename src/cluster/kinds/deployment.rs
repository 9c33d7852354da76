//! The trimmed Deployment.

use crate::cluster::{Meta, lenient::trimmed};

trimmed! {
    /// A Deployment.
    pub struct Deployment {
        /// `metadata`.
        pub metadata: Meta = "metadata",
    }
}
