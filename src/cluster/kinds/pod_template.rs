//! The trimmed template of a workload's pods: what tells how long they may take to start, and to end.

use super::Container;
use crate::cluster::lenient::trimmed;

trimmed! {
    /// `spec.template` of a workload.
    pub struct PodTemplate {
        /// `spec` of the pods.
        pub spec: PodTemplateSpec = "spec",
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
