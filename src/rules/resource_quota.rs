//! The rules on ResourceQuotas.

use super::{Evaluation, Rule};
use crate::cluster::{Kind, KindId, Meta, ResourceQuota};

/// Every rule on ResourceQuotas.
pub const RULES: &[&Rule] = &[];

impl Kind for ResourceQuota {
    const ID: KindId = KindId::ResourceQuota;
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "ResourceQuota";
    const PLURAL: &'static str = "resourcequotas";
    const LABEL: Option<&'static str> = Some("resourcequota");
    const IS_WORKLOAD: bool = false;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }

    fn evaluate(&self, _evaluation: &mut Evaluation<'_>) {}
}
