//! The rules on APIServices.

use super::{Evaluation, Rule};
use crate::cluster::{ApiService, Kind, KindId, Meta};

/// Every rule on APIServices.
pub const RULES: &[&Rule] = &[];

impl Kind for ApiService {
    const ID: KindId = KindId::ApiService;
    const GROUP: &'static str = "apiregistration.k8s.io";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "APIService";
    const PLURAL: &'static str = "apiservices";
    const LABEL: Option<&'static str> = Some("name");
    const IS_WORKLOAD: bool = false;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }

    fn evaluate(&self, _evaluation: &mut Evaluation<'_>) {}
}
