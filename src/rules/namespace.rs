//! The rules on Namespaces.

use super::{Evaluation, Rule};
use crate::cluster::{Kind, KindId, Meta, Namespace};

/// Every rule on Namespaces.
pub const RULES: &[&Rule] = &[];

impl Kind for Namespace {
    const ID: KindId = KindId::Namespace;
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Namespace";
    const PLURAL: &'static str = "namespaces";
    const LABEL: Option<&'static str> = Some("namespace");
    const IS_WORKLOAD: bool = false;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }

    fn evaluate(&self, _evaluation: &mut Evaluation<'_>) {}
}
