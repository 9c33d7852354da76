//! Faults.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use http::StatusCode;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, PostParams, WatchEvent, WatchParams},
};
use kube_runtime::watcher;
use serde_json::json;

use super::{
    add_pod, all_pods, applied, client, code, eager, first_list, get, inject, next, server,
    streaming, until_bookmark, watch_with, within,
};
use crate::sim::{CONFIG_MAPS, Fault, On, PODS, Server, Verb, pods::mk_pod};

#[tokio::test]
async fn a_server_without_streaming_lists_says_422() {
    let server = server(2).await;
    let fault = inject(&server, Fault::NoStreamingLists);
    let mut events = watch_with(&server, streaming());
    let error = next(&mut events).await.unwrap_err();
    let watcher::Error::WatchStartFailed(error) = error else {
        panic!("{error}")
    };
    assert_eq!(code(error), (422, "Invalid".into()));
    assert_eq!(fault.struck(), 1);
    let mut events = watch_with(&server, watcher::Config::default());
    assert_eq!(first_list(&mut events).await.len(), 2);
    add_pod(&server, "late");
    assert_eq!(applied(&mut events).await, "late");
    assert_eq!(fault.struck(), 1);
}

#[tokio::test]
async fn a_refusal_strikes_what_it_should_and_as_often_as_it_should() {
    let server = server(1).await;
    let pods = all_pods(&server);
    let on = On::any().verb(Verb::List).resource(&PODS).times(2);
    let retry_after = Some(Duration::from_secs(7));
    let fault = server.faults().inject(
        Fault::Refuse(StatusCode::TOO_MANY_REQUESTS, retry_after),
        on,
    );
    let leases: Api<Lease> = Api::all(client(&server));
    leases.list(&ListParams::default()).await.unwrap();
    let (status, headers, body) = get(&server, "/api/v1/pods").await;
    assert_eq!(
        (status.as_u16(), &headers["retry-after"]),
        (429, &http::HeaderValue::from(7))
    );
    assert_eq!(body["details"]["retryAfterSeconds"], 7);
    assert_eq!(
        code(pods.list(&ListParams::default()).await.unwrap_err()),
        (429, "TooManyRequests".into())
    );
    pods.list(&ListParams::default()).await.unwrap();
    assert_eq!(fault.struck(), 2);
}

