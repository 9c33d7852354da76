//! Objects of any watched kind, and what a kind has to bring along.

use std::{borrow::Cow, fmt};

use futures::{StreamExt as _, stream::BoxStream};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{
    Event, Failure, Meta, Subject, Tap, WatchOptions, WorkloadType,
    kinds::{
        ApiService, CronJob, DaemonSet, Deployment, EndpointSlice, HorizontalPodAutoscaler, Job,
        Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodDisruptionBudget,
        ReplicaSet, ResourceQuota, ScaleTarget, StatefulSet,
    },
    label_set::{LabelSet, Selector},
    lenient::{self, Lenient},
    list, watch,
};
use crate::rules::{Evaluation, Rule};

/// A watched kind. A new one is a trimmed type (made with `trimmed!`), a file of rules (with this trait), and a word in the list of kinds below.
pub trait Kind: Lenient + Serialize + Clone + fmt::Debug + Send + Sync + 'static {
    /// Its place in tables.
    const ID: KindId;
    /// The API group; empty for the core group.
    const GROUP: &'static str;
    /// The version of the group.
    const VERSION: &'static str;
    /// The kind, as Kubernetes spells it.
    const KIND: &'static str;
    /// The resource's name in URLs.
    const PLURAL: &'static str;
    /// The label that names the object in the alerts of its rules; kubernetes-mixin's where it has such alerts. None for the kinds whose objects are only members.
    const LABEL: Option<&'static str>;
    /// Whether the subjects of its alerts are workloads, and so have the labels `workload` and `workload_type`.
    const IS_WORKLOAD: bool;
    /// The labels of those of its objects that are watched; none for all.
    const SELECTOR: Option<&'static str> = None;

    /// Its metadata.
    fn meta(&self) -> &Meta;

    /// Its metadata, to complete them.
    fn meta_mut(&mut self) -> &mut Meta;

    /// Its subject: the topmost owner that can be told from the object alone, else itself.
    fn subject(&self) -> (Subject, WorkloadType) {
        Subject::of(Self::KIND, self.meta())
    }

    /// The node that the object runs on; empty if none.
    #[expect(
        clippy::unnecessary_literal_bound,
        reason = "a kind that has one returns its own"
    )]
    fn node(&self) -> &str {
        ""
    }

    /// Of a node, its zone; empty if it has none.
    fn zone(&self) -> Option<&str> {
        None
    }

    /// The `PersistentVolumeClaim`s of its namespace that it cannot do without.
    fn claims(&self) -> &[Box<str>] {
        &[]
    }

    /// What it scales.
    fn target(&self) -> Option<&ScaleTarget> {
        None
    }

    /// The pods that it is about.
    fn selector(&self) -> Option<&Selector> {
        None
    }

    /// The labels of the pods that are made from it.
    fn pod_labels(&self) -> Option<&LabelSet> {
        None
    }

    /// The UIDs of the pods that it leads to, and that do not work.
    fn pods(&self) -> &[Box<str>] {
        &[]
    }

    /// Since when the object no longer shows the rule's condition, about this part or about any, if it tells. It counts only if it was found before, and no longer is.
    fn well_since(&self, _rule: &Rule, _part: Option<&str>) -> Option<Timestamp> {
        None
    }

    /// When what its subject does over and over has last succeeded: a failure of before is over.
    fn succeeded_at(&self) -> Option<Timestamp> {
        None
    }

    /// Every rule of the kind, applied to the object. Allocates nothing for a healthy object.
    fn evaluate(&self, evaluation: &mut Evaluation<'_>);
}

/// An object as it comes over the wire: a [`Kind`] that kube's watcher can handle.
#[derive(Debug, Clone)]
pub struct Wire<K> {
    /// Holds the resource version only: all that kube-runtime's watcher reads.
    metadata: ObjectMeta,
    /// The trimmed object.
    pub object: K,
    /// How many of the fields that the rules read were malformed, and count as absent. An object without a name has one at least.
    pub malformed: u32,
}

