//! A cluster in memory, and replicas that run in it, on a paused clock.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures::TryFutureExt as _;
use serde_json::{Value, json};
use tokio::{sync::oneshot, task::JoinHandle, time::sleep};
use tokio_util::sync::CancellationToken;
use tower::{BoxError, Service as _, service_fn};

use kube::core::ObjectMeta;

use super::super::*;
use crate::{
    shard::ownership::Writer,
    sim::{ApiError, CONFIG_MAPS, DeleteOptions, Options, Preconditions, Server, Store},
    testing::START,
};

pub const NAMESPACE: &str = "monitoring";

/// What is remembered: numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notes(pub BTreeSet<u32>);

impl Alerts for Notes {
    fn adopt(&mut self, other: &Self, _shard: Shard) {
        self.0.extend(&other.0);
    }

    fn beyond(&self, written: &Self) -> Self {
        Self(self.0.difference(&written.0).copied().collect())
    }
}

/// States, each in a `ConfigMap`.
pub struct ConfigMaps {
    names: Names,
    store: Store,
    kept: Arc<Mutex<Vec<Vec<Shard>>>>,
}

impl ConfigMaps {
    fn name(&self, shard: Shard) -> String {
        format!("{}-state-{shard}", self.names.name)
    }

    fn object(&self, shard: Shard, state: &State<Notes>, expect: Option<Version>) -> Value {
        let mut metadata = ObjectMeta {
            namespace: Some(NAMESPACE.into()),
            name: Some(self.name(shard)),
            resource_version: expect.map(|version| version.0.to_string()),
            ..ObjectMeta::default()
        };
        self.names.label(&mut metadata, Some(shard));
        metadata.annotations =
            Some([("alertkube.io/epoch".into(), state.epoch.to_string())].into());
        json!({"metadata": metadata, "data": {
            "epoch": state.epoch, "adopted": state.adopted, "alerts": state.alerts.0,
            "writer": state.writer.as_ref().map(|writer| (writer.holder.to_string(), writer.transitions)),
        }})
    }
}

impl States<Notes> for ConfigMaps {
    async fn read(&self, shard: Shard) -> Answer<Notes> {
        let Ok(object) = self.store.get(&CONFIG_MAPS, NAMESPACE, &self.name(shard)) else {
            return Answer::State(Version(self.store.version()), None);
        };
        let data = &object.json()["data"];
        let numbers = |field: &str| serde_json::from_value(data[field].clone()).unwrap();
        let state = State {
            writer: serde_json::from_value::<Option<(String, u32)>>(data["writer"].clone())
                .unwrap()
                .map(|(holder, transitions)| Writer {
                    holder: holder.parse().unwrap(),
                    transitions,
                }),
            epoch: data["epoch"].as_u64().unwrap(),
            adopted: numbers("adopted"),
            alerts: Notes(numbers("alerts")),
        };
        Answer::State(Version(object.resource_version()), Some(state))
    }

    async fn write(
        &self,
        shard: Shard,
        state: State<Notes>,
        expect: Option<Version>,
    ) -> (Answer<Notes>, usize) {
        let object = self.object(shard, &state, expect);
        let written = match expect {
            Some(_) => self.store.replace(&CONFIG_MAPS, object),
            None => self.store.create(&CONFIG_MAPS, object),
        };
        let answer = match written {
            Ok(object) => Answer::State(Version(object.resource_version()), Some(state)),
            Err(ApiError { .. }) => Answer::Conflict,
        };
        (answer, 1)
    }

    fn retain(&self, keep: impl Fn(Shard) -> bool) {
        let all = (1..=4).flat_map(Shard::all);
        let kept = all.filter(|shard| keep(*shard)).collect();
        self.kept.lock().unwrap().push(kept);
    }

    async fn delete(&self, shard: Shard, version: Version) -> Answer<Notes> {
        let options = DeleteOptions {
            preconditions: Preconditions {
                uid: None,
                resource_version: Some(version.0.to_string()),
            },
            ..DeleteOptions::now()
        };
        let name = self.name(shard);
        match self.store.delete(&CONFIG_MAPS, NAMESPACE, &name, &options) {
            Ok(_) => Answer::Deleted,
            Err(_) => Answer::Conflict,
        }
    }
}

/// The cluster.
pub struct World {
    pub server: Server,
    pub names: Names,
    /// The shards, of up to four, whose states some replica went on to need, each time that this changed.
    pub kept: Arc<Mutex<Vec<Vec<Shard>>>>,
}

