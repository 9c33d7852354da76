//! The rules on PersistentVolumeClaims.

use super::{Evaluation, Rule};
use crate::cluster::{Kind, KindId, Meta, PersistentVolumeClaim};

/// Every rule on PersistentVolumeClaims.
pub const RULES: &[&Rule] = &[];

impl Kind for PersistentVolumeClaim {
    const ID: KindId = KindId::PersistentVolumeClaim;
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "PersistentVolumeClaim";
    const PLURAL: &'static str = "persistentvolumeclaims";
    const LABEL: Option<&'static str> = Some("persistentvolumeclaim");
    const IS_WORKLOAD: bool = false;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }

    fn evaluate(&self, _evaluation: &mut Evaluation<'_>) {}
}
