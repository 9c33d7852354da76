//! The watch against an API server that follows a script, on a paused clock. The numbers in names are those of known traps of kube and Kubernetes.

mod server;

use bytes::Bytes;
use futures::channel::mpsc as body_channel;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use kube::client::Body;
use tokio::{sync::mpsc, time::timeout};
use tower::{BoxError, Layer as _};
use tower_test::mock::{self, Handle, SendResponse};

use super::*;
use crate::cluster::{Clock, Pod};

type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;

const STREAMING: &str = "sendInitialEvents=true";

/// A watch of pods, and the server that it watches.
struct Scene {
    requests: std::pin::Pin<Box<Handle<Request<Body>, Answer>>>,
    events: mpsc::UnboundedReceiver<String>,
    failures: std::sync::Arc<std::sync::Mutex<Vec<Failure>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A request that waits for its answer.
struct Asked {
    uri: String,
    respond: SendResponse<Answer>,
}

/// A watch that was taken: what it is told, the client sees.
struct Serving(body_channel::UnboundedSender<Result<Frame<Bytes>, BoxError>>);

fn scene() -> Scene {
    scene_with(WatchOptions::default())
}

fn scene_with(options: WatchOptions) -> Scene {
    let (service, requests) = mock::pair::<Request<Body>, Answer>();
    let tap = Tap::new(
        "Pod",
        Clock::guessed("2026-11-30T12:00:00Z".parse().unwrap()),
    );
    let client = Client::new(tap.layer(service), "default");
    let mut stream = Box::pin(watch::<Pod>(client, tap, options));
    let (send, events) = mpsc::unbounded_channel();
    let failures = std::sync::Arc::<std::sync::Mutex<Vec<Failure>>>::default();
    let seen = failures.clone();
    let task = tokio::spawn(async move {
        while let Some(event) = stream.next().await {
            if let Event::Failed(failure) = &event {
                seen.lock().unwrap().push(failure.clone());
            }
            _ = send.send(short(&event));
        }
    });
    Scene {
        requests: Box::pin(requests),
        events,
        failures,
        task,
    }
}

fn short(event: &Event) -> String {
    let name = |object: &Object| object.meta().name.to_string();
    match event {
        Event::ListStarted => "list".into(),
        Event::Listed(object, _) => format!("listed {}", name(object)),
        Event::ListDone => "done".into(),
        Event::Applied(object, _) => format!("applied {}", name(object)),
        Event::Deleted(object) => format!("deleted {}", name(object)),
        Event::Failed(failure) => format!("failed {}", failure.reason),
        Event::Restored => "restored".into(),
    }
}

impl Scene {
    /// The next request, and how long it took to come.
    async fn request(&mut self) -> Asked {
        let (request, respond) = timeout(Duration::from_secs(600), self.requests.next_request())
            .await
            .expect("no request within 10 minutes")
            .unwrap();
        let uri = request.uri().to_string();
        Asked { uri, respond }
    }

    async fn event(&mut self) -> String {
        timeout(Duration::from_secs(600), self.events.recv())
            .await
            .expect("no event within 10 minutes")
            .unwrap()
    }

    async fn expect(&mut self, events: &[&str]) {
        for (at, expected) in events.iter().enumerate() {
            assert_eq!(self.event().await, *expected, "event {at} of {events:?}");
        }
    }

    /// Whether nothing is said for a time.
    async fn quiet(&mut self, time: Duration) -> bool {
        timeout(time, self.events.recv()).await.is_err()
    }

    fn failure(&self) -> Failure {
        self.failures.lock().unwrap().last().unwrap().clone()
    }

    /// Serves a streaming list of one pod, and goes on as its watch.
    async fn streamed(&mut self) -> Serving {
        let asked = self.request().await;
        assert!(asked.uri.contains(STREAMING), "{}", asked.uri);
        let serving = asked.serve();
        serving.event("ADDED", "a", 1);
        serving.end_of_list(5);
        self.expect(&["list", "listed a", "done"]).await;
        serving
    }
}

impl Asked {
    fn answer(self, status: u16, headers: &[(&str, &str)], body: &str) {
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        let body = Full::new(Bytes::from(body.to_owned()))
            .map_err(|never| match never {})
            .boxed_unsync();
        self.respond.send_response(response.body(body).unwrap());
    }

    /// A refusal as the API server words it.
    fn refuse(self, code: u16) {
        let status = format!(
            r#"{{"kind":"Status","status":"Failure","code":{code},"message":"no ({code})","reason":"No"}}"#
        );
        self.answer(code, &[], &status);
    }

