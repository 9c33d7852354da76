//! The command line against a real cluster, with no configuration but a kubeconfig.

use serde_json::Value;

use crate::support::{
    ALERTKUBE, ControlPlane, PATIENCE, Program, create_namespace, eventually, minutes, mk_pod,
};

#[tokio::test]
async fn with_no_settings_and_no_subcommand_pages_are_lines_of_json() {
    let plane = ControlPlane::shared().await;
    let client = plane.client().await;
    let ns = "stdout";
    create_namespace(&client, ns).await;
    let pod = mk_pod("web-1").of_deployment("web");
    pod.clone().crash_looping().create(&client, ns).await;

    let kubeconfig = plane.kubeconfig(ALERTKUBE).display().to_string();
    let mut program = Program::start(&[], &[("KUBECONFIG", &kubeconfig)]);
    program.wait_ready().await;
    pod.recovered(minutes(11)).update(&client, ns).await;
    let told = |output: &str, status: &str| {
        let about = |line: &&str| line.contains("KubePodCrashLooping") && line.contains(ns);
        let mut lines = output.lines().filter(about);
        lines.any(|line| line.contains(status))
    };
    eventually(
        "page and resolve on standard output",
        PATIENCE,
        async || {
            let output = program.stdout();
            (told(&output, "firing") && told(&output, "resolved")).then_some(())
        },
    )
    .await;

    let output = program.stdout();
    for line in output.lines() {
        let parsed = serde_json::from_str::<Value>(line);
        assert!(parsed.is_ok_and(|value| value.is_object()), "{line}");
    }
    program.stop().await;
}

#[tokio::test]
async fn scan_says_what_is_wrong_and_what_will_be() {
    let plane = ControlPlane::shared().await;
    let client = plane.client().await;
    let ns = "scan";
    create_namespace(&client, ns).await;
    let web = mk_pod("web-1").of_deployment("web");
    web.crash_looping().create(&client, ns).await;
    let db = mk_pod("db-0").of("apps/v1", "StatefulSet", "db");
    db.image_pull_failing(minutes(1)).create(&client, ns).await;

    let kubeconfig = plane.kubeconfig(ALERTKUBE).display().to_string();
    let mut program = Program::start(&["scan", "-o", "json"], &[("KUBECONFIG", &kubeconfig)]);
    let status = program.wait_end().await;
    assert_eq!(status.code(), Some(0), "{}", program.stderr());

    let report: Value = serde_json::from_str(&program.stdout()).unwrap();
    let alert_on = |kind: &str, name: &str| {
        let alerts = report["alerts"].as_array().unwrap();
        let subject = serde_json::json!({ "kind": kind, "namespace": ns, "name": name });
        let mut found = alerts.iter().filter(|alert| alert["subject"] == subject);
        let alert = found.next().unwrap_or_else(|| panic!("{report:#}"));
        assert!(found.next().is_none(), "{report:#}");
        alert
    };
    let firing = alert_on("Deployment", "web");
    assert_eq!(firing["state"], "firing");
    assert_eq!(firing["labels"]["alertname"], "KubePodCrashLooping");
    let pending = alert_on("StatefulSet", "db");
    assert_eq!(pending["state"], "pending");
    assert_eq!(pending["labels"]["alertname"], "KubePodImagePullFailing");
    assert_eq!(report["errors"], serde_json::json!([]));
}
