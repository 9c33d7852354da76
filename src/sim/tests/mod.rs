//! With kube's own client and watcher against the server. Time is real, and nothing sleeps: each wait is for something that must come.

mod faults;
mod lists;
mod pods;
mod watches;
mod writes;

use std::{
    pin::{Pin, pin},
    time::Duration,
};

use futures::{Stream, StreamExt as _};
use http::StatusCode;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt as _,
    api::{WatchEvent, WatchParams},
};
use kube_runtime::watcher::{self, Event};

use super::{Fault, Injected, On, Options, PODS, Server, pods::mk_pod};
use crate::cluster::Clock;

/// Every wait of a test ends by then, in failure.
const PATIENCE: Duration = Duration::from_secs(30);

fn noon() -> Timestamp {
    "2026-11-02T12:00:00Z".parse().unwrap()
}

fn options() -> Options {
    Options::new(Clock::starting_at(noon(), 1.0))
}

/// Options with bookmarks so frequent that one shows at once that nothing else comes.
fn eager() -> Options {
    Options {
        bookmark_interval: Duration::from_millis(5),
        ..options()
    }
}

/// The events of a watch up to its first bookmark.
async fn until_bookmark<K>(
    events: impl Stream<Item = kube::Result<WatchEvent<K>>>,
) -> Vec<kube::Result<WatchEvent<K>>> {
    let mut events = pin!(events);
    let mut seen = Vec::new();
    while let Some(event) = within(events.next()).await {
        if matches!(event, Ok(WatchEvent::Bookmark(_))) {
            break;
        }
        seen.push(event);
    }
    seen
}

async fn server(pods: usize) -> Server {
    let server = Server::start(options()).await.unwrap();
    for index in 0..pods {
        let namespace = if index % 2 == 0 { "shop" } else { "bank" };
        let pod = mk_pod(namespace, format!("web-7d9c5b8f6-{index:05}"));
        server.store().create(&PODS, pod.build()).unwrap();
    }
    server
}

/// A client that does not retry by itself.
fn client(server: &Server) -> Client {
    let mut config = server.kube_config();
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

fn all_pods(server: &Server) -> Api<Pod> {
    Api::all(client(server))
}

async fn within<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, wait)
        .await
        .expect("what the test waits for does not come")
}

async fn get(server: &Server, path: &str) -> (StatusCode, http::HeaderMap, serde_json::Value) {
    let request = http::Request::get(path).body(kube::client::Body::empty());
    let response = client(server).send(request.unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = body.collect_bytes().await.unwrap();
    let body = serde_json::from_slice(&bytes).unwrap_or_default();
    (parts.status, parts.headers, body)
}

fn code(error: kube::Error) -> (u16, String) {
    match error {
        kube::Error::Api(status) => (status.code, status.reason),
        other => panic!("not an answer of the API: {other}"),
    }
}

type Events = Pin<Box<dyn Stream<Item = watcher::Result<Event<Pod>>> + Send>>;

fn watch_with(server: &Server, config: watcher::Config) -> Events {
    watcher::watcher(all_pods(server), config).boxed()
}

fn streaming() -> watcher::Config {
    watcher::Config::default().streaming_lists()
}

async fn next(events: &mut Events) -> watcher::Result<Event<Pod>> {
    within(events.next()).await.expect("a watcher never ends")
}

/// The names of the first list, in the order in which they came.
async fn first_list(events: &mut Events) -> Vec<String> {
    assert!(matches!(next(events).await, Ok(Event::Init)));
    let mut names = Vec::new();
    loop {
        match next(events).await.unwrap() {
            Event::InitApply(pod) => names.push(pod.name_any()),
            Event::InitDone => return names,
            other => panic!("{other:?} during the first list"),
        }
    }
}

async fn applied(events: &mut Events) -> String {
    match next(events).await.unwrap() {
        Event::Apply(pod) => pod.name_any(),
        other => panic!("{other:?} instead of a change"),
    }
}

fn add_pod(server: &Server, name: &str) {
    let pod = mk_pod("shop", name).build();
    server.store().create(&PODS, pod).unwrap();
}

fn inject(server: &Server, fault: Fault) -> Injected {
    server.faults().inject(fault, On::any())
}

#[tokio::test]
async fn answers_carry_the_time_of_the_cluster() {
    let server = server(0).await;
    let ended = inject(&server, Fault::EmptyWatch);
    for path in [
        "/version",
        "/readyz",
        "/api/v1/pods",
        "/api/v1/pods?watch=true",
        "/nothing",
    ] {
        let (_, headers, _) = get(&server, path).await;
        let dates: Vec<_> = headers.get_all("date").iter().collect();
        assert_eq!(dates.len(), 1, "{path}: {dates:?}");
        assert!(
            dates[0]
                .to_str()
                .unwrap()
                .starts_with("Mon, 02 Nov 2026 12:00:"),
            "{path}: {dates:?}"
        );
    }
    assert_eq!(ended.struck(), 1);
    assert_eq!(
        client(&server).apiserver_version().await.unwrap().minor,
        "37"
    );
}

#[tokio::test]
async fn unknown_paths_and_methods_are_refused() {
    let server = server(1).await;
    for path in [
        "/api/v1/services",
        "/apis/apps/v2/deployments",
        "/api/v1/pods/web",
        "/api/v1/namespaces/a/configmaps/b/status",
    ] {
        assert_eq!(get(&server, path).await.0, StatusCode::NOT_FOUND, "{path}");
    }
    let delete_all =
        http::Request::delete("/api/v1/namespaces/shop/pods").body(kube::client::Body::empty());
    let response = client(&server).send(delete_all.unwrap()).await.unwrap();
    assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(server.store().len(&PODS), 1);
}

#[tokio::test]
async fn stopping_ends_watches_and_silent_ones_too() {
    let server = server(1).await;
    let open = all_pods(&server)
        .watch(&WatchParams::default(), "1")
        .await
        .unwrap();
    let silent = inject(&server, Fault::SilentWatch);
    let also = all_pods(&server)
        .watch(&WatchParams::default(), "1")
        .await
        .unwrap();
    within(silent.wait_struck(1)).await;
    within(server.stop()).await;
    let _: Vec<_> = within(open.collect()).await;
    let _: Vec<_> = within(also.collect()).await;
}
