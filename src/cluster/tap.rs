//! What passes through a client of the API server: observed, and bounded.
//!
//! kube-runtime's watcher swallows bookmarks, empty answers and quiet reconnects, and bounds nothing. This layer sits outside of kube's own, so
//! it sees each answer before kube does.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::{FutureExt as _, future::BoxFuture};
use http::{HeaderMap, Request, Response, header};
use http_body::{Body, Frame};
use jiff::fmt::rfc2822::DateTimeParser;
use tokio::{sync::Notify, time::Instant};
use tower::{BoxError, Layer, Service};

use super::Clock;

/// The largest body of an answer that is not a watch. kube holds it twice while it decodes it. A page of 500 real pods is about 7 MB; this is
/// 500 objects of half a megabyte each.
const MAX_BODY_BYTES: u64 = 256 << 20;

/// The longest line of a watch, which is one event. etcd takes objects of up to 1.5 MiB; as JSON, with everything escaped, that is far less than this.
const MAX_LINE_BYTES: u64 = 32 << 20;

/// A watch that lasts shorter was not served. client-go draws the line at the same place (`VeryShortWatchError` in `tools/cache/reflector.go`).
const SHORT_WATCH: Duration = Duration::from_secs(1);

/// An answer that kube must not go on with.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum BodyError {
    /// More than there is memory for.
    #[error("{part} of {kind} is larger than {limit} bytes ({size} so far); it is not read")]
    TooLarge {
        kind: &'static str,
        part: &'static str,
        size: u64,
        limit: u64,
    },
    /// A watch that the server took, and ended at once. kube would start the next one without a pause.
    #[error("the API server ended a watch of {kind} at once, after {size} bytes")]
    ShortWatch { kind: &'static str, size: u64 },
}

/// What was seen of the answers to one client. Cheap to clone; all clones see the same. It is the client's outermost layer.
#[derive(Debug, Clone)]
pub struct Tap(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    kind: &'static str,
    clock: Clock,
    limits: Limits,
    seen: Mutex<Seen>,
    changed: Notify,
}

#[derive(Debug, Clone, Copy)]
struct Limits {
    body: u64,
    line: u64,
}

#[derive(Debug, Default, Clone, Copy)]
struct Seen {
    last_byte: Option<Instant>,
    answers: u64,
    /// The latest answer that began well and has not ended, and since when.
    up: Option<(u64, Instant)>,
    retry_after: Option<Duration>,
}

impl Tap {
    /// A tap for a client that reads objects of one kind. The `Date` headers of good answers correct the clock.
    pub fn new(kind: &'static str, clock: Clock) -> Self {
        Self::with_limits(
            kind,
            clock,
            Limits {
                body: MAX_BODY_BYTES,
                line: MAX_LINE_BYTES,
            },
        )
    }

    fn with_limits(kind: &'static str, clock: Clock, limits: Limits) -> Self {
        Self(Arc::new(Shared {
            kind,
            clock,
            limits,
            seen: Mutex::default(),
            changed: Notify::new(),
        }))
    }

    /// The kind that the client reads.
    fn kind(&self) -> &'static str {
        self.0.kind
    }

    /// When something last came from the API server: a head or a piece of an answer, bookmarks among them. `None` before the first.
    pub fn last_byte(&self) -> Option<Instant> {
        self.seen().last_byte
    }

    /// Since when the latest answer has been good; `None` if it was bad or has ended.
    pub(super) fn up_since(&self) -> Option<Instant> {
        self.seen().up.map(|(_, since)| since)
    }

    /// `Retry-After` of the latest answer.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        self.seen().retry_after
    }

    /// Waits until an answer begins. One that began since the last call counts.
    pub(super) async fn answered(&self) {
        self.0.changed.notified().await;
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the head of an answer, and returns its number.
    fn head(&self, ok: bool, headers: &HeaderMap, sent: Instant) -> u64 {
        let now = Instant::now();
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        // Seconds only: the API server sends no dates here.
        let retry_after = text(header::RETRY_AFTER)
            .and_then(|value| value.parse().ok())
            .map(Duration::from_secs);
        let date = || {
            DateTimeParser::new()
                .parse_timestamp(text(header::DATE)?)
                .ok()
        };
        // A refusal may be of something between here and the API server, with a clock of its own.
        if let Some(date) = ok.then(date).flatten() {
            self.0.clock.observe(date, sent, now);
        }
        let mut seen = self.seen();
        seen.answers += 1;
        seen.last_byte = Some(now);
        seen.retry_after = retry_after;
        seen.up = ok.then_some((seen.answers, now));
        let answer = seen.answers;
        drop(seen);
        self.0.changed.notify_one();
        answer
    }

    /// Notes a piece of a body.
    fn piece(&self) {
        self.seen().last_byte = Some(Instant::now());
    }

    /// Notes the end of an answer.
    fn end(&self, answer: u64) {
        let mut seen = self.seen();
        if seen.up.is_some_and(|(up, _)| up == answer) {
            seen.up = None;
        }
    }
}

