//! The rules on PersistentVolumeClaims.

use std::cmp::Reverse;

use super::{
    DELETED, Evaluation, Finding, Rule, Since, Threshold, minutes, since,
    text::{self, Line, push},
};
use crate::{
    alert::Severity,
    cluster::{Condition, Kind, KindId, Meta, PersistentVolumeClaim},
};

/// Every rule on PersistentVolumeClaims.
pub const RULES: &[&Rule] = &[&LOST, &PENDING, &RESIZE_FAILING, &UNHEALTHY];

/// A claim's volume is gone.
static LOST: Rule = Rule {
    name: "KubePersistentVolumeClaimLost",
    kind: KindId::PersistentVolumeClaim,
    severity: Severity::Critical,
    r#for: minutes(1),
    description: "A claim has lost its volume, and the data on it.",
    ..Rule::DEFAULTS
};

/// A claim gets no volume.
static PENDING: Rule = Rule {
    name: "KubePersistentVolumeClaimPending",
    kind: KindId::PersistentVolumeClaim,
    severity: Severity::Warning,
    r#for: minutes(5),
    thresholds: &[&FOR_FILLED],
    description: "A claim gets no volume: the one that was asked for is not provisioned, or the one that it names is not bound to it.",
    ..Rule::DEFAULTS
};

/// A claim's volume does not become what was asked for.
static RESIZE_FAILING: Rule = Rule {
    name: "KubePersistentVolumeClaimResizeFailing",
    kind: KindId::PersistentVolumeClaim,
    severity: Severity::Warning,
    r#for: minutes(5),
    // Each retry takes the error away for as long as the storage driver thinks about it.
    hold: minutes(2),
    description: "A claim's volume cannot be resized, or modified, as it was asked for.",
    ..Rule::DEFAULTS
};

/// The storage driver says that a volume is not well.
static UNHEALTHY: Rule = Rule {
    name: "KubePersistentVolumeUnhealthy",
    kind: KindId::PersistentVolumeClaim,
    severity: Severity::Critical,
    r#for: minutes(1),
    hold: minutes(5),
    thresholds: &[&FOR_DEGRADED],
    description: "The storage driver says that a claim's volume has lost data, cannot be accessed, or is degraded.",
    ..Rule::DEFAULTS
};

/// With a data source: the volume is filled before the claim is bound, and that takes as long as there is data.
static FOR_FILLED: Threshold = Threshold::duration(
    "for_filled",
    minutes(30),
    "How long a volume that is filled from a data source may take.",
);

/// Redundancy is lost, and comes back by itself in most systems; the data is there.
static FOR_DEGRADED: Threshold = Threshold::duration(
    "for_degraded",
    minutes(15),
    "How long a volume may be degraded, with its data there.",
);

/// What is remembered of a claim: that a pod was there to ask for its volume, and since when.
const ASKED: &str = "asked";

impl Kind for PersistentVolumeClaim {
    const ID: KindId = KindId::PersistentVolumeClaim;
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "PersistentVolumeClaim";
    const PLURAL: &'static str = "persistentvolumeclaims";
    const LABEL: Option<&'static str> = Some("persistentvolumeclaim");
    const IS_WORKLOAD: bool = false;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }

    fn evaluate(&self, evaluation: &mut Evaluation<'_>) {
        let phase = if self.metadata.deletion_timestamp.is_some() {
            ""
        } else {
            &*self.status.phase
        };
        match phase {
            "Pending" => pending(self, evaluation),
            "Bound" => {
                resize_failing(self, evaluation);
                unhealthy(self, evaluation);
            }
            "Lost" => lost(self, evaluation),
            _ => {}
        }
        if phase != "Pending" {
            evaluation.memo.forget_value(ASKED);
        }
        if phase.is_empty() && self.metadata.deletion_timestamp.is_some() {
            evaluation.quiet_all(RULES, DELETED);
        } else {
            let because =
                format_args!("its phase is {}", text::or(&self.status.phase, "not known"));
            evaluation.quiet_rest(RULES, because);
        }
    }
}

