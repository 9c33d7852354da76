//! The trimmed Job.

use jiff::Timestamp;

use super::{Condition, pod::Count};
use crate::cluster::{Meta, lenient::trimmed};

trimmed! {
    /// A Job.
    pub struct Job {
        /// `metadata`.
        pub metadata: Meta = "metadata",
        /// `spec`.
        pub spec: JobSpec = "spec",
        /// `status`.
        pub status: JobStatus = "status",
    }

    /// `spec` of a Job.
    pub struct JobSpec {
        /// How many pods may run at once; 1 if unset.
        pub parallelism: Option<i32> = "parallelism",
        /// Whether no pod may run.
        pub suspend: bool = "suspend",
        /// How long it may run, in seconds.
        pub active_deadline_seconds: Option<i64> = "activeDeadlineSeconds",
        /// The controller that runs it; empty for Kubernetes' own.
        pub managed_by: Box<str> = "managedBy",
    }

    /// `status` of a Job.
    pub struct JobStatus {
        /// When its controller took it up, or took it up again after it was suspended.
        pub start_time: Option<Timestamp> = "startTime",
        /// When it ended well.
        pub completion_time: Option<Timestamp> = "completionTime",
        /// Pods that are pending or running.
        pub active: i32 = "active",
        /// Pods that ended well.
        pub succeeded: i32 = "succeeded",
        /// Pods that failed.
        pub failed: i32 = "failed",
        /// Pods that are being deleted.
        pub terminating: i32 = "terminating",
        /// Pods that have ended and are in no count yet.
        pub uncounted_terminated_pods: usize,
        /// Conditions.
        pub conditions: Vec<Condition> = "conditions",
    }
    "uncountedTerminatedPods" => |status, pods: Uncounted| {
        status.uncounted_terminated_pods = pods.succeeded.0 + pods.failed.0;
    } <= {
        // How many of them failed is not known, nor asked.
        Uncounted { succeeded: Count(status.uncounted_terminated_pods), failed: Count(0) }
    }

    /// `uncountedTerminatedPods` of a Job.
    struct Uncounted {
        succeeded: Count = "succeeded",
        failed: Count = "failed",
    }
}
