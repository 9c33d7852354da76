//! The rules on ReplicaSets.

use super::{Evaluation, Rule};
use crate::cluster::{Kind, KindId, Meta, ReplicaSet};

/// Every rule on ReplicaSets.
pub const RULES: &[&Rule] = &[];

impl Kind for ReplicaSet {
    const ID: KindId = KindId::ReplicaSet;
    const GROUP: &'static str = "apps";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "ReplicaSet";
    const PLURAL: &'static str = "replicasets";
    const LABEL: Option<&'static str> = Some("replicaset");
    const IS_WORKLOAD: bool = true;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }

    fn evaluate(&self, _evaluation: &mut Evaluation<'_>) {}
}
