//! The rules on Services, as their EndpointSlices show them. What a slice says counts only while no other slice of its Service has an endpoint that serves:
//! the engine sees to that.

use super::{Evaluation, Finding, Rule, Since, Threshold, minutes, since};
use crate::{
    alert::Severity,
    cluster::{EndpointSlice, Kind, KindId, Meta, Subject, WorkloadType},
};

/// Every rule on Services.
pub const RULES: &[&Rule] = &[&NO_ENDPOINTS];

/// A Service has nothing that takes its traffic.
static NO_ENDPOINTS: Rule = Rule {
    name: "KubeServiceNoEndpoints",
    kind: KindId::EndpointSlice,
    severity: Severity::Warning,
    r#for: minutes(5),
    hold: minutes(1),
    thresholds: &[&FOR_EMPTY],
    description: "A Service has no endpoint that is ready: who calls it gets no answer.",
    ..Rule::DEFAULTS
};

/// How long a Service may have no endpoints at all: its workload may be scaled to zero, or be yet to come.
static FOR_EMPTY: Threshold = Threshold::duration(
    "for_empty",
    minutes(15),
    "How long a Service may have no endpoints at all.",
);

impl Kind for EndpointSlice {
    const ID: KindId = KindId::EndpointSlice;
    const GROUP: &'static str = "discovery.k8s.io";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "EndpointSlice";
    const PLURAL: &'static str = "endpointslices";
    const LABEL: Option<&'static str> = None;
    const IS_WORKLOAD: bool = false;
    /// Those of Services with a selector. The others are written by hand, or by who knows better than Kubernetes what they mean.
    const SELECTOR: Option<&'static str> =
        Some("endpointslice.kubernetes.io/managed-by=endpointslice-controller.k8s.io");

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }

    /// Its Service.
    fn subject(&self) -> (Subject, WorkloadType) {
        match &self.metadata.service_name {
            Some(service) => {
                let subject = Subject {
                    kind: "Service".into(),
                    namespace: self.metadata.namespace.clone(),
                    name: service.clone(),
                };
                (subject, WorkloadType::Controller)
            }
            None => Subject::of(Self::KIND, &self.metadata),
        }
    }

    fn pods(&self) -> &[Box<str>] {
        &self.endpoints.pods
    }

    fn evaluate(&self, evaluation: &mut Evaluation<'_>) {
        let meta = &self.metadata;
        if meta.deletion_timestamp.is_some() {
            evaluation.quiet(&NO_ENDPOINTS, "the slice is being deleted");
            return;
        }
        // Saved objects come without the selector.
        if meta.slice_manager.as_deref() != Some("endpointslice-controller.k8s.io") {
            evaluation.quiet(&NO_ENDPOINTS, "its Service has no selector");
            return;
        }
        let Some(service) = &meta.service_name else {
            evaluation.quiet(&NO_ENDPOINTS, "the slice is of no Service");
            return;
        };
        if self.endpoints.serve {
            evaluation.quiet(&NO_ENDPOINTS, "an endpoint is ready");
            return;
        }
        let changed = meta
            .last_change
            .map_or(Since::FirstSeen, Since::FirstSeenOr);
        let finding = match self.endpoints.idle {
            // The first version of a slice: the controller writes an empty one for a Service that matches no pod.
            0 if meta.generation <= 1 => Finding::new(
                &NO_ENDPOINTS,
                "NeverHadEndpoints",
                since(meta.creation_timestamp),
                "has never had an endpoint: no pod with an address matches its selector".to_owned(),
            ),
            0 => Finding::new(
                &NO_ENDPOINTS,
                "NoEndpoints",
                changed,
                "has lost its last endpoint: no pod with an address matches its selector any more"
                    .to_owned(),
            ),
            1 => Finding::new(
                &NO_ENDPOINTS,
                "NotReady",
                changed,
                "has one endpoint, and it is not ready".to_owned(),
            ),
            idle => Finding::new(
                &NO_ENDPOINTS,
                "NotReady",
                changed,
                format!("has {idle} endpoints, and none of them is ready"),
            ),
        };
        let finding = if self.endpoints.idle == 0 {
            // That is how a Service looks whose workload was scaled to zero on purpose.
            let severity = Severity::Info;
            Finding {
                severity,
                ..finding
            }
            .after(evaluation.duration(&NO_ENDPOINTS, &FOR_EMPTY))
        } else {
            finding
        };
        evaluation.push(finding.about("service", service));
    }
}
