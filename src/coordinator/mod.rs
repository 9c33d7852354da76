//! Who owns what, for real: the thin edge around [`Replica`].
//!
//! [`Coordinator`] holds the replica under a mutex. Its loop ([`Coordinator::run`]) watches Leases, the record and the states, carries out what the replica
//! asks for, and says what changes. Everybody else asks it synchronously; who has changed something wakes the loop.

mod lease;
mod names;
mod record;
mod story;
mod transport;
mod trouble;
mod watch;

use std::{
    convert::Infallible,
    fmt,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use k8s_openapi::api::{coordination::v1::Lease as LeaseObject, core::v1::ConfigMap};
use kube::{Api, Client, ResourceExt as _};
use tokio::{
    sync::{
        Notify,
        mpsc::{self, UnboundedReceiver, UnboundedSender},
        oneshot,
    },
    task::{JoinError, JoinSet},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use self::{
    story::{Part, Story},
    transport::{Done, Transport},
    trouble::Resource,
    watch::{Metadata, Seen, Selection, Whole, watch},
};
use crate::{
    cluster::{Clock, ConnectError, Tap, client},
    http::Metrics,
    shard::{
        Gate, Permission, Permit, ShardKey,
        ownership::{
            Alerts, Answer, Call, Change, Fit, HeldBy, Holder, Leave, Output, Replica, Request,
            Shard, State, Timing, Version, fit,
        },
    },
};

pub use lease::read as read_lease;
pub use names::{MAX_TOTAL, Names, shard_from};
pub use record::{RecordError, read as read_record};

#[cfg(test)]
mod tests;

/// How far the pace of the loop is off, in both directions, so that replicas that started together do not all write together.
const JITTER: f64 = 0.1;

/// Where the shards' states are kept. Each call is answered once, within seconds, and tries nothing twice.
pub trait States<A>: Send + Sync + 'static {
    /// Reads a state, not from a cache. Where there is none, the answer has the version of that.
    fn read(&self, shard: Shard) -> impl Future<Output = Answer<A>> + Send;

    /// Creates or replaces a state, if it is of this version (or absent, for none). How many bytes were sent, besides.
    fn write(
        &self,
        shard: Shard,
        state: State<A>,
        expect: Option<Version>,
    ) -> impl Future<Output = (Answer<A>, usize)> + Send;

    /// Deletes a state, if it is of this version.
    fn delete(&self, shard: Shard, version: Version) -> impl Future<Output = Answer<A>> + Send;
}

/// Clients for what must not wait for each other: all users of one share a queue.
#[derive(Clone)]
pub struct Clients {
    /// For the watches: a connection each.
    pub watches: Client,
    /// For reading and writing Leases.
    pub leases: Client,
    /// For reading and writing the record, and the states.
    pub config_maps: Client,
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clients").finish_non_exhaustive()
    }
}

impl Clients {
    /// Makes them. Sends nothing yet.
    ///
    /// # Errors
    ///
    /// The configuration is of no use.
    pub fn new(config: &kube::Config, clock: &Clock) -> Result<Self, ConnectError> {
        let client = |kind| client(config, &Tap::new(kind, clock.clone()));
        Ok(Self {
            watches: client("Lease or ConfigMap")?,
            leases: client("Lease")?,
            config_maps: client("ConfigMap")?,
        })
    }
}

/// What a coordinator works with.
#[derive(Debug)]
pub struct Access<S> {
    /// The API server.
    pub clients: Clients,
    /// The objects there.
    pub names: Names,
    /// The states there.
    pub states: S,
    /// The API server's time, for people to read on Leases. Nothing is decided by it.
    pub clock: Clock,
    /// Where requests are counted.
    pub metrics: Arc<Metrics>,
}

/// A replica among others: what it holds, serves and remembers. Cheap to clone; all clones are one.
#[derive(Debug)]
pub struct Coordinator<A>(Arc<Shared<A>>);

#[derive(Debug)]
struct Shared<A> {
    me: Holder,
    retry_period: Duration,
    replica: Mutex<Replica<A>>,
    /// What the `StatefulSet` wants.
    replicas: Mutex<Option<u32>>,
    /// Wakes the loop.
    wake: Notify,
    changes: UnboundedSender<Change>,
}

