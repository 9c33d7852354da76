//! This replica as one of several: runs the coordinator, keeps an eye on the `StatefulSet`, and shows who serves what.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::oneshot,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    cluster::{Clock, ConnectError, OwnSet, own_stateful_set},
    coordinator::{Access, Clients, Coordinator, Names},
    custody::{Custody, Keeper},
    http::{Check, Health, Metrics, Ownership},
    shard::{
        Sharder,
        ownership::{By, Covered, Fit, Holder, Shard, Timing, fit},
    },
    state::{Records, Remembered, Store},
    unserved::{Installation, Unserved},
};

/// How often the `StatefulSet` is read. It is only compared with.
const READ_SET: Duration = Duration::from_secs(30);

/// How often it is compared with what is active.
const COMPARE: Duration = Duration::from_secs(1);

/// What a replica that was told to stop, and is not wanted any more, leaves of its grace period when it goes on for the others: the reading of the `StatefulSet`,
/// the stopping, and a margin.
const RESERVE: Duration = Duration::from_secs(20);

/// How long stopping may take: attempts to send in flight end, states are written, Leases freed.
const STOP_WITHIN: Duration = Duration::from_secs(13);

/// What a membership is made from.
#[derive(Debug)]
pub struct Options {
    /// The name of the installation.
    pub name: String,
    /// Where its Leases and states are.
    pub namespace: String,
    /// The pod that this is, if it is one.
    pub pod_name: Option<String>,
    /// How long Leases last.
    pub timing: Timing,
    /// Whether orphaned shards of others are taken over.
    pub takeover: bool,
}

/// This replica as one of several.
#[derive(Debug)]
pub struct Membership {
    names: Names,
    timing: Timing,
    pod_name: Option<String>,
    keeper: Keeper,
    shown: Shown,
}

/// What is shown of it. Cheap to clone; all clones agree.
#[derive(Debug, Clone)]
struct Shown {
    keeper: Keeper,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Debug, Default)]
struct Seen {
    set: Option<OwnSet>,
    /// Since when a hand-over is under way.
    hand_over: Option<Instant>,
}

impl Membership {
    /// A replica of this shard that takes part in nothing yet.
    pub fn new(options: Options, sharder: Sharder) -> (Self, Custody) {
        let Options {
            name,
            namespace,
            pod_name,
            timing,
            takeover,
        } = options;
        let who = pod_name.as_deref().unwrap_or("process");
        let me = Holder {
            ordinal: sharder.index(),
            total: sharder.total(),
            // Two processes of one pod name can run side by side, and a restarted one must not take for its own what it held before.
            uid: format!("{who}_{:012x}", fastrand::u64(..1 << 48)).into(),
        };
        let (keeper, changes) = Coordinator::new(me, takeover, timing);
        let shown = Shown {
            keeper: keeper.clone(),
            seen: Arc::default(),
        };
        let custody = Custody::new(keeper.clone(), changes);
        let names = Names { namespace, name };
        let membership = Self {
            names,
            timing,
            pod_name,
            keeper,
            shown,
        };
        (membership, custody)
    }

    /// The coordinator: it is the emit gate, and writes down what receivers hold.
    pub fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    /// Where its Leases and states are.
    pub fn namespace(&self) -> &str {
        &self.names.namespace
    }

    /// Watches over the shards of this installation, in the cluster of this name (the label `cluster`).
    pub fn unserved(&self, cluster: &str) -> Unserved {
        let Names { namespace, name } = self.names.clone();
        let installation = Installation {
            cluster: cluster.to_owned(),
            namespace,
            name,
        };
        Unserved::new(installation, &self.timing)
    }

    /// Shows who serves what as metrics and in `/readyz`; to be ready is to hold the own shard.
    pub fn show_in(&self, health: &Health, metrics: &Metrics) {
        let shown = self.shown.clone();
        health.ask_also(move || shown.checks());
        let shown = self.shown.clone();
        metrics.at_scrape(move |gauges| gauges.ownership(&shown.ownership()));
    }

