//! Watches.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt as _,
    api::{
        WatchEvent::{self, Added, Bookmark, Deleted, Modified},
        WatchParams,
    },
};
use kube_runtime::watcher::{self, Event};
use serde_json::json;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    add_pod, all_pods, applied, client, eager, first_list, inject, next, options, server,
    streaming, until_bookmark, watch_with, within,
};
use crate::sim::{
    CONFIG_MAPS, DeleteOptions, End, Fault, Faults, Options, PODS, Server, Store, Verb,
    selector::Selector,
    watch::{Watch, WatchRequest},
};

#[tokio::test]
async fn the_watcher_lists_in_pages_and_then_watches() {
    let server = server(7).await;
    let config = watcher::Config {
        page_size: Some(3),
        ..watcher::Config::default()
    };
    let mut events = watch_with(&server, config);
    assert_eq!(first_list(&mut events).await.len(), 7);
    add_pod(&server, "late");
    assert_eq!(applied(&mut events).await, "late");
    server
        .store()
        .delete(&PODS, "shop", "late", &DeleteOptions::now())
        .unwrap();
    assert!(matches!(next(&mut events).await, Ok(Event::Delete(pod)) if pod.name_any() == "late"));
    assert_eq!(server.requests().count(Verb::List, "pods"), 3);
    assert_eq!(server.requests().count(Verb::Watch, "pods"), 1);
}

#[tokio::test]
async fn the_watcher_gets_its_list_as_a_stream() {
    let server = server(7).await;
    let mut events = watch_with(&server, streaming());
    assert_eq!(first_list(&mut events).await.len(), 7);
    add_pod(&server, "late");
    assert_eq!(applied(&mut events).await, "late");
    assert_eq!(server.requests().count(Verb::List, "pods"), 0);
    let uris = server.requests().uris(Verb::Watch, "pods");
    assert!(
        uris.len() == 1 && uris[0].contains("sendInitialEvents=true"),
        "{uris:?}"
    );
}

#[tokio::test]
async fn an_empty_streaming_list_ends_too() {
    let server = server(0).await;
    assert_eq!(
        first_list(&mut watch_with(&server, streaming()))
            .await
            .len(),
        0
    );
}

