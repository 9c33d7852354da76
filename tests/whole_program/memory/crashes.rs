//! A crash at every step of persisting and sending.

use std::{os::unix::process::ExitStatusExt as _, time::Duration};

use futures::{StreamExt as _, stream};
use tokio::time::Instant;

use super::{Installation, history::History, wait_until_it_is_written};
use crate::support::{
    ControlPlane, PATIENCE, Program, Webhook, create_namespace, eventually, mk_pod, say,
};

/// What `abort` ends with.
const SIGABRT: i32 = 6;

/// Restarts a program that crashes at a point, and checks what was paged all the same.
async fn a_crash_loses_nothing(plane: &ControlPlane, point: &str, passing: u32) {
    let client = plane.client().await;
    let ns = &format!("crash-{point}-{passing}");
    create_namespace(&client, ns).await;
    let (history, webhook) = (History::default(), Webhook::start());
    let [stands, ends] = ["stands", "ends"].map(mk_pod);
    for (workload, pod) in [("stands", &stands), ("ends", &ends)] {
        history.breaks(workload);
        pod.clone().init_stuck().create(&client, ns).await;
    }
    let installation = Installation::new(plane);
    let crash = format!("{point}:{passing}");
    let fault = [("ALERTKUBE_FAULT_CRASH_AT", crash.as_str())];
    let mut life = Life {
        installation,
        webhook: &webhook,
        program: None,
        crashes: Vec::new(),
    };
    life.program = Some(life.installation.start_with(&webhook, &fault));

    let told = |count| move |webhook: &Webhook| distinct(webhook, ns) == count;
    life.live_until("both pages", told(2)).await;
    history.recovers("ends");
    ends.update(&client, ns).await;
    life.live_until("the resolve", told(3)).await;
    history.breaks("late");
    mk_pod("late").init_stuck().create(&client, ns).await;
    life.live_until("one more page", told(4)).await;
    if life.crashes.is_empty() {
        // A point of stopping; or one that was passed less often than that.
        life.stop().await;
        life.program = Some(life.installation.start(&webhook));
        history.breaks("afterwards");
        mk_pod("afterwards").init_stuck().create(&client, ns).await;
        life.live_until("a page after the crash", told(5)).await;
    }
    wait_until_it_is_written(life.program.as_ref().unwrap()).await;
    life.program.take().unwrap().stop().await;

    assert_eq!(life.crashes.len(), 1, "{crash}: it did not crash once");
    let repeated = history.check(&webhook, ns, &life.crashes, Duration::ZERO);
    assert!(repeated <= 2, "{crash}: {repeated} messages came again");
    say(format_args!(
        "crash at {crash}: {repeated} messages came again"
    ));
}

/// How many different messages about a namespace there were.
fn distinct(webhook: &Webhook, ns: &str) -> usize {
    let pages = webhook.pages(ns);
    let mut messages: Vec<_> = pages
        .iter()
        .map(|page| (page.label("workload"), page.status.as_str()))
        .collect();
    messages.sort_unstable();
    messages.dedup();
    messages.len()
}

/// A program that is started again when it has crashed.
struct Life<'a> {
    installation: Installation<'a>,
    webhook: &'a Webhook,
    program: Option<Program>,
    crashes: Vec<Instant>,
}

impl Life<'_> {
    async fn live_until(&mut self, what: &str, holds: impl Fn(&Webhook) -> bool) {
        eventually(what, PATIENCE, async || {
            let program = self.program.as_mut().unwrap();
            if let Some(status) = program.ended() {
                assert_eq!(status.signal(), Some(SIGABRT), "{status}");
                self.crashes.push(Instant::now());
                self.program = Some(self.installation.start(self.webhook));
            }
            holds(self.webhook).then_some(())
        })
        .await;
    }

    async fn stop(&mut self) {
        let mut program = self.program.take().unwrap();
        program.signal("TERM");
        let status = program.wait_end().await;
        if !status.success() {
            assert_eq!(status.signal(), Some(SIGABRT), "{status}");
            self.crashes.push(Instant::now());
        }
    }
}

async fn crashes_lose_nothing(points: impl IntoIterator<Item = (&'static str, u32)>) {
    let plane = ControlPlane::shared().await;
    // Most of the time of each is that of a Lease that nobody renews.
    stream::iter(points)
        .for_each_concurrent(10, |(point, passing)| {
            a_crash_loses_nothing(&plane, point, passing)
        })
        .await;
}

#[tokio::test]
async fn a_crash_at_a_step_of_persisting_or_sending_loses_nothing() {
    crashes_lose_nothing([
        ("write-state", 1),
        ("write-state", 2),
        ("wrote-state", 2),
        // Standard output comes first, twice.
        ("send", 4),
        ("sent", 3),
        ("sent", 4),
        ("noted", 4),
        ("acknowledge", 1),
        ("free-lease", 1),
    ])
    .await;
}

/// Each of two receivers, standard output being one, has three messages until the last of the test.
#[tokio::test]
#[ignore = "takes minutes"]
async fn a_crash_at_any_step_loses_nothing() {
    let states = (1..=4).flat_map(|passing| {
        let points = ["write-state", "wrote-state"];
        points.map(|point| (point, passing))
    });
    let leases = [("hold-lease", 1), ("wrote-lease", 1), ("wrote-lease", 2)];
    let sends = (1..=8).flat_map(|passing| ["send", "sent", "noted"].map(|point| (point, passing)));
    let once = ["acknowledge", "free-lease", "write-record", "wrote-record"];
    let once = once.map(|point| (point, 1));
    crashes_lose_nothing(states.chain(leases).chain(sends).chain(once)).await;
}