    /// Takes part until `stop`, and lets go of everything then. `synced` is told when the cluster is seen.
    ///
    /// # Errors
    ///
    /// There is no client for the API server.
    pub async fn run(
        self,
        config: &kube::Config,
        clock: Clock,
        synced: oneshot::Receiver<()>,
        stop: CancellationToken,
    ) -> Result<(), ConnectError> {
        let Self {
            names,
            timing: _,
            pod_name,
            keeper,
            shown,
        } = self;
        let clients = Clients::new(config, &clock)?;
        let states: Store<Remembered> =
            Store::new(clients.config_maps.clone(), names.clone(), clock.clone());
        let set = Set {
            client: clients.config_maps.clone(),
            namespace: names.namespace.clone(),
            pod_name,
            shown,
        };
        let access: Access<Store<Remembered>> = Access {
            clients,
            names,
            states,
            clock,
        };
        let (ready, is_ready) = oneshot::channel();
        let let_go = CancellationToken::new();
        let watching = async {
            // First, because what it takes part in depends on it.
            set.read().await;
            if synced.await.is_ok() {
                _ = ready.send(());
            }
            set.watch().await;
        };
        let stopping = async {
            stop.cancelled().await;
            set.outlast().await;
            let_go.cancel();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            _ = keeper.run(access, is_ready, let_go.clone(), STOP_WITHIN) => {}
            () = watching => {}
            () = stopping => {}
        }
        Ok(())
    }
}

/// The `StatefulSet` that runs this replica.
struct Set {
    client: kube::Client,
    namespace: String,
    pod_name: Option<String>,
    shown: Shown,
}

impl Set {
    /// Reads it. What cannot be read is as it was.
    async fn read(&self) -> Option<OwnSet> {
        let pod_name = self.pod_name.as_deref()?;
        match own_stateful_set(&self.client, &self.namespace, pod_name).await {
            Ok(set) => {
                self.shown.seen().set = set;
                let replicas = set.map(|set| set.replicas);
                self.shown.keeper.set_replicas(replicas);
            }
            Err(failure) => {
                warn!("cannot tell how many replicas there are to be: {failure}");
            }
        }
        self.shown.seen().set
    }

    /// Keeps an eye on it, and says when it does not fit. Never ends.
    async fn watch(&self) {
        let mut read = Instant::now();
        let mut said = Fit::Fits;
        loop {
            sleep(COMPARE).await;
            if read.elapsed() >= READ_SET {
                self.read().await;
                read = Instant::now();
            }
            let fit = self.shown.compare();
            if fit != said {
                self.shown.say(fit);
                said = fit;
            }
        }
    }

    /// Told to stop: if this replica is not wanted any more, all others may be stopping at the same time, and none be there that stays. Then it goes on
    /// until there is one.
    async fn outlast(&self) {
        let Some(set) = self.read().await else { return };
        let me = self.shown.keeper.me();
        let ordinal = self.pod_name.as_deref().and_then(ordinal);
        if ordinal.is_none_or(|ordinal| set.wants(ordinal)) {
            return;
        }
        let replicas = set.replicas;
        info!(
            %me,
            replicas,
            "told to stop, and not wanted any more: goes on until a replica that stays is ready"
        );
        let keeper = &self.shown.keeper;
        let successor = async {
            while !keeper.look(|replica, now| replica.has_successor(replicas, now)) {
                sleep(Duration::from_millis(200)).await;
            }
        };
        if timeout(set.grace.saturating_sub(RESERVE), successor)
            .await
            .is_err()
        {
            warn!("no replica that stays is ready: this one stops all the same");
        }
    }
}

/// The ordinal that a pod's name ends in.
fn ordinal(pod_name: &str) -> Option<u32> {
    pod_name.rsplit_once('-')?.1.parse().ok()
}

impl Shown {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compares the total with what is active and with what the `StatefulSet` wants, and notes a hand-over.
    fn compare(&self) -> Fit {
        let record = self
            .keeper
            .look(|replica, _| replica.view().record().cloned());
        let mut seen = self.seen();
        let handing_over = record
            .as_ref()
            .is_some_and(|record| record.previous.is_some());
        if handing_over {
            seen.hand_over.get_or_insert_with(Instant::now);
        } else {
            seen.hand_over = None;
        }
        fit(
            record.map(|record| record.active),
            self.keeper.me().total,
            seen.set.map(|set| set.replicas),
        )
    }

    fn say(&self, fit: Fit) {
        let total = self.keeper.me().total;
        let replicas = self.seen().set.map_or(total, |set| set.replicas);
        match fit {
            Fit::Fits => info!("the StatefulSet wants as many replicas as there are shards"),
            Fit::ButReplicasDiffer => warn!(
                total,
                replicas,
                "the StatefulSet wants another number of replicas than there are shards: set ALERTKUBE_SHARD_TOTAL and replicas to the same number (manifests/sharded does so in one place)"
            ),
            Fit::Misfit => warn!(
                "takes no part, since shard {} is {}",
                self.keeper.me().shard(),
                misfit(total, replicas)
            ),
        }
    }

