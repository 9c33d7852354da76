//! A cluster in memory: an API server over HTTP, with faults on demand, for the demo, the tests and the benchmarks.
//!
//! It serves what a controller needs of the real one (lists in pages and as streams, watches that resume, conditional writes, graceful
//! deletion), and differs from it where that is said: there is no kubelet, no other controller, no validation, no authentication. Lists and
//! watches hand out the stored bytes, so that 100,000 pods cost their size and little time.

mod error;
mod faults;
mod http;
mod json;
pub mod pods;
mod requests;
mod resource;
mod selector;
mod store;
mod target;
mod watch;
mod write;

#[cfg(test)]
mod tests;

pub use error::ApiError;
pub use faults::{End, Fault, Faults, Injected, On};
pub use requests::{Request, Requests, Verb};
pub use resource::{
    CONFIG_MAPS, LEASES, NAMESPACES, PODS, Put, RESOURCES, Resource, STATEFUL_SETS,
};
pub use store::{Object, Store};
pub use write::{DeleteOptions, Preconditions};

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, serve::ListenerExt as _};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::cluster::Clock;

/// How a server behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// The cluster's time: on objects, and in the `Date` header of each answer.
    pub clock: Clock,
    /// How often a watch that allows bookmarks gets one, in real time. The real server's: about a minute.
    pub bookmark_interval: Duration,
    /// How many changes are kept for each resource; a watch that is further behind gets 410.
    pub history: usize,
}

impl Options {
    /// A server with this clock; a bookmark each minute, and 10,000 changes of history.
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            bookmark_interval: Duration::from_secs(60),
            history: 10_000,
        }
    }
}

/// An API server. It serves until it is stopped, or dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    store: Store,
    faults: Faults,
    requests: Requests,
    router: Router,
    serving: JoinHandle<io::Result<()>>,
    stop: DropGuard,
}

impl Server {
    /// Starts an empty cluster on a free port of 127.0.0.1.
    ///
    /// # Errors
    ///
    /// The address cannot be bound.
    pub async fn start(options: Options) -> io::Result<Self> {
        let Options {
            clock,
            bookmark_interval,
            history,
        } = options;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        // An event is two small writes: they must not wait for each other's acknowledgement. If it cannot be set, all is only slower.
        let listener = listener.tap_io(|connection| {
            let _ = connection.set_nodelay(true);
        });
        let stop = CancellationToken::new();
        let store = Store::new(clock, history);
        let faults = Faults::new();
        let requests = Requests::new();
        let router = http::router(Arc::new(http::Api {
            store: store.clone(),
            faults: faults.clone(),
            requests: requests.clone(),
            stop: stop.clone(),
            bookmark_interval,
        }));
        let stopped = stop.clone().cancelled_owned();
        let served = router.clone();
        let serving = tokio::spawn(async move {
            axum::serve(listener, served)
                .with_graceful_shutdown(stopped)
                .await
        });
        Ok(Self {
            address,
            store,
            faults,
            requests,
            router,
            serving,
            stop: stop.drop_guard(),
        })
    }

    /// `http://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How kube's client gets here. It retries 429 and 5xx by itself, as it does by default.
    pub fn kube_config(&self) -> kube::Config {
        let uri = ::http::Uri::try_from(self.url()).unwrap_or_default();
        kube::Config::new(uri)
    }

    /// The server without its network, as a service: on a paused clock, what is on its way through a socket would look like idleness.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// The objects.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The faults.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// What was asked.
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Ends all watches, lets requests end, and closes all connections.
    pub async fn stop(self) {
        drop(self.stop);
        // Fails only if the task panicked; then there is nothing left to stop.
        let _ = self.serving.await;
    }
}
