//! The rules on CronJobs.

use super::{Evaluation, Rule};
use crate::cluster::{CronJob, Kind, KindId, Meta};

/// Every rule on CronJobs.
pub const RULES: &[&Rule] = &[];

impl Kind for CronJob {
    const ID: KindId = KindId::CronJob;
    const GROUP: &'static str = "batch";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "CronJob";
    const PLURAL: &'static str = "cronjobs";
    const LABEL: Option<&'static str> = Some("cronjob");
    const IS_WORKLOAD: bool = true;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }

    fn evaluate(&self, _evaluation: &mut Evaluation<'_>) {}
}
