//! The stream of a watch.

use std::{collections::VecDeque, io, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{Stream, stream};
use serde_json::{Value, json};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    ApiError, Resource, Store,
    faults::{End, Fault, WatchFaults},
    selector::Selector,
    store::{Change, Object},
};

/// Changes that are taken from the store in one go.
const BATCH: usize = 256;

/// A line that has been cut off: the beginning of an event.
const HALF_LINE: &[u8] =
    br#"{"type":"MODIFIED","object":{"apiVersion":"v1","kind":"Pod","metadata":{"na"#;

/// What a client asked for.
#[derive(Debug)]
pub(super) struct WatchRequest {
    pub(super) resource: &'static Resource,
    pub(super) selector: Selector,
    /// From which version on; the objects of now come first if there is none.
    pub(super) after: Option<u64>,
    /// Whether a bookmark shall mark the end of the first objects.
    pub(super) streaming_list: bool,
    pub(super) bookmarks: bool,
    pub(super) timeout: Option<Duration>,
}

/// One open watch.
pub(super) struct Watch {
    store: Store,
    request: WatchRequest,
    faults: WatchFaults,
    stop: CancellationToken,
    latest: watch::Receiver<u64>,
    bookmark_interval: Duration,
    next_bookmark: Instant,
    end: Option<Instant>,
    /// The first objects that have not been sent yet.
    initial: std::vec::IntoIter<Arc<Object>>,
    /// Whether the bookmark after the first objects is still to be sent.
    mark_initial: bool,
    /// The version up to which everything is in `initial`, `frames`, or sent.
    reached: u64,
    changes: std::vec::IntoIter<Change>,
    frames: VecDeque<io::Result<Bytes>>,
    ending: bool,
}

impl Watch {
    pub(super) fn new(
        store: Store,
        request: WatchRequest,
        faults: WatchFaults,
        stop: CancellationToken,
        bookmark_interval: Duration,
    ) -> Result<Self, ApiError> {
        let latest = store.subscribe();
        let (initial, reached) = if let Some(version) = request.after {
            (Vec::new(), version)
        } else {
            let page = store.list(request.resource, &request.selector, None, None, None)?;
            (page.objects, page.version)
        };
        let now = Instant::now();
        Ok(Self {
            mark_initial: request.streaming_list && request.bookmarks,
            end: request.timeout.map(|timeout| now + timeout),
            next_bookmark: now + bookmark_interval,
            initial: initial.into_iter(),
            changes: Vec::new().into_iter(),
            frames: VecDeque::new(),
            ending: false,
            store,
            request,
            faults,
            stop,
            latest,
            bookmark_interval,
            reached,
        })
    }

