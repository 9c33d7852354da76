//! What the rules read of an object's metadata.

use jiff::Timestamp;
use serde::{Serialize, Serializer, de::SeqAccess};

use super::{
    lenient::{Lenient, Malformed, Reader, trimmed},
    sparse::Sparse,
};

trimmed! {
    /// The trimmed metadata of an object. `managedFields`, foreign labels and foreign annotations are skipped while parsing.
    pub struct Meta {
        /// `metadata.namespace`; empty for a cluster-scoped object.
        pub namespace: Box<str> = "namespace",
        /// `metadata.name`.
        pub name: Box<str> = "name",
        /// `metadata.uid`; `Kind/namespace/name` if it has none, as in files written by hand.
        pub uid: Box<str> = "uid",
        /// `metadata.resourceVersion`.
        pub resource_version: Box<str> = "resourceVersion",
        /// `metadata.creationTimestamp`.
        pub creation_timestamp: Option<Timestamp> = "creationTimestamp",
        /// `metadata.deletionTimestamp`: when the grace period ends, or ended.
        pub deletion_timestamp: Option<Timestamp> = "deletionTimestamp",
        /// `metadata.deletionGracePeriodSeconds`: how long before it the deletion was asked for.
        pub deletion_grace_period_seconds: Option<i64> = "deletionGracePeriodSeconds",
        /// `metadata.generation`.
        pub generation: i64 = "generation",
        /// The owner reference with `controller: true`.
        pub owner: Option<Owner>,
        /// `metadata.finalizers`.
        pub finalizers: Vec<Box<str>> = "finalizers",
        /// Label `pod-template-hash`, set on pods of a Deployment and on its `ReplicaSet`.
        pub pod_template_hash: Option<Box<str>>,
        /// Label `rollouts-pod-template-hash`, Argo Rollouts' counterpart.
        pub rollouts_pod_template_hash: Option<Box<str>>,
        /// Label `topology.kubernetes.io/zone` of a Node: where it fails together with others.
        pub zone: Option<Box<str>>,
        /// Label `kubernetes.io/service-name` of an EndpointSlice: its Service.
        pub service_name: Option<Box<str>>,
        /// Label `endpointslice.kubernetes.io/managed-by` of an EndpointSlice: who writes it.
        pub slice_manager: Option<Box<str>>,
        /// Annotation `endpoints.kubernetes.io/last-change-trigger-time` of an EndpointSlice: when the pod or the Service changed that it was last written for. Not there
        /// if a pod was deleted.
        pub last_change: Option<Timestamp>,
        /// Whether the annotation `kubernetes.io/config.mirror` is there: the mirror of a static pod.
        pub mirror: bool,
        /// Whether the annotation `cronjob.kubernetes.io/instantiate: manual` is there: a Job made by hand from a `CronJob`.
        pub manual: bool,
        /// Annotation `volume.kubernetes.io/storage-provisioner` of a claim: who was asked for its volume.
        pub storage_provisioner: Option<Box<str>>,
        /// Annotation `volume.kubernetes.io/selected-node` of a claim: the node of the pod that waits for its volume.
        pub selected_node: Option<Box<str>>,
        /// Whether the annotation `pv.kubernetes.io/bind-completed` is there: a claim that is bound, whatever its phase says yet.
        pub bind_completed: bool,
    }
    "ownerReferences" => |meta, references: Controller| { meta.owner = references.0; } <= {
        Controller(meta.owner.clone())
    }
    "labels" => |meta, labels: Labels| {
        meta.pod_template_hash = labels.pod_template_hash;
        meta.rollouts_pod_template_hash = labels.rollouts_pod_template_hash;
        meta.zone = labels.zone;
        meta.service_name = labels.service_name;
        meta.slice_manager = labels.slice_manager;
    } <= {
        Labels {
            pod_template_hash: meta.pod_template_hash.clone(),
            rollouts_pod_template_hash: meta.rollouts_pod_template_hash.clone(),
            zone: meta.zone.clone(),
            service_name: meta.service_name.clone(),
            slice_manager: meta.slice_manager.clone(),
        }
    }
    "annotations" => |meta, annotations: Annotations| {
        meta.mirror = annotations.mirror.is_some();
        meta.manual = annotations.instantiate.as_deref() == Some("manual");
        meta.storage_provisioner = annotations.storage_provisioner;
        meta.selected_node = annotations.selected_node;
        meta.bind_completed = annotations.bind_completed.is_some();
        meta.last_change = annotations.last_change;
    } <= {
        Annotations {
            // Its value is a hash that nobody reads.
            mirror: meta.mirror.then(Box::default),
            instantiate: meta.manual.then(|| "manual".into()),
            storage_provisioner: meta.storage_provisioner.clone(),
            selected_node: meta.selected_node.clone(),
            // As the controller of volumes writes it.
            bind_completed: meta.bind_completed.then(|| "yes".into()),
            last_change: meta.last_change,
        }
    }

    /// The labels of interest.
    struct Labels {
        pod_template_hash: Option<Box<str>> = "pod-template-hash",
        rollouts_pod_template_hash: Option<Box<str>> = "rollouts-pod-template-hash",
        zone: Option<Box<str>> = "topology.kubernetes.io/zone",
        service_name: Option<Box<str>> = "kubernetes.io/service-name",
        slice_manager: Option<Box<str>> = "endpointslice.kubernetes.io/managed-by",
    }

    /// The annotations of interest.
    struct Annotations {
        mirror: Option<Box<str>> = "kubernetes.io/config.mirror",
        instantiate: Option<Box<str>> = "cronjob.kubernetes.io/instantiate",
        storage_provisioner: Option<Box<str>> = "volume.kubernetes.io/storage-provisioner",
        selected_node: Option<Box<str>> = "volume.kubernetes.io/selected-node",
        bind_completed: Option<Box<str>> = "pv.kubernetes.io/bind-completed",
        last_change: Option<Timestamp> = "endpoints.kubernetes.io/last-change-trigger-time",
    }

    /// An owner reference.
    struct Reference {
        controller: bool = "controller",
        api_version: Box<str> = "apiVersion",
        kind: Box<str> = "kind",
        name: Box<str> = "name",
    }
}

/// The controller of an object, from its owner references.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owner {
    /// `apiVersion`, such as `apps/v1`.
    pub api_version: Box<str>,
    /// `kind`, such as `ReplicaSet`.
    pub kind: Box<str>,
    /// `name`.
    pub name: Box<str>,
}

/// The owner reference with `controller: true`. The API server refuses a second one.
#[derive(Default)]
struct Controller(Option<Owner>);

impl Lenient for Controller {
    fn from_list<'de, A: SeqAccess<'de>>(
        mut list: A,
        malformed: &Malformed,
    ) -> Result<Option<Self>, A::Error> {
        let mut owner = None;
        while let Some(reference) = list.next_element_seed(Reader::<Reference>::new(malformed))? {
            if let Some(reference) = reference.filter(|reference| reference.controller) {
                owner = Some(Owner {
                    api_version: reference.api_version,
                    kind: reference.kind,
                    name: reference.name,
                });
            }
        }
        Ok(Some(Self(owner)))
    }
}

impl Serialize for Controller {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|owner| Reference {
            controller: true,
            api_version: owner.api_version.clone(),
            kind: owner.kind.clone(),
            name: owner.name.clone(),
        }))
    }
}

impl Sparse for Controller {
    fn is_absent(&self) -> bool {
        self.0.is_none()
    }
}
