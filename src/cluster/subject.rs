//! Subjects: what an alert is about, found from an object alone.

use std::{borrow::Cow, fmt, str::FromStr, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Meta, Owner};

/// What an alert is about, and what is sharded: a workload, a node, a claim, ...
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Subject {
    /// The kind, as Kubernetes spells it (`Deployment`).
    pub kind: Box<str>,
    /// The namespace; empty for a cluster-scoped kind.
    pub namespace: Box<str>,
    /// The name.
    pub name: Box<str>,
}

impl fmt::Display for Subject {
    /// `Kind/namespace/name`: the text whose hash is the shard key. The namespace is empty for a cluster-scoped kind (`Node//node-1`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.kind, self.namespace, self.name)
    }
}

/// What a subject's label `workload_type` says: the kind in lower case, but `barepod` and `staticpod` for pods without a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkloadType {
    /// A controller's kind.
    Controller,
    /// A pod that nothing controls.
    BarePod,
    /// The mirror of a pod that a kubelet runs from a file on its node.
    StaticPod,
}

impl WorkloadType {
    /// The value of the label `workload_type` for a subject of this type.
    pub fn as_label(self, subject: &Subject) -> Cow<'static, str> {
        match self {
            Self::BarePod => "barepod".into(),
            Self::StaticPod => "staticpod".into(),
            Self::Controller => match &*subject.kind {
                "CronJob" => "cronjob".into(),
                "DaemonSet" => "daemonset".into(),
                "Deployment" => "deployment".into(),
                "Job" => "job".into(),
                "ReplicaSet" => "replicaset".into(),
                "Rollout" => "rollout".into(),
                "StatefulSet" => "statefulset".into(),
                other => other.to_ascii_lowercase().into(),
            },
        }
    }
}

// === From an object ===

impl Subject {
    /// The subject of an object: its topmost owner that can be told from the object alone, else itself. So every replica finds the same one,
    /// without a look at any other object.
    ///
    /// - A pod belongs to its controller, and to the controller of that if the controller's name shows it (a `ReplicaSet` named after the hash
    ///   on the pod, a Job named after its minute). The name of the pod itself is never parsed: long ones are cut.
    /// - A `ReplicaSet` or a Job belongs to its controller if its own name shows the same one: so it agrees with its pods.
    /// - The mirror of a static pod is owned by its Node, but is its own subject: else all static pods of a node would share one alert.
    /// - Any other object is its own subject.
    pub fn of(kind: &str, meta: &Meta) -> (Self, WorkloadType) {
        let subject = |kind: &str, name: &str| Self {
            kind: kind.into(),
            namespace: meta.namespace.clone(),
            name: name.into(),
        };
        match (kind, &meta.owner) {
            ("Pod", _) if meta.mirror => (subject(kind, &meta.name), WorkloadType::StaticPod),
            ("Pod", None) => (subject(kind, &meta.name), WorkloadType::BarePod),
            ("Pod", Some(owner)) => {
                let (kind, name) = Some(owner)
                    .filter(|owner| is_kubernetes_own(owner))
                    .and_then(|owner| parent(&owner.kind, &owner.name, meta))
                    .unwrap_or((&owner.kind, &owner.name));
                (subject(kind, name), WorkloadType::Controller)
            }
            (_, owner) => {
                let (kind, name) = parent(kind, &meta.name, meta)
                    .filter(|&(kind, name)| {
                        owner
                            .as_ref()
                            .is_some_and(|owner| *owner.kind == *kind && *owner.name == *name)
                    })
                    .unwrap_or((kind, &meta.name));
                (subject(kind, name), WorkloadType::Controller)
            }
        }
    }
}

/// Whether a `ReplicaSet` or Job is Kubernetes' own: others have kinds of these names too (Volcano's Job), with other ways to name things.
fn is_kubernetes_own(owner: &Owner) -> bool {
    let group = owner.api_version.split('/').next().unwrap_or_default();
    matches!(
        (group, &*owner.kind),
        ("apps", "ReplicaSet") | ("batch", "Job") | ("", _)
    )
}

