//! The cluster as alertkube sees it: trimmed objects, their subjects, and (at the edge) the client, the watches and the clock.

mod backoff;
mod client;
mod clock;
mod connect;
mod failure;
mod kinds;
mod label_set;
mod lenient;
mod list;
mod meta;
mod name;
mod object;
mod own_set;
mod rights;
mod sparse;
mod subject;
mod tap;
mod watch;

pub use client::{client, install_crypto_provider, server};
pub use clock::Clock;
pub use connect::{ConnectError, ConnectOptions, Connection, connect};
pub(crate) use failure::find;
pub use failure::{Failure, FailureReason};
pub use kinds::{
    ApiService, Condition, Container, ContainerState, ContainerStatus, CronJob, DaemonSet,
    DaemonSetSpec, DaemonSetStatus, Deployment, DeploymentSpec, DeploymentStatus, EndpointSlice,
    HorizontalPodAutoscaler, Job, Namespace, Node, NodeSpec, NodeStatus, PersistentVolume,
    PersistentVolumeClaim, Pod, PodDisruptionBudget, PodSpec, PodStatus, PodTemplate,
    PodTemplateSpec, Probe, ReplicaSet, ReplicaSetSpec, ReplicaSetStatus, ResourceQuota,
    RestartRule, Running, ScaleTarget, StatefulSet, StatefulSetSpec, StatefulSetStatus, Taint,
    Terminated, Waiting,
};
pub use label_set::{LabelSet, Selector};
pub use meta::{Meta, Owner};
pub use name::{cluster_uid, wait_for_cluster_uid};
pub use object::{Kind, KindId, Object, ObjectRef};
pub use own_set::{OwnSet, own_stateful_set};
pub use rights::{RightsError, check_rights};
pub use subject::{Subject, SubjectError, WorkloadType};
pub use tap::Tap;
pub use watch::{Event, WatchOptions};

pub(crate) use backoff::Backoff;

use list::list;
use object::Wire;
use watch::watch;
