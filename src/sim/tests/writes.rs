//! Writes.

use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{ConfigMap, Pod},
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::{client, code, noon, server};
use crate::sim::{
    CONFIG_MAPS, LEASES, PODS,
    pods::{Owner, mk_pod},
};

#[tokio::test]
async fn the_server_keeps_the_metadata() {
    let server = server(0).await;
    let pods: Api<Pod> = Api::namespaced(client(&server), "shop");
    let pod = serde_json::from_value(mk_pod("shop", "web").build()).unwrap();
    let created = pods.create(&PostParams::default(), &pod).await.unwrap();
    let metadata = &created.metadata;
    assert_eq!(metadata.creation_timestamp.as_ref().unwrap().0, noon());
    assert_eq!(metadata.generation, Some(1));
    assert!(metadata.uid.is_some() && metadata.resource_version.is_some());
    assert_eq!(created.status.unwrap().phase.unwrap(), "Pending");

    let again = pods.create(&PostParams::default(), &pod).await.unwrap_err();
    assert_eq!(code(again), (409, "AlreadyExists".into()));
    let missing = pods.get("other").await.unwrap_err();
    assert_eq!(code(missing), (404, "NotFound".into()));
}

#[tokio::test]
async fn a_write_from_an_old_version_is_a_conflict() {
    let server = server(0).await;
    let leases: Api<Lease> = Api::namespaced(client(&server), "alertkube");
    let lease = serde_json::from_value(
        json!({"metadata": {"name": "shard-0"}, "spec": {"holderIdentity": "a"}}),
    );
    let first = leases
        .create(&PostParams::default(), &lease.unwrap())
        .await
        .unwrap();
    let mut mine = first.clone();
    mine.spec.as_mut().unwrap().holder_identity = Some("b".into());
    let mine = leases
        .replace("shard-0", &PostParams::default(), &mine)
        .await
        .unwrap();
    assert_ne!(
        mine.metadata.resource_version,
        first.metadata.resource_version
    );
    assert_eq!(mine.metadata.uid, first.metadata.uid);

    let late = leases
        .replace("shard-0", &PostParams::default(), &first)
        .await
        .unwrap_err();
    assert_eq!(code(late), (409, "Conflict".into()));
    let mut blind = first.clone();
    blind.metadata.resource_version = None;
    let blind = leases
        .replace("shard-0", &PostParams::default(), &blind)
        .await
        .unwrap_err();
    assert_eq!(code(blind), (422, "Invalid".into()));
    assert_eq!(
        leases
            .get("shard-0")
            .await
            .unwrap()
            .spec
            .unwrap()
            .holder_identity
            .unwrap(),
        "b"
    );
}

#[tokio::test]
async fn a_put_to_a_lease_that_is_gone_creates_it_unless_it_has_a_uid() {
    let server = server(0).await;
    let leases: Api<Lease> = Api::namespaced(client(&server), "alertkube");
    let lease: Lease =
        serde_json::from_value(json!({"metadata": {"name": "shard-0", "resourceVersion": "1"}}))
            .unwrap();
    let created = leases
        .replace("shard-0", &PostParams::default(), &lease)
        .await
        .unwrap();
    leases
        .delete("shard-0", &DeleteParams::default())
        .await
        .unwrap();
    let error = leases
        .replace("shard-0", &PostParams::default(), &created)
        .await
        .unwrap_err();
    assert_eq!(code(error), (409, "Conflict".into()));
    assert_eq!(server.store().len(&LEASES), 0);
}

#[tokio::test]
async fn a_status_is_written_apart_from_the_rest() {
    let server = server(1).await;
    let pods: Api<Pod> = Api::namespaced(client(&server), "shop");
    let patch = json!({"metadata": {"labels": {"also": "this"}}, "spec": {"nodeName": "other"}, "status": {"phase": "Failed"}});
    let name = "web-7d9c5b8f6-00000";
    let merge = |patch| Patch::Merge(patch);
    let pod = pods
        .patch_status(name, &PatchParams::default(), &merge(patch.clone()))
        .await
        .unwrap();
    assert_eq!(
        pod.spec.as_ref().unwrap().node_name.as_deref(),
        Some("node-1")
    );
    assert_eq!(
        pod.status.as_ref().unwrap().phase.as_deref(),
        Some("Failed")
    );
    assert_eq!(pod.metadata.generation, Some(1));
    assert_eq!(pod.labels()["also"], "this");

    let patch = json!({"spec": {"nodeName": "other"}, "status": {"phase": "Running"}});
    let pod = pods
        .patch(name, &PatchParams::default(), &merge(patch.clone()))
        .await
        .unwrap();
    assert_eq!(
        pod.spec.as_ref().unwrap().node_name.as_deref(),
        Some("other")
    );
    assert_eq!(
        pod.status.as_ref().unwrap().phase.as_deref(),
        Some("Failed")
    );
    assert_eq!(pod.metadata.generation, Some(2));

    let same = pods
        .patch(name, &PatchParams::default(), &merge(patch))
        .await
        .unwrap();
    assert_eq!(
        same.metadata.resource_version,
        pod.metadata.resource_version
    );
}