/// The controller of a `ReplicaSet` or a Job, as its name shows it. `meta` is its own, or that of a pod of it.
fn parent<'a>(kind: &str, name: &'a str, meta: &Meta) -> Option<(&'static str, &'a str)> {
    match kind {
        "ReplicaSet" => {
            // Argo's label goes first: templates copied from a Deployment bring the other one along.
            let of_hash = |hash: &Option<Box<str>>| without_hash(name, hash.as_deref()?);
            of_hash(&meta.rollouts_pod_template_hash)
                .map(|name| ("Rollout", name))
                .or_else(|| of_hash(&meta.pod_template_hash).map(|name| ("Deployment", name)))
        }
        "Job" if !meta.manual => {
            without_minute(name, meta.creation_timestamp?).map(|name| ("CronJob", name))
        }
        _ => None,
    }
}

/// The name minus `-hash`. What a hash looks like is not checked: who imitates one only groups under a wrong name in their own namespace,
/// while a change of its alphabet would make a new subject of every rollout.
fn without_hash<'a>(name: &'a str, hash: &str) -> Option<&'a str> {
    let name = name.strip_suffix(hash)?.strip_suffix('-')?;
    (!hash.is_empty() && !name.is_empty()).then_some(name)
}

/// A Job is made at most this long after its minute, and a pod of it at most this long after that (`startingDeadlineSeconds`, a suspended
/// Job, late retries), for its name to count as a `CronJob`'s.
const JOB_LATE: Duration = Duration::from_secs(32 * 24 * 3600);
/// Clocks differ: how far a minute may lie in the object's future.
const JOB_EARLY: Duration = Duration::from_secs(3600);
/// The longest name of a `CronJob` (`validateCronJobName` in Kubernetes): a Job's 63 characters less `-` and the digits.
const CRON_JOB_NAME_MAX: usize = 52;

/// The name minus `-minute`, the scheduled Unix time in minutes that the `CronJob` controller appends (`getJobName` in Kubernetes). The
/// object's creation must fit it: `report-20260101` is nobody's minute.
fn without_minute(name: &str, created: Timestamp) -> Option<&str> {
    let (name, minute) = name.rsplit_once('-')?;
    if name.is_empty() || name.len() > CRON_JOB_NAME_MAX || minute.starts_with(['0', '+']) {
        return None;
    }
    let scheduled = Timestamp::from_second(minute.parse::<i64>().ok()?.checked_mul(60)?).ok()?;
    let earliest = created.saturating_sub(JOB_LATE).unwrap_or(Timestamp::MIN);
    let latest = created.saturating_add(JOB_EARLY).unwrap_or(Timestamp::MAX);
    (earliest..=latest).contains(&scheduled).then_some(name)
}

