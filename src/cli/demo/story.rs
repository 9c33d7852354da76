//! What happens in the shop: a script of things that break, things that recover, and things that look like faults and are none.

use jiff::{SignedDuration, Timestamp};

use crate::sim::{
    DeleteOptions, PODS, Store,
    pods::{Owner, PodBuilder, mk_pod},
};

/// The namespace of the shop. With this name, what breaks is spread over the replicas for any usual number of them.
const SHOP: &str = "market";

/// The hash of every Deployment's first release.
const RELEASE: &str = "6f9d7c5b84";

/// The Deployments of the shop, and how many pods each has.
const DEPLOYMENTS: [(&str, usize); 9] = [
    ("cart", 2),
    ("catalog", 4),
    ("checkout", 3),
    ("frontend", 6),
    ("mailer", 1),
    ("media", 3),
    ("payments", 3),
    ("recommendations", 2),
    ("search", 3),
];

/// The nodes of the cluster.
const NODES: [&str; 5] = ["node-1", "node-2", "node-3", "node-4", "node-5"];

/// One moment of the story.
pub struct Scene {
    /// When, in seconds of the cluster's time after the opening.
    pub at: i64,
    /// What to tell about it; nothing if the pages speak for themselves.
    pub tell: Option<&'static str>,
    /// What changes, at this time.
    pub change: Change,
}

/// What changes in the shop at a time.
type Change = Box<dyn Fn(&Shop, Timestamp)>;

/// The shop: a namespace of a cluster in memory.
#[derive(Debug)]
pub struct Shop {
    store: Store,
    opened: Timestamp,
}

impl Shop {
    /// Opens the shop at a time, with every pod well.
    pub fn open(store: Store, now: Timestamp) -> Self {
        let shop = Self { store, opened: now };
        for (name, pods) in DEPLOYMENTS {
            for index in 0..pods {
                shop.apply(&shop.of_deployment(name, RELEASE, index));
            }
        }
        for index in 0..3 {
            shop.apply(&shop.ledger(index));
        }
        for node in NODES {
            let agent = mk_pod(SHOP, format!("log-agent-{node}"));
            shop.apply(
                &shop
                    .old(agent)
                    .owned_by(Owner::DaemonSet("log-agent".into()))
                    .node(node),
            );
        }
        shop
    }

    /// How many workloads there are.
    pub fn workloads() -> usize {
        DEPLOYMENTS.len() + 2
    }

    /// How many pods there are.
    pub fn pods(&self) -> usize {
        self.store.len(&PODS)
    }

    /// How many nodes there are.
    pub fn nodes() -> usize {
        NODES.len()
    }

    /// A pod that was made long before the story began.
    fn old(&self, pod: PodBuilder) -> PodBuilder {
        pod.created(self.opened - SignedDuration::from_hours(30))
    }

    fn of_deployment(&self, name: &str, release: &str, index: usize) -> PodBuilder {
        // Five characters at the end, as the controller makes them up, but told by name and index.
        let suffix = ["x2x4q", "b7k9m", "zq5wd", "h8v2n", "t6r4p", "c9j7s"][index % 6];
        self.old(mk_pod(SHOP, format!("{name}-{release}-{suffix}")))
            .node(NODES[(index + name.len()) % NODES.len()])
    }

    fn ledger(&self, index: usize) -> PodBuilder {
        let pod =
            mk_pod(SHOP, format!("ledger-{index}")).owned_by(Owner::StatefulSet("ledger".into()));
        self.old(pod).node(NODES[index % NODES.len()])
    }

    fn reports(created: Timestamp) -> PodBuilder {
        mk_pod(SHOP, "reports-7b8d9f6c5d-w4m8x").created(created)
    }

    fn apply(&self, pod: &PodBuilder) {
        // The builder makes valid pods, so the cluster takes them.
        let _ = self.store.apply(&PODS, pod.build());
    }

    /// Deletes a pod, as if its node had stopped it at once.
    fn delete(&self, pod: &PodBuilder) {
        let pod = pod.build();
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let _ = self.store.delete(&PODS, SHOP, name, &DeleteOptions::now());
    }
}

