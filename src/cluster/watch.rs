//! A kind's objects, watched for as long as anybody looks.
//!
//! kube-runtime's watcher lists, watches and resumes. What it does not do is done here: fall back to paged lists, pause after failures, notice
//! silence, and begin anew where it would repeat the same request for ever. Lists always ask for the most recent state, for a stale one could
//! resolve what still stands: kube's `any_semantic` is not used (on paged lists it has no effect anyway), and the client sees to streaming ones.

use std::time::Duration;

use futures::{Stream, StreamExt as _, stream, stream::BoxStream};
use kube::{Api, Client};
use kube_runtime::watcher;
use tokio::time::{Instant, sleep_until};

use super::{Failure, FailureReason, Kind, Object, Tap, Wire, backoff::Backoff, list::PAGE_SIZE};

#[cfg(test)]
mod tests;

/// How long the API server is asked to serve a watch, in seconds; at random in this range, so that watches do not all start anew together. kube gives
/// up on one that is silent for 5 s longer. Bookmarks keep the place to resume from fresh, so that a new watch costs next to nothing.
const WATCH_SECONDS: std::ops::RangeInclusive<u32> = 60..=75;

/// No sign of life for this long, not even the end of a watch: what waits for an answer waits in vain.
const SILENCE: Duration = Duration::from_secs(85);

/// How long a streaming list may take before paged ones are tried: a server from before Kubernetes 1.27 ignores the wish, sends every object, and never says that it was
/// the last one. 100,000 pods take seconds.
const STREAMING_LIST: Duration = Duration::from_secs(45);

/// Streaming lists in a row that may break off before paged ones are tried.
const BROKEN_LISTS: u32 = 2;

/// The same failure in a row, this often: the place to resume from is given up.
const SAME_FAILURES: u32 = 2;

/// Watches in a row that end at once, this often: likewise. A server may answer so instead of with 410 (kubernetes/kubernetes#104171).
const SHORT_WATCHES: u32 = 5;

/// How long an answer must last to count as health.
const HEALTHY: Duration = Duration::from_secs(5);

/// Refusals in a row, this often, may still be passing ones: an API server that has just started forbids everything to everybody until it has
/// read its roles.
const PASSING_REFUSALS: u32 = 4;

/// The pause after a failure that only a person can end.
const PERMANENT: Duration = Duration::from_secs(30);

/// The longest `Retry-After` that is honoured: an answer must not blind us to a kind for long.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// What is seen of a kind. Numbers are counts of malformed fields.
#[derive(Debug, Clone)]
pub enum Event {
    /// A list begins, whether or not the one before was completed.
    ListStarted,
    /// An object of the list.
    Listed(Object, u32),
    /// The list was complete. What it did not have is gone.
    ListDone,
    /// An object is new, or has changed.
    Applied(Object, u32),
    /// An object is gone; this was its last state.
    Deleted(Object),
    /// The kind cannot be watched at the moment. It is tried again. A failure that only a person can end is said once, until its text changes.
    Failed(Failure),
    /// The kind is watched again, though nothing may have changed.
    Restored,
}

/// What part of a kind is watched: all of it by default.
#[derive(Debug, Clone, Default)]
pub struct WatchOptions {
    /// One namespace only.
    pub namespace: Option<String>,
    /// Objects with these labels only.
    pub label_selector: Option<String>,
}

impl WatchOptions {
    pub(super) fn api<K: Kind>(&self, client: Client) -> Api<Wire<K>> {
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &()),
            None => Api::all(client),
        }
    }

    /// The labels of what is watched of the kind.
    pub(super) fn into_selector<K: Kind>(self) -> Option<String> {
        match (K::SELECTOR, self.label_selector) {
            (Some(of_kind), Some(asked)) => Some(format!("{of_kind},{asked}")),
            (of_kind, asked) => asked.or_else(|| of_kind.map(str::to_owned)),
        }
    }
}

