//! The API server is down, or does not let us write.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::{Installation, LEASE, wait_until_it_is_written, wait_until_it_says};
use crate::support::{
    ALERTKUBE, ControlPlane, EVERYTHING, OUTSIDER, PATIENCE, RECOVERY, Webhook, create_namespace,
    eventually, fresh_name, minutes, mk_pod, say,
};

const NS: &str = "shop";
const READ: &[&str] = &["get", "list", "watch"];

async fn an_api_server_that_is_down_loses_nothing(outage: Duration) {
    let mut plane = ControlPlane::start().await;
    let client = plane.client().await;
    create_namespace(&client, NS).await;
    let ends = mk_pod("ends");
    mk_pod("stands").crash_looping().create(&client, NS).await;
    ends.clone().init_stuck().create(&client, NS).await;
    // Its time comes in the middle of the outage.
    let due = mk_pod("due").image_pull_failing(minutes(3).saturating_sub(outage / 2));
    due.create(&client, NS).await;
    let (webhook, name) = (Webhook::start(), fresh_name());
    let start = |plane| {
        let name = name.clone();
        let user = ALERTKUBE;
        Installation { plane, user, name }.start(&webhook)
    };
    let mut holder = start(&plane);
    holder.wait_ready().await;
    let mut standby = start(&plane);
    wait_until_it_says(&mut standby, "standing by").await;
    webhook
        .wait_for("both pages", NS, PATIENCE, |pages| pages.len() == 2)
        .await;
    // Else whoever has the Lease after the outage does not know that they were delivered.
    wait_until_it_is_written(&holder).await;

    plane.kill_apiserver();
    let killed = Instant::now();
    let during = mk_pod("during").init_stuck();
    plane.store(std::slice::from_ref(&during), NS).await;
    eventually("the holder not to be ready", PATIENCE, async || {
        holder.assert_running();
        let (status, _) = holder.get("/readyz").await?;
        (status == 503).then_some(())
    })
    .await;
    let unready = killed.elapsed();
    assert!(unready < LEASE, "it goes on without a Lease: {unready:?}");
    sleep_until(killed + outage).await;
    assert_eq!(
        webhook.pages(NS).len(),
        2,
        "something was told without a Lease"
    );
    plane.start_apiserver().await;
    let back = Instant::now();
    for (alertname, workload) in [
        ("KubePodImagePullFailing", "due"),
        ("KubePodInitStuck", "during"),
    ] {
        webhook
            .wait_for("a page after the outage", NS, RECOVERY, |pages| {
                let mut pages = pages.iter();
                pages.any(|page| page.is("firing", alertname, workload))
            })
            .await;
    }
    say(format_args!(
        "outage of {} s: all was told {:.1} s after its end",
        outage.as_secs(),
        back.elapsed().as_secs_f64()
    ));
    ends.update(&client, NS).await;
    webhook
        .wait_for_page("resolved", "KubePodInitStuck", NS, "ends")
        .await;
    holder.assert_running();
    standby.assert_running();
    holder.stop().await;
    standby.stop().await;
    webhook.assert_exactly(
        NS,
        &[
            ("KubePodCrashLooping", "stands", 1, 0),
            ("KubePodInitStuck", "ends", 1, 1),
            ("KubePodImagePullFailing", "due", 1, 0),
            ("KubePodInitStuck", "during", 1, 0),
        ],
    );
}

#[tokio::test]
async fn an_api_server_that_is_down_for_longer_than_a_lease_loses_nothing() {
    an_api_server_that_is_down_loses_nothing(Duration::from_secs(20)).await;
}

