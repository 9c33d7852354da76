//! The trimmed Deployment.

use super::{Condition, PodTemplate};
use crate::cluster::{Meta, lenient::trimmed};

trimmed! {
    /// A Deployment.
    pub struct Deployment {
        /// `metadata`.
        pub metadata: Meta = "metadata",
        /// `spec`.
        pub spec: DeploymentSpec = "spec",
        /// `status`.
        pub status: DeploymentStatus = "status",
    }

    /// `spec` of a Deployment.
    pub struct DeploymentSpec {
        /// How many pods there should be; 1 if unset.
        pub replicas: Option<i32> = "replicas",
        /// Whether changes of the template wait.
        pub paused: bool = "paused",
        /// How many seconds a pod must be ready before it counts as available.
        pub min_ready_seconds: i32 = "minReadySeconds",
        /// What the pods are made from.
        pub template: PodTemplate = "template",
    }

    /// `status` of a Deployment. A count of zero is left out.
    pub struct DeploymentStatus {
        /// The generation that the controller has seen last.
        pub observed_generation: i64 = "observedGeneration",
        /// Pods, old and new.
        pub replicas: i32 = "replicas",
        /// Pods of the newest template.
        pub updated_replicas: i32 = "updatedReplicas",
        /// Pods that are ready.
        pub ready_replicas: i32 = "readyReplicas",
        /// Pods that have been ready for `minReadySeconds`.
        pub available_replicas: i32 = "availableReplicas",
        /// `Available`, `Progressing`, `ReplicaFailure`.
        pub conditions: Vec<Condition> = "conditions",
    }
}