// === From text ===

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

    /// Creation of the objects below.
    const CREATED: &str = "2026-11-03T09:00:30Z";
    /// The minute before it, as the `CronJob` controller writes it.
    const MINUTE: i64 = 29_894_940;

    fn mk_meta(name: &str) -> Meta {
        Meta {
            namespace: "shop".into(),
            name: name.into(),
            creation_timestamp: Some(CREATED.parse().unwrap()),
            ..Meta::default()
        }
    }

    fn mk_owned(name: &str, api_version: &str, kind: &str, owner: &str) -> Meta {
        Meta {
            owner: Some(Owner {
                api_version: api_version.into(),
                kind: kind.into(),
                name: owner.into(),
            }),
            ..mk_meta(name)
        }
    }

    fn with_hash(hash: &str, meta: Meta) -> Meta {
        Meta {
            pod_template_hash: Some(hash.into()),
            ..meta
        }
    }

    fn with_rollouts_hash(hash: &str, meta: Meta) -> Meta {
        Meta {
            rollouts_pod_template_hash: Some(hash.into()),
            ..meta
        }
    }

    /// The subject of an object and its label, in one text.
    fn subject_of(kind: &str, meta: &Meta) -> String {
        let (subject, workload_type) = Subject::of(kind, meta);
        format!("{subject} {}", workload_type.as_label(&subject))
    }

    #[test]
    fn the_subject_of_a_pod_is_its_topmost_owner() {
        let pod = |api_version, kind, owner: &str| mk_owned("a-pod", api_version, kind, owner);
        let minute = |minutes: i64| format!("report-{}", MINUTE + minutes);
        let days = |days: i64| minute(days * 24 * 60);
        let cases = [
            (mk_meta("a-pod"), "Pod/shop/a-pod barepod"),
            // A static pod, as the kubelet mirrors it.
            (
                Meta {
                    mirror: true,
                    ..pod("v1", "Node", "node-1")
                },
                "Pod/shop/a-pod staticpod",
            ),
            (
                with_rollouts_hash("6f8bc", pod("apps/v1", "ReplicaSet", "web-6f8bc")),
                "Rollout/shop/web rollout",
            ),
            (
                with_rollouts_hash("6f8bc", pod("apps/v1", "ReplicaSet", "web-zzzzz")),
                "ReplicaSet/shop/web-zzzzz replicaset",
            ),
            // A Rollout's template that was copied from a Deployment's pod, and the other way round.
            (
                with_hash(
                    "bc",
                    with_rollouts_hash("6f8bc", pod("apps/v1", "ReplicaSet", "web-6f8bc")),
                ),
                "Rollout/shop/web rollout",
            ),
            (
                with_hash(
                    "6f8bc",
                    with_rollouts_hash("zzzzz", pod("apps/v1", "ReplicaSet", "web-6f8bc")),
                ),
                "Deployment/shop/web deployment",
            ),
            (
                with_hash(
                    "7d9fbc8b5",
                    pod("apps/v1", "ReplicaSet", "web-api-7d9fbc8b5"),
                ),
                "Deployment/shop/web-api deployment",
            ),
            (
                with_hash("c8b5", pod("apps/v1", "ReplicaSet", "web-7d9fbc8b5")),
                "ReplicaSet/shop/web-7d9fbc8b5 replicaset",
            ),
            (
                with_hash("web", pod("apps/v1", "ReplicaSet", "web")),
                "ReplicaSet/shop/web replicaset",
            ),
            (
                with_hash("web", pod("apps/v1", "ReplicaSet", "-web")),
                "ReplicaSet/shop/-web replicaset",
            ),
            (
                with_hash("", pod("apps/v1", "ReplicaSet", "web-")),
                "ReplicaSet/shop/web- replicaset",
            ),
            (
                pod("apps/v1", "ReplicaSet", "web-7d9fbc8b5"),
                "ReplicaSet/shop/web-7d9fbc8b5 replicaset",
            ),
            // Somebody else's kind of the same name.
            (
                with_hash("bc", pod("apps.example.com/v1", "ReplicaSet", "web-bc")),
                "ReplicaSet/shop/web-bc replicaset",
            ),
            // By hand, without a version.
            (
                with_hash("bc", pod("", "ReplicaSet", "web-bc")),
                "Deployment/shop/web deployment",
            ),
            (
                pod("apps/v1", "StatefulSet", "db"),
                "StatefulSet/shop/db statefulset",
            ),
            // The labels of a template say nothing about other controllers.
            (
                with_hash("bc", pod("apps/v1", "StatefulSet", "db-bc")),
                "StatefulSet/shop/db-bc statefulset",
            ),
            (
                pod("apps/v1", "DaemonSet", "agent"),
                "DaemonSet/shop/agent daemonset",
            ),
            (
                pod("batch/v1", "Job", &minute(0)),
                "CronJob/shop/report cronjob",
            ),
            (
                pod("batch/v1", "Job", &minute(60)),
                "CronJob/shop/report cronjob",
            ),
            (
                pod("batch/v1", "Job", &minute(62)),
                "Job/shop/report-29895002 job",
            ),
            (
                pod("batch/v1", "Job", &days(-31)),
                "CronJob/shop/report cronjob",
            ),
            (
                pod("batch/v1", "Job", &days(-33)),
                "Job/shop/report-29847420 job",
            ),
            (
                pod("batch/v1", "Job", "report-20260101"),
                "Job/shop/report-20260101 job",
            ),
            (pod("batch/v1", "Job", "report"), "Job/shop/report job"),
            (pod("batch/v1", "Job", "report-"), "Job/shop/report- job"),
            (pod("batch/v1", "Job", "29894940"), "Job/shop/29894940 job"),
            (
                pod("batch/v1", "Job", "-29894940"),
                "Job/shop/-29894940 job",
            ),
            (
                pod("batch/v1", "Job", "report-029894940"),
                "Job/shop/report-029894940 job",
            ),
            (
                pod("batch/v1", "Job", "report-+29894940"),
                "Job/shop/report-+29894940 job",
            ),
            (
                pod("batch/v1", "Job", "report-9223372036854775807"),
                "Job/shop/report-9223372036854775807 job",
            ),
            (
                pod("batch/v1", "Job", "report-99999999999999999999"),
                "Job/shop/report-99999999999999999999 job",
            ),
            (
                Meta {
                    creation_timestamp: None,
                    ..pod("batch/v1", "Job", &minute(0))
                },
                "Job/shop/report-29894940 job",
            ),
            (
                pod("batch.volcano.sh/v1alpha1", "Job", &minute(0)),
                "Job/shop/report-29894940 job",
            ),
            (
                pod("argoproj.io/v1alpha1", "Workflow", "build-x7"),
                "Workflow/shop/build-x7 workflow",
            ),
            (
                pod("v1", "ReplicationController", "old"),
                "ReplicationController/shop/old replicationcontroller",
            ),
        ];
        for (meta, expected) in cases {
            assert_eq!(subject_of("Pod", &meta), expected, "{:?}", meta.owner);
        }
    }

    #[test]
    fn the_name_of_a_cron_job_has_52_characters_at_most() {
        for (length, kind) in [(52, "CronJob"), (53, "Job")] {
            let job = format!("{}-{MINUTE}", "x".repeat(length));
            let (subject, _) = Subject::of("Pod", &mk_owned("a-pod", "batch/v1", "Job", &job));
            assert_eq!(&*subject.kind, kind);
        }
    }

    #[test]
    fn a_replica_set_or_job_is_of_its_owner_only_if_its_name_agrees() {
        let job = format!("report-{MINUTE}");
        let job = job.as_str();
        let cases = [
            (
                "ReplicaSet",
                with_hash("bc", mk_owned("web-bc", "apps/v1", "Deployment", "web")),
                "Deployment/shop/web deployment",
            ),
            (
                "ReplicaSet",
                with_rollouts_hash(
                    "bc",
                    mk_owned("web-bc", "argoproj.io/v1alpha1", "Rollout", "web"),
                ),
                "Rollout/shop/web rollout",
            ),
            // Another owner, another kind of owner, none, another hash, none.
            (
                "ReplicaSet",
                with_hash("bc", mk_owned("web-bc", "apps/v1", "Deployment", "api")),
                "ReplicaSet/shop/web-bc replicaset",
            ),
            (
                "ReplicaSet",
                with_hash("bc", mk_owned("web-bc", "example.com/v1", "App", "web")),
                "ReplicaSet/shop/web-bc replicaset",
            ),
            (
                "ReplicaSet",
                with_hash("bc", mk_meta("web-bc")),
                "ReplicaSet/shop/web-bc replicaset",
            ),
            (
                "ReplicaSet",
                with_hash("xx", mk_owned("web-bc", "apps/v1", "Deployment", "web")),
                "ReplicaSet/shop/web-bc replicaset",
            ),
            (
                "ReplicaSet",
                mk_owned("web-bc", "apps/v1", "Deployment", "web"),
                "ReplicaSet/shop/web-bc replicaset",
            ),
            (
                "Job",
                mk_owned(job, "batch/v1", "CronJob", "report"),
                "CronJob/shop/report cronjob",
            ),
            ("Job", mk_meta(job), "Job/shop/report-29894940 job"),
            (
                "Job",
                mk_owned(job, "batch/v1", "CronJob", "other"),
                "Job/shop/report-29894940 job",
            ),
            (
                "Job",
                mk_owned("report-by-hand", "batch/v1", "CronJob", "report"),
                "Job/shop/report-by-hand job",
            ),
            (
                "Job",
                Meta {
                    manual: true,
                    ..mk_owned(job, "batch/v1", "CronJob", "report")
                },
                "Job/shop/report-29894940 job",
            ),
        ];
        for (kind, meta, expected) in cases {
            assert_eq!(subject_of(kind, &meta), expected, "{:?}", meta.owner);
        }
    }

    #[test]
    fn any_other_object_is_its_own_subject() {
        let owned = mk_owned("web", "example.com/v1", "App", "shop");
        assert_eq!(
            subject_of("Deployment", &owned),
            "Deployment/shop/web deployment"
        );
        let node = Meta {
            namespace: "".into(),
            ..mk_meta("node-1")
        };
        assert_eq!(subject_of("Node", &node), "Node//node-1 node");
    }

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
