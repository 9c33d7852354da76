//! The rules on Deployments.

use super::{Evaluation, Rule};
use crate::cluster::{Deployment, Kind, KindId, Meta};

/// Every rule on Deployments.
pub const RULES: &[&Rule] = &[];

impl Kind for Deployment {
    const ID: KindId = KindId::Deployment;
    const GROUP: &'static str = "apps";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Deployment";
    const PLURAL: &'static str = "deployments";
    const LABEL: Option<&'static str> = Some("deployment");
    const IS_WORKLOAD: bool = true;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }

    fn evaluate(&self, _evaluation: &mut Evaluation<'_>) {}
}
