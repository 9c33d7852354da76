//! Receivers that fail: nothing is lost, nothing is sent twice once it was accepted.

use std::time::Duration;

use crate::support::{
    Answer, ControlPlane, PATIENCE, Program, Webhook, create_namespace, minutes, mk_pod,
};

#[tokio::test]
async fn pages_outlive_an_outage_of_the_receiver() {
    let plane = ControlPlane::shared().await;
    let client = plane.client().await;
    let ns = "delivery";
    create_namespace(&client, ns).await;
    let web = mk_pod("web-1").of_deployment("web");
    web.clone().crash_looping().create(&client, ns).await;

    let mut webhook = Webhook::start();
    webhook.answer(Answer::Fail(503, None));
    let program = Program::run_ready(&plane, &webhook).await;
    webhook.wait_for_failure().await;
    webhook.refuse();
    let db = mk_pod("db-0").of("apps/v1", "StatefulSet", "db");
    db.image_pull_failing(minutes(10)).create(&client, ns).await;
    webhook.answer(Answer::Accept);
    webhook.listen();

    webhook
        .wait_for_page("firing", "KubePodCrashLooping", ns, "web")
        .await;
    webhook
        .wait_for_page("firing", "KubePodImagePullFailing", ns, "db")
        .await;
    web.recovered(minutes(11)).update(&client, ns).await;
    webhook
        .wait_for_page("resolved", "KubePodCrashLooping", ns, "web")
        .await;
    program.stop().await;
    webhook.assert_exactly(
        ns,
        &[
            ("KubePodCrashLooping", "web", 1, 1),
            ("KubePodImagePullFailing", "db", 1, 0),
        ],
    );
}

#[tokio::test]
async fn a_receiver_that_asks_for_time_gets_it() {
    // Of its own: the alerts of other tests would come at their own times.
    let plane = ControlPlane::start().await;
    let client = plane.client().await;
    let ns = "retry-after";
    create_namespace(&client, ns).await;
    mk_pod("web-1").crash_looping().create(&client, ns).await;

    let webhook = Webhook::start();
    webhook.answer(Answer::Fail(429, Some(5)));
    let program = Program::run_ready(&plane, &webhook).await;
    let asked = webhook.wait_for_failure().await;
    webhook.answer(Answer::Accept);
    webhook
        .wait_for("the page", ns, PATIENCE, |pages| !pages.is_empty())
        .await;
    let waited = webhook.delivered()[0].at.duration_since(asked);
    assert!(
        waited >= Duration::from_secs(5),
        "it waited only {waited:?}"
    );
    program.stop().await;
}

#[tokio::test]
async fn a_receiver_that_never_answers_is_given_up_and_asked_again() {
    let plane = ControlPlane::shared().await;
    let client = plane.client().await;
    let ns = "hang";
    create_namespace(&client, ns).await;
    mk_pod("web-1").crash_looping().create(&client, ns).await;

    let webhook = Webhook::start();
    webhook.answer(Answer::Hang);
    let program = Program::run_ready(&plane, &webhook).await;
    webhook.wait_for_failure().await;
    webhook.answer(Answer::Accept);
    webhook
        .wait_for_page("firing", "KubePodCrashLooping", ns, "web-1")
        .await;
    program.stop().await;
    webhook.assert_exactly(ns, &[("KubePodCrashLooping", "web-1", 1, 0)]);
}
