//! The rules on ResourceQuotas. A full quota stops nobody by itself: what it keeps from being created is told by the workload that wants it.

use std::cmp::Ordering;

use super::{
    DELETED, Evaluation, Finding, Rule, Since, Threshold, minutes, quantity::Quantity, text::Line,
};
use crate::{
    alert::Severity,
    cluster::{Kind, KindId, Meta, ResourceQuota},
};

/// Every rule on ResourceQuotas.
pub const RULES: &[&Rule] = &[&ALMOST_FULL, &FULLY_USED, &EXCEEDED];

/// A quota will be full soon.
static ALMOST_FULL: Rule = Rule {
    name: "KubeQuotaAlmostFull",
    kind: KindId::ResourceQuota,
    severity: Severity::Info,
    r#for: minutes(15),
    hold: minutes(5),
    thresholds: &[&PERCENT],
    description: "More than 90 % of what a quota allows of a resource are used.",
    ..Rule::DEFAULTS
};

/// A quota is full.
static FULLY_USED: Rule = Rule {
    name: "KubeQuotaFullyUsed",
    kind: KindId::ResourceQuota,
    severity: Severity::Info,
    r#for: minutes(15),
    hold: minutes(5),
    description: "All of what a quota allows of a resource is used.",
    ..Rule::DEFAULTS
};

/// There is more than a quota allows.
static EXCEEDED: Rule = Rule {
    name: "KubeQuotaExceeded",
    kind: KindId::ResourceQuota,
    severity: Severity::Warning,
    r#for: minutes(15),
    hold: minutes(5),
    description: "More of a resource is used than a quota allows: it was made smaller, or is younger than what it counts.",
    ..Rule::DEFAULTS
};

/// From here on a quota is almost full.
static PERCENT: Threshold = Threshold::percent(
    "percent",
    90,
    "From how much use of a quota on it is almost full, in percent.",
);

impl Kind for ResourceQuota {
    const ID: KindId = KindId::ResourceQuota;
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "ResourceQuota";
    const PLURAL: &'static str = "resourcequotas";
    const LABEL: Option<&'static str> = Some("resourcequota");
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
        let almost = evaluation.number(&ALMOST_FULL, &PERCENT);
        for (resource, hard) in self.status.hard.iter() {
            if let Some(used) = self.status.used.get(resource)
                && let Some(finding) = judge(resource, used, hard, almost)
            {
                evaluation.push(finding);
            }
        }
        let because = format_args!(
            "no resource is used to over {almost} % of what it allows, but not all of it"
        );
        evaluation.quiet_rest(&[&ALMOST_FULL], because);
        evaluation.quiet_rest(&[&FULLY_USED], "no resource is used to just what it allows");
        evaluation.quiet_rest(&[&EXCEEDED], "no resource is used beyond what it allows");
    }
}

/// From more than `almost` percent on, it is almost full.
fn judge(resource: &str, used_text: &str, hard_text: &str, almost: u32) -> Option<Finding> {
    // Kubernetes writes nothing that cannot be read.
    let (used, hard) = (Quantity::parse(used_text)?, Quantity::parse(hard_text)?);
    if hard <= Quantity::ZERO {
        // Not to be used at all.
        return None;
    }
    let (rule, reason) = match used.cmp(&hard) {
        Ordering::Greater => (&EXCEEDED, "Exceeded"),
        Ordering::Equal => (&FULLY_USED, "FullyUsed"),
        Ordering::Less if used.is_over(almost, hard) => (&ALMOST_FULL, "AlmostFull"),
        Ordering::Less => return None,
    };
    let (used_text, hard_text) = (Line(used_text), Line(hard_text));
    let (resource_text, percent) = (Line(resource), used.percent_of(hard));
    let summary =
        format!("{used_text} of {hard_text} {resource_text} are used, that is {percent} %");
    let finding = Finding::new(rule, reason, Since::FirstSeen, summary);
    Some(finding.about("resource", resource))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{cluster::Object, rules::Memo};

    #[test]
    fn nothing_is_built_or_remembered_for_a_quota_with_room() {
        let quota = json!({
            "metadata": {"name": "compute", "namespace": "shop"},
            "status": {
                "hard": {"requests.cpu": "10", "pods": "50", "services.nodeports": "0"},
                "used": {"requests.cpu": "7500m", "pods": "12", "services.nodeports": "0"},
            },
        });
        let (object, malformed) = Object::decode("v1", "ResourceQuota", &quota)
            .unwrap()
            .unwrap();
        let (mut memo, mut findings) = (Memo::default(), Vec::new());
        object.evaluate(&mut Evaluation::new(
            "2026-11-20T10:00:00Z".parse().unwrap(),
            &mut memo,
            &mut findings,
        ));
        assert_eq!(
            (malformed, findings.capacity(), memo.is_empty()),
            (0, 0, true)
        );
    }
}