    /// The bytes to send, as they come. Nothing is gathered: two pieces an event, one of them shared with every other watch.
    pub(super) fn into_stream(self) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
        stream::unfold(self, |mut watch| async move {
            let frame = watch.next().await?;
            Some((frame, watch))
        })
    }

    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            match self.frames.pop_front() {
                Some(Err(error)) => {
                    // Hyper drops what it has not written when a body fails: let it write first.
                    tokio::task::yield_now().await;
                    return Some(Err(error));
                }
                Some(frame) => return Some(frame),
                None if self.ending => return None,
                None => {}
            }
            if self.faults.is_silent() {
                tokio::select! {
                    () = self.stop.cancelled() => return None,
                    () = self.faults.changed() => {}
                }
            } else if let Some(fault) = self.faults.sudden() {
                self.strike(fault);
            } else if !self.fill() {
                self.wait().await;
            }
        }
    }

    /// Waits for anything to happen.
    async fn wait(&mut self) {
        let end = self.end;
        let bookmarks = self.request.bookmarks;
        tokio::select! {
            () = self.stop.cancelled() => self.ending = true,
            () = self.faults.changed() => {}
            // Fails only when the store is gone, and this holds the store.
            _ = self.latest.changed() => {}
            () = tokio::time::sleep_until(self.next_bookmark), if bookmarks => {
                self.next_bookmark = Instant::now() + self.bookmark_interval;
                self.bookmark(false);
            }
            () = async { tokio::time::sleep_until(end.unwrap_or_else(Instant::now)).await }, if end.is_some() => {
                if bookmarks {
                    self.bookmark(false);
                }
                self.ending = true;
            }
        }
    }

    /// Queues the next event, if there is one.
    fn fill(&mut self) -> bool {
        if let Some(object) = self.initial.next() {
            self.event("ADDED", &object);
            return true;
        }
        if self.mark_initial {
            self.mark_initial = false;
            self.bookmark(true);
            return true;
        }
        loop {
            for Change {
                object,
                before,
                deleted,
            } in self.changes.by_ref()
            {
                let selector = &self.request.selector;
                let before = before.filter(|before| selector.matches(before));
                let is = !deleted && selector.matches(&object);
                match before {
                    None if is => self.event("ADDED", &object),
                    None => continue,
                    Some(_) if is => self.event("MODIFIED", &object),
                    Some(_) if deleted => self.event("DELETED", &object),
                    // It is there, but no longer selected: its last state that was, at the version of the change.
                    Some(before) => {
                        let last = before.at(self.request.resource, object.version);
                        self.event("DELETED", &last);
                    }
                }
                return true;
            }
            self.latest.mark_unchanged();
            match self
                .store
                .changes(self.request.resource, self.reached, BATCH)
            {
                Ok((changes, reached)) => {
                    let none = changes.is_empty();
                    self.reached = reached;
                    self.changes = changes.into_iter();
                    if none {
                        return false;
                    }
                }
                Err(error) => {
                    self.error(&error);
                    return true;
                }
            }
        }
    }

    fn event(&mut self, kind: &'static str, object: &Object) {
        let start: &'static str = match kind {
            "ADDED" => r#"{"type":"ADDED","object":"#,
            "MODIFIED" => r#"{"type":"MODIFIED","object":"#,
            _ => r#"{"type":"DELETED","object":"#,
        };
        self.frames
            .push_back(Ok(Bytes::from_static(start.as_bytes())));
        self.frames.push_back(Ok(object.line()));
    }

    /// Queues a bookmark. Only to be called when nothing else is waiting to be sent.
    fn bookmark(&mut self, end_of_initial: bool) {
        let mut metadata =
            json!({"resourceVersion": self.reached.to_string(), "creationTimestamp": null});
        if end_of_initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let Resource { kind, .. } = self.request.resource;
        let api_version = self.request.resource.api_version();
        self.line(&json!({
            "type": "BOOKMARK",
            "object": {"apiVersion": api_version, "kind": kind, "metadata": metadata},
        }));
    }

    fn error(&mut self, error: &ApiError) {
        self.line(&json!({"type": "ERROR", "object": error.status()}));
        self.ending = true;
    }

    fn line(&mut self, line: &Value) {
        self.frames.push_back(Ok(format!("{line}\n").into()));
    }

    fn strike(&mut self, fault: Fault) {
        match fault {
            Fault::EndWatches(end) => {
                if matches!(end, End::CleanWithinLine | End::CutWithinLine) {
                    self.frames.push_back(Ok(Bytes::from_static(HALF_LINE)));
                }
                if matches!(end, End::Cut | End::CutWithinLine) {
                    self.frames
                        .push_back(Err(io::ErrorKind::ConnectionReset.into()));
                }
                self.ending = true;
            }
            Fault::ExpireWatches => {
                self.error(&ApiError::too_old(self.reached, self.store.version()));
            }
            // The others are met elsewhere.
            Fault::Slow(_)
            | Fault::SlowAnswer(_)
            | Fault::Refuse(..)
            | Fault::NoStreamingLists
            | Fault::EmptyWatch
            | Fault::SilentWatch => {}
        }
    }
}