/// The story, in order of time. It lasts a quarter of an hour of the cluster's time.
pub fn story() -> Vec<Scene> {
    let mut story = vec![
        scene(
            20,
            "payments: a new release, with an image that does not exist",
            |shop, now| {
                shop.apply(
                    &shop
                        .of_deployment("payments", "5c4b8d7f9c", 3)
                        .created(now)
                        .image("payments:v2.O")
                        .image_pull_back_off(),
                );
            },
        ),
        scene(
            110,
            "search: a pod uses more memory than it may, and the kernel kills it",
            |shop, now| {
                shop.apply(&shop.of_deployment("search", RELEASE, 1).oom_killed(now, 1));
            },
        ),
        scene(
            150,
            "reports: scaled up, but no node has room for another pod",
            |shop, now| {
                shop.apply(&Shop::reports(now).unschedulable());
            },
        ),
        scene(420, "payments: rolled back", |shop, _| {
            shop.delete(&shop.of_deployment("payments", "5c4b8d7f9c", 3));
        }),
        scene(
            450,
            "ledger-0 is not ready for two minutes (too short to wake anyone)",
            |shop, now| {
                shop.apply(&shop.ledger(0).not_ready(now));
            },
        ),
        silent(570, |shop, _| shop.apply(&shop.ledger(0))),
        scene(
            540,
            "a node joins; the pod of reports starts",
            |shop, now| {
                shop.apply(&Shop::reports(now - SignedDuration::from_secs(10)));
            },
        ),
        scene(
            600,
            "cart: a corrected release replaces its pods",
            |shop, now| {
                for index in 0..2 {
                    shop.delete(&shop.of_deployment("cart", RELEASE, index));
                    shop.apply(&shop.of_deployment("cart", "7d8f9b6c5d", index).created(now));
                }
            },
        ),
        scene(780, "closing time", |_, _| {}),
    ];
    story.extend(crash_loop());
    story.extend(rolling_restart());
    story.sort_by_key(|scene| scene.at);
    story
}

/// Both pods of `cart` crash right after their start, and the kubelet waits twice as long each time.
fn crash_loop() -> Vec<Scene> {
    let mut scenes = Vec::new();
    let mut at = 50;
    for (restarts, back_off) in (1_u32..).zip([10, 20, 40, 80, 160, 300]) {
        if at >= 600 {
            break;
        }
        let crash = move |shop: &Shop, now| {
            for index in 0..2 {
                shop.apply(
                    &shop
                        .of_deployment("cart", RELEASE, index)
                        .crash_looping(now, restarts),
                );
            }
        };
        scenes.push(Scene {
            at,
            tell: (restarts == 1)
                .then_some("cart: both pods crash at their start, again and again"),
            change: Box::new(crash),
        });
        at += back_off;
        if at < 600 {
            scenes.push(silent(at, move |shop, now| {
                for index in 0..2 {
                    shop.apply(
                        &shop
                            .of_deployment("cart", RELEASE, index)
                            .recovered(now, restarts + 1),
                    );
                }
            }));
        }
        at += 3;
    }
    scenes
}

/// `frontend` is restarted pod by pod. Each new one takes a while to be ready. Nobody may be paged.
fn rolling_restart() -> Vec<Scene> {
    const NEW: &str = "84c7b9d6f5";
    let mut scenes = Vec::new();
    for index in 0..6 {
        let at = 240 + 25 * i64::try_from(index).unwrap_or_default();
        scenes.push(Scene {
            at,
            tell: (index == 0)
                .then_some("frontend: a rolling restart (looks bad pod by pod, and is no fault)"),
            change: Box::new(move |shop, now| {
                shop.apply(
                    &shop
                        .of_deployment("frontend", NEW, index)
                        .created(now)
                        .not_ready(now),
                );
            }),
        });
        scenes.push(silent(at + 20, move |shop, now| {
            shop.apply(
                &shop
                    .of_deployment("frontend", NEW, index)
                    .created(now - SignedDuration::from_secs(20)),
            );
            shop.delete(&shop.of_deployment("frontend", RELEASE, index));
        }));
    }
    scenes
}

fn scene(at: i64, tell: &'static str, change: impl Fn(&Shop, Timestamp) + 'static) -> Scene {
    Scene {
        at,
        tell: Some(tell),
        change: Box::new(change),
    }
}

fn silent(at: i64, change: impl Fn(&Shop, Timestamp) + 'static) -> Scene {
    Scene {
        at,
        tell: None,
        change: Box::new(change),
    }
}
