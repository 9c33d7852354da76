//! The trimmed `ReplicaSet`.

use super::{Condition, PodTemplate};
use crate::cluster::{Meta, lenient::trimmed};

trimmed! {
    /// A `ReplicaSet`.
    pub struct ReplicaSet {
        /// `metadata`.
        pub metadata: Meta = "metadata",
        /// `spec`.
        pub spec: ReplicaSetSpec = "spec",
        /// `status`.
        pub status: ReplicaSetStatus = "status",
    }

    /// `spec` of a `ReplicaSet`.
    pub struct ReplicaSetSpec {
        /// How many pods there should be; 1 if unset.
        pub replicas: Option<i32> = "replicas",
        /// How many seconds a pod must be ready before it counts as available.
        pub min_ready_seconds: i32 = "minReadySeconds",
        /// What the pods are made from.
        pub template: PodTemplate = "template",
    }

    /// `status` of a `ReplicaSet`. A count of zero is left out, but for `replicas`.
    pub struct ReplicaSetStatus {
        /// The generation that the controller has seen last.
        pub observed_generation: i64 = "observedGeneration",
        /// Pods.
        pub replicas: i32 = "replicas",
        /// Pods that are ready.
        pub ready_replicas: i32 = "readyReplicas",
        /// Pods that have been ready for `minReadySeconds`.
        pub available_replicas: i32 = "availableReplicas",
        /// `ReplicaFailure`.
        pub conditions: Vec<Condition> = "conditions",
    }
}