impl<A> Clone for Coordinator<A> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<A: Alerts> Coordinator<A> {
    /// A replica that does nothing yet, and where it will tell what changes. With `takeover` off, nobody takes over for a replica that is down while no
    /// generation changes.
    pub fn new(me: Holder, takeover: bool, timing: Timing) -> (Self, UnboundedReceiver<Change>) {
        let (changes, receiver) = mpsc::unbounded_channel();
        let shared = Shared {
            replica: Mutex::new(Replica::new(me.clone(), takeover, timing)),
            replicas: Mutex::new(None),
            me,
            retry_period: timing.retry_period(),
            wake: Notify::new(),
            changes,
        };
        (Self(Arc::new(shared)), receiver)
    }

    /// How many replicas the `StatefulSet` wants, if that is known. One whose total fits to nothing takes no part.
    pub fn set_replicas(&self, replicas: Option<u32>) {
        *self.replicas() = replicas;
        self.0.wake.notify_one();
    }

    // === For those who page ===

    /// Changes what a shard remembers; it is written soon. Nothing, if this replica does not hold the shard, has not read its state, or has written it a last time.
    pub fn with_alerts<R>(&self, shard: Shard, change: impl FnOnce(&mut A) -> R) -> Option<R> {
        self.update(|replica, _| replica.alerts_mut(shard).map(change))
    }

    /// Whether this replica holds the Lease of its own shard, by its own clock: whether it is ready.
    pub fn holds_own(&self) -> bool {
        self.lock().holds(self.0.me.shard(), Instant::now())
    }

    /// Whether this replica serves a shard now.
    pub fn serves(&self, shard: Shard) -> bool {
        self.lock().serves(shard, Instant::now())
    }

    /// Looks at the replica.
    pub fn look<R>(&self, look: impl FnOnce(&Replica<A>, Instant) -> R) -> R {
        look(&self.lock(), Instant::now())
    }

    /// Changes the replica, and sees to it that what follows is done.
    pub fn update<R>(&self, change: impl FnOnce(&mut Replica<A>, Instant) -> R) -> R {
        let result = change(&mut self.lock(), Instant::now());
        self.0.wake.notify_one();
        result
    }

    /// Who this replica is.
    pub fn me(&self) -> &Holder {
        &self.0.me
    }

    /// Who holds the Lease of this replica's own shard and will not let go of it, if somebody does: this replica stands by.
    pub fn stands_by_for(&self) -> Option<HeldBy> {
        match self.look(|replica, now| Part::of(replica, &self.0.me, now)) {
            Part::StandsBy(holder) => Some(holder),
            Part::Takes | Part::Waits(_) | Part::None(_) => None,
        }
    }

