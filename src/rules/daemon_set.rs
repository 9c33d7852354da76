//! The rules on DaemonSets.

use super::{Evaluation, Rule};
use crate::cluster::{DaemonSet, Kind, KindId, Meta};

/// Every rule on DaemonSets.
pub const RULES: &[&Rule] = &[];

impl Kind for DaemonSet {
    const ID: KindId = KindId::DaemonSet;
    const GROUP: &'static str = "apps";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "DaemonSet";
    const PLURAL: &'static str = "daemonsets";
    const LABEL: Option<&'static str> = Some("daemonset");
    const IS_WORKLOAD: bool = true;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }

    fn evaluate(&self, _evaluation: &mut Evaluation<'_>) {}
}
