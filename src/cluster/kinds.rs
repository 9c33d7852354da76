//! The trimmed kinds: what the rules read of each, and nothing else. One file a kind.

mod api_service;
mod condition;
mod cron_job;
mod daemon_set;
mod deployment;
mod endpoint_slice;
mod horizontal_pod_autoscaler;
mod job;
mod namespace;
mod node;
mod persistent_volume;
mod persistent_volume_claim;
mod pod;
mod pod_disruption_budget;
mod pod_template;
mod replica_set;
mod resource_quota;
mod stateful_set;

pub use api_service::ApiService;
pub use condition::Condition;
pub use cron_job::CronJob;
pub use daemon_set::{DaemonSet, DaemonSetSpec, DaemonSetStatus};
pub use deployment::{Deployment, DeploymentSpec, DeploymentStatus};
pub use endpoint_slice::EndpointSlice;
pub use horizontal_pod_autoscaler::{HorizontalPodAutoscaler, ScaleTarget};
pub use job::Job;
pub use namespace::Namespace;
pub use node::{Node, NodeSpec, NodeStatus, Taint};
pub use persistent_volume::PersistentVolume;
pub use persistent_volume_claim::PersistentVolumeClaim;
pub(super) use pod::Count;
pub use pod::{
    Container, ContainerState, ContainerStatus, Pod, PodSpec, PodStatus, Probe, RestartRule,
    Running, Terminated, Waiting,
};
pub use pod_disruption_budget::PodDisruptionBudget;
pub use pod_template::{PodTemplate, PodTemplateSpec};
pub use replica_set::{ReplicaSet, ReplicaSetSpec, ReplicaSetStatus};
pub use resource_quota::ResourceQuota;
pub use stateful_set::{StatefulSet, StatefulSetSpec, StatefulSetStatus};
