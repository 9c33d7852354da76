//! `kill -9` at random moments, under a flow of failures and recoveries.

use std::{cell::Cell, time::Duration};

use fastrand::Rng;
use futures::future::join_all;
use kube::Client;
use tokio::time::{Instant, sleep};

use super::{Installation, history::History};
use crate::support::{
    ControlPlane, PATIENCE, Program, Sketch, Webhook, create_namespace, eventually, minutes,
    mk_pod, say,
};

/// After a kill, somebody pages again within this time: a Lease, a retry and a start, on a slow machine.
const UNOWNED: Duration = Duration::from_secs(35);

/// The replicas of an installation.
#[derive(Debug, Clone, Copy)]
enum Shape {
    One,
    /// One stands by for the other.
    Standby,
    TwoShards,
}

impl Shape {
    const ALL: [Self; 3] = [Self::One, Self::Standby, Self::TwoShards];

    const fn replicas(self) -> u32 {
        match self {
            Self::One => 1,
            Self::Standby | Self::TwoShards => 2,
        }
    }
}

/// An installation under fire.
struct Target<'a> {
    shape: Shape,
    installation: Installation<'a>,
    webhook: Webhook,
    replicas: Vec<Program>,
    kills: Vec<Instant>,
}

impl<'a> Target<'a> {
    fn new(shape: Shape, plane: &'a ControlPlane) -> Self {
        let mut this = Self {
            shape,
            installation: Installation::new(plane),
            webhook: Webhook::start(),
            replicas: Vec::new(),
            kills: Vec::new(),
        };
        this.replicas = (0..shape.replicas())
            .map(|index| this.replica(index))
            .collect();
        this
    }

    fn replica(&self, index: u32) -> Program {
        match self.shape {
            Shape::One | Shape::Standby => self.installation.start(&self.webhook),
            Shape::TwoShards => self.installation.start_shard(&self.webhook, index, 2, &[]),
        }
    }

    /// Kills replicas, one at a time, and starts each again after a while.
    async fn suffer(mut self, kills: usize, mut random: Rng) -> Self {
        // Which of two is first is not said: the other stands by.
        eventually("a replica to be ready", PATIENCE, async || {
            for replica in &self.replicas {
                if replica
                    .get("/readyz")
                    .await
                    .is_some_and(|(status, _)| status == 200)
                {
                    return Some(());
                }
            }
            None
        })
        .await;
        for kill in 0..kills {
            // Some when all has settled; most at any moment of a start, and of what is done before the next Lease.
            let seconds = if kill % 3 == 1 { 20..28 } else { 0..10 };
            sleep(Duration::from_millis(
                random.u64(seconds.start * 1_000..seconds.end * 1_000),
            ))
            .await;
            let index = random.u32(..self.shape.replicas());
            let at = usize::try_from(index).unwrap();
            self.replicas[at].assert_running();
            // The moment is noted before: what is told until then is told by who lives.
            let killed = Instant::now();
            let replica = self.replicas.remove(at);
            replica.kill();
            self.kills.push(killed);
            sleep(Duration::from_millis(random.u64(..2_000))).await;
            let replica = self.replica(index);
            self.replicas.insert(at, replica);
        }
        self
    }
}

/// Breaks pods and repairs them, for ever.
struct Flow<'a> {
    client: &'a Client,
    ns: &'a str,
    history: &'a History,
    random: Rng,
    count: usize,
    /// What is broken, and when it is to be repaired.
    broken: Vec<(String, Sketch, Instant)>,
}

impl Flow<'_> {
    async fn step(&mut self) {
        let name = format!("w-{}", self.count);
        self.count += 1;
        let pod = mk_pod(&name);
        self.history.breaks(&name);
        pod.clone().init_stuck().create(self.client, self.ns).await;
        let seconds = match self.random.u8(..10) {
            0..5 => self.random.u64(1..8),
            5..9 => self.random.u64(20..70),
            _ => u64::from(u32::MAX),
        };
        let repair = Instant::now() + Duration::from_secs(seconds);
        self.broken.push((name, pod, repair));
        self.repair(Instant::now()).await;
        sleep(Duration::from_millis(500)).await;
    }

    /// Repairs what is due.
    async fn repair(&mut self, now: Instant) {
        let due = |(_, _, repair): &mut (_, _, Instant)| *repair <= now;
        for (name, pod, _) in self.broken.extract_if(.., due) {
            self.history.recovers(&name);
            if self.random.bool() {
                pod.update(self.client, self.ns).await;
            } else {
                pod.delete(self.client, self.ns).await;
            }
        }
    }
}

async fn nothing_is_lost_under_fire(ns: &str, targets: usize, kills: usize) {
    let seed = fastrand::u64(..);
    say(format_args!("kills: seed {seed}"));
    let mut random = Rng::with_seed(seed);
    let plane = ControlPlane::start().await;
    let client = plane.client().await;
    create_namespace(&client, ns).await;
    let history = History::default();
    let shapes = Shape::ALL.into_iter().cycle().take(targets);
    let targets = shapes.map(|shape| Target::new(shape, &plane).suffer(kills, random.fork()));
    let targets = targets.collect::<Vec<_>>();
    let mut flow = Flow {
        client: &client,
        ns,
        history: &history,
        random: random.fork(),
        count: 0,
        broken: Vec::new(),
    };
    let over = Cell::new(false);
    let suffering = async {
        let targets = join_all(targets).await;
        over.set(true);
        targets
    };
    let flowing = async {
        // Whole steps only: what the history says has happened.
        while !over.get() {
            flow.step().await;
        }
    };
    let (mut targets, ()) = tokio::join!(suffering, flowing);
    // What stands stays; the rest is repaired.
    flow.repair(Instant::now() + minutes(60)).await;

    for target in &mut targets {
        let what = format!("all to be told by {:?}", target.shape);
        let told = |pages: &[_]| history.is_told(pages, &target.kills, UNOWNED);
        target.webhook.wait_for(&what, ns, PATIENCE, told).await;
    }
    let (mut kills, mut repeated) = (0, 0);
    for target in targets {
        for replica in target.replicas {
            replica.stop().await;
        }
        kills += target.kills.len();
        repeated += history.check(&target.webhook, ns, &target.kills, UNOWNED);
    }
    say(format_args!(
        "kills: {kills}, under {} failures; {repeated} messages came again, each after a kill",
        flow.count
    ));
}

#[tokio::test]
async fn kills_at_random_moments_lose_nothing() {
    nothing_is_lost_under_fire("kills", 3, 3).await;
}

#[tokio::test]
#[ignore = "takes minutes"]
async fn many_kills_at_random_moments_lose_nothing() {
    nothing_is_lost_under_fire("many-kills", 12, 12).await;
}