impl<'de, K: Kind> Deserialize<'de> for Wire<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (mut object, mut malformed) = lenient::read::<K, D>(deserializer)?;
        let meta = object.meta_mut();
        if meta.name.is_empty() {
            malformed = malformed.saturating_add(1);
        }
        if meta.uid.is_empty() {
            // Written by hand: objects must stay distinct.
            meta.uid = format!("{}/{}/{}", K::KIND, meta.namespace, meta.name).into();
        }
        let metadata = ObjectMeta {
            resource_version: Some(meta.resource_version.to_string()),
            ..ObjectMeta::default()
        };
        Ok(Self {
            metadata,
            object,
            malformed,
        })
    }
}

/// An object with what it says about itself: as it comes over the wire, but trimmed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a, K> {
    api_version: &'a str,
    kind: &'a str,
    #[serde(flatten)]
    object: &'a K,
}

impl<'a, K: Kind> Document<'a, K> {
    fn write<S: Serializer>(object: &'a K, serializer: S) -> Result<S::Ok, S::Error> {
        let (group, version) = (K::GROUP, K::VERSION);
        let with_group;
        let api_version = if group.is_empty() {
            version
        } else {
            with_group = format!("{group}/{version}");
            &with_group
        };
        let kind = K::KIND;
        Document {
            api_version,
            kind,
            object,
        }
        .serialize(serializer)
    }
}

impl<K: Kind> kube::Resource for Wire<K> {
    type DynamicType = ();
    type Scope = kube::core::DynamicResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        K::KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        K::GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        K::VERSION.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        K::PLURAL.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// An object by name, for people and for tables.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct ObjectRef {
    /// The kind, as Kubernetes spells it.
    pub kind: Cow<'static, str>,
    /// The namespace; empty for a cluster-scoped kind.
    pub namespace: Box<str>,
    /// The name.
    pub name: Box<str>,
}

impl fmt::Display for ObjectRef {
    /// `Kind/namespace/name`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.kind, self.namespace, self.name)
    }
}