#[tokio::test]
#[ignore = "takes minutes"]
async fn an_api_server_that_is_down_for_a_minute_loses_nothing() {
    an_api_server_that_is_down_loses_nothing(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn a_holder_that_may_not_renew_stops_before_another_one_starts() {
    let plane = ControlPlane::start().await;
    plane.allow(OUTSIDER).await;
    let client = plane.client().await;
    create_namespace(&client, NS).await;
    mk_pod("before").crash_looping().create(&client, NS).await;
    let (first, second) = (Webhook::start(), Webhook::start());
    let installation = Installation::new(&plane);
    let mut holder = installation.start(&first);
    holder.wait_ready().await;
    first
        .wait_for_page("firing", "KubePodCrashLooping", NS, "before")
        .await;
    wait_until_it_is_written(&holder).await;

    plane.allow_only(ALERTKUBE, READ, EVERYTHING).await;
    let refused = Instant::now();
    let mut other = Installation {
        user: OUTSIDER,
        name: installation.name.clone(),
        plane: &plane,
    }
    .start(&second);
    let line = holder
        .wait_for_line("the missing right", |line| {
            line.contains("not allowed to update leases")
        })
        .await;
    assert!(line.contains("ERROR"), "{line}");
    eventually("the holder not to be ready", PATIENCE, async || {
        let (status, _) = holder.get("/readyz").await?;
        (status == 503).then_some(())
    })
    .await;
    assert_ne!(
        other.get("/readyz").await.map(|(status, _)| status),
        Some(200),
        "one has taken over before the other has stopped"
    );
    say(format_args!(
        "Lease refused: not ready after {:.1} s",
        refused.elapsed().as_secs_f64()
    ));
    mk_pod("during").crash_looping().create(&client, NS).await;
    second
        .wait_for_page("firing", "KubePodCrashLooping", NS, "during")
        .await;
    plane.allow_only(ALERTKUBE, EVERYTHING, EVERYTHING).await;
    wait_until_it_says(&mut holder, "standing by").await;
    other.assert_running();
    holder.stop().await;
    other.stop().await;
    first.assert_exactly(NS, &[("KubePodCrashLooping", "before", 1, 0)]);
    second.assert_exactly(NS, &[("KubePodCrashLooping", "during", 1, 0)]);
}

#[tokio::test]
async fn a_page_leaves_also_when_its_state_cannot_be_written() {
    let plane = ControlPlane::start().await;
    let client = plane.client().await;
    create_namespace(&client, NS).await;
    let webhook = Webhook::start();
    let installation = Installation::new(&plane);
    let mut program = installation.start(&webhook);
    program.wait_ready().await;
    wait_until_it_is_written(&program).await;
    assert_eq!(
        program.metric("alertkube_pages_unsaved_total").await,
        Some(0.0)
    );

    plane.allow_only(ALERTKUBE, EVERYTHING, READ).await;
    let broken = Instant::now();
    mk_pod("during").crash_looping().create(&client, NS).await;
    webhook
        .wait_for_page("firing", "KubePodCrashLooping", NS, "during")
        .await;
    let waited = broken.elapsed();
    say(format_args!(
        "state refused: paged {:.1} s after the pod broke",
        waited.as_secs_f64()
    ));
    assert!(
        (Duration::from_secs(2)..Duration::from_secs(8)).contains(&waited),
        "{waited:?}"
    );
    program
        .wait_for_line("the state", |line| {
            let loud = line.contains("WARN") || line.contains("ERROR");
            loud && line.contains("cannot write the state") && line.contains("forbidden")
        })
        .await;
    let unsaved = program.metric("alertkube_pages_unsaved_total").await;
    assert!(unsaved >= Some(1.0), "{unsaved:?}");
    let age = program.metric("alertkube_state_unsaved_seconds").await;
    assert!(age > Some(0.0), "{age:?}");

    plane.allow_only(ALERTKUBE, EVERYTHING, EVERYTHING).await;
    wait_until_it_is_written(&program).await;
    program.stop().await;
    let mut program = installation.start(&webhook);
    program.wait_ready().await;
    mk_pod("after").crash_looping().create(&client, NS).await;
    webhook
        .wait_for_page("firing", "KubePodCrashLooping", NS, "after")
        .await;
    program.stop().await;
    webhook.assert_exactly(
        NS,
        &[
            ("KubePodCrashLooping", "during", 1, 0),
            ("KubePodCrashLooping", "after", 1, 0),
        ],
    );
}
