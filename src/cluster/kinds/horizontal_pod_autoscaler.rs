//! The trimmed `HorizontalPodAutoscaler`.

use jiff::Timestamp;

use super::Condition;
use crate::cluster::{Meta, lenient::trimmed};

trimmed! {
    /// A `HorizontalPodAutoscaler`.
    pub struct HorizontalPodAutoscaler {
        /// `metadata`.
        pub metadata: Meta = "metadata",
        /// `spec`.
        pub spec: HorizontalPodAutoscalerSpec = "spec",
        /// `status`.
        pub status: HorizontalPodAutoscalerStatus = "status",
    }

    /// What is asked for.
    pub struct HorizontalPodAutoscalerSpec {
        /// `spec.scaleTargetRef`: what it scales.
        pub target: ScaleTarget = "scaleTargetRef",
        /// `spec.minReplicas`; 1 if absent.
        pub min_replicas: Option<i32> = "minReplicas",
        /// `spec.maxReplicas`.
        pub max_replicas: i32 = "maxReplicas",
    }

    /// A workload of the same namespace.
    #[derive(PartialEq, Eq)]
    pub struct ScaleTarget {
        /// Its kind.
        pub kind: Box<str> = "kind",
        /// Its name.
        pub name: Box<str> = "name",
    }

    /// What its controller saw.
    ///
    /// Without `observedGeneration`: the controller leaves it as it is when it cannot read the target's scale, so that the worst fault looks stale.
    pub struct HorizontalPodAutoscalerStatus {
        /// `status.currentReplicas`: what the target's spec asked for when the controller last looked.
        pub current_replicas: i32 = "currentReplicas",
        /// `status.desiredReplicas`: what the controller made of it then, within its limits.
        pub desired_replicas: i32 = "desiredReplicas",
        /// `status.lastScaleTime`: when the controller last changed the target.
        pub last_scale_time: Option<Timestamp> = "lastScaleTime",
        /// `status.conditions`.
        pub conditions: Vec<Condition> = "conditions",
    }
}
