//! A cluster of some size.

use std::time::Duration;

use crate::support::{ControlPlane, PATIENCE, Program, Webhook, create_namespace, minutes, mk_pod};

const NS: &str = "fleet";

#[tokio::test]
async fn of_ten_thousand_pods_exactly_the_broken_ones_page() {
    let plane = ControlPlane::start().await;
    let client = plane.client().await;
    create_namespace(&client, NS).await;
    // One in 1,000 is broken: a bare pod each, so that each is an alert.
    let pods: Vec<_> = (0..10_000)
        .map(|number| {
            let pod = mk_pod(&format!("pod-{number}"));
            if number % 1_000 == 500 {
                pod.crash_looping()
            } else {
                pod
            }
        })
        .collect();
    plane.store(&pods, NS).await;

    let webhook = Webhook::start();
    let program = Program::run_ready(&plane, &webhook).await;
    let names: Vec<_> = (0..10)
        .map(|number| format!("pod-{}", 1_000 * number + 500))
        .collect();
    webhook
        .wait_for("the pages of ten pods", NS, PATIENCE, |pages| {
            pages.len() >= names.len()
        })
        .await;
    // Afterwards it is as fast as in a small cluster.
    let last = mk_pod("pod-0").image_pull_failing(minutes(10));
    last.update(&client, NS).await;
    webhook
        .wait_for("one more page", NS, Duration::from_secs(10), |pages| {
            pages.len() > names.len()
        })
        .await;

    program.stop().await;
    let mut expected: Vec<_> = names
        .iter()
        .map(|name| ("KubePodCrashLooping", name.as_str(), 1, 0))
        .collect();
    expected.push(("KubePodImagePullFailing", "pod-0", 1, 0));
    webhook.assert_exactly(NS, &expected);
}
