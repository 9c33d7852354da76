//! The rules on Nodes.

use super::{Evaluation, Rule};
use crate::cluster::{Kind, KindId, Meta, Node};

/// Every rule on Nodes.
pub const RULES: &[&Rule] = &[];

impl Kind for Node {
    const ID: KindId = KindId::Node;
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Node";
    const PLURAL: &'static str = "nodes";
    const LABEL: Option<&'static str> = Some("node");
    const IS_WORKLOAD: bool = false;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }

    fn evaluate(&self, _evaluation: &mut Evaluation<'_>) {}
}
