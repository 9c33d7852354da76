//! The rules on Jobs.

use super::{Evaluation, Rule};
use crate::cluster::{Job, Kind, KindId, Meta};

/// Every rule on Jobs.
pub const RULES: &[&Rule] = &[];

impl Kind for Job {
    const ID: KindId = KindId::Job;
    const GROUP: &'static str = "batch";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Job";
    const PLURAL: &'static str = "jobs";
    const LABEL: Option<&'static str> = Some("job_name");
    const IS_WORKLOAD: bool = true;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }

    fn evaluate(&self, _evaluation: &mut Evaluation<'_>) {}
}
