//! The watch against the cluster in memory, over HTTP, with its faults: whatever happens, what is seen becomes what is there.

use std::{collections::BTreeSet, pin::pin};

use futures::future::join_all;
use http::StatusCode;

use crate::{
    cluster::{Clock, Event, KindId, Tap, WatchOptions, client, install_crypto_provider},
    sim::{DeleteOptions, End, Fault, On, Options, PODS, Server, Verb, pods::mk_pod},
};

use super::*;

/// What a controller knows from the events.
#[derive(Default)]
struct View {
    names: BTreeSet<String>,
    listed: BTreeSet<String>,
    failures: Vec<FailureReason>,
}

impl View {
    fn take(&mut self, event: Event) {
        let name = |object: &Object| object.meta().name.to_string();
        match event {
            Event::ListStarted => self.listed.clear(),
            Event::Listed(object, _) => {
                self.listed.insert(name(&object));
                self.names.insert(name(&object));
            }
            Event::ListDone => self.names = std::mem::take(&mut self.listed),
            Event::Applied(object, _) => _ = self.names.insert(name(&object)),
            Event::Deleted(object) => _ = self.names.remove(&name(&object)),
            Event::Failed(failure) => self.failures.push(failure.reason),
            Event::Restored => {}
        }
    }

    async fn until(&mut self, events: &mut (impl Stream<Item = Event> + Unpin), names: [&str; 2]) {
        let seen = async {
            while !self.names.iter().eq(names) {
                self.take(events.next().await.unwrap());
            }
        };
        // So that a watch that is stuck fails, and does not hang.
        timeout(seconds(120), seen).await.unwrap();
    }
}

/// The cluster, and what is watched of it.
async fn cluster() -> (Server, impl Stream<Item = Event> + Send) {
    let clock = Clock::starting_at("2026-11-30T12:00:00Z".parse().unwrap(), 1.0);
    let server = Server::start(Options::new(clock.clone())).await.unwrap();
    let tap = Tap::new("Pod", clock);
    let client = client(&server.kube_config(), &tap).unwrap();
    let events = KindId::Pod.watch(client, tap, WatchOptions::default());
    (server, events)
}

fn create(server: &Server, name: &str) {
    server
        .store()
        .create(&PODS, mk_pod("shop", name).build())
        .unwrap();
}

fn delete(server: &Server, name: &str) {
    server
        .store()
        .delete(&PODS, "shop", name, &DeleteOptions::now())
        .unwrap();
}

#[tokio::test]
async fn what_is_seen_becomes_what_is_there_whatever_happens_to_a_watch() {
    install_crypto_provider();
    let gone = || Fault::Refuse(StatusCode::GONE, None);
    let failing = || Fault::Refuse(StatusCode::INTERNAL_SERVER_ERROR, None);
    let busy = || Fault::Refuse(StatusCode::TOO_MANY_REQUESTS, Some(Duration::from_secs(1)));
    let watch = |times| On::any().verb(Verb::Watch).times(times);
    let ends = [
        End::Clean,
        End::CleanWithinLine,
        End::Cut,
        End::CutWithinLine,
    ];
    let stories = ends
        .into_iter()
        .map(|end| (end, vec![]))
        .chain([
            (End::Clean, vec![(gone(), watch(1))]),
            (End::Cut, vec![(failing(), watch(2))]),
            (End::Cut, vec![(busy(), watch(1))]),
            (End::Clean, vec![(Fault::EmptyWatch, watch(2))]),
            // The place to go on from is forgotten, and so are streaming lists: pages follow.
            (
                End::Clean,
                vec![(Fault::NoStreamingLists, On::any()), (gone(), watch(1))],
            ),
        ])
        .map(async |(end, faults)| {
            let (server, events) = cluster().await;
            let (mut events, mut view) = (pin!(events), View::default());
            create(&server, "a");
            create(&server, "b");
            view.until(&mut events, ["a", "b"]).await;
            let injected: Vec<_> = faults
                .into_iter()
                .map(|(fault, on)| server.faults().inject(fault, on))
                .collect();
            let ended = server.faults().inject(Fault::EndWatches(end), On::any());
            ended.wait_struck(1).await;
            create(&server, "c");
            delete(&server, "a");
            view.until(&mut events, ["b", "c"]).await;
            for fault in injected {
                assert!(fault.struck() > 0, "{fault:?}");
            }
        });
    join_all(stories).await;
}

#[tokio::test]
async fn what_was_deleted_before_a_watch_expired_is_gone_after_the_next_list() {
    install_crypto_provider();
    let (server, events) = cluster().await;
    let (mut events, mut view) = (pin!(events), View::default());
    create(&server, "a");
    create(&server, "b");
    view.until(&mut events, ["a", "b"]).await;
    // The deletion is in no history, so that only a list can tell.
    let silent = server.faults().inject(Fault::SilentWatch, On::any());
    silent.wait_struck(1).await;
    delete(&server, "a");
    create(&server, "c");
    server.store().compact();
    silent.lift();
    view.until(&mut events, ["b", "c"]).await;
    assert_eq!(view.failures, [FailureReason::Expired]);
}
