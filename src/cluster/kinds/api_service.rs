//! The trimmed APIService.

use crate::cluster::{Meta, lenient::trimmed};

trimmed! {
    /// An APIService.
    pub struct ApiService {
        /// `metadata`.
        pub metadata: Meta = "metadata",
    }
}
