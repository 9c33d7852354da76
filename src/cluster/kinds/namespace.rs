//! The trimmed Namespace.

use super::Condition;
use crate::cluster::{Meta, lenient::trimmed};

trimmed! {
    /// A Namespace.
    pub struct Namespace {
        /// `metadata`.
        pub metadata: Meta = "metadata",
        /// `status`.
        pub status: NamespaceStatus = "status",
    }

    /// `status` of a Namespace.
    pub struct NamespaceStatus {
        /// Conditions. Only a namespace that is being deleted has any.
        pub conditions: Vec<Condition> = "conditions",
    }
}
