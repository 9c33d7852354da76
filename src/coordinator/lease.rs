//! A Lease as the API server keeps it.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease as Object, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::core::ObjectMeta;

use super::names::{Names, annotation};
use crate::shard::ownership::{HeldBy, Lease, Shard, Version};

/// How long a Lease lasts that does not say so: as long as ours do by default.
const DURATION_SECONDS: i32 = 15;

const ACKNOWLEDGED: &str = "alertkube.io/acknowledged";
const INCOMPLETE: &str = "alertkube.io/incomplete";
const ADOPTED: &str = "alertkube.io/adopted";
const CLAIMED_BY: &str = "alertkube.io/claimed-by";

/// Reads a Lease leniently: what is missing, or cannot be read, counts as not said. The holder of one that says less than it should is respected all
/// the same.
pub fn read(object: &Object) -> Lease {
    let LeaseSpec {
        acquire_time: _,
        holder_identity,
        lease_duration_seconds,
        lease_transitions,
        preferred_holder: _,
        renew_time,
        strategy: _,
    } = object.spec.clone().unwrap_or_default();
    let metadata = &object.metadata;
    let epoch = |name| {
        annotation(metadata, name)
            .and_then(|text| text.parse().ok())
            .unwrap_or_default()
    };
    let seconds = lease_duration_seconds
        .filter(|seconds| *seconds > 0)
        .unwrap_or(DURATION_SECONDS);
    Lease {
        held_by: HeldBy::read(holder_identity.as_deref().unwrap_or_default()),
        renewed: renew_time.map_or(0, |time| time.0.as_microsecond()),
        duration: Duration::from_secs(seconds.unsigned_abs().into()),
        transitions: lease_transitions
            .and_then(|count| count.try_into().ok())
            .unwrap_or_default(),
        acknowledged: epoch(ACKNOWLEDGED),
        incomplete: annotation(metadata, INCOMPLETE) == Some("true"),
        adopted: epoch(ADOPTED),
        claimed_by: annotation(metadata, CLAIMED_BY).and_then(|text| text.parse().ok()),
    }
}

/// A Lease to be written.
pub(super) struct Draft<'a> {
    pub names: &'a Names,
    pub shard: Shard,
    /// What is to be written.
    pub lease: &'a Lease,
    /// Whether it is a renewal.
    pub renew: bool,
    /// The version that it replaces.
    pub expect: Option<Version>,
    /// The time.
    pub now: Timestamp,
}

impl Draft<'_> {
    /// The object to send. `old` is the one that is replaced: what is foreign in it stays. Its uid goes along: the API server creates a Lease that is gone anew,
    /// whatever version was expected, unless the uid of the one that was meant is given.
    pub(super) fn object(&self, old: Option<Object>) -> Object {
        let Self {
            names,
            shard,
            lease,
            renew,
            expect,
            now,
        } = *self;
        let Object { metadata, spec } = old.unwrap_or_default();
        let mut metadata = ObjectMeta {
            name: Some(names.lease(shard)),
            namespace: Some(names.namespace.clone()),
            resource_version: expect.map(|version| version.0.to_string()),
            managed_fields: None,
            ..metadata
        };
        names.label(&mut metadata, Some(shard));
        let annotations = metadata.annotations.get_or_insert_default();
        let above_0 = |epoch: u64| (epoch > 0).then(|| epoch.to_string());
        annotate(annotations, ACKNOWLEDGED, above_0(lease.acknowledged));
        annotate(
            annotations,
            INCOMPLETE,
            lease.incomplete.then(|| "true".to_owned()),
        );
        annotate(annotations, ADOPTED, above_0(lease.adopted));
        let claimant = lease.claimed_by.as_ref().map(ToString::to_string);
        annotate(annotations, CLAIMED_BY, claimant);

        let spec = spec.unwrap_or_default();
        let holder_identity = (lease.held_by != HeldBy::Nobody).then(|| lease.held_by.to_string());
        let acquired = holder_identity.is_some() && holder_identity != spec.holder_identity;
        let renewed = if renew {
            // Only that it differs matters; a clock that was set back may show the old time again.
            let now = now.as_microsecond();
            let same = now == lease.renewed;
            if same { now.saturating_add(1) } else { now }
        } else {
            lease.renewed
        };
        let renewed = Timestamp::from_microsecond(renewed).ok();
        let spec = LeaseSpec {
            acquire_time: if acquired {
                Some(MicroTime(now))
            } else {
                spec.acquire_time
            },
            holder_identity,
            // The API server refuses 0.
            lease_duration_seconds: Some(seconds(lease.duration).max(1)),
            lease_transitions: Some(lease.transitions.try_into().unwrap_or(i32::MAX)),
            renew_time: renewed
                .filter(|_| renew || lease.renewed != 0)
                .map(MicroTime)
                .or(spec.renew_time),
            ..spec
        };
        Object {
            metadata,
            spec: Some(spec),
        }
    }
}

/// Sets an annotation, or takes it away.
fn annotate(annotations: &mut BTreeMap<String, String>, key: &str, value: Option<String>) {
    match value {
        Some(value) => annotations.insert(key.to_owned(), value),
        None => annotations.remove(key),
    };
}

fn seconds(duration: Duration) -> i32 {
    duration.as_secs().try_into().unwrap_or(i32::MAX)
}
