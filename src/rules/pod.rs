//! The rules on Pods.

use super::{Evaluation, Rule};
use crate::cluster::{Kind, KindId, Meta, Pod, Subject, WorkloadType};

/// Every rule on Pods.
pub const RULES: &[&Rule] = &[];

impl Kind for Pod {
    const ID: KindId = KindId::Pod;
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Pod";
    const PLURAL: &'static str = "pods";

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }

    fn subject(&self) -> (Subject, WorkloadType) {
        Subject::of(Self::KIND, &self.metadata)
    }

    fn node(&self) -> &str {
        &self.spec.node_name
    }

    fn evaluate(&self, _evaluation: &mut Evaluation<'_>) {}
}