    fn replicas(&self) -> MutexGuard<'_, Option<u32>> {
        self.0
            .replicas
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Replica<A>> {
        let replica = self.0.replica.lock();
        replica.unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A: Alerts + fmt::Debug + Send + 'static> Gate for Coordinator<A> {
    fn may_send(&self, key: &ShardKey, within: Duration) -> bool {
        self.lock().may_send(key, Instant::now(), within)
    }

    fn begin(&self, key: &ShardKey, within: Duration) -> Permission {
        match self.lock().begin_send(key, Instant::now(), within) {
            Leave::Granted => {
                let (me, key) = (self.clone(), *key);
                Permission::Granted(Permit::new(move || {
                    me.update(|replica, _| replica.end_send(&key));
                }))
            }
            Leave::NotBefore(then) => Permission::NotBefore(then),
            Leave::Refused => Permission::Refused,
        }
    }
}

// === The loop ===

impl<A: Alerts + Send + 'static> Coordinator<A> {
    /// Takes part until `stop`; then sends nothing more, writes what has changed, frees what is held, and ends, after `stop_within` at the latest. Whether
    /// all was freed in that time: if not, it expires.
    ///
    /// Nothing is taken before `synced` is told, that is, before this replica sees the cluster: holding the own Lease means being ready.
    ///
    /// # Panics
    ///
    /// If one of its tasks does, which is a defect: what they should have done would never be done.
    pub async fn run<S: States<A>>(
        self,
        access: Access<S>,
        synced: oneshot::Receiver<()>,
        stop: CancellationToken,
        stop_within: Duration,
    ) -> bool {
        let Access {
            clients,
            names,
            states,
            clock,
            metrics,
        } = access;
        let Clients {
            watches,
            leases,
            config_maps,
        } = clients;
        let transport = Transport::new(names.clone(), clock, leases, config_maps, states);
        let transport = Arc::new(transport);
        let mut tasks = JoinSet::new();
        let [leases, record, states] = self.watch(&watches, &names, &transport, &mut tasks);
        let mut all_synced = pin!(all([leases, record, states, synced]));
        let mut is_synced = false;
        let mut requests = JoinSet::new();
        let mut story = Story::default();
        let mut give_up = None;
        let mut tick = Instant::now();
        loop {
            for Request { id, call } in self.turn(&mut story) {
                let (me, transport) = (self.clone(), Arc::clone(&transport));
                let metrics = Arc::clone(&metrics);
                requests.spawn(async move {
                    let what = Counted::of(&call);
                    let Done { answer, wrote } = transport.carry_out(call).await;
                    what.count(&metrics, &answer, wrote.map_or(0, |(_, bytes)| bytes));
                    me.update(|replica, now| {
                        if let Some((shard, bytes)) = wrote {
                            replica.wrote(shard, bytes, now);
                        }
                        replica.answer(id, answer, now);
                    });
                });
            }
            if self.lock().is_stopped() {
                tracing::info!("all that was held is free");
                return true;
            }
            let deadline = self.lock().next_deadline();
            tokio::select! {
                () = self.0.wake.notified() => {}
                () = sleep_until(deadline.unwrap_or(tick)), if deadline.is_some() => {}
                () = sleep_until(tick) => {
                    let jitter = (2.0 * JITTER).mul_add(fastrand::f64(), 1.0 - JITTER);
                    // From now, not from when it was due: a process that was stopped catches up on nothing.
                    tick = Instant::now() + self.0.retry_period.mul_f64(jitter);
                }
                Some(ended) = requests.join_next() => pass_on(ended),
                Some(ended) = tasks.join_next() => match pass_on(ended) {},
                () = &mut all_synced, if !is_synced => {
                    is_synced = true;
                    self.update(|replica, _| replica.synced());
                }
                () = stop.cancelled(), if give_up.is_none() => {
                    give_up = Some(Instant::now() + stop_within);
                    self.update(|replica, _| replica.stop());
                }
                () = sleep_until(give_up.unwrap_or(tick)), if give_up.is_some() => {
                    tracing::warn!("not all that was held could be freed in time: it is taken over when it has expired");
                    return false;
                }
            }
        }
    }

