//! Subjects: what an alert is about, found from an object alone.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What an alert is about, and what is sharded: a workload, a node, a claim, ...
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Subject {
    /// The kind, as Kubernetes spells it (`Deployment`).
    pub kind: Box<str>,
    /// The namespace; empty for a cluster-scoped kind.
    pub namespace: Box<str>,
    /// The name.
    pub name: Box<str>,
}

impl fmt::Display for Subject {
    /// `Kind/namespace/name`: the text whose hash is the shard key. The namespace is empty for a cluster-scoped kind (`Node//node-1`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.kind, self.namespace, self.name)
    }
}

/// What a subject's label `workload_type` says: the kind in lower case, but `barepod` and `staticpod` for pods without a controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkloadType {
    /// A controller's kind.
    Controller,
    /// A pod that nothing controls.
    BarePod,
    /// The mirror of a pod that a kubelet runs from a file on its node.
    StaticPod,
}

impl WorkloadType {
    /// The value of the label `workload_type`.
    pub fn label(&self, subject: &Subject) -> String {
        match self {
            Self::Controller => subject.kind.to_lowercase(),
            Self::BarePod => "barepod".to_owned(),
            Self::StaticPod => "staticpod".to_owned(),
        }
    }
}
