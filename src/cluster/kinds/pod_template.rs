//! The trimmed template of a workload's pods: what tells how long they may take to start, and to end, and who selects them.

use super::Container;
use crate::cluster::{label_set::LabelSet, lenient::trimmed};

trimmed! {
    /// `spec.template` of a workload.
    pub struct PodTemplate {
        /// `spec` of the pods.
        pub spec: PodTemplateSpec = "spec",
        /// `metadata.labels` of the pods.
        pub labels: LabelSet,
    }
    "metadata" => |template, metadata: TemplateMeta| { template.labels = metadata.labels; } <= {
        TemplateMeta { labels: template.labels.clone() }
    }

    /// `spec.template.metadata` of a workload.
    struct TemplateMeta {
        labels: LabelSet = "labels",
    }

    /// `spec.template.spec` of a workload.
    pub struct PodTemplateSpec {
        /// How long a pod has to end; 30 seconds if unset.
        pub termination_grace_period_seconds: Option<i64> = "terminationGracePeriodSeconds",
        /// Init containers, native sidecars among them.
        pub init_containers: Vec<Container> = "initContainers",
        /// Main containers.
        pub containers: Vec<Container> = "containers",
    }
}