/// A replica that runs.
pub struct Member {
    pub coordinator: Coordinator<Notes>,
    pub changes: UnboundedReceiver<Change>,
    pub sync: Option<oneshot::Sender<()>>,
    pub stop: CancellationToken,
    pub task: JoinHandle<bool>,
    cut: Arc<AtomicBool>,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl World {
    pub async fn new() -> Self {
        let clock = Clock::starting_at(START, 1.0);
        Self {
            server: Server::start(Options::new(clock)).await.unwrap(),
            names: Names {
                namespace: NAMESPACE.into(),
                name: "ak".into(),
            },
            kept: Arc::default(),
        }
    }

    /// A client that asks the server, and waits for ever while it is cut off.
    pub fn client(&self, cut: &Arc<AtomicBool>) -> Client {
        let (router, cut) = (self.server.router(), Arc::clone(cut));
        let service = service_fn(move |request: http::Request<kube::client::Body>| {
            let answer = router.clone().call(request).map_err(BoxError::from);
            let cut = Arc::clone(&cut);
            async move {
                if cut.load(Ordering::Relaxed) {
                    std::future::pending::<()>().await;
                }
                let answer = answer.await;
                if cut.load(Ordering::Relaxed) {
                    std::future::pending::<()>().await;
                }
                answer
            }
        });
        Client::new(service, NAMESPACE)
    }

    /// The states, without a network.
    pub fn states(&self) -> ConfigMaps {
        ConfigMaps {
            names: self.names.clone(),
            store: self.server.store().clone(),
            kept: Arc::clone(&self.kept),
        }
    }

    /// A replica that sees the cluster already.
    pub fn start(&self, holder: &str) -> Member {
        let mut member = self.start_blind(holder, Clock::starting_at(START, 1.0));
        member.sync.take().unwrap().send(()).unwrap();
        member
    }

    /// A replica that does not see the cluster yet, with this wall clock.
    pub fn start_blind(&self, holder: &str, clock: Clock) -> Member {
        let me: Holder = holder.parse().unwrap();
        let (coordinator, changes) = Coordinator::new(me, true, Timing::default());
        let cut = Arc::default();
        let access = Access {
            clients: Clients {
                watches: self.client(&cut),
                leases: self.client(&cut),
                config_maps: self.client(&cut),
            },
            names: self.names.clone(),
            states: self.states(),
            clock,
        };
        let (sync, synced) = oneshot::channel();
        let stop = CancellationToken::new();
        let run = coordinator
            .clone()
            .run(access, synced, stop.clone(), Duration::from_secs(10));
        Member {
            coordinator,
            changes,
            sync: Some(sync),
            stop,
            task: tokio::spawn(run),
            cut,
        }
    }

    pub fn lease(&self, index: u32, total: u32) -> Value {
        let name = self.names.lease(Shard { total, index });
        self.object(&crate::sim::LEASES, &name)
    }

    pub fn record(&self) -> Value {
        self.object(&CONFIG_MAPS, "ak-generation")
    }

    pub fn state(&self, index: u32, total: u32) -> Value {
        self.object(&CONFIG_MAPS, &format!("ak-state-{index}-of-{total}"))
    }

    fn object(&self, resource: &crate::sim::Resource, name: &str) -> Value {
        let object = self.server.store().get(resource, NAMESPACE, name);
        object.map(|object| object.json()).unwrap_or_default()
    }

    pub fn delete(&self, resource: &crate::sim::Resource, name: &str) {
        let store = self.server.store();
        store
            .delete(resource, NAMESPACE, name, &DeleteOptions::now())
            .unwrap();
    }

    pub fn patch(&self, resource: &crate::sim::Resource, name: &str, patch: &Value) {
        let store = self.server.store();
        store.patch(resource, NAMESPACE, name, patch).unwrap();
    }
}

impl Member {
    /// From now on nothing goes in or out, and what is on its way does not arrive.
    pub fn cut_off(&self) {
        self.cut.store(true, Ordering::Relaxed);
    }

    pub fn serves(&self, index: u32, total: u32) -> bool {
        let shard = Shard { total, index };
        self.coordinator
            .look(|replica, now| replica.serves(shard, now))
    }

    /// The process dies.
    pub async fn kill(mut self) {
        self.task.abort();
        assert!((&mut self.task).await.unwrap_err().is_cancelled());
    }
}

/// Waits until it is so, and returns how long that took.
pub async fn eventually(within: Duration, what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < within, "not within {within:?}: {what}");
        sleep(Duration::from_millis(50)).await;
    }
    started.elapsed()
}

/// Watches over it for a time.
pub async fn always(during: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + during;
    while Instant::now() < end {
        assert!(is_so(), "not any more: {what}");
        sleep(Duration::from_millis(50)).await;
    }
}
