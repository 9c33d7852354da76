//! What the cluster says about an installation.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::{coordination::v1::Lease as LeaseObject, core::v1::ConfigMap};
use kube::{Api, Client, api::ListParams};
use tokio::time::{sleep, timeout};
use tracing::info;

use crate::{
    cluster::{Clock, Failure, FailureReason},
    coordinator::{self, read_lease, read_record},
    shard::ownership::{HeldBy, Lease, Record, Shard},
    state::Summary,
    text,
    time::{after, before},
};

/// How long one answer may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How far a time on a Lease may be ahead of the API server's: what this clock may be off by, and its holder's.
const AHEAD: Duration = Duration::from_secs(5);

/// The longest wait for a renewal.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// What was seen.
#[derive(Debug)]
pub struct Seen {
    /// Every Lease.
    pub leases: BTreeMap<Shard, SeenLease>,
    /// Which generation is active; none before the first has started.
    pub record: Option<Record>,
    /// Every state.
    pub states: BTreeMap<Shard, Summary>,
    /// When that was, by the API server's clock.
    pub at: Timestamp,
}

/// A Lease.
#[derive(Debug, Clone)]
pub struct SeenLease {
    /// What it says.
    pub lease: Lease,
    /// When its holder took it.
    pub acquired: Option<Timestamp>,
    /// When it was last renewed, by its holder's clock.
    pub renewed: Option<Timestamp>,
    /// Whether somebody holds it who has renewed it in time.
    pub alive: bool,
}

/// A look that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// The API server does not answer, or refuses.
    #[error(transparent)]
    Read(#[from] Failure),
    /// The record is there, and says nothing that can be understood.
    #[error("the record {namespace}/{name} cannot be used: {error}")]
    Record {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Why.
        error: coordinator::RecordError,
    },
}

/// Reads all that there is. Leases that seem to have expired are looked at again after as long as they last: whether a holder is alive shows in its renewals, and not in what
/// clocks say. The first look spares the wait where the clocks leave no doubt. This is for people to see: a replica never takes over by it.
///
/// # Errors
///
/// See [`LookError`].
pub async fn look_twice(
    client: &Client,
    names: &coordinator::Names,
    clock: &Clock,
) -> Result<Seen, LookError> {
    let first = read_leases(client, names, clock).await?;
    let doubtful = first.values().filter(|seen| is_held(seen) && !seen.alive);
    let lease = doubtful.map(|seen| seen.lease.duration).max();
    let leases = if let Some(lease) = lease {
        let wait = lease.min(MAX_WAIT);
        info!(
            "not every Lease seems to have been renewed in time: looking again in {}",
            text::duration(wait)
        );
        sleep(wait).await;
        let mut second = read_leases(client, names, clock).await?;
        for (shard, seen) in &mut second {
            seen.alive |= is_held(seen)
                && first
                    .get(shard)
                    .is_some_and(|before| before.lease.renewed != seen.lease.renewed);
        }
        second
    } else {
        first
    };
    Ok(Seen {
        leases,
        record: read_the_record(client, names).await?,
        states: read_states(client, names).await?,
        at: clock.now(),
    })
}

fn is_held(seen: &SeenLease) -> bool {
    seen.lease.held_by != HeldBy::Nobody
}

async fn read_leases(
    client: &Client,
    names: &coordinator::Names,
    clock: &Clock,
) -> Result<BTreeMap<Shard, SeenLease>, Failure> {
    let api = Api::<LeaseObject>::namespaced(client.clone(), &names.namespace);
    let params = ListParams::default().labels(&names.selector());
    let list = list("Lease", &names.namespace, api.list(&params)).await?;
    let now = clock.now();
    let read = |object: LeaseObject| {
        let shard = names.shard_of_lease(object.metadata.name.as_deref()?)?;
        let lease = read_lease(&object);
        let spec = object.spec.unwrap_or_default();
        let renewed = spec.renew_time.map(|time| time.0);
        let in_time = before(now, lease.duration)..=after(now, AHEAD);
        let seen = SeenLease {
            acquired: spec.acquire_time.map(|time| time.0),
            alive: lease.held_by != HeldBy::Nobody
                && renewed.is_some_and(|renewed| in_time.contains(&renewed)),
            renewed,
            lease,
        };
        Some((shard, seen))
    };
    Ok(list.items.into_iter().filter_map(read).collect())
}

async fn read_the_record(
    client: &Client,
    names: &coordinator::Names,
) -> Result<Option<Record>, LookError> {
    let (namespace, name) = (&names.namespace, names.record());
    let api = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    // As the program itself does, which may not get it: so this can be run in its pod, too.
    let params = ListParams::default().fields(&format!("metadata.name={name}"));
    let list = list("ConfigMap", &names.namespace, api.list(&params)).await?;
    let object = list.items.first();
    object
        .map(read_record)
        .transpose()
        .map_err(|error| LookError::Record {
            namespace: namespace.clone(),
            name,
            error,
        })
}

async fn read_states(
    client: &Client,
    names: &coordinator::Names,
) -> Result<BTreeMap<Shard, Summary>, Failure> {
    let api = Api::<ConfigMap>::namespaced(client.clone(), &names.namespace);
    let params = ListParams::default().labels(&names.shards_selector());
    let list = list("ConfigMap", &names.namespace, api.list_metadata(&params)).await?;
    Ok(names.summaries(list.items.iter().map(|object| &object.metadata)))
}

async fn list<T>(
    kind: &str,
    namespace: &str,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, Failure> {
    let answer = timeout(TIMEOUT, request).await.map_err(|_| {
        let message = format!(
            "cannot list {kind}: no answer within {} s",
            TIMEOUT.as_secs()
        );
        Failure::new(FailureReason::Silent, message)
    })?;
    answer.map_err(|error| match &error {
        // Unlike what is watched, they are in one namespace, and a Role is enough.
        kube::Error::Api(status) if status.code == 403 => Failure::new(
            FailureReason::Forbidden,
            format!(
                "not allowed to list {kind}s in the namespace {namespace}: a Role there must allow list on leases (API group coordination.k8s.io) and \
                 on configmaps ({})",
                text::one_line(&status.message)
            ),
        ),
        error => Failure::of_client("list", kind, error),
    })
}
