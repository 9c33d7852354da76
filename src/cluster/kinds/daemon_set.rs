//! The trimmed DaemonSet.

use super::PodTemplate;
use crate::cluster::{Meta, lenient::trimmed};

trimmed! {
    /// A DaemonSet.
    pub struct DaemonSet {
        /// `metadata`.
        pub metadata: Meta = "metadata",
        /// `spec`.
        pub spec: DaemonSetSpec = "spec",
        /// `status`.
        pub status: DaemonSetStatus = "status",
    }

    /// `spec` of a DaemonSet.
    pub struct DaemonSetSpec {
        /// How long a pod must be ready to count as available.
        pub min_ready_seconds: i32 = "minReadySeconds",
        /// `template`.
        pub template: PodTemplate = "template",
        /// `updateStrategy.type`: `RollingUpdate` (also when empty) or `OnDelete`.
        pub update_strategy: Box<str>,
    }
    "updateStrategy" => |spec, strategy: Strategy| { spec.update_strategy = strategy.r#type; } <= {
        Strategy { r#type: spec.update_strategy.clone() }
    }

    /// `updateStrategy` of a DaemonSet.
    struct Strategy {
        r#type: Box<str> = "type",
    }

    /// `status` of a DaemonSet. All but the misscheduled count nodes that should run a pod of it.
    pub struct DaemonSetStatus {
        /// The generation that the other fields are about; 0 if there are none yet.
        pub observed_generation: i64 = "observedGeneration",
        /// The nodes that should run a pod.
        pub desired_number_scheduled: i32 = "desiredNumberScheduled",
        /// Those that have one, whatever it does.
        pub current_number_scheduled: i32 = "currentNumberScheduled",
        /// Those that have one of the newest template.
        pub updated_number_scheduled: i32 = "updatedNumberScheduled",
        /// Those whose pod is ready.
        pub number_ready: i32 = "numberReady",
        /// Those whose pod is ready for as long as it must be.
        pub number_available: i32 = "numberAvailable",
        /// The nodes that run a pod and should not.
        pub number_misscheduled: i32 = "numberMisscheduled",
    }
}
