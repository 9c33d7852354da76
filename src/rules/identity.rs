//! The labels by which an object is known, before anything is found in it.

use std::{borrow::Cow, cell::OnceCell};

use crate::cluster::{Object, Subject, WorkloadType};

/// The labels that all alerts about an object have, as far as they come from the object and its cluster. Nothing is computed until it is asked for, because most objects are well.
#[derive(Debug)]
pub(super) struct Identity<'a> {
    object: &'a Object,
    cluster: &'a str,
    subject: OnceCell<(Subject, WorkloadType, Cow<'static, str>)>,
}

impl<'a> Identity<'a> {
    pub(super) const fn new(object: &'a Object, cluster: &'a str) -> Self {
        Self {
            object,
            cluster,
            subject: OnceCell::new(),
        }
    }

    /// The value of a label as the alert would have it (`alert/render.rs`); empty if there is none.
    pub(super) fn label(&self, name: &str) -> &str {
        let kind = self.object.kind();
        match name {
            "cluster" => return self.cluster,
            "namespace" => return &self.object.meta().namespace,
            _ => {}
        }
        // The rest takes the subject, which is an allocation.
        let known = kind.label() == Some(name)
            || matches!(name, "workload" | "workload_type" | "pod" | "node");
        if !known {
            return "";
        }
        let (subject, workload_type, as_label) = self.subject.get_or_init(|| {
            let (subject, workload_type) = self.object.subject();
            let as_label = workload_type.as_label(&subject);
            (subject, workload_type, as_label)
        });
        match (name, workload_type) {
            ("workload", _) if kind.is_workload() => &subject.name,
            ("workload_type", _) if kind.is_workload() => as_label,
            ("node", WorkloadType::StaticPod) => self.object.node(),
            ("pod", WorkloadType::BarePod | WorkloadType::StaticPod) => &subject.name,
            (name, _) if kind.label() == Some(name) && *subject.kind == *kind.as_str() => {
                &subject.name
            }
            _ => "",
        }
    }
}