/// Watches a kind until the stream is dropped. `client` is the kind's own, made with `tap`. Nothing runs but while the stream is polled.
pub fn watch<K>(
    client: Client,
    tap: Tap,
    options: WatchOptions,
) -> impl Stream<Item = Event> + Send + use<K>
where
    K: Kind,
    Object: From<K>,
{
    let watch = Watch::<K> {
        api: options.api(client),
        tap,
        label_selector: options.into_selector::<K>(),
        lists: Lists::Streaming,
        broken_lists: 0,
        watcher: None,
        asked: Instant::now(),
        phase: Phase::Starting,
        pause: None,
        backoff: Backoff::default(),
        repeated: None,
        short_watches: 0,
        failed: false,
        reported: None,
    };
    stream::unfold(watch, |mut watch| async {
        let event = watch.next().await;
        Some((event, watch))
    })
}

type Watcher<K> = BoxStream<'static, watcher::Result<watcher::Event<Wire<K>>>>;

struct Watch<K> {
    api: Api<Wire<K>>,
    tap: Tap,
    label_selector: Option<String>,
    lists: Lists,
    /// Streaming lists in a row that broke off.
    broken_lists: u32,
    /// `None` before the first request, and after a failure that calls for a fresh list.
    watcher: Option<Watcher<K>>,
    /// Since when the watcher has been at work.
    asked: Instant,
    phase: Phase,
    /// Until when nothing is tried.
    pause: Option<Instant>,
    backoff: Backoff,
    /// The latest failure, and how often it came in a row.
    repeated: Option<(FailureReason, u32)>,
    /// Watches in a row that ended at once.
    short_watches: u32,
    /// Whether `Failed` was said, and not `Restored` since.
    failed: bool,
    /// The failure that was said last.
    reported: Option<Failure>,
}

/// How the next list is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lists {
    /// As the beginning of the watch: cheapest for the API server, and no page is held.
    Streaming,
    /// In pages, and then streaming again: the API server fails, perhaps at this.
    PagedOnce,
    /// In pages for ever, because streaming lists did not work: these always work, and a server that has learned it is met at our next start.
    Paged,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    /// Nothing was answered yet.
    Starting,
    Listing {
        since: Instant,
        /// Whether something of it could not be read, so that it is not complete.
        flawed: bool,
    },
    Watching,
}