#[tokio::test]
async fn a_bookmark_names_the_latest_version_of_the_whole_store() {
    let server = Server::start(eager()).await.unwrap();
    let other = json!({"metadata": {"name": "other"}});
    server.store().create(&CONFIG_MAPS, other).unwrap();
    let params = WatchParams::default();
    let events = all_pods(&server).watch(&params, "1").await.unwrap();
    let event = within(events.boxed().try_next()).await.unwrap().unwrap();
    let Bookmark(bookmark) = event else {
        panic!("{event:?}")
    };
    let latest = server.store().version().to_string();
    assert_eq!(bookmark.metadata.resource_version, latest);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_at_intervals_until_the_timeout() {
    let stop = CancellationToken::new();
    let request = WatchRequest {
        resource: &PODS,
        selector: Selector::default(),
        after: Some(1),
        streaming_list: false,
        bookmarks: true,
        timeout: Some(Duration::from_secs(150)),
    };
    let store = Store::new(options().clock, 10);
    let faults = Faults::new().watch(PODS.plural);
    let minute = Duration::from_secs(60);
    let watch = Watch::new(store, request, faults, stop, minute).unwrap();
    let begin = Instant::now();
    let times: Vec<_> = watch
        .into_stream()
        .map(|_| begin.elapsed().as_secs())
        .collect()
        .await;
    assert_eq!(times, [60, 120, 150]);
}

#[tokio::test]
async fn an_ended_watch_ends_as_it_was_told() {
    for (end, half_line, clean) in [
        (End::Clean, false, true),
        (End::CleanWithinLine, true, true),
        (End::Cut, false, false),
        (End::CutWithinLine, true, false),
    ] {
        let server = server(1).await;
        let request = http::Request::get("/api/v1/pods?watch=true");
        let request = request.body(kube::client::Body::empty()).unwrap();
        let response = client(&server).send(request).await.unwrap();
        let mut body = response.into_body().into_data_stream();
        let mut text = Vec::new();
        while !text.ends_with(b"\n") {
            text.extend(within(body.next()).await.unwrap().unwrap());
        }
        let fault = inject(&server, Fault::EndWatches(end));
        let broken = loop {
            match within(body.next()).await {
                Some(Ok(bytes)) => text.extend(bytes),
                Some(Err(_)) => break true,
                None => break false,
            }
        };
        assert_eq!(broken, !clean, "{end:?}");
        assert_eq!(!text.ends_with(b"\n"), half_line, "{end:?}");
        assert_eq!(fault.struck(), 1);
    }
}

#[tokio::test]
async fn a_watch_resumes_where_it_was_cut() {
    for end in [
        End::Clean,
        End::CleanWithinLine,
        End::Cut,
        End::CutWithinLine,
    ] {
        let server = server(2).await;
        let mut events = watch_with(&server, streaming());
        first_list(&mut events).await;
        let cut = inject(&server, Fault::EndWatches(end));
        within(cut.wait_struck(1)).await;
        add_pod(&server, "meanwhile");
        // An error may come first: it is the client's business what a cut is.
        let name = loop {
            match next(&mut events).await {
                Ok(Event::Apply(pod)) => break pod.name_any(),
                Ok(other) => panic!("{other:?} after {end:?}"),
                Err(_) => {}
            }
        };
        assert_eq!(name, "meanwhile");
        assert_eq!(server.requests().count(Verb::Watch, "pods"), 2);
        assert_eq!(cut.struck(), 1);
    }
}

#[tokio::test]
async fn a_watch_from_before_compaction_is_told_to_list_again() {
    let server = server(2).await;
    add_pod(&server, "new");
    server.store().compact();
    let events = all_pods(&server)
        .watch(&WatchParams::default(), "1")
        .await
        .unwrap();
    let events: Vec<_> = within(events.try_collect()).await.unwrap();
    assert!(
        matches!(&events[..], [WatchEvent::Error(status)] if status.code == 410 && status.reason == "Expired"),
        "{events:?}"
    );
}

#[tokio::test]
async fn history_is_bounded_for_each_resource() {
    let server = Server::start(Options {
        history: 3,
        ..eager()
    })
    .await
    .unwrap();
    add_pod(&server, "pod"); // version 2
    for index in 0..5 {
        let map = json!({"metadata": {"name": format!("map-{index}")}});
        server.store().create(&CONFIG_MAPS, map).unwrap();
    }
    let params = WatchParams::default();
    let pods = all_pods(&server).watch(&params, "1").await.unwrap();
    let pods = until_bookmark(pods).await;
    assert!(matches!(pods[..], [Ok(Added(_))]), "{pods:?}");
    let maps: Api<ConfigMap> = Api::all(client(&server));
    let maps = until_bookmark(maps.watch(&params, "2").await.unwrap()).await;
    assert!(matches!(maps[..], [Ok(WatchEvent::Error(_))]), "{maps:?}");
}

#[tokio::test]
async fn an_object_that_is_no_longer_selected_is_deleted_for_the_watch() {
    let server = Server::start(eager()).await.unwrap();
    let map = |labels: serde_json::Value| json!({"metadata": {"namespace": "a", "name": "map", "labels": labels}});
    let store = server.store();
    store.create(&CONFIG_MAPS, map(json!({}))).unwrap();
    store.apply(&CONFIG_MAPS, map(json!({"a": "b"}))).unwrap();
    store
        .apply(&CONFIG_MAPS, map(json!({"a": "b", "c": "d"})))
        .unwrap();
    store.apply(&CONFIG_MAPS, map(json!({"a": "x"}))).unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client(&server), "a");
    let params = WatchParams::default().labels("a=b");
    let events = until_bookmark(maps.watch(&params, "1").await.unwrap()).await;
    assert!(
        matches!(events[..], [Ok(Added(_)), Ok(Modified(_)), Ok(Deleted(_))]),
        "{events:?}"
    );
    let Ok(Deleted(last)) = &events[2] else {
        panic!("{events:?}")
    };
    assert_eq!(last.labels()["a"], "b");
    let version = server.store().version().to_string();
    assert_eq!(last.metadata.resource_version, Some(version));
}
