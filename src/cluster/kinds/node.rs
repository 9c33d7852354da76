//! The trimmed Node.

use crate::cluster::{Meta, lenient::trimmed};

trimmed! {
    /// A Node.
    pub struct Node {
        /// `metadata`.
        pub metadata: Meta = "metadata",
    }
}
