//! Who owns what, for real: the thin edge around [`Replica`].
//!
//! [`Coordinator`] holds the replica under a mutex. Its loop ([`Coordinator::run`]) watches Leases, the record and the states, carries out what the replica
//! asks for, and says what changes. Everybody else asks it synchronously; who has changed something wakes the loop.

mod lease;
pub(crate) mod names;
mod record;
mod run;
mod story;
mod traffic;
mod transport;
pub(crate) mod trouble;
mod watch;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use kube::Client;
use tokio::{
    sync::{
        Notify,
        mpsc::{self, UnboundedReceiver, UnboundedSender},
    },
    time::Instant,
};

use self::{story::Part, trouble::Troubles};
use crate::{
    cluster::{Clock, ConnectError, Tap, client},
    shard::{
        Gate, Permission, Permit, ShardKey,
        ownership::{
            Alerts, Answer, Change, HeldBy, Holder, Leave, Replica, Shard, State, Timing, Version,
        },
    },
};

pub use lease::read as read_lease;
pub use names::{
    INSTANCE_LABEL, MAX_TOTAL, NAME_LABEL, Names, SHARD_INDEX_LABEL, SHARD_TOTAL_LABEL, shard_from,
};
pub use record::{RecordError, read as read_record};
pub use traffic::{Outcomes, Traffic};

#[cfg(test)]
mod tests;

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

    /// Forgets what it knows of the states of other shards: no more is asked for there. Who asks all the same reads first.
    fn retain(&self, keep: impl Fn(Shard) -> bool);
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
    /// What the `StatefulSet` wants.
    replicas: Mutex<Option<u32>>,
    traffic: Mutex<Traffic>,
    /// What does not work, once there is somebody who tries.
    troubles: OnceLock<Arc<Troubles>>,
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
            me,
            retry_period: timing.retry_period(),
            replicas: Mutex::default(),
            traffic: Mutex::default(),
            troubles: OnceLock::new(),
            wake: Notify::new(),
            changes,
        };
        (Self(Arc::new(shared)), receiver)
    }

    /// How many replicas the `StatefulSet` wants, if that is known. One whose total fits to nothing takes no part.
    pub fn set_replicas(&self, replicas: Option<u32>) {
        *locked(&self.0.replicas) = replicas;
        self.0.wake.notify_one();
    }

    // === For those who page ===

    /// Whether this replica holds the Lease of its own shard, by its own clock: whether it is ready.
    pub fn holds_own(&self) -> bool {
        self.lock().holds(self.0.me.shard(), Instant::now())
    }

    /// Looks at the replica. Here, and in the two like it, nothing of the coordinator may be called again and no [`Permit`] dropped: it is locked.
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

    /// Why this replica does not hold its own shard, in words, as far as that can be told.
    pub fn obstacle(&self) -> Option<String> {
        match self.look(|replica, now| Part::of(replica, &self.0.me, now)) {
            Part::StandsBy(holder) => Some(format!("{holder} holds it")),
            Part::Waits(holder) => Some(format!("waits for {holder} to let go")),
            Part::None(hash) => Some(format!(
                "the record of the active generation is of the hash {hash:?}, which this version of the program does not know"
            )),
            Part::Takes => self.0.troubles.get()?.now(),
        }
    }

    /// What was asked of the API server so far.
    pub fn traffic(&self) -> Traffic {
        *locked(&self.0.traffic)
    }

    fn lock(&self) -> MutexGuard<'_, Replica<A>> {
        locked(&self.0.replica)
    }
}

impl<A: Alerts + fmt::Debug + Send + 'static> Gate for Coordinator<A> {
    fn may_send(&self, key: &ShardKey, within: Duration) -> bool {
        self.lock().may_send(key, Instant::now(), within)
    }

    fn begin(&self, key: &ShardKey, within: Duration) -> Permission {
        let leave = self.lock().begin_send(key, Instant::now(), within);
        match leave {
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

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
