//! The rules on PodDisruptionBudgets.

use super::{Evaluation, Rule};
use crate::cluster::{Kind, KindId, Meta, PodDisruptionBudget};

/// Every rule on PodDisruptionBudgets.
pub const RULES: &[&Rule] = &[];

impl Kind for PodDisruptionBudget {
    const ID: KindId = KindId::PodDisruptionBudget;
    const GROUP: &'static str = "policy";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "PodDisruptionBudget";
    const PLURAL: &'static str = "poddisruptionbudgets";
    const LABEL: Option<&'static str> = Some("poddisruptionbudget");
    const IS_WORKLOAD: bool = false;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }

    fn evaluate(&self, _evaluation: &mut Evaluation<'_>) {}
}
