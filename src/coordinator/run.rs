//! The loop of a coordinator: what it sees, what it asks for, and what comes of that.

use std::{collections::BTreeSet, convert::Infallible, pin::pin, sync::Arc, time::Duration};

use k8s_openapi::api::{coordination::v1::Lease as LeaseObject, core::v1::ConfigMap};
use kube::{Api, Client, api::PartialObjectMeta};
use tokio::{
    sync::oneshot,
    task::{JoinError, JoinSet},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    Access, Clients, Coordinator, States, locked,
    names::annotation,
    story::{Part, Story},
    traffic::Counted,
    transport::{Done, Transport},
    trouble::Resource,
    watch::{Metadata, Seen, Selection, Source, Whole, watch},
};
use crate::{
    shard::ownership::{Alerts, Answer, Call, Epoch, Fit, Output, Replica, Request, Shard, fit},
    state::EPOCH,
};

/// How far the pace of the loop is off, in both directions, so that replicas that started together do not all write together.
const JITTER: f64 = 0.1;

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
        let transport = Transport::new(names, clock, leases, config_maps, states);
        let transport = Arc::new(transport);
        _ = self.0.troubles.set(Arc::clone(&transport.troubles));
        let mut tasks = JoinSet::new();
        let [leases, record, states] = self.watch(&watches, &transport, &mut tasks);
        let mut all_synced = pin!(all([leases, record, states, synced]));
        let mut is_synced = false;
        let mut requests = JoinSet::new();
        let mut story = Story::default();
        let mut give_up = None;
        let mut tick = Instant::now();
        let mut again = None;
        let mut needs = Needs::default();
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
                let counted = Counted::of(&call);
                requests.spawn(async move {
                    let done = transport.carry_out(call).await;
                    locked(&me.0.traffic).count(counted, &done);
                    let Done { answer, wrote } = done;
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
            let now_needs = Needs::of(&self.lock());
            if now_needs != needs {
                transport.states.retain(|shard| now_needs.has(shard));
                needs = now_needs;
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
        transport: &Arc<Transport<S>>,
        tasks: &mut JoinSet<Infallible>,
    ) -> [oneshot::Receiver<()>; 3] {
        let names = &transport.names;
        let leases = Api::<LeaseObject>::namespaced(client.clone(), &names.namespace);
        let config_maps = Api::<ConfigMap>::namespaced(client.clone(), &names.namespace);
        let (me, to) = (self.clone(), Arc::clone(transport));
        let leases = follow(
            Whole(Resource::Lease, leases),
            Selection::Labels(names.selector()),
            transport,
            tasks,
            move |seen| {
                if let Some(shard) = to.names.shard_of_lease(&seen.name) {
                    let version = seen.version;
                    let lease = to.see_lease(shard, version, seen.object);
                    me.update(|replica, now| replica.see_lease(shard, version, lease, now));
                }
            },
        );
        let (me, to) = (self.clone(), Arc::clone(transport));
        let record = follow(
            Whole(Resource::ConfigMap, config_maps.clone()),
            Selection::Name(names.record()),
            transport,
            tasks,
            move |seen| {
                if let Ok(record) = to.see_record(seen.version, seen.object) {
                    me.update(|replica, _| replica.see_record(seen.version, record));
                }
            },
        );
        let (me, to) = (self.clone(), Arc::clone(transport));
        let states = follow(
            // The states themselves are large, and are only read by who takes them over.
            Metadata(Resource::ConfigMap, config_maps),
            Selection::Labels(names.shards_selector()),
            transport,
            tasks,
            move |seen| {
                if let Some(shard) = to.names.shard_of_state(&seen.name) {
                    let epoch = seen.object.as_ref().and_then(epoch_of_state);
                    me.update(|replica, _| replica.see_state(shard, seen.version, epoch));
                }
            },
        );
        [leases, record, states]
    }

    /// What to ask for now: for tests that carry it out themselves.
    #[cfg(test)]
    pub(crate) fn requests(&self) -> Vec<Request<A>> {
        self.turn(&mut Story::default())
    }

    /// Looks at how things are, tells what has changed, and returns what to ask for.
    fn turn(&self, story: &mut Story) -> Vec<Request<A>> {
        let replicas = *locked(&self.0.replicas);
        let mut replica = self.lock();
        let now = Instant::now();
        let active = replica.view().record().map(|record| record.active);
        replica.allow(fit(active, self.0.me.total, replicas) != Fit::Misfit);
        let Output { requests, changes } = replica.poll(now);
        let part = Part::of(&replica, &self.0.me, now);
        let expired: BTreeSet<_> = replica.expired(now).collect();
        drop(replica);
        story.go_on(&self.0.me, &changes, part, &expired);
        for change in changes {
            // Nobody may listen any more when it stops.
            _ = self.0.changes.send(change);
        }
        requests
    }
}

/// The shards of which states are read and written: those that are held, and in a hand-over those that are taken over.
#[derive(Debug, Default, PartialEq, Eq)]
struct Needs {
    held: BTreeSet<Shard>,
    previous: Option<u32>,
}

impl Needs {
    fn of<A: Alerts>(replica: &Replica<A>) -> Self {
        let record = replica.view().record();
        Self {
            held: replica.held().collect(),
            previous: record.and_then(|record| record.previous),
        }
    }

    fn has(&self, shard: Shard) -> bool {
        self.held.contains(&shard) || self.previous == Some(shard.total)
    }
}

/// Starts a watch, which tells when its first list is complete.
fn follow<S, T>(
    source: S,
    selection: Selection,
    transport: &Arc<Transport<T>>,
    tasks: &mut JoinSet<Infallible>,
    see: impl FnMut(Seen<S::Object>) + Send + 'static,
) -> oneshot::Receiver<()>
where
    S: Source + 'static,
    T: Send + Sync + 'static,
{
    let (complete, is_complete) = oneshot::channel();
    let transport = Arc::clone(transport);
    tasks.spawn(async move { watch(source, selection, &transport.troubles, complete, see).await });
    is_complete
}

/// The epoch of a state, as its first part says. Nothing, if it does not say: then it is left alone, since old ones are deleted.
fn epoch_of_state(object: &PartialObjectMeta<ConfigMap>) -> Option<Epoch> {
    annotation(&object.metadata, EPOCH)?.parse().ok()
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
