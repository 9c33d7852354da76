//! The harness itself: what the other tests rely on is so.

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, WatchEvent, WatchParams},
};

use crate::support::{ControlPlane, create_namespace, minutes, mk_pod};

#[tokio::test]
async fn a_pod_has_the_status_that_its_sketch_gave_it() {
    let plane = ControlPlane::shared().await;
    let client = plane.client().await;
    create_namespace(&client, "harness").await;
    let pod = mk_pod("web-1").of_deployment("web");

    pod.clone().crash_looping().create(&client, "harness").await;
    let pods = Api::<Pod>::namespaced(client.clone(), "harness");
    let waiting = |pod: &Pod| {
        let container = &pod.status.as_ref()?.container_statuses.as_ref()?[0];
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        waiting.reason.clone()
    };
    let broken = pods.get("web-1").await.unwrap();
    assert_eq!(waiting(&broken).as_deref(), Some("CrashLoopBackOff"));

    pod.recovered(minutes(11)).update(&client, "harness").await;
    let well = pods.get("web-1").await.unwrap();
    assert_eq!(waiting(&well), None);

    mk_pod("web-1").delete(&client, "harness").await;
    assert!(pods.get_opt("web-1").await.unwrap().is_none());
}

#[tokio::test]
async fn an_api_server_that_is_killed_comes_back_with_its_data() {
    let mut plane = ControlPlane::start().await;
    let client = plane.client().await;
    create_namespace(&client, "kept").await;

    plane.kill_apiserver();
    let namespaces = Api::<Namespace>::all(client);
    assert!(namespaces.get("kept").await.is_err());

    plane.start_apiserver().await;
    assert_eq!(namespaces.get("kept").await.unwrap().name_any(), "kept");
}

#[tokio::test]
async fn a_watch_from_before_a_compaction_is_gone() {
    let mut plane = ControlPlane::start().await;
    let client = plane.client().await;
    let pods = Api::<Pod>::namespaced(client.clone(), "default");
    let before = pods.list(&ListParams::default()).await.unwrap();
    let before = before.metadata.resource_version.unwrap();
    mk_pod("later").create(&client, "default").await;

    plane.compact().await;
    plane.kill_apiserver();
    plane.start_apiserver().await;

    let watch = pods.watch(&WatchParams::default(), &before).await;
    let code = match watch {
        Err(kube::Error::Api(status)) => status.code,
        Err(other) => panic!("{other}"),
        Ok(events) => match Box::pin(events).next().await {
            Some(Ok(WatchEvent::Error(status))) => status.code,
            other => panic!("{other:?}"),
        },
    };
    assert_eq!(code, 410);
}