#[tokio::test]
async fn a_pod_on_a_node_is_deleted_in_two_steps() {
    let server = server(1).await;
    let pods: Api<Pod> = Api::namespaced(client(&server), "shop");
    let name = "web-7d9c5b8f6-00000";
    let deleted = pods.delete(name, &DeleteParams::default()).await.unwrap();
    let metadata = deleted.left().unwrap().metadata;
    assert_eq!(metadata.generation, Some(2));
    let end = metadata.deletion_timestamp.unwrap().0;
    assert_eq!(end.duration_since(noon()).as_secs(), 30);
    assert!(pods.get(name).await.is_ok());
    pods.delete(name, &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
    assert_eq!(code(pods.get(name).await.unwrap_err()).0, 404);

    let waiting = mk_pod("shop", "waiting").unschedulable().build();
    server.store().create(&PODS, waiting).unwrap();
    pods.delete("waiting", &DeleteParams::default())
        .await
        .unwrap();
    assert_eq!(server.store().len(&PODS), 0);
}

#[tokio::test]
async fn finalizers_hold_an_object_back() {
    let server = server(0).await;
    let maps: Api<ConfigMap> = Api::namespaced(client(&server), "shop");
    let map = json!({"metadata": {"namespace": "shop", "name": "held", "finalizers": ["example.com/hold"]}});
    server.store().create(&CONFIG_MAPS, map).unwrap();
    maps.delete("held", &DeleteParams::default()).await.unwrap();
    assert!(
        maps.get("held")
            .await
            .unwrap()
            .metadata
            .deletion_timestamp
            .is_some()
    );
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch("held", &PatchParams::default(), &patch)
        .await
        .unwrap();
    assert_eq!(server.store().len(&CONFIG_MAPS), 0);
}

#[tokio::test]
async fn a_deletion_can_be_conditional() {
    let server = server(0).await;
    let maps: Api<ConfigMap> = Api::namespaced(client(&server), "shop");
    let map = json!({"metadata": {"namespace": "shop", "name": "state"}});
    let version = server
        .store()
        .create(&CONFIG_MAPS, map)
        .unwrap()
        .resource_version();
    server
        .store()
        .patch(&CONFIG_MAPS, "shop", "state", &json!({"data": {"a": "b"}}))
        .unwrap();
    let params = |version: u64| DeleteParams {
        preconditions: Some(kube::api::Preconditions {
            resource_version: Some(version.to_string()),
            uid: None,
        }),
        ..DeleteParams::default()
    };
    let error = maps.delete("state", &params(version)).await.unwrap_err();
    assert_eq!(code(error), (409, "Conflict".into()));
    maps.delete("state", &params(version + 1)).await.unwrap();
    assert_eq!(server.store().len(&CONFIG_MAPS), 0);
}

#[tokio::test]
async fn copies_are_what_creating_one_by_one_makes() {
    let (one_by_one, copied) = (server(0).await, server(0).await);
    let db = |name: &str| {
        mk_pod("shop", name)
            .owned_by(Owner::StatefulSet("db".into()))
            .build()
    };
    for index in 0..3 {
        let pod = db(&format!("db-{index:05}"));
        one_by_one.store().create(&PODS, pod).unwrap();
    }
    let template = db("db-{index}");
    let store = copied.store();
    store.create_copies(&PODS, template.clone(), 3).unwrap();
    for index in 0..3 {
        let name = format!("db-{index:05}");
        let [mut expected, mut copy] = [one_by_one.store(), store].map(|store| {
            let pod = store.get(&PODS, "shop", &name).unwrap();
            assert_eq!(pod.json()["metadata"]["uid"], pod.uid());
            pod.json()
        });
        // The ids of containers are made from the name as it was given.
        for pod in [&mut expected, &mut copy] {
            pod["status"]["containerStatuses"] = json!(null);
        }
        assert_eq!(copy, expected);
    }
    let again = store.create_copies(&PODS, template, 4).unwrap_err();
    assert_eq!(again.reason, "AlreadyExists");
    assert_eq!(store.len(&PODS), 3);
}
