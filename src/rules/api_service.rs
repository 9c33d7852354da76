//! The rules on `APIServices`.

use super::{
    DELETED, Evaluation, Finding, Rule, minutes, since,
    text::{Line, or},
};
use crate::{
    alert::Severity,
    cluster::{ApiService, Condition, Kind, KindId, Meta},
};

/// Every rule on `APIServices`.
pub const RULES: &[&Rule] = &[&AGGREGATED_API_DOWN];

/// An API of the cluster is not served.
static AGGREGATED_API_DOWN: Rule = Rule {
    name: "KubeAggregatedAPIDown",
    kind: KindId::ApiService,
    severity: Severity::Warning,
    r#for: minutes(5),
    hold: minutes(2),
    description: "An API that a Service adds to the cluster's is not available. Who needs it fails; while it is down, namespaces cannot be deleted.",
    ..Rule::DEFAULTS
};

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

    fn evaluate(&self, evaluation: &mut Evaluation<'_>) {
        if self.metadata.deletion_timestamp.is_some() {
            evaluation.quiet_all(RULES, DELETED);
            return;
        }
        // Without a Service, the API server serves it itself, or it is a CustomResourceDefinition's.
        let Some(service) = &self.spec.service else {
            let because = "no Service is behind it: the API server serves it itself";
            evaluation.quiet(&AGGREGATED_API_DOWN, because);
            return;
        };
        let Some(available) = Condition::find(&self.status.conditions, "Available")
            .filter(|available| available.is_false())
        else {
            let because = "nothing says that it is not available";
            evaluation.quiet(&AGGREGATED_API_DOWN, because);
            return;
        };
        let summary = format!(
            "is not served by Service {}/{}: {}",
            service.namespace,
            service.name,
            Line(or(&available.message, "the API server does not say why"))
        );
        evaluation.push(Finding::new(
            &AGGREGATED_API_DOWN,
            or(&available.reason, "NotAvailable"),
            since(available.last_transition_time),
            summary,
        ));
    }
}
