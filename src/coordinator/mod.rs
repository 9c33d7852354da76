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
    shard::{
        ShardKey,
        ownership::{
            Alerts, Answer, Call, Change, HeldBy, Holder, Leave, Output, Replica, Request, Shard,
            State, Timing, Version,
        },
    },
};

pub use names::{MAX_TOTAL, Names, shard_from};

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
}

/// A replica among others: what it holds, serves and remembers. Cheap to clone; all clones are one.
#[derive(Debug)]
pub struct Coordinator<A>(Arc<Shared<A>>);

#[derive(Debug)]
struct Shared<A> {
    me: Holder,
    retry_period: Duration,
    replica: Mutex<Replica<A>>,
    /// Wakes the loop.
    wake: Notify,
    changes: UnboundedSender<Change>,
}

impl<A> Clone for Coordinator<A> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// Whether an attempt to send may start.
#[derive(Debug)]
#[must_use]
pub enum Permission<A: Alerts> {
    /// It may, and lasts until this is dropped.
    Granted(Permit<A>),
    /// Not yet: what it would tell is not written yet. It may when it is, or at this time, whatever comes first.
    NotBefore(Instant),
    /// It may not.
    Refused,
}

/// An attempt to send that is under way. Until it is dropped, nothing is acknowledged or let go that it could belong to. What is known of its outcome belongs
/// into the alerts before that.
#[derive(Debug)]
pub struct Permit<A: Alerts> {
    coordinator: Coordinator<A>,
    key: ShardKey,
}

impl<A: Alerts> Drop for Permit<A> {
    fn drop(&mut self) {
        self.coordinator
            .update(|replica, _| replica.end_send(&self.key));
    }
}

impl<A: Alerts> Coordinator<A> {
    /// A replica that does nothing yet, and where it will tell what changes. With `takeover` off, nobody takes over for a replica that is down while no
    /// generation changes.
    pub fn new(me: Holder, takeover: bool, timing: Timing) -> (Self, UnboundedReceiver<Change>) {
        let (changes, receiver) = mpsc::unbounded_channel();
        let shared = Shared {
            replica: Mutex::new(Replica::new(me.clone(), takeover, timing)),
            me,
            retry_period: timing.retry_period(),
            wake: Notify::new(),
            changes,
        };
        (Self(Arc::new(shared)), receiver)
    }

    // === For those who page ===

    /// Whether an attempt to send for a key that ends within `within` may start now.
    pub fn may_send(&self, key: &ShardKey, within: Duration) -> bool {
        self.lock().may_send(key, Instant::now(), within)
    }

    /// Begins an attempt to send for a key, if it may start: it must end within `within`.
    pub fn begin_send(&self, key: &ShardKey, within: Duration) -> Permission<A> {
        let leave = self.lock().begin_send(key, Instant::now(), within);
        match leave {
            Leave::Granted => Permission::Granted(Permit {
                coordinator: self.clone(),
                key: *key,
            }),
            Leave::NotBefore(until) => Permission::NotBefore(until),
            Leave::Refused => Permission::Refused,
        }
    }

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

    fn lock(&self) -> MutexGuard<'_, Replica<A>> {
        let replica = self.0.replica.lock();
        replica.unwrap_or_else(PoisonError::into_inner)
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
        let mut again = None;
        loop {
            for Request { id, call } in self.turn(&mut story) {
                let (me, transport) = (self.clone(), Arc::clone(&transport));
                // States have deadlines of their own, and deletions do not press.
                let presses = matches!(
                    call,
                    Call::WriteLease { .. }
                        | Call::ReadLease(_)
                        | Call::WriteRecord { .. }
                        | Call::ReadRecord
                );
                requests.spawn(async move {
                    let Done { answer, wrote } = transport.carry_out(call).await;
                    let failed = matches!(answer, Answer::Refused | Answer::Unknown);
                    me.update(|replica, now| {
                        if let Some((shard, bytes)) = wrote {
                            replica.wrote(shard, bytes, now);
                        }
                        replica.answer(id, answer, now);
                    });
                    presses && failed
                });
            }
            if self.lock().is_stopped() {
                tracing::info!("all that was held is free");
                return true;
            }
            again = again.filter(|at| *at > Instant::now());
            let deadline = self.lock().next_deadline();
            let next = [again, deadline].into_iter().flatten().min();
            tokio::select! {
                () = self.0.wake.notified() => {}
                () = sleep_until(next.unwrap_or(tick)), if next.is_some() => {}
                () = sleep_until(tick) => {
                    let jitter = (2.0 * JITTER).mul_add(fastrand::f64(), 1.0 - JITTER);
                    // From now, not from when it was due: a process that was stopped catches up on nothing.
                    tick = Instant::now() + self.0.retry_period.mul_f64(jitter);
                }
                Some(ended) = requests.join_next() => if pass_on(ended) {
                    // As soon as the replica tries again: a renewal whose answer was lost leaves no time to lose.
                    again = Some(Instant::now() + self.0.retry_period / 2);
                },
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
        let mut replica = self.lock();
        let now = Instant::now();
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