impl<K> Watch<K>
where
    K: Kind,
    Object: From<K>,
{
    async fn next(&mut self) -> Event {
        loop {
            if let Some(until) = self.pause {
                sleep_until(until).await;
                self.pause = None;
                self.asked = Instant::now();
            }
            if self.healthy() {
                self.calm();
                if std::mem::take(&mut self.failed) {
                    self.reported = None;
                    return Event::Restored;
                }
            }
            let deadline = self.deadline();
            let (api, selector) = (&self.api, &self.label_selector);
            let watcher = self.watcher.get_or_insert_with(|| {
                self.asked = Instant::now();
                watcher::watcher(api.clone(), config_of(selector.clone(), self.lists)).boxed()
            });
            let event = tokio::select! {
                // What has arrived comes before what is due: after a stall of ours, it may be there and only not read.
                biased;
                item = watcher.next() => match item {
                    Some(Ok(event)) => self.on_event(event),
                    Some(Err(error)) => self.on_error(&error),
                    None => self.on_end(),
                },
                () = self.tap.answered() => None,
                () = sleep_until(deadline) => self.on_deadline(),
            };
            if let Some(event) = event {
                return event;
            }
        }
    }

    fn on_event(&mut self, event: watcher::Event<Wire<K>>) -> Option<Event> {
        match event {
            watcher::Event::Init => {
                if let Phase::Listing { since, .. } = self.phase {
                    // kube has begun anew without a word, and would for ever.
                    return self.fail(broken_list(K::KIND, since));
                }
                self.phase = Phase::Listing {
                    since: Instant::now(),
                    flawed: false,
                };
                Some(Event::ListStarted)
            }
            watcher::Event::InitApply(wire) => {
                Some(Event::Listed(wire.object.into(), wire.malformed))
            }
            watcher::Event::InitDone => {
                if let Phase::Listing { flawed: true, .. } = self.phase {
                    // It was said when it was seen. What is not in the list may exist all the same, so it must not count as complete.
                    self.restart();
                    self.pause_for(PERMANENT);
                    return None;
                }
                self.broken_lists = 0;
                if self.lists == Lists::PagedOnce {
                    self.lists = Lists::Streaming;
                }
                self.calm();
                self.phase = Phase::Watching;
                Some(Event::ListDone)
            }
            watcher::Event::Apply(wire) => {
                self.calm();
                Some(Event::Applied(wire.object.into(), wire.malformed))
            }
            watcher::Event::Delete(wire) => {
                self.calm();
                Some(Event::Deleted(wire.object.into()))
            }
        }
    }

    fn on_error(&mut self, error: &watcher::Error) -> Option<Event> {
        if self.lists == Lists::Streaming
            && matches!(self.phase, Phase::Starting)
            && rejects_streaming(error)
        {
            tracing::info!(
                kind = K::KIND,
                "the API server has no streaming lists; paged lists are used"
            );
            self.lists = Lists::Paged;
            self.restart();
            return None;
        }
        let failure = Failure::of_watcher(K::KIND, error);
        if let Phase::Listing { flawed, .. } = &mut self.phase
            && self.lists == Lists::Streaming
            && failure.reason == FailureReason::Decode
        {
            // The rest of the list is still to come.
            return (!std::mem::replace(flawed, true)).then(|| self.report(failure))?;
        }
        self.fail(failure)
    }

    /// kube says that its stream never ends.
    fn on_end(&mut self) -> Option<Event> {
        let message = format!("the watch of {} has ended", K::KIND);
        self.fail(Failure::new(FailureReason::Incomplete, message))
    }

    fn on_deadline(&mut self) -> Option<Event> {
        let now = Instant::now();
        if now >= self.silent_at() {
            let message = format!(
                "no sign of life from the API server for {} s while watching {}",
                SILENCE.as_secs(),
                K::KIND
            );
            return self.fail(Failure::new(FailureReason::Silent, message));
        }
        match self.phase {
            Phase::Listing { since, .. }
                if self.lists == Lists::Streaming && now >= since + STREAMING_LIST =>
            {
                self.fail(broken_list(K::KIND, since))
            }
            _ => None,
        }
    }

    /// Decides what follows a failure: resume or list anew, how soon, and whether to say it.
    fn fail(&mut self, mut failure: Failure) -> Option<Event> {
        let watching = matches!(self.phase, Phase::Watching);
        if failure.reason == FailureReason::ShortWatch {
            if watching {
                self.short_watches += 1;
                if self.short_watches < SHORT_WATCHES {
                    let wait = self.backoff.next(Instant::now(), fastrand::f64());
                    self.pause_for(wait);
                    return None;
                }
            } else {
                failure.reason = FailureReason::Incomplete;
            }
        }
        if let Phase::Listing { since, .. } = self.phase
            && self.lists == Lists::Streaming
        {
            self.broken_lists += 1;
            if self.broken_lists >= BROKEN_LISTS || since.elapsed() >= STREAMING_LIST {
                tracing::info!(
                    kind = K::KIND,
                    "streaming lists do not complete; paged lists are used"
                );
                self.lists = Lists::Paged;
            }
        }
        let count = match self.repeated {
            Some((reason, count)) if reason == failure.reason => count + 1,
            _ => 1,
        };
        self.repeated = Some((failure.reason, count));
        if failure.reason == FailureReason::ServerError && !watching && count >= SAME_FAILURES {
            self.lists = match self.lists {
                Lists::Streaming => Lists::PagedOnce,
                Lists::PagedOnce => Lists::Streaming,
                Lists::Paged => Lists::Paged,
            };
        }
        if !watching || !may_resume(failure.reason, count) {
            self.restart();
        }
        let wait = self.wait_after(failure.reason, count);
        self.pause_for(wait);
        self.report(failure)
    }

    fn wait_after(&mut self, reason: FailureReason, count: u32) -> Duration {
        let random = fastrand::f64();
        if reason.is_permanent() && count > PASSING_REFUSALS {
            return PERMANENT.mul_f64(1.0 + random / 10.0);
        }
        let wait = self.backoff.next(Instant::now(), random);
        match self.tap.retry_after() {
            Some(told) => wait.max(told.min(MAX_RETRY_AFTER)),
            None => wait,
        }
    }

    fn report(&mut self, failure: Failure) -> Option<Event> {
        self.failed = true;
        if failure.reason.is_permanent() && self.reported.as_ref() == Some(&failure) {
            return None;
        }
        self.reported = Some(failure.clone());
        Some(Event::Failed(failure))
    }

    fn pause_for(&mut self, wait: Duration) {
        self.pause = Some(Instant::now() + wait);
    }

    /// Gives up the place to resume from: a fresh list follows.
    fn restart(&mut self) {
        self.watcher = None;
        self.phase = Phase::Starting;
        self.short_watches = 0;
    }

    /// What went wrong in a row is over.
    fn calm(&mut self) {
        self.repeated = None;
        self.short_watches = 0;
    }

    /// Whether something went wrong, and has been well for long enough.
    fn healthy(&self) -> bool {
        self.healthy_at().is_some_and(|at| Instant::now() >= at)
    }

    fn healthy_at(&self) -> Option<Instant> {
        let troubled = self.failed || self.repeated.is_some() || self.short_watches > 0;
        let watching = matches!(self.phase, Phase::Watching);
        let since = self.tap.up_since().filter(|_| troubled && watching)?;
        Some(since + HEALTHY)
    }

    fn silent_at(&self) -> Instant {
        let latest = self.tap.last_byte();
        latest.map_or(self.asked, |latest| latest.max(self.asked)) + SILENCE
    }

    /// When to look again though nothing came.
    fn deadline(&self) -> Instant {
        let mut deadline = self.silent_at();
        if let Phase::Listing { since, .. } = self.phase
            && self.lists == Lists::Streaming
        {
            deadline = deadline.min(since + STREAMING_LIST);
        }
        self.healthy_at().map_or(deadline, |at| deadline.min(at))
    }
}