impl<S> Layer<S> for Tap {
    type Service = Tapped<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Tapped {
            inner,
            tap: self.clone(),
        }
    }
}

/// A service whose answers are tapped.
#[derive(Debug, Clone)]
pub struct Tapped<S> {
    inner: S,
    tap: Tap,
}

impl<S, Req, Res> Service<Request<Req>> for Tapped<S>
where
    S: Service<Request<Req>, Response = Response<Res>>,
    S::Future: Send + 'static,
    S::Error: 'static,
    Res: Send + 'static,
{
    type Response = Response<TappedBody<Res>>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Req>) -> Self::Future {
        // `kube::Api` names its requests so.
        let watch = request.extensions().get::<&'static str>() == Some(&"watch");
        let tap = self.tap.clone();
        let sent = Instant::now();
        self.inner
            .call(request)
            .map(move |result| {
                let response = result?;
                let ok = response.status().is_success();
                let answer = tap.head(ok, response.headers(), sent);
                Ok(response.map(|inner| TappedBody {
                    inner,
                    tap,
                    answer,
                    started: Instant::now(),
                    watch: ok && watch,
                    size: 0,
                    line: 0,
                    ended: false,
                }))
            })
            .boxed()
    }
}

/// The body of an answer.
#[derive(Debug)]
pub struct TappedBody<B> {
    inner: B,
    tap: Tap,
    answer: u64,
    started: Instant,
    /// Whether it is a watch that the server took.
    watch: bool,
    size: u64,
    /// The length of the line so far.
    line: u64,
    ended: bool,
}

impl<B> TappedBody<B> {
    /// Counts a piece.
    fn count(&mut self, data: &[u8]) -> Result<(), BodyError> {
        let size = data.len() as u64;
        self.tap.piece();
        self.size += size;
        let kind = self.tap.kind();
        let Limits { body, line } = self.tap.0.limits;
        if !self.watch {
            return check(kind, "an answer about objects", self.size, body);
        }
        // The line that goes on, and the one that begins; those in between are no larger than the piece, and it is in memory already.
        let newline = |&byte: &u8| byte == b'\n';
        let first = data.iter().position(newline).unwrap_or(data.len());
        check(kind, "an event", self.line + first as u64, line)?;
        self.line = match data.iter().rposition(newline) {
            Some(last) => size - last as u64 - 1,
            None => self.line + size,
        };
        check(kind, "an event", self.line, line)
    }

    /// The end that kube may see. It takes a cut watch for one that has ended, too.
    fn end(&mut self) -> Option<BodyError> {
        self.ended = true;
        self.tap.end(self.answer);
        (self.watch && self.started.elapsed() < SHORT_WATCH).then(|| BodyError::ShortWatch {
            kind: self.tap.kind(),
            size: self.size,
        })
    }
}

fn check(kind: &'static str, part: &'static str, size: u64, limit: u64) -> Result<(), BodyError> {
    if size <= limit {
        return Ok(());
    }
    Err(BodyError::TooLarge {
        kind,
        part,
        size,
        limit,
    })
}

impl<B> Body for TappedBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if this.ended {
            return Poll::Ready(None);
        }
        let Poll::Ready(frame) = Pin::new(&mut this.inner).poll_frame(cx) else {
            return Poll::Pending;
        };
        Poll::Ready(match frame {
            Some(Ok(frame)) => match frame.data_ref().map_or(Ok(()), |data| this.count(data)) {
                Ok(()) => Some(Ok(frame)),
                Err(error) => {
                    this.end();
                    Some(Err(error.into()))
                }
            },
            Some(Err(error)) => Some(Err(this.end().map_or_else(|| error.into(), Into::into))),
            None => this.end().map(|error| Err(error.into())),
        })
    }
}