    fn page(self, names: &[&str], token: &str) {
        let pods: Vec<String> = names.iter().map(|name| pod(name, 1)).collect();
        self.answer(
            200,
            &[],
            &format!(
                r#"{{"metadata":{{"resourceVersion":"5","continue":"{token}"}},"items":[{}]}}"#,
                pods.join(",")
            ),
        );
    }

    fn serve(self) -> Serving {
        let (send, pieces) = body_channel::unbounded();
        let body = StreamBody::new(pieces).boxed_unsync();
        self.respond.send_response(Response::new(body));
        Serving(send)
    }
}

impl Serving {
    fn line(&self, line: &str) {
        let piece = Frame::data(Bytes::from(format!("{line}\n")));
        // A client that has gone is no concern of the server's.
        _ = self.0.unbounded_send(Ok(piece));
    }

    fn event(&self, change: &str, name: &str, version: u32) {
        self.line(&format!(
            r#"{{"type":"{change}","object":{}}}"#,
            pod(name, version)
        ));
    }

    fn end_of_list(&self, version: u32) {
        self.line(&format!(
            r#"{{"type":"BOOKMARK","object":{{"kind":"Pod","apiVersion":"v1","metadata":{{"resourceVersion":"{version}","annotations":{{"k8s.io/initial-events-end":"true"}}}}}}}}"#
        ));
    }

    fn bookmark(&self, version: u32) {
        self.line(&format!(
            r#"{{"type":"BOOKMARK","object":{{"kind":"Pod","apiVersion":"v1","metadata":{{"resourceVersion":"{version}"}}}}}}"#
        ));
    }

    fn error(&self, code: u16) {
        self.line(&format!(
            r#"{{"type":"ERROR","object":{{"kind":"Status","status":"Failure","code":{code},"message":"no ({code})","reason":"No"}}}}"#
        ));
    }

