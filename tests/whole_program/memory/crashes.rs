//! A crash at every step of persisting and sending.

use std::{os::unix::process::ExitStatusExt as _, process::ExitStatus, time::Duration};

use tokio::time::Instant;

use super::{Installation, history::History, wait_until_it_is_written};
use crate::support::{
    ControlPlane, PATIENCE, Program, Webhook, create_namespace, eventually, mk_pod, say,
};

/// What `abort` ends with.
pub(super) const SIGABRT: i32 = 6;

/// How many programs crash at a time, each at its own point: most of the time of each is that of a Lease that nobody renews.
const AT_A_TIME: usize = 10;

/// Restarts programs that crash, each at a point of its own, and checks what was paged all the same.
async fn crashes_lose_nothing(points: &[(&str, u32)]) {
    // Of its own: each message of another test would be another passing.
    let plane = ControlPlane::start().await;
    let client = plane.client().await;
    let mut repeated = 0;
    for (batch, points) in points.chunks(AT_A_TIME).enumerate() {
        let ns = &format!("crashes-{batch}");
        create_namespace(&client, ns).await;
        let history = History::default();
        let breaks = async |workload: &str| {
            history.breaks(workload);
            mk_pod(workload).init_stuck().create(&client, ns).await;
        };
        breaks("stands").await;
        breaks("ends").await;
        let mut lives: Vec<_> = points
            .iter()
            .map(|point| Life::begin(&plane, *point))
            .collect();
        all_live_until(&mut lives, ns, 2).await;
        history.recovers("ends");
        mk_pod("ends").update(&client, ns).await;
        all_live_until(&mut lives, ns, 3).await;
        breaks("late").await;
        all_live_until(&mut lives, ns, 4).await;
        // Else it is a point of stopping.
        for life in lives.iter_mut().filter(|life| life.crashes.is_empty()) {
            life.restart().await;
        }
        breaks("afterwards").await;
        all_live_until(&mut lives, ns, 5).await;

        for Life {
            crash,
            webhook,
            program,
            crashes,
            ..
        } in lives
        {
            wait_until_it_is_written(&program).await;
            program.stop().await;
            assert_eq!(crashes.len(), 1, "{crash}: it did not crash once");
            let again = history.check(&webhook, ns, &crashes, Duration::ZERO);
            assert!(again <= 2, "{crash}: {again} messages came again");
            say(format_args!(
                "crash at {crash}: {again} messages came again"
            ));
            repeated += again;
        }
        for workload in ["stands", "ends", "late", "afterwards"] {
            mk_pod(workload).delete(&client, ns).await;
        }
    }
    // What was delivered and not noted comes again: else no crash was where it matters.
    assert!(repeated > 0);
}

/// All go on until each has told so many different messages about a namespace. A crash is noticed when it happens, also that of one that has told them.
async fn all_live_until(lives: &mut [Life<'_>], ns: &str, messages: usize) {
    let crashes: Vec<_> = lives.iter().map(|life| life.crash.clone()).collect();
    let what = format!("message {messages} in spite of a crash at one of {crashes:?}");
    eventually(what, PATIENCE, async || {
        for life in lives.iter_mut() {
            life.go_on();
        }
        let mut lives = lives.iter();
        lives
            .all(|life| distinct(&life.webhook, ns) == messages)
            .then_some(())
    })
    .await;
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
    crash: String,
    webhook: Webhook,
    program: Program,
    crashes: Vec<Instant>,
}

impl<'a> Life<'a> {
    fn begin(plane: &'a ControlPlane, (point, passing): (&str, u32)) -> Self {
        let (installation, webhook) = (Installation::new(plane), Webhook::start());
        let crash = format!("{point}:{passing}");
        let fault = [("ALERTKUBE_FAULT_CRASH_AT", crash.as_str())];
        Self {
            program: installation.start_with(&webhook, &fault),
            installation,
            crash,
            webhook,
            crashes: Vec::new(),
        }
    }

    /// Starts it again if it has crashed.
    fn go_on(&mut self) {
        if let Some(status) = self.program.ended() {
            self.has_crashed(status);
            self.program = self.installation.start(&self.webhook);
        }
    }

    async fn restart(&mut self) {
        self.program.signal("TERM");
        let status = self.program.wait_end().await;
        if !status.success() {
            self.has_crashed(status);
        }
        self.program = self.installation.start(&self.webhook);
    }

    fn has_crashed(&mut self, status: ExitStatus) {
        assert_eq!(status.signal(), Some(SIGABRT), "{status}");
        self.crashes.push(Instant::now());
    }
}

#[tokio::test]
async fn a_crash_at_a_step_of_persisting_or_sending_loses_nothing() {
    crashes_lose_nothing(&[
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
    let points: Vec<_> = states.chain(leases).chain(sends).chain(once).collect();
    crashes_lose_nothing(&points).await;
}
