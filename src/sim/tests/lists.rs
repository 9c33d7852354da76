//! Lists.

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt as _, api::ListParams};
use serde_json::json;

use super::{add_pod, all_pods, client, code, get, server};
use crate::sim::{
    DeleteOptions, PODS, Verb,
    pods::{Owner, mk_pod},
};

#[tokio::test]
async fn pages_of_a_list_are_all_of_it_once() {
    let server = server(7).await;
    let mut names = Vec::new();
    let mut params = ListParams::default().limit(3);
    let mut sizes = Vec::new();
    loop {
        let page = all_pods(&server).list(&params).await.unwrap();
        sizes.push(page.items.len());
        names.extend(
            page.items
                .iter()
                .map(|pod| (pod.namespace().unwrap(), pod.name_any())),
        );
        match page.metadata.continue_ {
            Some(token) => params = params.continue_token(&token),
            None => break,
        }
    }
    assert_eq!(sizes, [3, 3, 1]);
    let mut expected = names.clone();
    expected.sort();
    expected.dedup();
    assert_eq!(names, expected);
    assert_eq!(names.len(), 7);
    assert_eq!(server.requests().count(Verb::List, "pods"), 3);
}

#[tokio::test]
async fn later_pages_show_the_cluster_as_of_the_first() {
    let server = server(4).await; // bank: 1, 3; shop: 0, 2
    let pods = all_pods(&server);
    let first = pods.list(&ListParams::default().limit(2)).await.unwrap();
    let version = first.metadata.resource_version.unwrap();
    let store = server.store();
    store
        .delete(&PODS, "shop", "web-7d9c5b8f6-00000", &DeleteOptions::now())
        .unwrap();
    store
        .patch_status(
            &PODS,
            "shop",
            "web-7d9c5b8f6-00002",
            &json!({"status": {"phase": "Failed"}}),
        )
        .unwrap();
    add_pod(&server, "new-7d9c5b8f6-00009");

    let rest = ListParams::default().continue_token(&first.metadata.continue_.unwrap());
    let rest = pods.list(&rest).await.unwrap();
    assert_eq!(rest.metadata.resource_version, Some(version));
    let seen: Vec<_> = rest
        .items
        .iter()
        .map(|pod| (pod.name_any(), pod.status.clone().unwrap().phase.unwrap()))
        .collect();
    let running = |name: &str| (name.to_owned(), "Running".to_owned());
    assert_eq!(
        seen,
        [
            running("web-7d9c5b8f6-00000"),
            running("web-7d9c5b8f6-00002")
        ]
    );
}

#[tokio::test]
async fn a_list_continues_only_until_compaction() {
    let server = server(4).await;
    let pods = all_pods(&server);
    let first = pods.list(&ListParams::default().limit(2)).await.unwrap();
    add_pod(&server, "new");
    server.store().compact();
    let rest = ListParams::default().continue_token(&first.metadata.continue_.unwrap());
    let error = pods.list(&rest).await.unwrap_err();
    assert_eq!(code(error), (410, "Expired".into()));
}

#[tokio::test]
async fn a_list_at_version_0_knows_no_pages() {
    let server = server(5).await;
    let (_, _, list) = get(&server, "/api/v1/pods?limit=2&resourceVersion=0").await;
    assert_eq!(list["items"].as_array().unwrap().len(), 5);
    assert!(list["metadata"].get("continue").is_none());
}

#[tokio::test]
async fn lists_select_by_namespace_label_and_name() {
    let server = server(6).await;
    let db = mk_pod("shop", "db-0").owned_by(Owner::StatefulSet("db".into()));
    server.store().create(&PODS, db.build()).unwrap();
    let count =
        async |api: Api<Pod>, params: ListParams| api.list(&params).await.unwrap().items.len();
    let shop = || Api::namespaced(client(&server), "shop");
    assert_eq!(count(shop(), ListParams::default()).await, 4);
    let labels = |selector| ListParams::default().labels(selector);
    assert_eq!(
        count(all_pods(&server), labels("app.kubernetes.io/name=db")).await,
        1
    );
    assert_eq!(
        count(all_pods(&server), labels("app.kubernetes.io/name!=db")).await,
        6
    );
    assert_eq!(
        count(all_pods(&server), labels("!pod-template-hash")).await,
        1
    );
    let name = ListParams::default().fields("metadata.name=web-7d9c5b8f6-00002");
    assert_eq!(count(all_pods(&server), name).await, 1);
    let error = all_pods(&server)
        .list(&ListParams::default().fields("status.phase=Running"))
        .await;
    assert_eq!(code(error.unwrap_err()).0, 400);
}

#[tokio::test]
async fn items_of_a_list_have_no_kind_of_their_own() {
    let server = server(1).await;
    let (_, _, list) = get(&server, "/api/v1/pods").await;
    assert_eq!(list["kind"], "PodList");
    assert!(list["items"][0].get("kind").is_none());
    let (_, _, pod) = get(&server, "/api/v1/namespaces/shop/pods/web-7d9c5b8f6-00000").await;
    assert_eq!(
        (&pod["kind"], &pod["apiVersion"]),
        (&json!("Pod"), &json!("v1"))
    );
    assert_eq!(pod["metadata"], list["items"][0]["metadata"]);
}
