//! A cluster, its replicas, and what happens to them.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use alertkube::{
    app::{App, Options},
    cluster::{Clock, Subject},
    coordinator::{Names, read_lease, read_record},
    membership,
    shard::{
        ShardKey, Sharder,
        ownership::{Shard, Timing},
    },
    sim::{self, CONFIG_MAPS, DeleteOptions, Fault, LEASES, On, PODS, Server, Store, pods::mk_pod},
};
use axum::http::StatusCode;
use fastrand::Rng;
use jiff::SignedDuration;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    network::Network,
    oracle::{Disturbance, History, Report, judge},
    receiver::{Log, Recorder, Weather},
};

pub const LEASE: Duration = Duration::from_secs(3);
const WORKLOADS: usize = 10;
const STEPS: u32 = 32;
const NAMESPACE: &str = "monitoring";
/// How often it is looked who owns what.
const LOOK: Duration = Duration::from_millis(20);

/// One life of a replica.
struct Life {
    number: u32,
    ordinal: u32,
    total: u32,
    network: Network,
    stop: CancellationToken,
    task: AbortOnDropHandle<()>,
}

/// What those who look at the world share with those who change it.
pub struct Shared {
    pub history: Mutex<History>,
    /// The lives that run, and are not cut off.
    lives: Mutex<Vec<u32>>,
    store: Store,
    names: Names,
}

struct World {
    server: Server,
    clock: Clock,
    log: Log,
    shared: Arc<Shared>,
    random: Rng,
    lives: BTreeMap<u32, Life>,
    next_life: u32,
    total: u32,
}

/// A story, told to its end.
pub async fn story(seed: u64) -> Report {
    let mut world = World::new(seed).await;
    let looking = AbortOnDropHandle::new(tokio::spawn(look(
        Arc::clone(&world.shared),
        world.log.clone(),
    )));
    for workload in 0..WORKLOADS {
        world.turn(workload, true);
    }
    world.start(0).await;
    for step in 0..STEPS {
        if let Some(total) = match step {
            6 | 26 => Some(3),
            16 => Some(2),
            _ => None,
        } {
            world.rescale(total).await;
        }
        world.step().await;
    }
    world.calm_down().await;
    let at_rest = world.rest().await;
    drop(looking);
    let sent = world.log.all();
    let history = std::mem::take(&mut *world.shared.history.lock().unwrap());
    let mut report = judge(&history, &sent);
    if !at_rest {
        report
            .wrong
            .push(format!("the receiver never learnt what is true: {sent:#?}"));
    }
    world.end().await;
    report
}

impl World {
    async fn new(seed: u64) -> Self {
        let clock = Clock::system();
        let server = Server::start(sim::Options::new(clock.clone()))
            .await
            .unwrap();
        let shared = Arc::new(Shared {
            history: Mutex::default(),
            lives: Mutex::default(),
            store: server.store().clone(),
            names: Names {
                namespace: NAMESPACE.into(),
                name: "ak".into(),
            },
        });
        Self {
            server,
            clock,
            log: Log::new(),
            shared,
            random: Rng::with_seed(seed),
            lives: BTreeMap::new(),
            next_life: 0,
            total: 1,
        }
    }

    fn disturb(&self, what: &'static str) {
        let at = Instant::now();
        let mut history = self.shared.history.lock().unwrap();
        history.disturbances.push(Disturbance { what, at });
    }

    /// Starts the replica of this ordinal.
    async fn start(&mut self, ordinal: u32) {
        let number = self.next_life;
        self.next_life += 1;
        let address = self.server.url();
        let address = address.strip_prefix("http://").unwrap().parse().unwrap();
        let network = Network::to(address).await;
        let config = kube::Config::new(format!("http://{}", network.address).parse().unwrap());
        let total = self.total;
        let recorder = Recorder {
            by: number,
            log: self.log.clone(),
        };
        let mut app = App::new(Options {
            config,
            clock: Clock::system(),
            sharder: Sharder::new(ordinal, total).unwrap(),
            cluster: Some(String::new()),
            listener: None,
            receivers: vec!["recorder"],
            membership: Some(membership::Options {
                name: "ak".into(),
                namespace: NAMESPACE.into(),
                pod_name: Some(format!("life{number}")),
                timing: Timing::new(LEASE, Duration::from_secs(2), Duration::from_millis(500))
                    .unwrap(),
                takeover: true,
            }),
        })
        .unwrap();
        app.deliver_to(recorder);
        let stop = CancellationToken::new();
        let running = app.run(stop.clone());
        let task = AbortOnDropHandle::new(tokio::spawn(
            async move { Box::pin(running).await.unwrap() },
        ));
        self.shared.lives.lock().unwrap().push(number);
        let life = Life {
            number,
            ordinal,
            total,
            network,
            stop,
            task,
        };
        self.lives.insert(ordinal, life);
    }

