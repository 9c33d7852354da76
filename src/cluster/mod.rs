//! The cluster as alertkube sees it: trimmed objects, their subjects, and (at the edge) the client, the watches and the clock.

mod clock;
mod lenient;
mod meta;
mod object;
mod pod;
mod subject;

pub use clock::Clock;
pub use meta::{Meta, Owner};
pub use object::{Kind, KindId, Object, ObjectRef, Wire};
pub use pod::{
    Condition, Container, ContainerState, ContainerStatus, Pod, PodSpec, PodStatus, Probe,
    RestartRule, Running, Terminated, Waiting,
};
pub use subject::{Subject, SubjectError, WorkloadType};
