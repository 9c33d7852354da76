//! Subjects as people write them.

use std::str::FromStr;

use super::Subject;

/// A text that names no subject.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SubjectError {
    /// It does not have the form.
    #[error(
        "{0:?} is no subject: write Kind/namespace/name (Deployment/shop/web), or Kind//name for a kind without namespaces (Node//node-1)"
    )]
    Form(String),
    /// The kind is spelt in another way.
    #[error(
        "{text:?} is no subject: Kubernetes spells the kind {kind}, and the spelling is part of what is hashed"
    )]
    Spelling {
        /// The text.
        text: String,
        /// The kind, as Kubernetes spells it.
        kind: &'static str,
    },
    /// The kind has namespaces, and the text names none.
    #[error("{text:?} is no subject: a {kind} is in a namespace, write {kind}/namespace/name")]
    NamespaceMissing {
        /// The text.
        text: String,
        /// The kind.
        kind: String,
    },
    /// The kind has no namespaces, and the text names one.
    #[error("{text:?} is no subject: a {kind} is in no namespace, write {kind}//name")]
    NamespaceUnknown {
        /// The text.
        text: String,
        /// The kind.
        kind: String,
    },
}

/// Kinds that have no namespaces, among those that alerts are about.
const CLUSTER_SCOPED: &[&str] = &[
    "APIService",
    "Cluster",
    "ClusterRole",
    "CustomResourceDefinition",
    "MutatingWebhookConfiguration",
    "Namespace",
    "Node",
    "PersistentVolume",
    "StorageClass",
    "ValidatingWebhookConfiguration",
    "VolumeAttachment",
];

/// Kinds that have namespaces, among those that alerts are about.
const NAMESPACED: &[&str] = &[
    "CronJob",
    "DaemonSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "Ingress",
    "Job",
    "PersistentVolumeClaim",
    "Pod",
    "PodDisruptionBudget",
    "ReplicaSet",
    "ReplicationController",
    "ResourceQuota",
    "Rollout",
    "Service",
    "StatefulSet",
];

impl FromStr for Subject {
    type Err = SubjectError;

    /// Reads what [`Subject`] prints, `Kind/namespace/name`. The namespace is left out or left empty for a kind without namespaces: `Node/node-1`
    /// is `Node//node-1`. A kind that is not known here is taken as it is written, and then needs both slashes.
    fn from_str(text: &str) -> Result<Self, SubjectError> {
        let form = || SubjectError::Form(text.to_owned());
        let mut parts = text.split('/');
        let (kind, second, third) = (parts.next(), parts.next(), parts.next());
        let (Some(kind), Some(second), None) = (kind, second, parts.next()) else {
            return Err(form());
        };
        let (namespace, name) = match third {
            Some(name) => (second, name),
            None => ("", second),
        };
        let odd = |part: &str| part.contains(|c: char| c.is_whitespace() || c.is_control());
        if kind.is_empty() || name.is_empty() || [kind, namespace, name].into_iter().any(odd) {
            return Err(form());
        }
        let known = CLUSTER_SCOPED.iter().chain(NAMESPACED);
        if let Some(spelt) = known
            .copied()
            .find(|known| known.eq_ignore_ascii_case(kind) && *known != kind)
        {
            return Err(SubjectError::Spelling {
                text: text.to_owned(),
                kind: spelt,
            });
        }
        let (text, kind) = (text.to_owned(), kind.to_owned());
        if CLUSTER_SCOPED.contains(&&*kind) {
            if !namespace.is_empty() {
                return Err(SubjectError::NamespaceUnknown { text, kind });
            }
        } else if NAMESPACED.contains(&&*kind) {
            if namespace.is_empty() {
                return Err(SubjectError::NamespaceMissing { text, kind });
            }
        } else if third.is_none() {
            return Err(form());
        }
        Ok(Self {
            kind: kind.into(),
            namespace: namespace.into(),
            name: name.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_read_as_it_is_printed() {
        for text in [
            "Deployment/shop/web",
            "Node//node-1",
            "Cluster//prod",
            "Workflow/ci/build-x7",
            "Tenant//acme",
        ] {
            let subject: Subject = text.parse().unwrap();
            assert_eq!(subject.to_string(), text);
        }
        let node: Subject = "Node/node-1".parse().unwrap();
        assert_eq!(node.to_string(), "Node//node-1");
    }

    #[test]
    fn a_text_that_names_no_subject_says_what_to_write() {
        for (text, hint) in [
            ("", "write Kind/namespace/name"),
            ("web", "write Kind/namespace/name"),
            ("Deployment/", "write Kind/namespace/name"),
            ("Deployment/shop/", "write Kind/namespace/name"),
            ("/shop/web", "write Kind/namespace/name"),
            ("Deployment/shop/web/0", "write Kind/namespace/name"),
            ("Deployment/shop/web ", "write Kind/namespace/name"),
            ("Deployment/web", "write Deployment/namespace/name"),
            ("Deployment//web", "write Deployment/namespace/name"),
            ("Node/shop/node-1", "write Node//name"),
            ("deployment/shop/web", "spells the kind Deployment"),
            ("Statefulset/shop/db", "spells the kind StatefulSet"),
            ("node/node-1", "spells the kind Node"),
            ("Tenant/acme", "Kind//name for a kind without namespaces"),
        ] {
            let error = text.parse::<Subject>().unwrap_err().to_string();
            assert!(error.contains(hint), "{error}");
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }
}
