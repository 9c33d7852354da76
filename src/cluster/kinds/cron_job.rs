//! The trimmed CronJob.

use crate::cluster::{Meta, lenient::trimmed};

trimmed! {
    /// A CronJob.
    pub struct CronJob {
        /// `metadata`.
        pub metadata: Meta = "metadata",
    }
}
