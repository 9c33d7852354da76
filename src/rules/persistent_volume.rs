//! The rules on PersistentVolumes.

use super::{
    Evaluation, Finding, Rule, Threshold, minutes, since,
    text::{self, Line, push},
};
use crate::{
    alert::Severity,
    cluster::{Kind, KindId, Meta, PersistentVolume},
};

/// Every rule on PersistentVolumes.
pub const RULES: &[&Rule] = &[&ERRORS];

/// A volume is in a phase that it does not leave by itself.
static ERRORS: Rule = Rule {
    name: "KubePersistentVolumeErrors",
    kind: KindId::PersistentVolume,
    // kubernetes-mixin: critical. But nobody is down: a claim that has no volume speaks for itself.
    severity: Severity::Warning,
    r#for: minutes(5),
    thresholds: &[&FOR_RELEASED],
    description: "A volume could not be deleted or recycled after its claim was gone, or does not become available.",
    ..Rule::DEFAULTS
};

/// A volume that its claim has released and its provisioner deletes: as soon as it is detached everywhere, if it can be.
static FOR_RELEASED: Threshold = Threshold::duration(
    "for_released",
    minutes(60),
    "How long a volume that its provisioner deletes may stay after its claim is gone.",
);

impl Kind for PersistentVolume {
    const ID: KindId = KindId::PersistentVolume;
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "PersistentVolume";
    const PLURAL: &'static str = "persistentvolumes";
    const LABEL: Option<&'static str> = Some("persistentvolume");
    const IS_WORKLOAD: bool = false;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }

    fn evaluate(&self, evaluation: &mut Evaluation<'_>) {
        let Self {
            metadata,
            spec,
            status,
        } = self;
        let changed = status.last_phase_transition_time;
        let deletes = &*spec.reclaim_policy == "Delete";
        // Failed and Released count also while the object is being deleted: it is what its storage keeps back.
        let (what, r#for, since) = match &*status.phase {
            "Failed" => (
                "could not be reclaimed",
                evaluation.r#for(&ERRORS),
                since(changed),
            ),
            // Of what is not its own to delete, the controller expects that the provisioner does it, and never says Failed.
            "Released" if deletes => (
                "is released, but not deleted",
                evaluation.duration(&ERRORS, &FOR_RELEASED),
                since(changed),
            ),
            "Pending" if metadata.deletion_timestamp.is_none() => {
                let since = since(changed.or(metadata.creation_timestamp));
                (
                    "does not become available",
                    evaluation.r#for(&ERRORS),
                    since,
                )
            }
            phase => {
                let because = format_args!("its phase is {}", text::or(phase, "not known"));
                evaluation.quiet(&ERRORS, because);
                return;
            }
        };
        let mut summary = what.to_owned();
        if let Some(claim) = &spec.claim {
            let (namespace, name) = (&claim.namespace, &claim.name);
            push(&mut summary, format_args!(" (claim {namespace}/{name})"));
        }
        if !status.message.is_empty() {
            push(&mut summary, format_args!(": {}", Line(&status.message)));
        }
        let reason = text::or(&status.reason, &status.phase);
        evaluation.push(Finding::new(&ERRORS, reason, since, summary).after(r#for));
    }
}
