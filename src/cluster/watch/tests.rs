//! The watch against an API server that follows a script, on a paused clock. The numbers in names are those of known traps of kube and Kubernetes.

mod failures;
mod lists;
mod server;
mod silence;

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
async fn dropping_the_stream_ends_the_request() {
    let mut scene = scene();
    let serving = scene.streamed().await;
    scene.task.abort();
    _ = (&mut scene.task).await;
    assert!(serving.0.is_closed());
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