    /// Breaks the connection.
    fn cut(self) {
        let error = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        _ = self.0.unbounded_send(Err(error.into()));
    }
}

fn pod(name: &str, version: u32) -> String {
    format!(
        r#"{{"metadata":{{"namespace":"shop","name":"{name}","resourceVersion":"{version}"}}}}"#
    )
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_goes_on_as_a_watch() {
    let mut scene = scene();
    let asked = scene.request().await;
    for part in [
        "/api/v1/pods?",
        "watch=true",
        STREAMING,
        "resourceVersionMatch=NotOlderThan",
    ] {
        assert!(asked.uri.contains(part), "{part} in {}", asked.uri);
    }
    let serving = asked.serve();
    serving.event("ADDED", "a", 1);
    serving.event("ADDED", "b", 2);
    serving.end_of_list(5);
    serving.event("MODIFIED", "a", 6);
    serving.event("DELETED", "b", 7);
    scene
        .expect(&[
            "list",
            "listed a",
            "listed b",
            "done",
            "applied a",
            "deleted b",
        ])
        .await;
    // The server ends it in time, and kube resumes without a word.
    tokio::time::advance(seconds(60)).await;
    drop(serving);
    let asked = scene.request().await;
    assert!(asked.uri.contains("resourceVersion=7"), "{}", asked.uri);
    assert!(!asked.uri.contains(STREAMING));
    asked.serve().event("ADDED", "c", 8);
    scene.expect(&["applied c"]).await;
}

#[tokio::test(start_paused = true)]
async fn one_namespace_and_a_selector_are_asked_for() {
    let mut scene = scene_with(WatchOptions {
        namespace: Some("shop".into()),
        label_selector: Some("app=web".into()),
    });
    let uri = scene.request().await.uri;
    assert!(uri.contains("/api/v1/namespaces/shop/pods?"), "{uri}");
    assert!(uri.contains("labelSelector=app%3Dweb"), "{uri}");
}

#[tokio::test(start_paused = true)]
async fn trap_8_a_server_without_streaming_lists_is_asked_for_pages() {
    for code in [400, 422] {
        let mut scene = scene();
        scene.request().await.refuse(code);
        let started = Instant::now();
        let asked = scene.request().await;
        assert!(
            started.elapsed() < seconds(1),
            "nothing failed, so there is no pause"
        );
        assert!(!asked.uri.contains("watch=true"), "{}", asked.uri);
        asked.page(&["a"], "more");
        let asked = scene.request().await;
        assert!(asked.uri.contains("continue=more"), "{}", asked.uri);
        asked.page(&["b"], "");
        scene
            .expect(&["list", "listed a", "listed b", "done"])
            .await;
        let asked = scene.request().await;
        assert!(asked.uri.contains("resourceVersion=5"), "{}", asked.uri);
        // The choice stays: a fresh list is a paged one.
        asked.serve().error(410);
        scene.expect(&["failed expired"]).await;
        let asked = scene.request().await;
        assert!(asked.uri.contains("limit=500"), "{}", asked.uri);
    }
}

#[tokio::test(start_paused = true)]
async fn trap_8_a_server_that_never_ends_a_streaming_list_is_asked_for_pages() {
    let mut scene = scene();
    let serving = scene.request().await.serve();
    serving.event("ADDED", "a", 1);
    scene
        .expect(&["list", "listed a", "failed incomplete"])
        .await;
    let asked = scene.request().await;
    assert!(asked.uri.contains("limit=500"), "{}", asked.uri);
    asked.page(&["a"], "");
    scene.expect(&["list", "listed a", "done"]).await;
}

#[tokio::test(start_paused = true)]
async fn trap_9_lists_ask_for_the_most_recent_state() {
    let mut scene = scene();
    scene.request().await.refuse(422);
    let uri = scene.request().await.uri;
    assert!(!uri.contains("resourceVersion"), "{uri}");
}

#[tokio::test(start_paused = true)]
async fn trap_10_gone_as_an_event_leads_to_a_fresh_list() {
    let mut scene = scene();
    let serving = scene.streamed().await;
    serving.error(410);
    scene.expect(&["failed expired"]).await;
    scene.streamed().await;
}

#[tokio::test(start_paused = true)]
async fn trap_10_gone_as_a_status_leads_to_a_fresh_list() {
    let mut scene = scene();
    let serving = scene.streamed().await;
    tokio::time::advance(seconds(60)).await;
    drop(serving);
    let asked = scene.request().await;
    assert!(asked.uri.contains("resourceVersion=5"), "{}", asked.uri);
    asked.refuse(410);
    scene.expect(&["failed expired"]).await;
    scene.streamed().await;
}

#[tokio::test(start_paused = true)]
async fn the_same_refusal_twice_leads_to_a_fresh_list() {
    let mut scene = scene();
    let serving = scene.streamed().await;
    tokio::time::advance(seconds(60)).await;
    drop(serving);
    for _ in 0..2 {
        let asked = scene.request().await;
        assert!(asked.uri.contains("resourceVersion=5"), "{}", asked.uri);
        asked.refuse(500);
        scene.expect(&["failed server_error"]).await;
    }
    scene.streamed().await;
}

#[tokio::test(start_paused = true)]
async fn gone_in_the_middle_of_a_paged_list_leads_to_a_fresh_list() {
    let mut scene = scene();
    scene.request().await.refuse(422);
    scene.request().await.page(&["a"], "more");
    let asked = scene.request().await;
    assert!(asked.uri.contains("continue=more"), "{}", asked.uri);
    asked.refuse(410);
    scene.expect(&["list", "listed a", "failed expired"]).await;
    let asked = scene.request().await;
    assert!(!asked.uri.contains("continue"), "{}", asked.uri);
    asked.page(&["a"], "more");
    scene.request().await.page(&["b"], "");
    scene
        .expect(&["list", "listed a", "listed b", "done"])
        .await;
}

#[tokio::test(start_paused = true)]
async fn trap_11_what_was_deleted_while_nobody_looked_is_not_in_the_next_complete_list() {
    let mut scene = scene();
    let serving = scene.streamed().await;
    serving.error(410);
    let serving = scene.request().await.serve();
    serving.event("ADDED", "b", 9);
    serving.end_of_list(9);
    scene
        .expect(&["failed expired", "list", "listed b", "done"])
        .await;
}

#[tokio::test(start_paused = true)]
async fn trap_12_watches_that_end_at_once_lead_to_pauses_and_a_fresh_list() {
    let mut scene = scene();
    let serving = scene.streamed().await;
    tokio::time::advance(seconds(60)).await;
    drop(serving);
    let started = Instant::now();
    for at in 0..SHORT_WATCHES {
        let begun = Instant::now();
        let asked = scene.request().await;
        assert!(asked.uri.contains("resourceVersion=5"), "{}", asked.uri);
        assert!(at == 0 || begun.elapsed() >= seconds(1), "no pause");
        drop(asked.serve());
    }
    scene.expect(&["failed short_watch"]).await;
    assert!(started.elapsed() < seconds(90));
    scene.streamed().await;
}

#[tokio::test(start_paused = true)]
async fn watches_that_are_cut_at_once_do_not_spin() {
    let mut scene = scene();
    let serving = scene.streamed().await;
    tokio::time::advance(seconds(60)).await;
    drop(serving);
    for _ in 0..SHORT_WATCHES {
        scene.request().await.serve().cut();
    }
    scene.expect(&["failed short_watch"]).await;
    scene.streamed().await;
}

#[tokio::test(start_paused = true)]
async fn a_short_watch_now_and_then_is_nothing_to_talk_about() {
    let mut scene = scene();
    let mut serving = scene.streamed().await;
    for at in 0..10 {
        tokio::time::advance(seconds(60)).await;
        drop(serving);
        drop(scene.request().await.serve());
        serving = scene.request().await.serve();
        serving.event("MODIFIED", "a", 10 + at);
        scene.expect(&["applied a"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn trap_14_a_silent_watch_is_restarted_within_90_seconds() {
    let mut scene = scene();
    let _silent = scene.streamed().await;
    let started = Instant::now();
    let asked = scene.request().await;
    assert!(started.elapsed() <= seconds(90), "{:?}", started.elapsed());
    asked.serve().event("MODIFIED", "a", 9);
    scene.expect(&["applied a"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_request_without_an_answer_is_given_up_within_90_seconds() {
    let mut scene = scene();
    let serving = scene.streamed().await;
    tokio::time::advance(seconds(60)).await;
    drop(serving);
    let started = Instant::now();
    let _silent = scene.request().await;
    scene.expect(&["failed silent"]).await;
    assert!(started.elapsed() <= seconds(90), "{:?}", started.elapsed());
    scene.streamed().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_without_an_answer_is_given_up_within_90_seconds() {
    for refused in [false, true] {
        let mut scene = scene();
        if refused {
            scene.request().await.refuse(422);
        }
        let started = Instant::now();
        let _silent = scene.request().await;
        if refused {
            scene.expect(&["list"]).await;
        }
        scene.expect(&["failed silent"]).await;
        assert!(started.elapsed() <= seconds(90), "{:?}", started.elapsed());
        scene.request().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_falls_silent_is_given_up_within_90_seconds() {
    let mut scene = scene();
    let started = Instant::now();
    let serving = scene.request().await.serve();
    serving.event("ADDED", "a", 1);
    scene.expect(&["list", "listed a"]).await;
    assert!(scene.event().await.starts_with("failed "));
    assert!(started.elapsed() <= seconds(90), "{:?}", started.elapsed());
    scene.request().await;
}

#[tokio::test(start_paused = true)]
async fn a_quiet_cluster_is_not_silent() {
    let mut scene = scene();
    let mut serving = scene.streamed().await;
    for at in 0..20 {
        // The server ends each watch after a minute, with a bookmark.
        assert!(scene.quiet(seconds(60)).await);
        serving.bookmark(100 + at);
        drop(serving);
        let asked = scene.request().await;
        let place = format!("resourceVersion={}", 100 + at);
        assert!(asked.uri.contains(&place), "{}", asked.uri);
        serving = asked.serve();
    }
    assert!(scene.quiet(seconds(1)).await);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_breaks_off_is_not_done_and_does_not_spin() {
    let mut scene = scene();
    let started = Instant::now();
    for lasted in [0, 10] {
        let serving = scene.request().await.serve();
        serving.event("ADDED", "a", 1);
        scene.expect(&["list", "listed a"]).await;
        tokio::time::advance(seconds(lasted)).await;
        serving.cut();
        if lasted > 0 {
            // kube asks for the next one at once.
            scene.request().await.serve().event("ADDED", "a", 1);
        }
        let ended = Instant::now();
        scene.expect(&["failed incomplete"]).await;
        assert!(ended.elapsed() < seconds(1));
    }
    let asked = scene.request().await;
    assert!(started.elapsed() >= seconds(2));
    assert!(asked.uri.contains("limit=500"), "{}", asked.uri);
}

#[tokio::test(start_paused = true)]
async fn trap_15_failures_are_tried_again_after_1_to_15_seconds() {
    let mut scene = scene();
    for _ in 0..30 {
        let started = Instant::now();
        let asked = scene.request().await;
        let waited = started.elapsed();
        assert!(waited <= seconds(15), "{waited:?}");
        asked.respond.send_error("connection refused");
        scene.expect(&["failed connection"]).await;
    }
    assert_eq!(
        scene.failure().message,
        "cannot watch Pod: connection refused"
    );
    let started = Instant::now();
    scene.request().await;
    assert!(started.elapsed() >= seconds(1));
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_is_resumed_without_a_list_and_said_to_be_restored() {
    let mut scene = scene();
    let serving = scene.streamed().await;
    tokio::time::advance(seconds(30)).await;
    serving.cut();
    for _ in 0..5 {
        let asked = scene.request().await;
        assert!(asked.uri.contains("resourceVersion=5"), "{}", asked.uri);
        asked.respond.send_error("connection refused");
        scene.expect(&["failed connection"]).await;
    }
    let asked = scene.request().await;
    assert!(asked.uri.contains("resourceVersion=5"), "{}", asked.uri);
    let _serving = asked.serve();
    let started = Instant::now();
    scene.expect(&["restored"]).await;
    assert_eq!(started.elapsed(), HEALTHY);
    assert!(scene.quiet(seconds(50)).await, "it is said once");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_last_restores_nothing() {
    let mut scene = scene();
    let serving = scene.streamed().await;
    tokio::time::advance(seconds(30)).await;
    serving.cut();
    scene.request().await.respond.send_error("refused");
    scene.expect(&["failed connection"]).await;
    let serving = scene.request().await.serve();
    assert!(scene.quiet(seconds(4)).await);
    drop(serving);
    let asked = scene.request().await;
    assert!(scene.quiet(seconds(20)).await);
    asked.respond.send_error("refused");
    scene.expect(&["failed connection"]).await;
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_honoured_up_to_a_minute() {
    let mut scene = scene();
    for (told, least) in [("25", 25), ("3600", 60)] {
        let asked = scene.request().await;
        asked.answer(
            429,
            &[("retry-after", told)],
            "Too many requests, please try again later.",
        );
        scene.expect(&["failed too_many_requests"]).await;
        let started = Instant::now();
        let asked = scene.request().await;
        assert!(
            started.elapsed() >= seconds(least),
            "{:?}",
            started.elapsed()
        );
        assert!(started.elapsed() <= seconds(61), "{:?}", started.elapsed());
        asked.respond.send_error("refused");
        scene.expect(&["failed connection"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_forbidden_or_not_served_is_said_once_and_tried_again() {
    for (code, reason) in [(403, "failed forbidden"), (404, "failed not_served")] {
        let mut scene = scene();
        scene.request().await.refuse(code);
        scene.expect(&[reason]).await;
        // An API server that has just started refuses for a moment: these are tried again soon.
        for _ in 1..PASSING_REFUSALS {
            let started = Instant::now();
            let asked = scene.request().await;
            assert!(started.elapsed() <= seconds(15), "{:?}", started.elapsed());
            asked.refuse(code);
        }
        // The next attempt is still a soon one; its refusal is the first of a lasting kind.
        scene.request().await.refuse(code);
        for _ in 0..5 {
            let started = Instant::now();
            assert!(scene.quiet(seconds(29)).await);
            let asked = scene.request().await;
            assert!(started.elapsed() >= seconds(30), "{:?}", started.elapsed());
            asked.refuse(code);
        }
        let _serving = scene.streamed().await;
        scene.expect(&["restored"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn another_text_of_a_refusal_is_said() {
    let mut scene = scene();
    for text in ["one", "two"] {
        let body = format!(r#"{{"code":403,"message":"{text}","status":"Failure"}}"#);
        scene.request().await.answer(403, &[], &body);
        scene.expect(&["failed forbidden"]).await;
        assert!(scene.failure().message.contains(text));
    }
}

#[tokio::test(start_paused = true)]
async fn trap_7_an_unreadable_object_in_a_list_hides_no_other_and_the_list_is_not_done() {
    let mut scene = scene();
    let serving = scene.request().await.serve();
    serving.event("ADDED", "a", 1);
    serving.line("%%%");
    serving.line("%%%");
    serving.event("ADDED", "b", 2);
    serving.end_of_list(5);
    scene
        .expect(&["list", "listed a", "failed decode", "listed b"])
        .await;
    scene.streamed().await;
}

#[tokio::test(start_paused = true)]
async fn trap_7_an_unreadable_event_leads_to_a_fresh_list() {
    let mut scene = scene();
    let serving = scene.streamed().await;
    serving.event("MODIFIED", "a", 6);
    serving.line("%%%");
    scene.expect(&["applied a", "failed decode"]).await;
    scene.streamed().await;
}

#[tokio::test(start_paused = true)]
async fn half_a_line_at_the_end_of_a_watch_is_asked_for_again() {
    let mut scene = scene();
    let serving = scene.streamed().await;
    tokio::time::advance(seconds(30)).await;
    let half = Bytes::from_static(br#"{"type":"MODIFIED","object":{"metadata":{"na"#);
    serving.0.unbounded_send(Ok(Frame::data(half))).unwrap();
    serving.cut();
    let asked = scene.request().await;
    assert!(asked.uri.contains("resourceVersion=5"), "{}", asked.uri);
    asked.serve().event("MODIFIED", "a", 6);
    scene.expect(&["applied a"]).await;
}

#[tokio::test(start_paused = true)]
async fn dropping_the_stream_ends_the_request() {
    let mut scene = scene();
    let serving = scene.streamed().await;
    scene.task.abort();
    _ = (&mut scene.task).await;
    assert!(serving.0.is_closed());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_at_streaming_lists_is_asked_for_one_in_pages() {
    let mut scene = scene();
    for _ in 0..2 {
        let asked = scene.request().await;
        assert!(asked.uri.contains(STREAMING), "{}", asked.uri);
        asked.refuse(500);
        scene.expect(&["failed server_error"]).await;
    }
    let asked = scene.request().await;
    assert!(asked.uri.contains("limit=500"), "{}", asked.uri);
    asked.page(&["a"], "");
    scene.expect(&["list", "listed a", "done"]).await;
    // It may only have been starting: the next list is a streaming one.
    scene.request().await.serve().error(410);
    scene.expect(&["failed expired"]).await;
    scene.streamed().await;
}

/// Servers that do one thing after another at random. Whatever they do, requests are paced, a list is done only when it was complete, and
/// once a server is well, so is the watch.
#[tokio::test(start_paused = true)]
async fn no_server_makes_it_spin_stop_or_lie() {
    for seed in 0..100 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut scene = scene();
        let started = Instant::now();
        let (mut requests, mut complete) = (0, 0);
        let mut hanging = Vec::new();
        while started.elapsed() < seconds(1_800) {
            let asked = scene.request().await;
            requests += 1;
            let listing = asked.uri.contains(STREAMING);
            match random.u8(..10) {
                0 => asked.refuse([400, 401, 403, 404, 410, 422, 429, 500, 503][random.usize(..9)]),
                1 => asked.respond.send_error("connection reset"),
                2 => asked.serve().cut(),
                3 => drop(asked.serve()),
                4 => hanging.push(asked.serve()),
                5 => asked.answer(200, &[], "%%%"),
                _ if !asked.uri.contains("watch=true") => {
                    complete += 1;
                    asked.page(&["a"], "");
                }
                what => {
                    let serving = asked.serve();
                    serving.event("ADDED", "a", 1);
                    match what {
                        6 => serving.cut(),
                        7 => serving.error([410, 500][random.usize(..2)]),
                        8 => serving.line("%%%"),
                        _ => {
                            if listing {
                                complete += 1;
                                serving.end_of_list(5);
                            }
                            tokio::time::sleep(seconds(random.u64(..100))).await;
                        }
                    }
                }
            }
        }
        let mut done = 0;
        while let Ok(event) = scene.events.try_recv() {
            done += usize::from(event == "done");
        }
        assert!(
            done <= complete,
            "seed {seed}: {done} lists done of {complete}"
        );
        // A pause of at least a second follows each failure; a good list and its watch are two requests.
        assert!(requests <= 2 * 1_800, "seed {seed}: {requests} requests");
        assert!(!scene.task.is_finished(), "seed {seed}");

        let well = Instant::now();
        loop {
            let asked = scene.request().await;
            if !asked.uri.contains("watch=true") {
                asked.page(&["a"], "");
                continue;
            }
            let listing = asked.uri.contains(STREAMING);
            let serving = asked.serve();
            if listing {
                serving.end_of_list(5);
            }
            serving.event("MODIFIED", "well", 6);
            // A request from before may have been given up in the meantime.
            let seen = async { while scene.event().await != "applied well" {} };
            if timeout(seconds(10), seen).await.is_ok() {
                break;
            }
        }
        assert!(
            well.elapsed() < seconds(180),
            "seed {seed}: {:?}",
            well.elapsed()
        );
    }
}