#[tokio::test]
async fn refusals_have_the_reasons_of_the_real_server() {
    let server = server(1).await;
    for (status, reason) in [
        (403, "Forbidden"),
        (404, "NotFound"),
        (410, "Expired"),
        (500, "InternalError"),
        (503, "ServiceUnavailable"),
    ] {
        let refuse = Fault::Refuse(StatusCode::from_u16(status).unwrap(), None);
        let fault = server.faults().inject(refuse, On::any().resource(&PODS));
        let error = all_pods(&server)
            .watch(&WatchParams::default(), "1")
            .await
            .err()
            .unwrap();
        assert_eq!(code(error), (status, reason.into()));
        fault.lift();
        assert_eq!(fault.struck(), 1);
        all_pods(&server)
            .list(&ListParams::default())
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_410_as_status_of_a_watch_keeps_the_watcher_at_its_version() {
    let server = server(1).await;
    let on = On::any().verb(Verb::Watch).times(2);
    let fault = server
        .faults()
        .inject(Fault::Refuse(StatusCode::GONE, None), on);
    let mut events = watch_with(&server, watcher::Config::default());
    first_list(&mut events).await;
    for _ in 0..2 {
        assert!(matches!(
            next(&mut events).await,
            Err(watcher::Error::WatchStartFailed(_))
        ));
    }
    assert_eq!(fault.struck(), 2);
    assert_eq!(server.requests().count(Verb::List, "pods"), 1);
    add_pod(&server, "late");
    assert_eq!(applied(&mut events).await, "late");
}

#[tokio::test]
async fn a_410_as_event_makes_the_watcher_list_again() {
    let server = server(2).await;
    let mut events = watch_with(&server, streaming());
    first_list(&mut events).await;
    let fault = inject(&server, Fault::ExpireWatches);
    let error = next(&mut events).await.unwrap_err();
    assert!(
        matches!(&error, watcher::Error::WatchError(status) if status.code == 410),
        "{error}"
    );
    assert_eq!(first_list(&mut events).await.len(), 2);
    assert_eq!(fault.struck(), 1);
}

#[tokio::test]
async fn empty_watches_are_counted_and_end() {
    let server = server(1).await;
    let fault = server
        .faults()
        .inject(Fault::EmptyWatch, On::any().times(3));
    let mut events = watch_with(&server, watcher::Config::default());
    first_list(&mut events).await;
    add_pod(&server, "late");
    assert_eq!(applied(&mut events).await, "late");
    assert_eq!(fault.struck(), 3);
    assert_eq!(server.requests().count(Verb::Watch, "pods"), 4);
}

#[tokio::test]
async fn a_silent_watch_goes_on_when_it_may() {
    let server = Server::start(eager()).await.unwrap();
    let mut events = watch_with(&server, streaming());
    first_list(&mut events).await;
    let open = all_pods(&server)
        .watch(&WatchParams::default(), "1")
        .await
        .unwrap();
    let mut open = open.boxed();
    let fault = inject(&server, Fault::SilentWatch);
    within(fault.wait_struck(2)).await;
    add_pod(&server, "unseen");
    let new = all_pods(&server)
        .watch(&WatchParams::default(), "1")
        .await
        .unwrap();
    let mut new = new.boxed();
    within(fault.wait_struck(3)).await;
    assert!(futures::poll!(new.next()).is_pending());
    fault.lift();
    assert_eq!(applied(&mut events).await, "unseen");
    for stream in [&mut open, &mut new] {
        loop {
            match within(stream.try_next()).await.unwrap().unwrap() {
                WatchEvent::Added(pod) => break assert_eq!(pod.name_any(), "unseen"),
                WatchEvent::Bookmark(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(fault.struck(), 3);
}

#[tokio::test]
async fn a_slow_answer_hides_a_write_that_was_done() {
    let server = server(0).await;
    let maps: Api<ConfigMap> = Api::namespaced(client(&server), "shop");
    let map = ConfigMap::default();
    let create = |name: &str| {
        let mut map = map.clone();
        map.metadata.name = Some(name.into());
        let maps = maps.clone();
        tokio::spawn(async move { maps.create(&PostParams::default(), &map).await })
    };
    let hour = Duration::from_secs(3600);
    let answer = server.faults().inject(
        Fault::SlowAnswer(hour),
        On::any().verb(Verb::Create).times(1),
    );
    let written = create("written");
    within(answer.wait_struck(1)).await;
    let request = server
        .faults()
        .inject(Fault::Slow(hour), On::any().verb(Verb::Create).times(1));
    let unwritten = create("unwritten");
    within(request.wait_struck(1)).await;
    assert!(server.store().get(&CONFIG_MAPS, "shop", "written").is_ok());
    assert!(
        server
            .store()
            .get(&CONFIG_MAPS, "shop", "unwritten")
            .is_err()
    );
    assert!(!written.is_finished() && !unwritten.is_finished());
    within(server.stop()).await; // does not wait an hour
    assert!(written.await.unwrap().is_err() && unwritten.await.unwrap().is_err());
}

#[tokio::test]
async fn malformed_objects_are_served_as_they_are() {
    let server = Server::start(eager()).await.unwrap();
    let mut pod = mk_pod("shop", "odd").build();
    pod["spec"]["containers"] = json!("none");
    pod["metadata"]["labels"] = json!(5);
    server.store().create(&PODS, pod).unwrap();
    let raw = br#"{"kind": "Pod", "metadata": {"name": ["raw"]}, "status": 1}"#;
    server.store().put_raw(&PODS, "shop", "raw", raw);
    let (_, _, list) = get(&server, "/api/v1/pods").await;
    assert_eq!(list["items"][0]["spec"]["containers"], "none");
    assert_eq!(
        list["items"][1],
        serde_json::from_slice::<serde_json::Value>(raw).unwrap()
    );
    let params = WatchParams::default();
    let events = all_pods(&server).watch(&params, "1").await.unwrap();
    let events = until_bookmark(events).await;
    assert!(matches!(events[..], [Err(_), Err(_)]), "{events:?}");
}
