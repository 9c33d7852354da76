//! States that cannot be read.

use k8s_openapi::{ByteString, api::core::v1::ConfigMap};
use kube::{
    Api,
    api::{ListParams, PostParams},
};

use super::Installation;
use crate::support::{ControlPlane, Webhook, create_namespace, mk_pod};

async fn a_state_that_cannot_be_read_is_kept_aside(
    ns: &str,
    damage: impl FnOnce(&mut ConfigMap),
    because: &str,
) {
    let plane = ControlPlane::shared().await;
    let client = plane.client().await;
    create_namespace(&client, ns).await;
    let goes = mk_pod("goes").init_stuck();
    goes.create(&client, ns).await;
    mk_pod("stands").init_stuck().create(&client, ns).await;
    let installation = Installation::new(&plane);
    let (before, after) = (Webhook::start(), Webhook::start());
    let mut program = installation.start(&before);
    program.wait_ready().await;
    for workload in ["goes", "stands"] {
        before
            .wait_for_page("firing", "KubePodInitStuck", ns, workload)
            .await;
    }
    program.stop().await;

    let name = format!("{}-state-0-of-1", installation.name);
    let states = Api::<ConfigMap>::namespaced(client.clone(), "default");
    let mut state = states.get(&name).await.unwrap();
    damage(&mut state);
    let data = state.binary_data.clone();
    states
        .replace(&name, &PostParams::default(), &state)
        .await
        .unwrap();
    goes.delete(&client, ns).await;

    let mut program = installation.start(&after);
    program.wait_ready().await;
    let line = program
        .wait_for_line("the state", |line| {
            line.contains("ERROR") && line.contains(&name) && line.contains(because)
        })
        .await;
    let copies = states.list(&ListParams::default()).await.unwrap();
    let copy = copies.items.iter().find(|map| {
        let kept = map.metadata.name.as_deref().unwrap_or_default();
        kept.starts_with(&format!("{name}-kept-"))
    });
    let copy = copy.expect("no copy is kept");
    assert_eq!(copy.binary_data, data);
    assert!(
        line.contains(copy.metadata.name.as_deref().unwrap()),
        "{line}"
    );
    // What was forgotten is paged anew, in a way that a receiver recognizes.
    let again = after
        .wait_for_page("firing", "KubePodInitStuck", ns, "stands")
        .await;
    let first = before
        .wait_for_page("firing", "KubePodInitStuck", ns, "stands")
        .await;
    assert_eq!(again.fingerprint, first.fingerprint);
    assert_eq!(again.labels, first.labels);
    assert_eq!(again.starts_at, first.starts_at);
    program.stop().await;

    // The new state is one to go on with.
    let last = Webhook::start();
    let mut program = installation.start(&last);
    program.wait_ready().await;
    mk_pod("late").init_stuck().create(&client, ns).await;
    last.wait_for_page("firing", "KubePodInitStuck", ns, "late")
        .await;
    program.stop().await;
    after.assert_exactly(ns, &[("KubePodInitStuck", "stands", 1, 0)]);
    last.assert_exactly(ns, &[("KubePodInitStuck", "late", 1, 0)]);
}

#[tokio::test]
async fn a_corrupt_state_is_kept_aside_and_what_stands_is_paged_again() {
    let damage = |state: &mut ConfigMap| {
        let ByteString(bytes) = state
            .binary_data
            .as_mut()
            .and_then(|data| data.get_mut("state"))
            .unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0xff;
    };
    a_state_that_cannot_be_read_is_kept_aside("corrupt", damage, "damaged").await;
}

#[tokio::test]
async fn a_state_of_a_newer_version_is_kept_aside_and_what_stands_is_paged_again() {
    let damage = |state: &mut ConfigMap| {
        let annotations = state.metadata.annotations.as_mut().unwrap();
        let version = annotations.get_mut("alertkube.io/state-version").unwrap();
        "99".clone_into(version);
    };
    a_state_that_cannot_be_read_is_kept_aside("newer", damage, "99").await;
}
