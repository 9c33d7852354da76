//! A broken pod becomes a page, and a page gets its resolve.

use std::time::Duration;

use crate::support::{ControlPlane, PATIENCE, Program, Webhook, create_namespace, minutes, mk_pod};

#[tokio::test]
async fn broken_pods_page_and_their_recovery_resolves() {
    let plane = ControlPlane::shared().await;
    let client = plane.client().await;
    let ns = "paging";
    create_namespace(&client, ns).await;
    let crash = mk_pod("web-1").of_deployment("web");
    let pull = mk_pod("db-0").of("apps/v1", "StatefulSet", "db");
    let stuck = mk_pod("agent-x").of("apps/v1", "DaemonSet", "agent");
    // One is broken before alertkube starts; others break while it watches.
    crash.clone().crash_looping().create(&client, ns).await;
    mk_pod("well").create(&client, ns).await;
    pull.create(&client, ns).await;

    let webhook = Webhook::start();
    let program = Program::run_ready(&plane, &webhook).await;
    pull.image_pull_failing(minutes(10))
        .update(&client, ns)
        .await;
    stuck.clone().init_stuck().create(&client, ns).await;
    // An event that is over, by its rule, an hour after it happened: in a quarter of a minute.
    let oom = mk_pod("batch").oom_killed(Duration::from_secs(3600 - 15));
    oom.create(&client, ns).await;
    let leaving = mk_pod("leaving").stuck_terminating(minutes(11));
    plane.store(std::slice::from_ref(&leaving), ns).await;

    let fired = webhook
        .wait_for_page("firing", "KubePodCrashLooping", ns, "web")
        .await;
    for (label, value) in [
        ("workload_type", "deployment"),
        ("container", "app"),
        ("reason", "CrashLoopBackOff"),
        ("severity", "warning"),
        // Its pods are members: a label would make each restart another alert.
        ("pod", ""),
    ] {
        assert_eq!(fired.label(label), value, "label {label} of {fired:?}");
    }
    assert_eq!(fired.ends_at, "0001-01-01T00:00:00Z");
    assert!(!fired.annotations["summary"].is_empty());
    assert_eq!(fired.fingerprint.len(), 16);
    let page = webhook
        .wait_for_page("firing", "KubePodImagePullFailing", ns, "db")
        .await;
    assert_eq!(page.label("workload_type"), "statefulset");
    assert_eq!(page.label("reason"), "ImagePullBackOff");
    let page = webhook
        .wait_for_page("firing", "KubePodInitStuck", ns, "agent")
        .await;
    assert_eq!(page.label("workload_type"), "daemonset");
    assert_eq!(page.label("container"), "migrate");
    let page = webhook
        .wait_for_page("firing", "KubePodOOMKilled", ns, "batch")
        .await;
    assert_eq!(page.label("workload_type"), "barepod");
    assert_eq!(page.label("pod"), "batch");

    webhook
        .wait_for_page("firing", "KubePodStuckTerminating", ns, "leaving")
        .await;

    // It has been well for longer than a back-off is remembered, so this resolves at once. The deletions do, too: those rules have no hold.
    crash.recovered(minutes(11)).update(&client, ns).await;
    stuck.delete(&client, ns).await;
    leaving.delete(&client, ns).await;
    let resolved = webhook
        .wait_for_page("resolved", "KubePodCrashLooping", ns, "web")
        .await;
    assert_eq!(resolved.labels, fired.labels);
    assert_eq!(resolved.fingerprint, fired.fingerprint);
    assert_eq!(resolved.starts_at, fired.starts_at);
    let ended: jiff::Timestamp = resolved.ends_at.parse().unwrap();
    assert!(ended > resolved.starts_at);
    webhook
        .wait_for_page("resolved", "KubePodInitStuck", ns, "agent")
        .await;
    webhook
        .wait_for_page("resolved", "KubePodStuckTerminating", ns, "leaving")
        .await;
    webhook
        .wait_for_page("resolved", "KubePodOOMKilled", ns, "batch")
        .await;

    program.stop().await;
    webhook.assert_exactly(
        ns,
        &[
            ("KubePodCrashLooping", "web", 1, 1),
            ("KubePodImagePullFailing", "db", 1, 0),
            ("KubePodInitStuck", "agent", 1, 1),
            ("KubePodOOMKilled", "batch", 1, 1),
            ("KubePodStuckTerminating", "leaving", 1, 1),
        ],
    );
    for message in webhook.delivered() {
        assert_eq!(message.version, "4");
        assert_eq!(message.truncated_alerts, 0);
        assert!(!message.group_key.is_empty() && !message.receiver.is_empty());
        let firing = message.alerts.iter().any(|page| page.status == "firing");
        assert_eq!(message.status, if firing { "firing" } else { "resolved" });
        for page in &message.alerts {
            for (name, value) in message.common_labels.iter().chain(&message.group_labels) {
                assert_eq!(page.label(name), value, "{name} is not common");
            }
            for (name, value) in &message.common_annotations {
                assert_eq!(page.annotations.get(name), Some(value));
            }
        }
    }
}

