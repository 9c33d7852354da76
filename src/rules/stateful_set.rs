//! The rules on StatefulSets.

use super::{Evaluation, Rule};
use crate::cluster::{Kind, KindId, Meta, StatefulSet};

/// Every rule on StatefulSets.
pub const RULES: &[&Rule] = &[];

impl Kind for StatefulSet {
    const ID: KindId = KindId::StatefulSet;
    const GROUP: &'static str = "apps";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "StatefulSet";
    const PLURAL: &'static str = "statefulsets";
    const LABEL: Option<&'static str> = Some("statefulset");
    const IS_WORKLOAD: bool = true;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }

    fn evaluate(&self, _evaluation: &mut Evaluation<'_>) {}
}
