//! Without rights on Leases and states.

use crate::support::{ControlPlane, OUTSIDER, Program, Webhook, create_namespace, mk_pod};

#[tokio::test]
async fn without_rights_on_leases_it_ends_and_says_what_to_grant_or_runs_ephemeral() {
    let plane = ControlPlane::start().await;
    let client = plane.client().await;
    let ns = "shop";
    create_namespace(&client, ns).await;
    mk_pod("web").crash_looping().create(&client, ns).await;
    plane.allow(OUTSIDER).await;
    plane.allow_only(OUTSIDER, &[], &[]).await;
    let webhook = Webhook::start();

    let mut program = Program::run(&plane, OUTSIDER, &webhook, &[]);
    let status = program.wait_end().await;
    let said = program.stderr();
    assert!(!status.success(), "{said}");
    for word in [
        "namespace default",
        "list, watch, create, update and delete",
        "leases (API group coordination.k8s.io)",
        "configmaps",
        "alertkube run --ephemeral",
    ] {
        assert!(said.contains(word), "it does not say {word:?}: {said}");
    }
    webhook.assert_exactly(ns, &[]);

    // It may look, and not touch.
    plane
        .allow_only(OUTSIDER, &["list", "watch"], &["list", "watch", "update"])
        .await;
    let mut program = Program::run(&plane, OUTSIDER, &webhook, &[]);
    let status = program.wait_end().await;
    let said = program.stderr();
    assert!(!status.success(), "{said}");
    for word in [
        "namespace default",
        "it may not create or update or delete leases",
        "it may not create or delete configmaps",
        "alertkube run --ephemeral",
    ] {
        assert!(said.contains(word), "it does not say {word:?}: {said}");
    }
    webhook.assert_exactly(ns, &[]);

    let kubeconfig = plane.kubeconfig(OUTSIDER).display().to_string();
    let environment = [
        ("KUBECONFIG", kubeconfig.as_str()),
        ("ALERTKUBE_CLUSTER", "test"),
        ("ALERTKUBE_WEBHOOK_URL", &webhook.url()),
    ];
    let mut program = Program::start(&["run", "--ephemeral"], &environment);
    program.wait_ready().await;
    program
        .wait_for_line("what that means", |line| {
            line.contains("WARN") && line.contains("ephemeral")
        })
        .await;
    webhook
        .wait_for_page("firing", "KubePodCrashLooping", ns, "web")
        .await;
    program.stop().await;
    webhook.assert_exactly(ns, &[("KubePodCrashLooping", "web", 1, 0)]);
}
