//! The rules on Namespaces.

use super::{
    Evaluation, Finding, Rule, Since, minutes,
    text::{Line, List, push},
};
use crate::{
    alert::Severity,
    cluster::{Condition, Kind, KindId, Meta, Namespace},
};

/// Every rule on Namespaces.
pub const RULES: &[&Rule] = &[&STUCK_TERMINATING];

/// A deleted namespace does not go.
static STUCK_TERMINATING: Rule = Rule {
    name: "KubeNamespaceStuckTerminating",
    kind: KindId::Namespace,
    severity: Severity::Warning,
    r#for: minutes(15),
    description: "A namespace was deleted, and it or something in it is still there.",
    ..Rule::DEFAULTS
};

/// How many of the conditions a summary tells: most often the finalizer, and what has it.
const TOLD: usize = 2;

/// What the namespace controller says of a deletion, by what explains most: a failure explains what remains, and a finalizer the object that has it.
const CONDITIONS: [&str; 5] = [
    "NamespaceDeletionDiscoveryFailure",
    "NamespaceDeletionGroupVersionParsingFailure",
    "NamespaceDeletionContentFailure",
    "NamespaceFinalizersRemaining",
    "NamespaceContentRemaining",
];

impl Kind for Namespace {
    const ID: KindId = KindId::Namespace;
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Namespace";
    const PLURAL: &'static str = "namespaces";
    const LABEL: Option<&'static str> = Some("namespace");
    const IS_WORKLOAD: bool = false;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }

    fn evaluate(&self, evaluation: &mut Evaluation<'_>) {
        let Some(deletion) = self.metadata.deletion_timestamp else {
            evaluation.quiet(&STUCK_TERMINATING, "it is not being deleted");
            return;
        };
        let mut reason = None;
        let mut summary = "still terminating".to_owned();
        let told = CONDITIONS
            .iter()
            .filter_map(|r#type| Condition::find(&self.status.conditions, r#type))
            .filter(|condition| condition.is_true())
            .take(TOLD);
        for condition in told {
            reason.get_or_insert(&*condition.r#type);
            if !condition.message.is_empty() {
                push(&mut summary, format_args!("; {}", Line(&condition.message)));
            }
        }
        // Without a word of the controller: it is empty, and somebody's own finalizer is on it; or it has not been looked at.
        if reason.is_none() && !self.metadata.finalizers.is_empty() {
            let finalizers = List(&self.metadata.finalizers);
            push(&mut summary, format_args!("; finalizers {finalizers}"));
        }
        evaluation.push(Finding::new(
            &STUCK_TERMINATING,
            reason.unwrap_or("Terminating"),
            Since::At(deletion),
            summary,
        ));
    }
}
