//! The trimmed StatefulSet.

use super::PodTemplate;
use crate::cluster::{Meta, lenient::trimmed};

trimmed! {
    /// A StatefulSet.
    pub struct StatefulSet {
        /// `metadata`.
        pub metadata: Meta = "metadata",
        /// `spec`.
        pub spec: StatefulSetSpec = "spec",
        /// `status`.
        pub status: StatefulSetStatus = "status",
    }

    /// `spec` of a StatefulSet.
    pub struct StatefulSetSpec {
        /// How many pods there should be; 1 if unset.
        pub replicas: Option<i32> = "replicas",
        /// How long a pod must be ready to count as available.
        pub min_ready_seconds: i32 = "minReadySeconds",
        /// `template`.
        pub template: PodTemplate = "template",
        /// `updateStrategy.type`: `RollingUpdate` (also when empty), `OnDelete` or `Recreate`.
        pub update_strategy: Box<str>,
        /// `updateStrategy.rollingUpdate.partition`: how many of the first pods keep the old revision.
        pub partition: i32,
    }
    "updateStrategy" => |spec, strategy: Strategy| {
        spec.update_strategy = strategy.r#type;
        spec.partition = strategy.rolling_update.partition;
    } <= {
        let rolling_update = RollingUpdate { partition: spec.partition };
        Strategy { r#type: spec.update_strategy.clone(), rolling_update }
    }

    /// `updateStrategy` of a StatefulSet.
    struct Strategy {
        r#type: Box<str> = "type",
        rolling_update: RollingUpdate = "rollingUpdate",
    }

    /// `rollingUpdate` of the strategy.
    struct RollingUpdate {
        partition: i32 = "partition",
    }

    /// `status` of a StatefulSet. The counters count the pods of both revisions.
    pub struct StatefulSetStatus {
        /// The generation that the other fields are about; 0 if there are none yet.
        pub observed_generation: i64 = "observedGeneration",
        /// How many pods there are, those that end included.
        pub replicas: i32 = "replicas",
        /// How many of them are ready.
        pub ready_replicas: i32 = "readyReplicas",
        /// How many of them are ready for as long as they must be.
        pub available_replicas: i32 = "availableReplicas",
        /// How many of them are of the revision that is being replaced.
        pub current_replicas: i32 = "currentReplicas",
        /// How many of them are of the newest revision.
        pub updated_replicas: i32 = "updatedReplicas",
        /// The revision that is being replaced; the newest one if none is.
        pub current_revision: Box<str> = "currentRevision",
        /// The newest revision.
        pub update_revision: Box<str> = "updateRevision",
    }
}
