//! What the server was asked: counts and the last requests, for tests.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use http::{Method, Uri};
use tokio::sync::watch;

/// Requests that are remembered word by word.
const REMEMBERED: usize = 1_000;

/// What a request does, in the words of Kubernetes' RBAC. A streaming list is a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// GET of one object.
    Get,
    /// GET of many.
    List,
    /// GET of many with `watch=true`.
    Watch,
    /// POST.
    Create,
    /// PUT, also of the status.
    Update,
    /// PATCH, also of the status.
    Patch,
    /// DELETE.
    Delete,
}

/// A request that the server got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// Path and query.
    pub uri: Uri,
    /// What it does; none if it is not about a resource.
    pub verb: Option<Verb>,
    /// The resource's name in URLs; empty if it is not about one.
    pub resource: &'static str,
}

/// Every request so far, those that a fault struck included. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Requests {
    log: Arc<Mutex<Log>>,
    total: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Log {
    counts: HashMap<(Verb, &'static str), u64>,
    last: VecDeque<Request>,
}

impl Requests {
    pub(super) fn new() -> Self {
        Self {
            log: Arc::default(),
            total: watch::Sender::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn record(&self, request: Request) {
        {
            let mut log = self.lock();
            if let Some(verb) = request.verb {
                *log.counts.entry((verb, request.resource)).or_default() += 1;
            }
            if log.last.len() == REMEMBERED {
                log.last.pop_front();
            }
            log.last.push_back(request);
        }
        self.total.send_modify(|total| *total += 1);
    }

    /// How many requests did this to this resource (its name in URLs).
    pub fn count(&self, verb: Verb, resource: &str) -> u64 {
        let log = self.lock();
        log.counts
            .iter()
            .filter(|((did, to), _)| *did == verb && *to == resource)
            .map(|(_, count)| count)
            .sum()
    }

    /// The last requests, oldest first: up to 1,000.
    pub fn last(&self) -> Vec<Request> {
        self.lock().last.iter().cloned().collect()
    }

    /// The paths and queries of the last requests that did this to this resource, oldest first.
    pub fn uris(&self, verb: Verb, resource: &str) -> Vec<String> {
        let log = self.lock();
        log.last
            .iter()
            .filter(|request| request.verb == Some(verb) && request.resource == resource)
            .map(|request| request.uri.to_string())
            .collect()
    }

    /// Waits until at least `count` requests have done this to this resource.
    pub async fn wait_for(&self, verb: Verb, resource: &str, count: u64) {
        let mut total = self.total.subscribe();
        while self.count(verb, resource) < count {
            if total.changed().await.is_err() {
                return;
            }
        }
    }
}