    /// Starts the three watches. Each tells when its first list is complete.
    fn watch<S: States<A>>(
        &self,
        client: &Client,
        names: &Names,
        transport: &Arc<Transport<S>>,
        tasks: &mut JoinSet<Infallible>,
    ) -> [oneshot::Receiver<()>; 3] {
        let namespace = &names.namespace;
        let (leases_are_complete, leases) = Complete::new();
        let (me, to) = (self.clone(), Arc::clone(transport));
        let source = Whole(
            Resource::Lease,
            Api::<LeaseObject>::namespaced(client.clone(), namespace),
        );
        let (selection, own) = (Selection::Labels(names.selector()), names.clone());
        tasks.spawn(async move {
            let mut complete = leases_are_complete;
            watch(source, selection, &to.troubles, |seen| {
                let (version, name, object) = match seen {
                    Seen::Object(version, object) => (version, object.name_any(), Some(object)),
                    Seen::Gone(version, name) => (version, name, None),
                    Seen::Complete => return complete.tell(),
                };
                if let Some(shard) = own.shard_of_lease(&name) {
                    let lease = to.see_lease(shard, version, object);
                    me.update(|replica, now| replica.see_lease(shard, version, lease, now));
                }
            })
            .await
        });

        let (record_is_complete, record) = Complete::new();
        let (me, to) = (self.clone(), Arc::clone(transport));
        let api = Api::<ConfigMap>::namespaced(client.clone(), namespace);
        let source = Whole(Resource::ConfigMap, api.clone());
        let selection = Selection::Name(names.record());
        tasks.spawn(async move {
            let mut complete = record_is_complete;
            watch(source, selection, &to.troubles, |seen| {
                let (version, object) = match seen {
                    Seen::Object(version, object) => (version, Some(object)),
                    Seen::Gone(version, _) => (version, None),
                    Seen::Complete => return complete.tell(),
                };
                if let Ok(record) = to.see_record(version, object) {
                    me.update(|replica, _| replica.see_record(version, record));
                }
            })
            .await
        });

        let (states_are_complete, states) = Complete::new();
        let (me, to) = (self.clone(), Arc::clone(transport));
        // As metadata: the states themselves are large, and are only read by who takes them over.
        let source = Metadata(Resource::ConfigMap, api);
        let (selection, own) = (Selection::Labels(names.shards_selector()), names.clone());
        tasks.spawn(async move {
            let mut complete = states_are_complete;
            watch(source, selection, &to.troubles, |seen| {
                let (version, name, epoch) = match seen {
                    Seen::Object(version, object) => (
                        version,
                        object.name_any(),
                        names::epoch_of_state(&object.metadata),
                    ),
                    Seen::Gone(version, name) => (version, name, None),
                    Seen::Complete => return complete.tell(),
                };
                if let Some(shard) = own.shard_of_state(&name) {
                    me.update(|replica, _| replica.see_state(shard, version, epoch));
                }
            })
            .await
        });
        [leases, record, states]
    }

    /// Looks at how things are, tells what has changed, and returns what to ask for.
    fn turn(&self, story: &mut Story) -> Vec<Request<A>> {
        let replicas = *self.replicas();
        let mut replica = self.lock();
        let now = Instant::now();
        let active = replica.view().record().map(|record| record.active);
        replica.allow(fit(active, self.0.me.total, replicas) != Fit::Misfit);
        let Output { requests, changes } = replica.poll(now);
        let part = Part::of(&replica, &self.0.me, now);
        drop(replica);
        story.go_on(&self.0.me, &changes, part);
        for change in changes {
            // Nobody may listen any more when it stops.
            _ = self.0.changes.send(change);
        }
        requests
    }
}

/// What is counted about a request.
#[derive(Debug, Clone, Copy)]
enum Counted {
    Lease,
    /// A write of a state.
    State,
    Nothing,
}

impl Counted {
    const fn of<A>(call: &Call<A>) -> Self {
        match call {
            Call::WriteLease { .. } | Call::ReadLease(_) | Call::DeleteLease(..) => Self::Lease,
            Call::WriteState { .. } => Self::State,
            _ => Self::Nothing,
        }
    }

    fn count<A>(self, metrics: &Metrics, answer: &Answer<A>, bytes: u64) {
        let outcome = match answer {
            Answer::Lease(..) | Answer::Record(..) | Answer::State(..) | Answer::Deleted => "ok",
            Answer::Conflict => "conflict",
            Answer::Refused => "refused",
            Answer::Unknown => "unknown",
        };
        match self {
            Self::Lease => metrics.lease_request(outcome),
            Self::State => metrics.state_write(outcome, bytes),
            Self::Nothing => {}
        }
    }
}

/// Tells once that a list is complete.
struct Complete(Option<oneshot::Sender<()>>);

impl Complete {
    fn new() -> (Self, oneshot::Receiver<()>) {
        let (sender, receiver) = oneshot::channel();
        (Self(Some(sender)), receiver)
    }

    fn tell(&mut self) {
        if let Some(sender) = self.0.take() {
            _ = sender.send(());
        }
    }
}

/// Waits until all of them were told.
async fn all<const N: usize>(told: [oneshot::Receiver<()>; N]) {
    for told in told {
        if told.await.is_err() {
            // Whoever would tell is gone, so it never comes.
            std::future::pending::<()>().await;
        }
    }
}

/// What a task returned. Its panic goes on here.
fn pass_on<T>(ended: Result<T, JoinError>) -> T {
    match ended {
        Ok(value) => value,
        // It is not aborted while this runs, so it has panicked.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
