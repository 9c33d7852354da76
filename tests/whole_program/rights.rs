//! What alertkube asks of the API server, and what it does when it may not.

use std::collections::BTreeSet;

use crate::support::{
    ALERTKUBE, ControlPlane, OUTSIDER, Program, Webhook, create_namespace, mk_pod, watched,
};

#[tokio::test]
async fn it_lists_and_watches_what_it_has_rules_for_keeps_leases_and_states_and_asks_for_nothing_else()
 {
    let plane = ControlPlane::shared().await;
    let client = plane.client().await;
    create_namespace(&client, "rights").await;
    let webhook = Webhook::start();
    let program = Program::run_ready(&plane, &webhook).await;
    mk_pod("web")
        .crash_looping()
        .create(&client, "rights")
        .await;
    webhook
        .wait_for_page("firing", "KubePodCrashLooping", "rights", "web")
        .await;
    program.stop().await;

    let asked = plane.requests_of(ALERTKUBE);
    // It is the user of all tests that share this API server; what they do is as good an example.
    let watches = watched().into_iter();
    let watches: BTreeSet<String> = watches
        .flat_map(|resource| ["list", "watch"].map(|verb| format!("{verb} {resource}")))
        .collect();
    let mut allowed = watches.clone();
    // That anybody may ask what it may do is the API server's own default (`system:basic-user`).
    allowed.insert("create selfsubjectaccessreviews".to_owned());
    // By those of them that are pods: they look for the StatefulSet that they are of.
    allowed.insert("get statefulsets".to_owned());
    for verb in ["list", "watch", "create", "update", "delete"] {
        allowed.extend(["leases", "configmaps"].map(|resource| format!("{verb} {resource}")));
    }
    let needed = watches
        .into_iter()
        .filter(|right| right.starts_with("watch"));
    for needed in needed.chain(["update leases", "update configmaps"].map(str::to_owned)) {
        assert!(asked.contains(&needed), "{needed}: {asked:?}");
    }
    assert!(asked.is_subset(&allowed), "{asked:?}");
}

#[tokio::test]
async fn a_kind_that_is_forbidden_is_loud_and_recovers_when_it_is_granted() {
    let plane = ControlPlane::shared().await;
    let client = plane.client().await;
    let ns = "forbidden";
    create_namespace(&client, ns).await;
    mk_pod("web").crash_looping().create(&client, ns).await;

    let webhook = Webhook::start();
    let mut program = Program::run(&plane, OUTSIDER, &webhook, &[]);
    let line = program
        .wait_for_line("pods being forbidden", |line| {
            let line = line.to_lowercase();
            line.contains("pods") && line.contains("forbidden")
        })
        .await;
    assert!(line.contains("WARN") || line.contains("ERROR"), "{line}");
    let (status, body) = program.get("/readyz").await.unwrap();
    assert!(
        status != 200 || body.contains("degraded"),
        "nothing is watched, and /readyz says {status} {body}"
    );
    let (_, metrics) = program.get("/metrics").await.unwrap();
    let failures = metrics.lines().find(|line| {
        let kind = line.contains("\"Pod\"") || line.contains("\"pods\"");
        line.contains("fail") && kind && !line.starts_with('#') && !line.ends_with(" 0")
    });
    assert!(failures.is_some(), "no metric shows it:\n{metrics}");

    plane.allow(OUTSIDER).await;
    program.wait_ready().await;
    webhook
        .wait_for_page("firing", "KubePodCrashLooping", ns, "web")
        .await;
    let log = program.stderr() + &program.stdout();
    let said = log
        .lines()
        .filter(|line| line.to_lowercase().contains("forbidden") && line.contains("pods"))
        .count();
    // The API server may tell it in two texts, of the list and of the watch; but it is not said again with every attempt.
    assert!(said <= 2, "said {said} times:\n{log}");
    program.stop().await;
    webhook.assert_exactly(ns, &[("KubePodCrashLooping", "web", 1, 0)]);
}
