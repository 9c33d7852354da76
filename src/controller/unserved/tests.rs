//! Replicas in a cluster in memory, on a paused clock: the controller, the coordinator, the queue and the state are the real ones, and the API server keeps to its
//! protocol.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::http::StatusCode;
use futures::{TryFutureExt as _, stream};
use kube::{Client, client::Body};
use tokio::{
    sync::{
        mpsc::{UnboundedSender, unbounded_channel},
        oneshot,
    },
    task::JoinSet,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;
use tower::{BoxError, Service as _, service_fn};

use crate::{
    alert::Engine,
    cluster::{Clock, Event, KindId, Node, Object, Subject},
    controller::Controller,
    coordinator::{Access, Clients, Coordinator, Names},
    custody::{Custody, Keeper},
    http::{Health, Metrics},
    notify::{Late, Message, Receiver, Reference, SendError, Worker},
    rules::SHARD_NOT_SERVED,
    shard::{
        ShardKey,
        ownership::{Shard, Timing},
    },
    sim::{CONFIG_MAPS, Fault, On, Options, Server},
    state::Store,
    testing::{START, at, mk_condition, mk_pod},
    unserved::{Installation, Unserved},
};

const NAMESPACE: &str = "monitoring";

/// What was told, by whom: the shard that nobody serves, or else the rule; and whether its alert fires.
type Told = Arc<Mutex<Vec<(u32, String, bool)>>>;

/// The pager of the whole installation.
struct Pager {
    replica: u32,
    told: Told,
}

impl Receiver for Pager {
    fn name(&self) -> &'static str {
        "pager"
    }

    fn late(&self) -> Late {
        Late::FireThenResolve
    }

    fn max_in_flight(&self) -> usize {
        1
    }

    async fn send(&self, message: &Message) -> Result<Option<Reference>, SendError> {
        let alert = &message.alert;
        let name = alert.labels.get("alertname").unwrap();
        let shard = alert.labels.get("shard");
        assert_eq!(shard.is_some(), name == SHARD_NOT_SERVED.name);
        let what = shard.unwrap_or(name).to_owned();
        let told = (self.replica, what, message.event.is_firing());
        self.told.lock().unwrap().push(told);
        Ok(None)
    }
}

struct World {
    server: Server,
    names: Names,
    told: Told,
    replicas: BTreeMap<u32, (Keeper, JoinSet<()>)>,
    /// What the watches of each replica bring.
    watches: BTreeMap<u32, UnboundedSender<(KindId, Event)>>,
}

impl World {
    /// Two replicas that do not take over for each other.
    async fn start() -> Self {
        let clock = Clock::starting_at(START, 1.0);
        let mut world = Self {
            server: Server::start(Options::new(clock)).await.unwrap(),
            names: Names {
                namespace: NAMESPACE.into(),
                name: "ak".into(),
            },
            told: Told::default(),
            replicas: BTreeMap::new(),
            watches: BTreeMap::new(),
        };
        world.run(0, "a");
        world.run(1, "a");
        world
            .until("both serve", |world| world.serves(0) && world.serves(1))
            .await;
        world
    }

    fn client(&self) -> Client {
        let router = self.server.router();
        let service = service_fn(move |request: http::Request<Body>| {
            router.clone().call(request).map_err(BoxError::from)
        });
        Client::new(service, NAMESPACE)
    }

    /// A process of this ordinal begins.
    fn run(&mut self, ordinal: u32, life: &str) {
        let me = format!("{ordinal}/2/{life}").parse().unwrap();
        let clock = Clock::starting_at(START, 1.0);
        let timing = Timing::default();
        let metrics = Arc::new(Metrics::new(ordinal, 2, &[], &["pager"]).unwrap());
        let (keeper, changes) = Coordinator::new(me, false, timing);
        let gate = Arc::new(keeper.clone());
        let pager = Pager {
            replica: ordinal,
            told: Arc::clone(&self.told),
        };
        let worker = Worker::spawn(
            pager,
            gate.clone(),
            Some(gate.clone()),
            Arc::clone(&metrics),
        );
        let installation = Installation {
            cluster: "prod".into(),
            namespace: NAMESPACE.into(),
            name: "ak".into(),
        };
        let controller = Controller::new(
            Engine::new("prod"),
            gate,
            Some(Custody::new(keeper.clone(), changes)),
            clock.clone(),
            vec![worker.handle()],
            metrics,
            Health::new(&[KindId::Pod, KindId::Node]),
        )
        .watching_over_shards(Some(Unserved::new(installation, &timing)));
        let access = Access {
            clients: Clients {
                watches: self.client(),
                leases: self.client(),
                config_maps: self.client(),
            },
            names: self.names.clone(),
            states: Store::new(self.client(), self.names.clone(), clock.clone()),
            clock,
        };
        let (watches, events) = unbounded_channel();
        let events = stream::unfold(events, async |mut events| {
            Some((events.recv().await?, events))
        });
        self.watches.insert(ordinal, watches);
        let (sees, synced) = oneshot::channel();
        sees.send(()).unwrap();
        let mut tasks = JoinSet::new();
        let coordinating = keeper.clone();
        tasks.spawn(async move {
            let stop = CancellationToken::new();
            coordinating
                .run(access, synced, stop, Duration::from_secs(10))
                .await;
        });
        tasks.spawn(async move {
            let stop = CancellationToken::new();
            controller.run(events, oneshot::channel().0, stop).await;
            drop(worker);
        });
        self.replicas.insert(ordinal, (keeper, tasks));
    }