impl<B> Drop for TappedBody<B> {
    fn drop(&mut self) {
        self.tap.end(self.answer);
    }
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt as _, TryStreamExt as _};
    use http_body_util::Full;
    use kube::{
        Api, Client,
        api::{ListParams, WatchParams},
    };
    use tower::service_fn;

    use super::*;
    use crate::cluster::{Failure, FailureReason, Pod, Wire};

    const KIB: u64 = 1 << 10;

    fn tap() -> Tap {
        let clock = Clock::guessed("2026-11-30T12:10:00Z".parse().unwrap());
        let limits = Limits {
            body: 8 * KIB,
            line: KIB,
        };
        Tap::with_limits("Pod", clock, limits)
    }

    /// The API of a server that answers everything with one body.
    fn api(tap: &Tap, body: String) -> Api<Wire<Pod>> {
        let service = service_fn(move |_: Request<kube::client::Body>| {
            let response = Response::builder()
                .header(header::DATE, "Mon, 30 Nov 2026 12:00:00 GMT")
                .body(Full::new(Bytes::from(body.clone())));
            async move { response }
        });
        Api::all(Client::new(tap.layer(service), "default"))
    }

    fn event(name_bytes: u64) -> String {
        let name = "n".repeat(usize::try_from(name_bytes).unwrap());
        format!(
            r#"{{"type":"ADDED","object":{{"metadata":{{"name":"{name}","resourceVersion":"1"}}}}}}"#
        ) + "\n"
    }

    #[tokio::test(start_paused = true)]
    async fn trap_2_an_oversized_list_is_an_error_that_names_kind_and_size() {
        let tap = tap();
        let error = api(&tap, " ".repeat(9 * 1024))
            .list(&ListParams::default())
            .await
            .unwrap_err();
        let failure = Failure::of_client("list", "Pod", &error);
        assert_eq!(failure.reason, FailureReason::TooLarge);
        assert_eq!(
            failure.message,
            "cannot list Pod: an answer about objects of Pod is larger than 8192 bytes (9216 so far); it is not read"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn trap_2_an_oversized_event_is_an_error_that_names_kind_and_size() {
        let tap = tap();
        let body = [event(5), event(900), event(5), event(2 * KIB)].concat();
        let body = body.trim_end().to_owned();
        let size = body.rsplit('\n').next().unwrap().len();
        let watch = api(&tap, body)
            .watch(&WatchParams::default(), "0")
            .await
            .unwrap();
        let events: Vec<_> = watch.into_stream().collect().await;
        let error = events.into_iter().find_map(Result::err).unwrap();
        let failure = Failure::of_client("watch", "Pod", &error);
        assert_eq!(failure.reason, FailureReason::TooLarge);
        assert_eq!(
            failure.message,
            format!(
                "cannot watch Pod: an event of Pod is larger than 1024 bytes ({size} so far); it is not read"
            )
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_date_of_a_refusal_is_not_believed() {
        let tap = tap();
        let service = service_fn(|_: Request<kube::client::Body>| async {
            Response::builder()
                .status(502)
                .header(header::DATE, "Mon, 30 Nov 2026 12:00:00 GMT")
                .body(Full::new(Bytes::from_static(b"bad gateway")))
        });
        let api: Api<Wire<Pod>> = Api::all(Client::new(tap.layer(service), "default"));
        api.list(&ListParams::default()).await.unwrap_err();
        assert_eq!(tap.0.clock.now().to_string(), "2026-11-30T12:10:00Z");
    }

    #[test]
    fn lines_are_counted_across_pieces() {
        let mut body = TappedBody {
            inner: (),
            tap: tap(),
            answer: 1,
            started: Instant::now(),
            watch: true,
            size: 0,
            line: 0,
            ended: false,
        };
        let line = [b'x'; 1000];
        for piece in [
            &line[..],
            b"\n",
            &line[..],
            b"xx\nxx",
            &line[..],
            b"\n",
            &line[..20],
        ] {
            assert_eq!(body.count(piece), Ok(()));
        }
        assert_eq!(body.line, 20);
        assert_eq!(
            body.count(&line[..990])
                .map_err(|error| error.to_string().contains("1010")),
            Ok(())
        );
        assert!(body.count(&line[..20]).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn answers_are_seen_and_the_date_sets_the_clock() {
        let tap = tap();
        assert_eq!(tap.last_byte(), None);
        let list = r#"{"metadata":{"resourceVersion":"1"},"items":[]}"#;
        api(&tap, list.into())
            .list(&ListParams::default())
            .await
            .unwrap();
        assert_eq!(tap.last_byte(), Some(Instant::now()));
        assert_eq!(tap.up_since(), None, "a list that was read is over");
        assert_eq!(tap.0.clock.now().to_string(), "2026-11-30T12:00:00.5Z");

        let params = WatchParams::default();
        let first = api(&tap, event(5)).watch(&params, "0").await.unwrap();
        assert_eq!(tap.up_since(), Some(Instant::now()));
        let second = api(&tap, event(5)).watch(&params, "0").await.unwrap();
        drop(first);
        assert!(tap.up_since().is_some(), "the second goes on");
        drop(second);
        assert_eq!(tap.up_since(), None);
    }
}
