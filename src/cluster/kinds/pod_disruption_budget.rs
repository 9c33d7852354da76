//! The trimmed `PodDisruptionBudget`.

use super::Condition;
use crate::cluster::{Meta, label_set::Selector, lenient::trimmed};

trimmed! {
    /// A `PodDisruptionBudget`.
    pub struct PodDisruptionBudget {
        /// `metadata`.
        pub metadata: Meta = "metadata",
        /// `spec`.
        pub spec: PodDisruptionBudgetSpec = "spec",
        /// `status`.
        pub status: PodDisruptionBudgetStatus = "status",
    }

    /// What it asks for.
    pub struct PodDisruptionBudgetSpec {
        /// `spec.selector`: the pods that it is about.
        pub selector: Selector = "selector",
    }

    /// What its controller counted.
    pub struct PodDisruptionBudgetStatus {
        /// `status.observedGeneration`: the spec that the counts are about.
        pub observed_generation: i64 = "observedGeneration",
        /// `status.currentHealthy`: pods that are ready, and not about to be evicted.
        pub current_healthy: i32 = "currentHealthy",
        /// `status.desiredHealthy`: the fewest that the budget allows.
        pub desired_healthy: i32 = "desiredHealthy",
        /// `status.disruptionsAllowed`: how many pods may be evicted now.
        pub disruptions_allowed: i32 = "disruptionsAllowed",
        /// `status.expectedPods`: pods that the budget is about.
        pub expected_pods: i32 = "expectedPods",
        /// `status.conditions`.
        pub conditions: Vec<Condition> = "conditions",
    }
}