macro_rules! kinds {
    ($($kind:ident),+) => {
        /// A watched kind, as a place in a table.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum KindId {
            $(#[doc = stringify!($kind)] $kind,)+
        }

        impl KindId {
            /// Every watched kind.
            pub const ALL: &'static [Self] = &[$(Self::$kind),+];

            /// The kind, as Kubernetes spells it.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => <$kind as Kind>::KIND,)+
                }
            }

            /// The resource's name in URLs.
            pub const fn plural(self) -> &'static str {
                match self {
                    $(Self::$kind => <$kind as Kind>::PLURAL,)+
                }
            }

            /// The label that names an object of it. See [`Kind::LABEL`].
            pub const fn label(self) -> Option<&'static str> {
                match self {
                    $(Self::$kind => <$kind as Kind>::LABEL,)+
                }
            }

            /// Whether its alerts are about workloads. See [`Kind::IS_WORKLOAD`].
            pub const fn is_workload(self) -> bool {
                match self {
                    $(Self::$kind => <$kind as Kind>::IS_WORKLOAD,)+
                }
            }

            /// The kind of this name.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|kind| kind.as_str() == name)
            }

            /// Watches the kind until the stream is dropped. `client` is its own, made with `tap`.
            pub fn watch(self, client: Client, tap: Tap, options: WatchOptions) -> BoxStream<'static, Event> {
                match self {
                    $(Self::$kind => watch::<$kind>(client, tap, options).boxed(),)+
                }
            }

            /// Reads every object of the kind once, with the number of its malformed fields. Ends after the first failure.
            pub fn list(self, client: Client, options: &WatchOptions) -> BoxStream<'static, Result<(Object, u32), Failure>> {
                match self {
                    $(Self::$kind => list::<$kind>(client, options).boxed(),)+
                }
            }
        }

        /// An object of any watched kind.
        #[derive(Debug, Clone)]
        #[allow(clippy::large_enum_variant, reason = "pods are the largest, and nearly all that there is")]
        pub enum Object {
            $(#[doc = stringify!($kind)] $kind($kind),)+
        }

        $(
            impl From<$kind> for Object {
                fn from(object: $kind) -> Self {
                    Self::$kind(object)
                }
            }
        )+

        /// With `apiVersion` and `kind`, by Kubernetes' own names: [`Object::decode`] reads it, and so does `scan -f`. Only what the rules read is in it.
        impl Serialize for Object {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$kind(object) => Document::write(object, serializer),)+
                }
            }
        }

        impl Object {
            /// Decodes an object of the kind, or says that the kind is not a watched one (`None`).
            ///
            /// # Errors
            ///
            /// The input is broken: no JSON, or no YAML. A malformed field is no error: it counts as absent. The number is that of such fields.
            pub fn decode<'de, D: Deserializer<'de>>(api_version: &str, kind: &str, deserializer: D) -> Result<Option<(Self, u32)>, D::Error> {
                let group = api_version.split_once('/').map_or("", |(group, _)| group);
                $(
                    if kind == <$kind as Kind>::KIND && group == <$kind as Kind>::GROUP {
                        let wire = Wire::<$kind>::deserialize(deserializer)?;
                        return Ok(Some((wire.object.into(), wire.malformed)));
                    }
                )+
                Ok(None)
            }

            /// Its kind.
            pub const fn kind(&self) -> KindId {
                match self {
                    $(Self::$kind(_) => <$kind as Kind>::ID,)+
                }
            }

            /// Its metadata.
            pub fn meta(&self) -> &Meta {
                match self {
                    $(Self::$kind(object) => object.meta(),)+
                }
            }

            /// Its subject. See [`Kind::subject`].
            pub fn subject(&self) -> (Subject, WorkloadType) {
                match self {
                    $(Self::$kind(object) => object.subject(),)+
                }
            }

            /// The node that it runs on; empty if none.
            pub fn node(&self) -> &str {
                match self {
                    $(Self::$kind(object) => object.node(),)+
                }
            }

            /// Its zone, if it is a node. See [`Kind::zone`].
            pub fn zone(&self) -> Option<&str> {
                match self {
                    $(Self::$kind(object) => object.zone(),)+
                }
            }

            /// The claims that it needs. See [`Kind::claims`].
            pub fn claims(&self) -> &[Box<str>] {
                match self {
                    $(Self::$kind(object) => object.claims(),)+
                }
            }

            /// What it scales. See [`Kind::target`].
            pub fn target(&self) -> Option<&ScaleTarget> {
                match self {
                    $(Self::$kind(object) => object.target(),)+
                }
            }

            /// The pods that it is about. See [`Kind::selector`].
            pub fn selector(&self) -> Option<&Selector> {
                match self {
                    $(Self::$kind(object) => object.selector(),)+
                }
            }

            /// The labels of the pods that are made from it. See [`Kind::pod_labels`].
            pub fn pod_labels(&self) -> Option<&LabelSet> {
                match self {
                    $(Self::$kind(object) => object.pod_labels(),)+
                }
            }

            /// The pods that it leads to. See [`Kind::pods`].
            pub fn pods(&self) -> &[Box<str>] {
                match self {
                    $(Self::$kind(object) => object.pods(),)+
                }
            }

            /// Its name, for people and for tables.
            pub fn object_ref(&self) -> ObjectRef {
                let meta = self.meta();
                ObjectRef {
                    kind: self.kind().as_str().into(),
                    namespace: meta.namespace.clone(),
                    name: meta.name.clone(),
                }
            }

            /// Since when it is well again as the rule sees it. See [`Kind::well_since`].
            pub fn well_since(&self, rule: &Rule, part: Option<&str>) -> Option<Timestamp> {
                match self {
                    $(Self::$kind(object) => object.well_since(rule, part),)+
                }
            }

            /// When its subject has last succeeded. See [`Kind::succeeded_at`].
            pub fn succeeded_at(&self) -> Option<Timestamp> {
                match self {
                    $(Self::$kind(object) => object.succeeded_at(),)+
                }
            }

            /// Applies every rule of its kind. See [`Kind::evaluate`].
            pub fn evaluate(&self, evaluation: &mut Evaluation<'_>) {
                match self {
                    $(Self::$kind(object) => object.evaluate(evaluation),)+
                }
            }
        }
    };
}

kinds!(
    Pod,
    Node,
    Deployment,
    StatefulSet,
    DaemonSet,
    ReplicaSet,
    Job,
    CronJob,
    PersistentVolumeClaim,
    PersistentVolume,
    HorizontalPodAutoscaler,
    PodDisruptionBudget,
    ResourceQuota,
    Namespace,
    ApiService,
    EndpointSlice
);
