//! The trimmed Namespace.

use crate::cluster::{Meta, lenient::trimmed};

trimmed! {
    /// A Namespace.
    pub struct Namespace {
        /// `metadata`.
        pub metadata: Meta = "metadata",
    }
}