#[tokio::test]
async fn many_pods_of_one_workload_are_one_page() {
    let plane = ControlPlane::shared().await;
    let client = plane.client().await;
    let ns = "members";
    create_namespace(&client, ns).await;
    for name in ["web-1", "web-2", "web-3"] {
        let pod = mk_pod(name).of_deployment("web").crash_looping();
        pod.create(&client, ns).await;
    }

    let webhook = Webhook::start();
    let program = Program::run_ready(&plane, &webhook).await;
    webhook
        .wait_for_page("firing", "KubePodCrashLooping", ns, "web")
        .await;
    // Two recover, one is replaced by another that is broken in the same way: still the same alert.
    for name in ["web-1", "web-2"] {
        let pod = mk_pod(name).of_deployment("web").recovered(minutes(11));
        pod.update(&client, ns).await;
    }
    let replacement = mk_pod("web-4").of_deployment("web").crash_looping();
    replacement.create(&client, ns).await;
    mk_pod("web-3").delete(&client, ns).await;
    let sentinel = mk_pod("sentinel").crash_looping();
    sentinel.create(&client, ns).await;
    webhook
        .wait_for_page("firing", "KubePodCrashLooping", ns, "sentinel")
        .await;

    program.stop().await;
    webhook.assert_exactly(
        ns,
        &[
            ("KubePodCrashLooping", "web", 1, 0),
            ("KubePodCrashLooping", "sentinel", 1, 0),
        ],
    );
}

#[tokio::test]
async fn what_is_not_due_or_well_stays_silent() {
    let plane = ControlPlane::shared().await;
    let client = plane.client().await;
    let ns = "silent";
    create_namespace(&client, ns).await;
    mk_pod("well").create(&client, ns).await;
    // Its `for` is 3 minutes.
    let recent = mk_pod("recent").image_pull_failing(Duration::from_secs(30));
    recent.create(&client, ns).await;
    let old = mk_pod("old").oom_killed(minutes(61));
    old.create(&client, ns).await;

    let webhook = Webhook::start();
    let program = Program::run_ready(&plane, &webhook).await;
    let sentinel = mk_pod("sentinel").crash_looping();
    sentinel.create(&client, ns).await;
    webhook
        .wait_for_page("firing", "KubePodCrashLooping", ns, "sentinel")
        .await;

    program.stop().await;
    webhook.assert_exactly(ns, &[("KubePodCrashLooping", "sentinel", 1, 0)]);
}

#[tokio::test]
async fn metrics_and_health_are_served() {
    let plane = ControlPlane::shared().await;
    let webhook = Webhook::start();
    let program = Program::run_ready(&plane, &webhook).await;

    let (status, _) = program.get("/livez").await.unwrap();
    assert_eq!(status, 200);
    let (status, metrics) = program.get("/metrics").await.unwrap();
    assert_eq!(status, 200);
    assert!(metrics.contains("\nalertkube_build_info{"), "{metrics}");
    let (status, _) = program.get("/nothing").await.unwrap();
    assert_eq!(status, 404);
    // The URL of a webhook is a secret.
    let all = metrics + &program.stderr() + &program.stdout();
    assert!(!all.contains(&webhook.url()), "{all}");
    program.stop().await;
}

#[tokio::test]
async fn an_alert_that_comes_and_goes_is_told_in_order() {
    let plane = ControlPlane::shared().await;
    let client = plane.client().await;
    let ns = "order";
    create_namespace(&client, ns).await;
    let pod = mk_pod("web-1").of_deployment("web");
    pod.create(&client, ns).await;

    let webhook = Webhook::start();
    let program = Program::run_ready(&plane, &webhook).await;
    for round in 1..=3 {
        pod.clone().crash_looping().update(&client, ns).await;
        webhook
            .wait_for("the page of a round", ns, PATIENCE, |pages| {
                pages.len() == 2 * round - 1
            })
            .await;
        pod.clone().recovered(minutes(11)).update(&client, ns).await;
        webhook
            .wait_for("the resolve of a round", ns, PATIENCE, |pages| {
                pages.len() == 2 * round
            })
            .await;
    }

    program.stop().await;
    let pages = webhook.pages(ns);
    let statuses: Vec<_> = pages.iter().map(|page| page.status.as_str()).collect();
    assert_eq!(statuses, ["firing", "resolved"].repeat(3));
}
