//! The command line against a real cluster, with no configuration but a kubeconfig.

use serde_json::{Value, json};

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
    let told = |output: &str, transition: &str| {
        let lines = output.lines().map(serde_json::from_str::<Value>);
        // The last line may be half written.
        lines.flatten().any(|line| {
            line["transition"] == transition
                && line["alert"]["labels"]["alertname"] == "KubePodCrashLooping"
                && line["alert"]["labels"]["namespace"] == ns
        })
    };
    eventually("the page on standard output", PATIENCE, async || {
        told(&program.stdout(), "fire").then_some(())
    })
    .await;
    pod.recovered(minutes(11)).update(&client, ns).await;
    eventually("the resolve on standard output", PATIENCE, async || {
        told(&program.stdout(), "resolve").then_some(())
    })
    .await;

    // With what it writes while it stops, and no half line at the end.
    program.signal("TERM");
    program.wait_end().await;
    let output = program.stdout();
    for line in output.lines() {
        let parsed = serde_json::from_str::<Value>(line);
        assert!(parsed.is_ok_and(|value| value.is_object()), "{line}");
    }
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
    let state_of = |alertname: &str, kind: &str, name: &str| {
        let subject = json!({ "kind": kind, "namespace": ns, "name": name });
        let alerts = report["alerts"].as_array().unwrap();
        let mut found = alerts.iter().filter(|alert| {
            alert["subject"] == subject && alert["labels"]["alertname"] == alertname
        });
        let alert = found.next().unwrap_or_else(|| panic!("{report:#}"));
        assert!(found.next().is_none(), "{report:#}");
        alert["state"].clone()
    };
    let web = state_of("KubePodCrashLooping", "Deployment", "web");
    assert_eq!(web, "firing");
    let db = state_of("KubePodImagePullFailing", "StatefulSet", "db");
    assert_eq!(db, "pending");
    assert_eq!(report["errors"], json!([]));

    let explain = async |object: &str| {
        let args = ["scan", "-o", "json", "--explain", object];
        let mut program = Program::start(&args, &[("KUBECONFIG", &kubeconfig)]);
        let status = program.wait_end().await;
        (status.code(), program.stdout(), program.stderr())
    };
    let (code, output, errors) = explain("pod/scan/db-0").await;
    assert_eq!(code, Some(0), "{errors}");
    let explained: Value = serde_json::from_str(&output).unwrap();
    let rules = explained["objects"][0]["rules"].as_array().unwrap();
    let of_rule = |name: &str| {
        let mut rules = rules.iter().filter(|rule| rule["alert"] == name);
        rules.next().unwrap_or_else(|| panic!("{explained:#}"))
    };
    let pull = of_rule("KubePodImagePullFailing");
    assert_eq!(pull["state"], "pending", "{pull}");
    assert!(pull["firesAt"].is_string(), "{pull}");
    let crash = of_rule("KubePodCrashLooping");
    assert_eq!(crash["state"], "quiet", "{crash}");
    let (code, output, errors) = explain("pod/scan/db").await;
    assert_eq!((code, output.as_str()), (Some(1), ""), "{errors}");
    assert!(errors.contains("did you mean Pod/scan/db-0"), "{errors}");
}