    fn leave(&self, number: u32) {
        let mut lives = self.shared.lives.lock().unwrap();
        lives.retain(|life| *life != number);
    }

    /// The process dies.
    async fn kill(&mut self, ordinal: u32) {
        let Some(life) = self.lives.remove(&ordinal) else {
            return;
        };
        self.disturb("kill");
        self.leave(life.number);
        life.task.abort();
        _ = life.task.await;
    }

    /// The process is told to stop.
    async fn stop(&mut self, ordinal: u32) {
        let Some(life) = self.lives.remove(&ordinal) else {
            return;
        };
        life.stop.cancel();
        life.task.await.unwrap();
        self.leave(life.number);
    }

    /// As a rollout does it: new ordinals at once, the others one after the other.
    async fn rescale(&mut self, total: u32) {
        self.total = total;
        for ordinal in 0..total {
            if !self.lives.contains_key(&ordinal) {
                self.start(ordinal).await;
            }
        }
        let old: Vec<u32> = self
            .lives
            .values()
            .filter(|life| life.total != total)
            .map(|life| life.ordinal)
            .rev()
            .collect();
        for ordinal in old {
            self.stop(ordinal).await;
            if ordinal < total {
                self.start(ordinal).await;
            }
            self.step().await;
        }
    }

    fn turn(&self, workload: usize, well: bool) {
        let name = workload_name(workload);
        let pod = mk_pod("shop", format!("{name}-7d9c5b8f6-x2x4q"));
        // A stuck init container pages after 15 minutes, and one that is not resolves at once.
        let since = self.clock.now() - SignedDuration::from_mins(16);
        let pod = if well { pod } else { pod.init_stuck(since) }.build();
        let note = || {
            let mut history = self.shared.history.lock().unwrap();
            let turns = history.truth.entry(name.clone()).or_default();
            turns.push((Instant::now(), !well));
        };
        // Noted before and after the write, because somebody may be told in between.
        note();
        if well && workload % 2 == 1 {
            let name = pod["metadata"]["name"].as_str().unwrap();
            _ = self
                .shared
                .store
                .delete(&PODS, "shop", name, &DeleteOptions::now());
        } else {
            self.shared.store.apply(&PODS, pod).unwrap();
        }
        note();
    }

    fn set_weather(&self, weather: Weather) {
        self.disturb("weather");
        self.log.set(weather);
    }

    /// Something happens to the cluster, and something may to the replicas.
    async fn step(&mut self) {
        for _ in 0..self.random.usize(0..3) {
            let workload = self.random.usize(0..WORKLOADS);
            let well = self.random.bool();
            self.turn(workload, well);
        }
        let ordinal = self.random.u32(0..self.total);
        let faults = self.server.faults().clone();
        let on = [
            On::any().resource(&LEASES),
            On::any().resource(&CONFIG_MAPS),
        ][self.random.usize(0..2)];
        let pause = Duration::from_millis(self.random.u64(50..700));
        match self.random.u32(0..24) {
            0 | 1 => self.kill(ordinal).await,
            2 => self.stop(ordinal).await,
            3 => {
                if let Some(life) = self.lives.get(&ordinal) {
                    self.disturb("cut");
                    self.leave(life.number);
                    life.network.set_open(false);
                    sleep(Duration::from_millis(self.random.u64(100..5000))).await;
                    life.network.set_open(true);
                    self.shared.lives.lock().unwrap().push(life.number);
                    self.disturb("cut");
                }
            }
            kind @ 4..=7 => {
                let fault = match kind {
                    4 => Fault::Refuse(StatusCode::INTERNAL_SERVER_ERROR, None),
                    5 => Fault::Refuse(StatusCode::TOO_MANY_REQUESTS, Some(Duration::from_secs(1))),
                    6 => Fault::Slow(Duration::from_millis(800)),
                    _ => Fault::SlowAnswer(Duration::from_secs(6)),
                };
                self.disturb("fault");
                self.shared.history.lock().unwrap().faulty = true;
                let injected = faults.inject(fault, on);
                sleep(Duration::from_millis(self.random.u64(100..1500))).await;
                injected.lift();
                self.shared.history.lock().unwrap().faulty = false;
                self.disturb("fault");
            }
            8 => self.set_weather(Weather::Down),
            9 => self.set_weather(Weather::AnswersLost),
            10 => self.set_weather(Weather::Lost),
            11..=14 => self.set_weather(Weather::Fine),
            15..=18 => {
                // Who is away comes back.
                for ordinal in 0..self.total {
                    if !self.lives.contains_key(&ordinal) {
                        self.start(ordinal).await;
                    }
                }
            }
            _ => {}
        }
        sleep(pause).await;
    }

