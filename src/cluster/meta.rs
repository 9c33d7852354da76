//! What the rules read of an object's metadata.

use jiff::Timestamp;
use serde::Deserialize;

/// The trimmed metadata of an object. `managedFields`, foreign labels and foreign annotations are skipped while parsing.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    /// `metadata.namespace`; empty for a cluster-scoped object.
    pub namespace: Box<str>,
    /// `metadata.name`.
    pub name: Box<str>,
    /// `metadata.uid`; empty only in files written by hand.
    pub uid: Box<str>,
    /// `metadata.resourceVersion`.
    pub resource_version: Box<str>,
    /// `metadata.creationTimestamp`.
    pub creation_timestamp: Option<Timestamp>,
    /// `metadata.deletionTimestamp`: when the grace period ends, or ended.
    pub deletion_timestamp: Option<Timestamp>,
    /// `metadata.deletionGracePeriodSeconds`: how long before it the deletion was asked for.
    pub deletion_grace_period_seconds: Option<i64>,
    /// `metadata.generation`.
    pub generation: i64,
    /// The owner reference with `controller: true`.
    #[serde(skip)]
    pub owner: Option<Owner>,
    /// `metadata.finalizers`.
    pub finalizers: Vec<Box<str>>,
    /// Label `pod-template-hash`, set on pods of a Deployment and on its `ReplicaSet`.
    #[serde(skip)]
    pub pod_template_hash: Option<Box<str>>,
    /// Label `rollouts-pod-template-hash`, Argo Rollouts' counterpart.
    #[serde(skip)]
    pub rollouts_pod_template_hash: Option<Box<str>>,
    /// Whether the annotation `kubernetes.io/config.mirror` is there: the mirror of a static pod.
    #[serde(skip)]
    pub mirror: bool,
    /// Whether the annotation `cronjob.kubernetes.io/instantiate: manual` is there: a Job made by hand from a `CronJob`.
    #[serde(skip)]
    pub manual: bool,
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