    /// All replicas see this cluster: these objects, and nothing else.
    fn list(&self, objects: &[Object]) {
        for watches in self.watches.values() {
            for kind in [KindId::Pod, KindId::Node] {
                let of_kind = objects.iter().filter(|object| object.kind() == kind);
                let listed = of_kind.map(|object| Event::Listed(object.clone(), 0));
                let events = [Event::ListStarted].into_iter().chain(listed);
                for event in events.chain([Event::ListDone]) {
                    watches.send((kind, event)).unwrap();
                }
            }
        }
    }

    /// The process of this ordinal dies.
    async fn kill(&mut self, ordinal: u32) {
        self.watches.remove(&ordinal);
        let (_, mut tasks) = self.replicas.remove(&ordinal).unwrap();
        tasks.shutdown().await;
    }

    fn serves(&self, index: u32) -> bool {
        let shard = Shard { total: 2, index };
        let (keeper, _) = &self.replicas[&index];
        keeper.look(|replica, now| replica.serves(shard, now))
    }

    fn told(&self) -> Vec<(u32, String, bool)> {
        self.told.lock().unwrap().clone()
    }

    /// Waits until it is so, and returns for how many seconds.
    async fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) -> u64 {
        let started = Instant::now();
        while !is_so(self) {
            let waited = started.elapsed();
            assert!(
                waited < Duration::from_secs(120),
                "never: {what}; told {:?}",
                self.told()
            );
            sleep(Duration::from_millis(100)).await;
        }
        started.elapsed().as_secs()
    }

    /// Time passes.
    async fn pass(&self, seconds: u64) {
        sleep(Duration::from_secs(seconds)).await;
    }
}

fn fired(replica: u32, shard: &str) -> (u32, String, bool) {
    (replica, shard.into(), true)
}

fn resolved(replica: u32, shard: &str) -> (u32, String, bool) {
    (replica, shard.into(), false)
}

#[tokio::test(start_paused = true)]
async fn the_replica_that_is_left_pages_and_resolves_when_the_other_is_back() {
    let mut world = World::start().await;
    world.pass(120).await;
    assert_eq!(world.told(), []);

    world.kill(1).await;
    let waited = world
        .until("it pages", |world| !world.told().is_empty())
        .await;
    // The Lease, and that and a little more.
    assert!((30..=42).contains(&waited), "{waited}");
    world.pass(120).await;
    assert_eq!(world.told(), [fired(0, "1-of-2")]);

    world.run(1, "b");
    world
        .until("it resolves", |world| world.told().len() > 1)
        .await;
    assert!(world.serves(1));
    world.pass(120).await;
    assert_eq!(world.told(), [fired(0, "1-of-2"), resolved(0, "1-of-2")]);
}

#[tokio::test(start_paused = true)]
async fn the_resolve_survives_the_replica_that_has_paged() {
    let mut world = World::start().await;
    world.kill(1).await;
    world
        .until("it pages", |world| !world.told().is_empty())
        .await;
    world.pass(10).await;
    world.kill(0).await;
    world.pass(60).await;

    // It does not take the other's old Lease for a sign of life, nor page again.
    world.run(0, "b");
    world.pass(120).await;
    assert!(world.serves(0));
    assert_eq!(world.told(), [fired(0, "1-of-2")]);

    world.run(1, "b");
    world
        .until("it resolves", |world| world.told().len() > 1)
        .await;
    world.pass(120).await;
    assert_eq!(world.told(), [fired(0, "1-of-2"), resolved(0, "1-of-2")]);
    // Nothing is left of it.
    let state = world
        .server
        .store()
        .get(&CONFIG_MAPS, NAMESPACE, "ak-state-0-of-2");
    let state = state.unwrap().json();
    assert_eq!(state["metadata"]["annotations"]["alertkube.io/alerts"], "0");
}

