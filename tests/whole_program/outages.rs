//! The API server goes away in the middle of incidents: no page is lost, none is sent twice, and nothing resolves that still stands.

use crate::support::{
    ALERTKUBE, ControlPlane, PATIENCE, Page, Program, RECOVERY, Sketch, Webhook, create_namespace,
    eventually, minutes, mk_pod,
};

const NS: &str = "shop";

#[tokio::test]
async fn an_api_server_that_dies_and_returns_changes_nothing() {
    let mut plane = ControlPlane::start().await;
    let client = plane.client().await;
    create_namespace(&client, NS).await;
    let web = mk_pod("web-1").of_deployment("web");
    web.clone().crash_looping().create(&client, NS).await;
    let agent = mk_pod("agent").of("apps/v1", "DaemonSet", "agent");
    agent.init_stuck().create(&client, NS).await;

    let webhook = Webhook::start();
    let mut program = Program::run_ready(&plane, &webhook).await;
    webhook
        .wait_for_page("firing", "KubePodCrashLooping", NS, "web")
        .await;
    webhook
        .wait_for_page("firing", "KubePodInitStuck", NS, "agent")
        .await;

    for round in 1..=2 {
        plane.kill_apiserver();
        plane.start_apiserver().await;
        // That this page comes shows that the watch is back; by then everything that there was has been seen again.
        let name = format!("late-{round}");
        mk_pod(&name).crash_looping().create(&client, NS).await;
        webhook
            .wait_for("a page after the outage", NS, RECOVERY, |pages| {
                let is_it = |page: &Page| page.is("firing", "KubePodCrashLooping", &name);
                pages.iter().any(is_it)
            })
            .await;
    }
    web.recovered(minutes(11)).update(&client, NS).await;
    webhook
        .wait_for_page("resolved", "KubePodCrashLooping", NS, "web")
        .await;

    program.assert_running();
    program.stop().await;
    webhook.assert_exactly(
        NS,
        &[
            ("KubePodCrashLooping", "web", 1, 1),
            ("KubePodInitStuck", "agent", 1, 0),
            ("KubePodCrashLooping", "late-1", 1, 0),
            ("KubePodCrashLooping", "late-2", 1, 0),
        ],
    );
}

#[tokio::test]
async fn an_api_server_that_is_not_there_yet_is_waited_for() {
    let mut plane = ControlPlane::start().await;
    let client = plane.client().await;
    create_namespace(&client, NS).await;
    mk_pod("web-1").crash_looping().create(&client, NS).await;
    plane.kill_apiserver();

    let webhook = Webhook::start();
    let mut program = Program::run(&plane, ALERTKUBE, &webhook, &[]);
    let readyz = eventually("/readyz", PATIENCE, async || {
        program.assert_running();
        program.get("/readyz").await
    })
    .await;
    assert_ne!(readyz.0, 200, "ready without having seen anything");

    plane.start_apiserver().await;
    program.wait_ready().await;
    webhook
        .wait_for_page("firing", "KubePodCrashLooping", NS, "web-1")
        .await;
    program.stop().await;
    webhook.assert_exactly(NS, &[("KubePodCrashLooping", "web-1", 1, 0)]);
}

#[tokio::test]
async fn a_watch_that_expired_misses_neither_a_break_nor_a_recovery_nor_a_deletion() {
    let mut plane = ControlPlane::start().await;
    let client = plane.client().await;
    create_namespace(&client, NS).await;
    let recovers = mk_pod("recovers");
    let goes = mk_pod("goes");
    let stays = mk_pod("stays");
    let breaks = mk_pod("breaks");
    let broken: [Sketch; 3] = [
        recovers.clone().crash_looping(),
        goes.clone().init_stuck(),
        stays.clone().crash_looping(),
    ];
    for pod in &broken {
        pod.create(&client, NS).await;
    }
    breaks.create(&client, NS).await;

    let webhook = Webhook::start();
    let program = Program::run_ready(&plane, &webhook).await;
    webhook
        .wait_for("all three pages", NS, PATIENCE, |pages| pages.len() == 3)
        .await;

    // While alertkube stands still its connection is cut, so that nothing waits for it in a socket; then the world changes, and etcd
    // forgets how. So the watch that it resumes is answered 410 Gone (`harness::a_watch_from_before_a_compaction_is_gone`).
    program.signal("STOP");
    plane.kill_apiserver();
    plane.start_apiserver().await;
    recovers.recovered(minutes(11)).update(&client, NS).await;
    goes.delete(&client, NS).await;
    breaks.crash_looping().update(&client, NS).await;
    plane.compact().await;
    plane.kill_apiserver();
    plane.start_apiserver().await;
    program.signal("CONT");

    webhook
        .wait_for_page("firing", "KubePodCrashLooping", NS, "breaks")
        .await;
    webhook
        .wait_for_page("resolved", "KubePodCrashLooping", NS, "recovers")
        .await;
    webhook
        .wait_for_page("resolved", "KubePodInitStuck", NS, "goes")
        .await;
    program.stop().await;
    webhook.assert_exactly(
        NS,
        &[
            ("KubePodCrashLooping", "recovers", 1, 1),
            ("KubePodInitStuck", "goes", 1, 1),
            ("KubePodCrashLooping", "stays", 1, 0),
            ("KubePodCrashLooping", "breaks", 1, 0),
        ],
    );
}

/// An API server that has just started knows its roles a moment later than it answers: until then it says 403 to everybody. And people take rights
/// away by mistake, and give them back. Neither may cost more than another failure does.
#[tokio::test]
async fn rights_that_are_missing_for_a_moment_do_not_cost_minutes() {
    let mut plane = ControlPlane::start().await;
    let client = plane.client().await;
    create_namespace(&client, NS).await;
    mk_pod("before").crash_looping().create(&client, NS).await;
    let webhook = Webhook::start();
    let mut program = Program::run_ready(&plane, &webhook).await;

    plane.forbid(ALERTKUBE).await;
    plane.kill_apiserver();
    plane.start_apiserver().await;
    program
        .wait_for_line("the missing right", |line| {
            line.to_lowercase().contains("forbidden")
        })
        .await;
    plane.allow(ALERTKUBE).await;
    mk_pod("after").crash_looping().create(&client, NS).await;
    webhook
        .wait_for("a page with the right back", NS, RECOVERY, |pages| {
            pages.len() == 2
        })
        .await;

    program.stop().await;
    webhook.assert_exactly(
        NS,
        &[
            ("KubePodCrashLooping", "before", 1, 0),
            ("KubePodCrashLooping", "after", 1, 0),
        ],
    );
}