fn config_of(label_selector: Option<String>, lists: Lists) -> watcher::Config {
    let config = watcher::Config {
        label_selector,
        ..watcher::Config::default()
    }
    .timeout(fastrand::u32(WATCH_SECONDS))
    .page_size(PAGE_SIZE);
    match lists {
        Lists::Streaming => config.streaming_lists(),
        Lists::PagedOnce | Lists::Paged => config,
    }
}

/// Whether the API server does not know streaming lists (any version without the feature gate `WatchList`). kube would repeat the request for ever.
fn rejects_streaming(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchStartFailed(kube::Error::Api(status)) if matches!(status.code, 400 | 422))
}

/// Whether a watch may go on from where it was after its `count`th failure in a row for this reason.
fn may_resume(reason: FailureReason, count: u32) -> bool {
    match reason {
        // Nothing is wrong with the place to resume from, and a server that comes back must not serve a list to everybody at once.
        FailureReason::Connection | FailureReason::TooManyRequests => true,
        // The place is no longer known (kube would ask for it again for ever), or something was missed.
        FailureReason::Expired
        | FailureReason::Decode
        | FailureReason::TooLarge
        | FailureReason::Silent
        | FailureReason::Incomplete
        | FailureReason::ShortWatch => false,
        FailureReason::Forbidden
        | FailureReason::NotServed
        | FailureReason::Unauthorized
        | FailureReason::Rejected
        | FailureReason::ServerError => count < SAME_FAILURES,
    }
}

fn broken_list(kind: &str, since: Instant) -> Failure {
    let seconds = since.elapsed().as_secs();
    let message = format!(
        "the list of {kind} was not complete after {seconds} s, when it ended or was given up"
    );
    Failure::new(FailureReason::Incomplete, message)
}