fn lost(claim: &PersistentVolumeClaim, evaluation: &mut Evaluation<'_>) {
    let summary = match &*claim.spec.volume_name {
        "" => "the reference to its volume is lost".to_owned(),
        volume => format!("its volume {volume} is gone, or belongs to another claim"),
    };
    // As the controller's event says it.
    evaluation.push(Finding::new(&LOST, "ClaimLost", Since::FirstSeen, summary));
}

fn pending(claim: &PersistentVolumeClaim, evaluation: &mut Evaluation<'_>) {
    let PersistentVolumeClaim { metadata, spec, .. } = claim;
    let node = metadata.selected_node.as_deref();
    let provisioner = metadata.storage_provisioner.as_deref();
    let (reason, mut summary) = if metadata.bind_completed {
        // It is bound for everybody but its phase, which is written last.
        evaluation.memo.forget_value(ASKED);
        evaluation.quiet(&PENDING, "it is bound but for its phase");
        return;
    } else if !spec.volume_name.is_empty() {
        let volume = &spec.volume_name;
        let summary = format!(
            "volume {volume} is not bound to it: it is missing, or does not fit or is taken"
        );
        ("VolumeNotBound", summary)
    } else if let Some(provisioner) = provisioner {
        let summary = format!("{} has not provisioned its volume", Line(provisioner));
        ("NotProvisioned", summary)
    } else if node.is_some() {
        ("NotProvisioned", "it has no volume".to_owned())
    } else {
        // It waits for the first pod that uses it, for a volume that somebody makes, or for a default storage class.
        evaluation.memo.forget_value(ASKED);
        let because = "nobody has asked for its volume yet: it waits for a pod that uses it, for a volume that fits, or for a default storage class";
        evaluation.quiet(&PENDING, because);
        return;
    };
    if let Some(node) = node {
        push(&mut summary, format_args!(" for node {}", Line(node)));
    }
    let mut r#for = evaluation.r#for(&PENDING);
    if let Some(source) = &spec.data_source {
        push(
            &mut summary,
            format_args!(" from {} {}", source.kind, source.name),
        );
        r#for = evaluation.duration(&PENDING, &FOR_FILLED);
    }
    // A volume that a pod's node decides on was not asked for before there was a pod: no time of the claim says when. If the node turns out to be the wrong
    // one, its name is taken away again until there is another.
    let since = if node.is_some() || evaluation.memo.value(ASKED).is_some() {
        Since::At(evaluation.memo.since(ASKED, "", evaluation.now))
    } else {
        since(metadata.creation_timestamp)
    };
    evaluation.push(Finding::new(&PENDING, reason, since, summary).after(r#for));
}

fn resize_failing(claim: &PersistentVolumeClaim, evaluation: &mut Evaluation<'_>) {
    let status = &claim.status;
    let failed = |r#type: &str| {
        Condition::find(&status.conditions, r#type).filter(|condition| condition.is_true())
    };
    let resize_error = || failed("ControllerResizeError").or_else(|| failed("NodeResizeError"));
    let (what, reason, condition) = if is_final(&status.resize_status) {
        ("resized", &*status.resize_status, resize_error())
    } else if let Some(error) = resize_error() {
        ("resized", &*error.r#type, Some(error))
    } else if &*status.modify_status == "Infeasible" {
        // The word for it then stands in the condition of a modification that goes on.
        let condition = failed("ModifyVolumeError").or_else(|| failed("ModifyingVolume"));
        ("modified", "ModifyVolumeInfeasible", condition)
    } else if let Some(error) = failed("ModifyVolumeError") {
        ("modified", &*error.r#type, Some(error))
    } else {
        let because = "nothing says that its volume could not be resized or modified";
        evaluation.quiet(&RESIZE_FAILING, because);
        return;
    };
    let mut summary = format!("its volume cannot be {what} as asked for");
    if let Some(condition) = condition.filter(|condition| !condition.message.is_empty()) {
        push(&mut summary, format_args!(": {}", Line(&condition.message)));
    }
    // The resizer replaces the condition with every failure, its time included: the earliest counts.
    let since = condition
        .and_then(|condition| condition.last_transition_time)
        .map_or(Since::FirstSeen, Since::FirstSeenOr);
    evaluation.push(Finding::new(&RESIZE_FAILING, reason, since, summary));
}

/// Whether a resize has failed for good: another size has to be asked for. The words are those of Kubernetes 1.31 and newer, and of 1.28 to 1.30.
fn is_final(resize_status: &str) -> bool {
    matches!(
        resize_status,
        "ControllerResizeInfeasible"
            | "NodeResizeInfeasible"
            | "ControllerResizeFailed"
            | "NodeResizeFailed"
    )
}

fn unhealthy(claim: &PersistentVolumeClaim, evaluation: &mut Evaluation<'_>) {
    let health = &claim.status.health;
    let worst = health
        .conditions
        .iter()
        .min_by_key(|condition| Reverse(badness(&condition.status)));
    let Some(worst) = worst else {
        let because = "its storage driver tells of nothing wrong with its volume";
        evaluation.quiet(&UNHEALTHY, because);
        return;
    };
    let is_down = badness(&worst.status) > 0;
    let mut summary = match &*worst.status {
        "DataLoss" => "its volume has lost data",
        "Inaccessible" => "its volume cannot be accessed",
        _ => "its volume is degraded",
    }
    .to_owned();
    for detail in [&worst.reason, &worst.message] {
        if !detail.is_empty() {
            push(&mut summary, format_args!(": {}", Line(detail)));
        }
    }
    // The time is that of the whole set of conditions. It tells since when the volume is down; but one that has been degraded stays degraded while the rest of the
    // set changes.
    let since = match health.last_transition_time {
        Some(time) if is_down => Since::At(time),
        Some(time) => Since::FirstSeenOr(time),
        None => Since::FirstSeen,
    };
    let reason = text::or(&worst.status, "Degraded");
    let mut finding = Finding::new(&UNHEALTHY, reason, since, summary);
    if !is_down {
        finding.severity = Severity::Warning;
        finding.r#for = Some(evaluation.duration(&UNHEALTHY, &FOR_DEGRADED));
    }
    evaluation.push(finding);
}

/// How bad a volume's condition is. One that is not known here is as bad as `Degraded`, as the driver's sidecar has it.
fn badness(status: &str) -> u8 {
    match status {
        "DataLoss" => 2,
        "Inaccessible" => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{cluster::Object, rules::Memo};

    fn look(memo: &mut Memo, claim: &Value) -> Vec<Finding> {
        let (object, _) = Object::decode("v1", "PersistentVolumeClaim", claim)
            .unwrap()
            .unwrap();
        let mut findings = Vec::new();
        object.evaluate(&mut Evaluation::new(
            "2026-11-20T10:00:00Z".parse().unwrap(),
            memo,
            &mut findings,
        ));
        findings
    }

    fn mk_claim(phase: &str) -> Value {
        json!({
            "metadata": {"name": "data", "namespace": "shop", "annotations": {}},
            "spec": {},
            "status": {"phase": phase},
        })
    }

    #[test]
    fn nothing_is_built_or_remembered_for_a_healthy_claim() {
        for phase in ["Bound", "Pending"] {
            let mut memo = Memo::default();
            let findings = look(&mut memo, &mk_claim(phase));
            assert_eq!((findings.capacity(), memo.is_empty()), (0, true));
        }
    }

    #[test]
    fn who_has_asked_is_forgotten_with_the_answer() {
        let mut asked = mk_claim("Pending");
        asked["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] = json!("node-a");
        let mut deleted = asked.clone();
        deleted["metadata"]["deletionTimestamp"] = json!("2026-11-20T09:00:00Z");
        let mut bound = asked.clone();
        bound["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = json!("yes");
        for end in [
            mk_claim("Bound"),
            mk_claim("Lost"),
            mk_claim("Pending"),
            deleted,
            bound,
        ] {
            let mut memo = Memo::default();
            assert_eq!(look(&mut memo, &asked).len(), 1);
            assert!(!memo.is_empty());
            look(&mut memo, &end);
            assert!(memo.is_empty(), "{end}");
        }
    }
}
