//! A restart is silent, whether it was asked for or not.

use tokio::time::Instant;

use super::Installation;
use crate::support::{Answer, ControlPlane, Program, Webhook, create_namespace, mk_pod, say};

async fn a_restart_is_silent(ns: &str, end: impl AsyncFnOnce(Program)) {
    let plane = ControlPlane::shared().await;
    let client = plane.client().await;
    create_namespace(&client, ns).await;
    let [stands, ends, goes] =
        ["stands", "ends", "goes"].map(|name| mk_pod(name).of_deployment(name));
    stands.crash_looping().create(&client, ns).await;
    // Of a rule without a hold: who was away takes a hold to begin when it is back.
    for pod in [&ends, &goes] {
        pod.clone().init_stuck().create(&client, ns).await;
    }

    let installation = Installation::new(&plane);
    let mut webhook = Webhook::start();
    let mut program = installation.start(&webhook);
    program.wait_ready().await;
    let pages = |count| move |pages: &[_]| pages.len() == count;
    webhook
        .wait_for("all three pages", ns, crate::support::PATIENCE, pages(3))
        .await;

    // One more that the receiver does not take. That it was tried means that it was written down.
    webhook.answer(Answer::Fail(503, None));
    mk_pod("owed").crash_looping().create(&client, ns).await;
    webhook.wait_for_failure_in(ns).await;
    webhook.refuse();
    let ended = Instant::now();
    end(program).await;
    let took = ended.elapsed();

    ends.update(&client, ns).await;
    goes.delete(&client, ns).await;
    mk_pod("begins").crash_looping().create(&client, ns).await;
    webhook.answer(Answer::Accept);
    webhook.listen();
    let started = Instant::now();
    let mut program = installation.start(&webhook);
    webhook
        .wait_for_page("firing", "KubePodCrashLooping", ns, "owed")
        .await;
    webhook
        .wait_for_page("firing", "KubePodCrashLooping", ns, "begins")
        .await;
    say(format_args!(
        "restart ({ns}): ended after {:.1} s, and paged {:.1} s after its new start",
        took.as_secs_f64(),
        started.elapsed().as_secs_f64()
    ));
    webhook
        .wait_for_page("resolved", "KubePodInitStuck", ns, "ends")
        .await;
    webhook
        .wait_for_page("resolved", "KubePodInitStuck", ns, "goes")
        .await;
    program.assert_running();
    program.stop().await;
    webhook.assert_exactly(
        ns,
        &[
            ("KubePodCrashLooping", "stands", 1, 0),
            ("KubePodInitStuck", "ends", 1, 1),
            ("KubePodInitStuck", "goes", 1, 1),
            ("KubePodCrashLooping", "owed", 1, 0),
            ("KubePodCrashLooping", "begins", 1, 0),
        ],
    );
    // The resolve is about what was paged, not about something that looks like it.
    let pages = webhook.pages(ns);
    for workload in ["ends", "goes"] {
        let [fired, resolved] = ["firing", "resolved"].map(|status| {
            let mut pages = pages.iter();
            let page =
                pages.find(|page| page.status == status && page.label("workload") == workload);
            page.unwrap()
        });
        assert_eq!(fired.labels, resolved.labels);
        assert_eq!(fired.starts_at, resolved.starts_at);
    }
}

#[tokio::test]
async fn a_restart_that_was_asked_for_is_silent() {
    a_restart_is_silent("asked-for", async |program| program.stop().await).await;
}

#[tokio::test]
async fn a_restart_after_a_kill_is_silent() {
    a_restart_is_silent("killed", async |program| program.kill()).await;
}

#[tokio::test]
async fn a_second_restart_is_as_silent_as_the_first() {
    let plane = ControlPlane::shared().await;
    let client = plane.client().await;
    let ns = "restarts";
    create_namespace(&client, ns).await;
    let web = mk_pod("web-1").of_deployment("web");
    web.clone().init_stuck().create(&client, ns).await;
    let installation = Installation::new(&plane);
    let webhook = Webhook::start();
    for round in 1..=3 {
        let mut program = installation.start(&webhook);
        program.wait_ready().await;
        // A page for a sentinel shows that the program is past all that it found at its start.
        let sentinel = format!("sentinel-{round}");
        mk_pod(&sentinel).crash_looping().create(&client, ns).await;
        webhook
            .wait_for_page("firing", "KubePodCrashLooping", ns, &sentinel)
            .await;
        program.stop().await;
    }
    web.update(&client, ns).await;
    let mut program = installation.start(&webhook);
    program.wait_ready().await;
    webhook
        .wait_for_page("resolved", "KubePodInitStuck", ns, "web")
        .await;
    program.stop().await;
    webhook.assert_exactly(
        ns,
        &[
            ("KubePodInitStuck", "web", 1, 1),
            ("KubePodCrashLooping", "sentinel-1", 1, 0),
            ("KubePodCrashLooping", "sentinel-2", 1, 0),
            ("KubePodCrashLooping", "sentinel-3", 1, 0),
        ],
    );
}
