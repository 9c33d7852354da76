//! Faults on demand. Each one counts how often it struck, so that a test knows that it did.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::StatusCode;
use tokio::sync::watch;

use super::{Resource, Verb};

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Requests are held up, before they are carried out.
    Slow(Duration),
    /// Requests are carried out, and their answers are held up: who gives up waiting does not know what happened.
    SlowAnswer(Duration),
    /// Requests are refused with this status: 403 for a resource that one may not read, 404 for one that is not served, 429 and 503
    /// (with `Retry-After` in whole seconds, if given), 500, 410 as the HTTP status of a watch, ...
    Refuse(StatusCode, Option<Duration>),
    /// Streaming lists are refused with 422, as by a server without the feature `WatchList`.
    NoStreamingLists,
    /// Watches answer 200 and end at once.
    EmptyWatch,
    /// Watches stay open and say nothing, open ones and new ones, until this is lifted; then they go on.
    SilentWatch,
    /// The watches that are open now end.
    EndWatches(End),
    /// The watches that are open now end with a 410 as an ERROR event.
    ExpireWatches,
}

/// How a watch ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// As the protocol wants it.
    Clean,
    /// As [`End::Clean`], but within a line.
    CleanWithinLine,
    /// The connection is cut.
    Cut,
    /// The connection is cut within a line.
    CutWithinLine,
}

/// What a fault strikes; everything, for ever, if nothing else is said. Faults of watches strike watches only.
#[derive(Debug, Clone, Copy, Default)]
pub struct On {
    verb: Option<Verb>,
    resource: Option<&'static str>,
    times: Option<u64>,
}

impl On {
    /// Every request.
    pub fn any() -> Self {
        Self::default()
    }

    /// Requests that do this.
    #[must_use]
    pub fn verb(mut self, verb: Verb) -> Self {
        self.verb = Some(verb);
        self
    }

    /// Requests about this resource.
    #[must_use]
    pub fn resource(mut self, resource: &Resource) -> Self {
        self.resource = Some(resource.plural);
        self
    }

    /// The next requests only, so many of them.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }
}

#[derive(Debug)]
struct Active {
    fault: Fault,
    on: On,
    struck: watch::Sender<u64>,
}

impl Active {
    fn is_on(&self, verb: Verb, resource: &str) -> bool {
        self.on.verb.is_none_or(|wanted| wanted == verb)
            && self.on.resource.is_none_or(|wanted| wanted == resource)
            && self
                .on
                .times
                .is_none_or(|times| *self.struck.borrow() < times)
    }
}

#[derive(Debug, Default)]
struct State {
    lasting: Vec<Arc<Active>>,
    /// The faults of open watches, which strike once, by their number.
    sudden: Vec<(u64, Arc<Active>)>,
}

/// The faults of a server. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Faults {
    state: Arc<Mutex<State>>,
    /// The number of changes: wakes watches.
    changes: watch::Sender<u64>,
}

/// A fault that was set.
#[derive(Debug)]
#[must_use = "ask it whether the fault struck; it stays until lifted"]
pub struct Injected {
    faults: Faults,
    active: Arc<Active>,
}

impl Injected {
    /// How often it struck: requests, or watches.
    pub fn struck(&self) -> u64 {
        *self.active.struck.borrow()
    }

    /// Waits until it has struck at least so often.
    pub async fn wait_struck(&self, times: u64) {
        let mut struck = self.active.struck.subscribe();
        // Cannot fail: the sender is in `self`.
        let _ = struck.wait_for(|struck| *struck >= times).await;
    }

    /// Ends it.
    pub fn lift(&self) {
        self.faults
            .lock()
            .lasting
            .retain(|active| !Arc::ptr_eq(active, &self.active));
        self.faults.changes.send_modify(|changes| *changes += 1);
    }
}

impl Faults {
    pub(super) fn new() -> Self {
        Self {
            state: Arc::default(),
            changes: watch::Sender::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets a fault. It stays until it is lifted or has struck as often as it should.
    pub fn inject(&self, fault: Fault, on: On) -> Injected {
        let active = Arc::new(Active {
            fault,
            on,
            struck: watch::Sender::new(0),
        });
        {
            let mut state = self.lock();
            let number = *self.changes.borrow() + 1;
            match fault {
                Fault::EndWatches(_) | Fault::ExpireWatches => {
                    state.sudden.push((number, Arc::clone(&active)));
                }
                Fault::Slow(_)
                | Fault::SlowAnswer(_)
                | Fault::Refuse(..)
                | Fault::NoStreamingLists
                | Fault::EmptyWatch
                | Fault::SilentWatch => state.lasting.push(Arc::clone(&active)),
            }
            self.changes.send_replace(number);
        }
        Injected {
            faults: self.clone(),
            active,
        }
    }

    /// Lifts every fault.
    pub fn clear(&self) {
        self.lock().lasting.clear();
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Lets the first fault of which `pick` makes something strike a request.
    pub(super) fn strike<T>(
        &self,
        verb: Verb,
        resource: &str,
        pick: impl Fn(Fault) -> Option<T>,
    ) -> Option<T> {
        let state = self.lock();
        state.lasting.iter().find_map(|active| {
            let picked = pick(active.fault).filter(|_| active.is_on(verb, resource))?;
            active.struck.send_modify(|struck| *struck += 1);
            Some(picked)
        })
    }

    /// The view of one watch that begins now.
    pub(super) fn watch(&self, resource: &'static str) -> WatchFaults {
        let changes = self.changes.subscribe();
        let seen = *changes.borrow();
        WatchFaults {
            seen,
            changes,
            faults: self.clone(),
            resource,
            silent: None,
        }
    }
}

/// The faults that one open watch meets.
#[derive(Debug)]
pub(super) struct WatchFaults {
    faults: Faults,
    resource: &'static str,
    changes: watch::Receiver<u64>,
    /// The number of the last sudden fault that it has met.
    seen: u64,
    /// The silence that it keeps.
    silent: Option<Arc<Active>>,
}

impl WatchFaults {
    /// Whether the watch should be silent now.
    pub(super) fn is_silent(&mut self) -> bool {
        let state = self.faults.lock();
        if let Some(silent) = &self.silent
            && state
                .lasting
                .iter()
                .any(|active| Arc::ptr_eq(active, silent))
        {
            return true;
        }
        self.silent = state
            .lasting
            .iter()
            .find(|active| {
                active.fault == Fault::SilentWatch && active.is_on(Verb::Watch, self.resource)
            })
            .cloned();
        if let Some(silent) = &self.silent {
            silent.struck.send_modify(|struck| *struck += 1);
        }
        self.silent.is_some()
    }

    /// A sudden fault that the watch has not met yet.
    pub(super) fn sudden(&mut self) -> Option<Fault> {
        let state = self.faults.lock();
        let (number, active) = state.sudden.iter().find(|(number, active)| {
            *number > self.seen && active.is_on(Verb::Watch, self.resource)
        })?;
        self.seen = *number;
        active.struck.send_modify(|struck| *struck += 1);
        Some(active.fault)
    }

    /// Waits until a fault is set or lifted.
    pub(super) async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
