//! The rules on PersistentVolumes.

use super::{Evaluation, Rule};
use crate::cluster::{Kind, KindId, Meta, PersistentVolume};

/// Every rule on PersistentVolumes.
pub const RULES: &[&Rule] = &[];

impl Kind for PersistentVolume {
    const ID: KindId = KindId::PersistentVolume;
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "PersistentVolume";
    const PLURAL: &'static str = "persistentvolumes";
    const LABEL: Option<&'static str> = Some("persistentvolume");
    const IS_WORKLOAD: bool = false;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }

    fn evaluate(&self, _evaluation: &mut Evaluation<'_>) {}
}
