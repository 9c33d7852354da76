//! The rules on HorizontalPodAutoscalers.

use super::{Evaluation, Rule};
use crate::cluster::{HorizontalPodAutoscaler, Kind, KindId, Meta};

/// Every rule on HorizontalPodAutoscalers.
pub const RULES: &[&Rule] = &[];

impl Kind for HorizontalPodAutoscaler {
    const ID: KindId = KindId::HorizontalPodAutoscaler;
    const GROUP: &'static str = "autoscaling";
    const VERSION: &'static str = "v2";
    const KIND: &'static str = "HorizontalPodAutoscaler";
    const PLURAL: &'static str = "horizontalpodautoscalers";
    const LABEL: Option<&'static str> = Some("horizontalpodautoscaler");
    const IS_WORKLOAD: bool = false;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }

    fn evaluate(&self, _evaluation: &mut Evaluation<'_>) {}
}