    /// What readiness depends on, and who serves what.
    fn checks(&self) -> Vec<Check> {
        let (own, stands_by) = (self.keeper.me().shard(), self.keeper.stands_by_for());
        let total = own.total;
        // Without a record nothing is served.
        let has_record = self
            .keeper
            .look(|replica, _| replica.view().record().is_some());
        let mut checks = vec![match (self.compare(), stands_by) {
            (Fit::Misfit, _) => {
                let replicas = self.seen().set.map_or(total, |set| set.replicas);
                Check::Bad(format!("shard {own} {}", misfit(total, replicas)))
            }
            _ if self.keeper.holds_own() && has_record => Check::Good(format!("shard {own} held")),
            (_, Some(holder)) => Check::Bad(format!("shard {own} standing by: {holder} holds it")),
            (_, None) => Check::Bad(match self.keeper.obstacle() {
                Some(why) => format!("shard {own} not held: {why}"),
                None => format!("shard {own} not held yet"),
            }),
        }];
        let (record, coverage) = self
            .keeper
            .look(|replica, now| (replica.view().record().cloned(), replica.coverage(now)));
        if let Some(record) = record {
            let (active, epoch) = (record.active, record.epoch);
            checks.push(Check::Note(match record.previous {
                Some(previous) => format!(
                    "generation of {active} active, epoch {epoch}, handed over from the one of {previous}"
                ),
                None => format!("generation of {active} active, epoch {epoch}"),
            }));
        }
        checks.extend(coverage.iter().map(|covered| Check::Note(line(covered))));
        checks
    }

    fn ownership(&self) -> Ownership {
        let fit = self.compare();
        let seen = self.seen();
        let hand_over = seen.hand_over.map(|since| since.elapsed());
        let standing_by = self.keeper.stands_by_for().is_some();
        let traffic = self.keeper.traffic();
        self.keeper.look(|replica, now| {
            let record = replica.view().record();
            let coverage = replica.coverage(now);
            let active = record.map_or(0, |record| record.active);
            let count = |wanted: fn(&By) -> bool| {
                let of_active = coverage
                    .iter()
                    .filter(|covered| covered.shard.total == active);
                of_active.filter(|covered| wanted(&covered.by)).count()
            };
            let previous = record.and_then(|record| record.previous);
            let leases = replica.view().leases();
            let foreign = leases.filter(|(shard, lease)| {
                shard.total != active
                    && Some(shard.total) != previous
                    && lease.held_by.replica().is_some()
                    && replica.view().is_fresh(*shard, now)
            });
            let serving: Vec<Shard> = Shard::all(active)
                .filter(|shard| replica.serves(*shard, now))
                .collect();
            let age = |since: Option<Instant>| {
                since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
            };
            Ownership {
                own: count(|by| matches!(by, By::Own(_))),
                heir: count(|by| matches!(by, By::Heir(_))),
                missing: count(|by| matches!(by, By::Nobody)),
                epoch: record.map_or(0, |record| record.epoch),
                active,
                previous: previous.unwrap_or_default(),
                hand_over: hand_over.unwrap_or_default(),
                foreign_leases: foreign.count(),
                renewal_age: age(replica.renewed_at()),
                unsaved: age(replica.unsaved_since()),
                remembered: serving
                    .iter()
                    .filter_map(|shard| replica.alerts(*shard))
                    .map(Records::len)
                    .sum(),
                pages_unsaved: replica.sent_unsaved(),
                replicas_differ: fit != Fit::Fits,
                standing_by,
                traffic,
                serving,
            }
        })
    }
}

fn misfit(total: u32, replicas: u32) -> String {
    format!(
        "not taken: ALERTKUBE_SHARD_TOTAL is {total}, which is neither what is active nor the {replicas} replicas that the StatefulSet wants; set them to the same number"
    )
}

/// Who serves a shard, in a line.
fn line(covered: &Covered) -> String {
    let Covered { shard, by, since } = covered;
    let seconds = since.elapsed().as_secs();
    match by {
        By::Own(holder) => {
            format!("shard {shard} served by its own replica for {seconds}s: {holder}")
        }
        By::Heir(holder) => format!("shard {shard} served by an heir for {seconds}s: {holder}"),
        By::Nobody => format!("shard {shard} served by nobody for {seconds}s"),
    }
}