    /// Nothing fails any more.
    async fn calm_down(&mut self) {
        self.server.faults().clear();
        if *self.log.weather.lock().unwrap() != Weather::Fine {
            self.set_weather(Weather::Fine);
        }
        for ordinal in 0..self.total {
            if !self.lives.contains_key(&ordinal) {
                self.start(ordinal).await;
            }
        }
    }

    /// Waits until the receiver knows what is true, and then for what nobody should send.
    async fn rest(&self) -> bool {
        let is_true = || {
            let truth = &self.shared.history.lock().unwrap().truth;
            let sent = self.log.sent.borrow();
            truth.iter().all(|(workload, turns)| {
                let last = sent
                    .iter()
                    .rev()
                    .find(|sent| sent.arrived && sent.workload == *workload);
                last.is_some_and(|last| last.firing() && last.end.is_some())
                    == turns.last().unwrap().1
            })
        };
        let learning = async {
            while !is_true() {
                sleep(LOOK).await;
            }
        };
        let learnt = timeout(Duration::from_secs(60), learning).await.is_ok();
        sleep(Duration::from_secs(2)).await;
        learnt && is_true()
    }

    async fn end(mut self) {
        for ordinal in 0..self.total {
            self.stop(ordinal).await;
        }
        self.server.stop().await;
    }
}

/// Looks who owns what, again and again.
async fn look(shared: Arc<Shared>, log: Log) {
    let mut names: Vec<(String, ShardKey)> = Vec::new();
    for workload in 0..WORKLOADS {
        let name = workload_name(workload);
        let subject = Subject {
            kind: "Deployment".into(),
            namespace: "shop".into(),
            name: name.as_str().into(),
        };
        names.push((name, ShardKey::of(&subject)));
    }
    loop {
        for (name, key) in &names {
            let owner = shared.owner(key);
            let up = !shared.lives.lock().unwrap().is_empty();
            let fine = *log.weather.lock().unwrap() == Weather::Fine;
            let mut history = shared.history.lock().unwrap();
            let fine = fine && !history.faulty;
            history.owned(name, owner, fine, up);
        }
        sleep(LOOK).await;
    }
}

impl Shared {
    /// The life that owns a key, as the API server has it, if it runs and can be reached.
    fn owner(&self, key: &ShardKey) -> Option<u32> {
        let record = read_record(&self.get(&CONFIG_MAPS, &self.names.record())?).ok()?;
        let shard = Shard::of(key, record.active);
        let lease = read_lease(&self.get(&LEASES, &self.names.lease(shard))?);
        let holder = lease.held_by.replica()?;
        let number = holder.uid.strip_prefix("life")?.split('_').next()?;
        let number = number.parse().ok()?;
        let ready = lease.acknowledged == record.epoch
            && (record.previous.is_none() || lease.adopted == record.epoch);
        (ready && self.lives.lock().unwrap().contains(&number)).then_some(number)
    }

    fn get<T: DeserializeOwned>(&self, resource: &sim::Resource, name: &str) -> Option<T> {
        let object = self.store.get(resource, NAMESPACE, name).ok()?;
        serde_json::from_slice(&object.bytes()).ok()
    }
}

fn workload_name(index: usize) -> String {
    format!("web{index}")
}