#[tokio::test(start_paused = true)]
async fn a_resolve_that_came_while_the_pager_was_dead_is_sent_when_it_is_back() {
    let mut world = World::start().await;
    world.kill(1).await;
    world
        .until("it pages", |world| !world.told().is_empty())
        .await;
    world.pass(10).await;
    world.kill(0).await;
    world.pass(5).await;
    world.run(1, "b");
    // The other one is not served now.
    world
        .until("it pages", |world| {
            world.told().contains(&fired(1, "0-of-2"))
        })
        .await;
    assert_eq!(world.told().len(), 2);

    world.run(0, "b");
    world
        .until("both resolve", |world| world.told().len() == 4)
        .await;
    world.pass(120).await;
    let mut told = world.told();
    told.sort();
    let mut expected = [
        fired(0, "1-of-2"),
        resolved(0, "1-of-2"),
        fired(1, "0-of-2"),
        resolved(1, "0-of-2"),
    ];
    expected.sort();
    assert_eq!(told, expected);
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_was_down_is_no_shard_without_a_replica() {
    let world = World::start().await;
    let refuse = Fault::Refuse(StatusCode::SERVICE_UNAVAILABLE, None);
    let down = world.server.faults().inject(refuse, On::any());
    world.pass(180).await;
    assert!(!world.serves(0) && !world.serves(1));
    down.lift();
    world
        .until("both serve", |world| world.serves(0) && world.serves(1))
        .await;
    world.pass(120).await;
    assert_eq!(world.told(), []);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_stands_still_is_no_shard_without_a_replica() {
    let world = World::start().await;
    let silent = world.server.faults().inject(Fault::SilentWatch, On::any());
    world.pass(180).await;
    assert!(world.serves(0) && world.serves(1));
    silent.lift();
    world.pass(60).await;
    assert_eq!(world.told(), []);
}

/// A node that is silent, whose alert is of this shard, and a pod on it that is not ready.
fn mk_dead_node(of: Shard) -> [Object; 2] {
    let is_of = |name: &String| of.owns(&ShardKey::of(&Subject::cluster_scoped("Node", name)));
    let name = (0..1000).map(|number| format!("node-{number}")).find(is_of);
    let name: Box<str> = name.unwrap().into();
    let mut node = Node::default();
    node.metadata.name = name.clone();
    node.metadata.uid = name.clone();
    node.metadata.creation_timestamp = Some(at(-864_000));
    node.status.conditions = vec![mk_condition(
        "Ready",
        "Unknown",
        "NodeStatusUnknown",
        at(-900),
    )];
    let mut pod = mk_pod("web-1").not_ready(at(-900));
    pod.spec.node_name = name;
    [Object::Node(node), pod.object()]
}

/// The shard that pages for the pods.
fn shard_of_pods() -> Shard {
    Shard::of(&ShardKey::of(&mk_pod("web-1").object().subject().0), 2)
}

#[tokio::test(start_paused = true)]
async fn what_a_cause_of_a_shard_that_nobody_serves_would_explain_is_paged() {
    let mine = shard_of_pods();
    let other = Shard {
        index: 1 - mine.index,
        ..mine
    };
    let mut world = World::start().await;
    world.list(&mk_dead_node(other));
    world.pass(120).await;
    let node = fired(other.index, "KubeNodeUnreachable");
    assert_eq!(world.told(), std::slice::from_ref(&node));

    // Somebody was told of the node; but nobody would hear that it is back, or is down again.
    world.kill(other.index).await;
    world.pass(20).await;
    assert_eq!(world.told().len(), 1, "a restart takes a while");
    world.pass(120).await;
    let mut told = world.told();
    told[1..].sort();
    let unserved = fired(mine.index, &other.to_string());
    let pods = fired(mine.index, "KubePodNotReady");
    assert_eq!(told, [node, unserved, pods]);
}

#[tokio::test(start_paused = true)]
async fn what_a_cause_of_a_shard_that_is_served_explains_is_not_paged_when_another_is_not() {
    let mine = shard_of_pods();
    let other = Shard {
        index: 1 - mine.index,
        ..mine
    };
    let mut world = World::start().await;
    world.list(&mk_dead_node(mine));
    world.pass(120).await;
    world.kill(other.index).await;
    world.pass(300).await;
    let node = fired(mine.index, "KubeNodeUnreachable");
    let unserved = fired(mine.index, &other.to_string());
    assert_eq!(world.told(), [node, unserved]);
}
