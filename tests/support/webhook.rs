//! The receiving side of Alertmanager's webhook: what was sent, when, and what is answered.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::post,
};
use serde::Deserialize;
use tokio::{net::TcpListener, runtime::Runtime, sync::watch, time::Instant};

/// The body of a request: Alertmanager's webhook payload, version 4.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// When it came.
    #[serde(skip, default = "Instant::now")]
    pub at: Instant,
    /// The version of the payload.
    pub version: String,
    /// Identifies the group of alerts.
    pub group_key: String,
    /// How many alerts were left out.
    pub truncated_alerts: u64,
    /// The receiver's name.
    pub receiver: String,
    /// `firing` if any of the alerts is, else `resolved`.
    pub status: String,
    /// The labels by which the alerts are grouped.
    pub group_labels: BTreeMap<String, String>,
    /// The labels that are the same in all alerts.
    pub common_labels: BTreeMap<String, String>,
    /// The annotations that are the same in all alerts.
    pub common_annotations: BTreeMap<String, String>,
    /// A link to the sender.
    #[serde(rename = "externalURL")]
    #[expect(dead_code, reason = "a message without it is refused")]
    pub external_url: String,
    /// The alerts.
    pub alerts: Vec<Page>,
}

/// One alert of a message.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Page {
    /// `firing` or `resolved`.
    pub status: String,
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The annotations.
    pub annotations: BTreeMap<String, String>,
    /// Since when.
    pub starts_at: jiff::Timestamp,
    /// Until when; the year 1 while it is firing.
    pub ends_at: String,
    /// A link to where it comes from.
    #[serde(rename = "generatorURL")]
    #[expect(dead_code, reason = "a message without it is refused")]
    pub generator_url: String,
    /// The hash of the labels.
    pub fingerprint: String,
}

impl Page {
    /// A label; empty if there is none.
    pub fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }

    /// Whether it is this alert on this workload, in this state.
    pub fn is(&self, status: &str, alertname: &str, workload: &str) -> bool {
        self.status == status
            && self.label("alertname") == alertname
            && self.label("workload") == workload
    }
}

/// What the receiver does with a request.
#[derive(Debug, Clone, Copy)]
pub enum Answer {
    /// Answers 200: the message counts as delivered.
    Accept,
    /// Answers with this status and, if any, `Retry-After` in seconds.
    Fail(u16, Option<u32>),
    /// Never answers.
    Hang,
}

/// A webhook receiver on a free port. It has threads of its own, so that it answers whatever the test does.
#[derive(Debug)]
pub struct Webhook {
    address: SocketAddr,
    shared: Arc<Shared>,
    // None while connections are refused.
    server: Option<Runtime>,
}

#[derive(Debug)]
struct Shared {
    answer: Mutex<Answer>,
    /// The messages that were not accepted.
    failed: watch::Sender<Vec<Message>>,
    delivered: watch::Sender<Vec<Message>>,
}

impl Webhook {
    /// Starts one that accepts everything.
    pub fn start() -> Self {
        let mut this = Self {
            address: ([127, 0, 0, 1], super::free_port()).into(),
            shared: Arc::new(Shared {
                answer: Mutex::new(Answer::Accept),
                failed: watch::Sender::new(Vec::new()),
                delivered: watch::Sender::new(Vec::new()),
            }),
            server: None,
        };
        this.listen();
        this
    }

    /// The URL to send to.
    pub fn url(&self) -> String {
        format!("http://{}/alerts", self.address)
    }

    /// Sets what happens to requests from now on.
    pub fn answer(&self, answer: Answer) {
        *self.shared.answer.lock().unwrap() = answer;
    }

    /// Cuts all connections, and refuses new ones until [`Webhook::listen`].
    pub fn refuse(&mut self) {
        if let Some(server) = self.server.take() {
            // Beside the test's own runtime, which must not block; and waited for, because the port is free only then.
            let ended = std::thread::spawn(|| server.shutdown_timeout(Duration::from_secs(5)));
            let _ = ended.join();
        }
    }

    /// Listens (again).
    pub fn listen(&mut self) {
        let server = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = std::net::TcpListener::bind(self.address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let routes = Router::new()
            .route("/alerts", post(receive))
            .with_state(Arc::clone(&self.shared));
        server.spawn(async move {
            let listener = TcpListener::from_std(listener).unwrap();
            axum::serve(listener, routes).await.unwrap();
        });
        self.server = Some(server);
    }

    /// The messages that were accepted so far.
    pub fn delivered(&self) -> Vec<Message> {
        self.shared.delivered.borrow().clone()
    }

    /// The messages that were accepted so far, and news of each that will be.
    pub fn subscribe(&self) -> watch::Receiver<Vec<Message>> {
        self.shared.delivered.subscribe()
    }

    /// The alerts of a namespace that were delivered so far, in their order.
    pub fn pages(&self, namespace: &str) -> Vec<Page> {
        pages(&self.shared.delivered.borrow(), namespace)
    }

    /// Waits until the alerts of a namespace that were delivered so far satisfy a condition.
    pub async fn wait_for(
        &self,
        what: &str,
        namespace: &str,
        patience: Duration,
        mut condition: impl FnMut(&[Page]) -> bool,
    ) {
        let mut delivered = self.shared.delivered.subscribe();
        let holds = delivered.wait_for(|messages| condition(&pages(messages, namespace)));
        let in_time = tokio::time::timeout(patience, holds).await.is_ok();
        assert!(
            in_time,
            "waited {patience:?} in vain for {what}; delivered for {namespace} so far:\n{:#?}",
            self.tally(namespace)
        );
    }

    /// Waits until an alert on a workload is delivered in this state, and returns it.
    pub async fn wait_for_page(
        &self,
        status: &str,
        alertname: &str,
        namespace: &str,
        workload: &str,
    ) -> Page {
        let wanted = |page: &Page| page.is(status, alertname, workload);
        let what = format!("{alertname} of {workload} to be {status}");
        self.wait_for(&what, namespace, super::PATIENCE, |pages| {
            pages.iter().any(wanted)
        })
        .await;
        self.pages(namespace).into_iter().find(wanted).unwrap()
    }

    /// Waits until a message was not accepted, and returns when the first such came.
    pub async fn wait_for_failure(&self) -> Instant {
        let mut failed = self.shared.failed.subscribe();
        let any = failed.wait_for(|messages| !messages.is_empty());
        let failed = tokio::time::timeout(super::PATIENCE, any).await;
        failed.expect("nothing was sent").unwrap()[0].at
    }

    /// Waits until a message about a namespace was not accepted.
    pub async fn wait_for_failure_in(&self, namespace: &str) {
        let mut failed = self.shared.failed.subscribe();
        let any = failed.wait_for(|messages| !pages(messages, namespace).is_empty());
        let failed = tokio::time::timeout(super::PATIENCE, any).await;
        failed.expect("nothing was sent").unwrap();
    }

    /// How often each alert of a namespace was delivered, by name and workload.
    fn tally(&self, namespace: &str) -> BTreeMap<(String, String), Tally> {
        let mut tallies = BTreeMap::<_, Tally>::new();
        for page in self.pages(namespace) {
            let key = (
                page.label("alertname").to_owned(),
                page.label("workload").to_owned(),
            );
            let tally = tallies.entry(key).or_default();
            match page.status.as_str() {
                "firing" => tally.firing += 1,
                "resolved" => tally.resolved += 1,
                other => panic!("an alert with the status {other:?}"),
            }
        }
        tallies
    }

    /// Panics unless exactly these alerts of a namespace were delivered: name, workload, how often firing, how often resolved.
    ///
    /// To be sure that nothing more is on its way, first stop the program: it delivers what it has before it ends.
    pub fn assert_exactly(&self, namespace: &str, expected: &[(&str, &str, usize, usize)]) {
        let expected: BTreeMap<_, _> = expected
            .iter()
            .map(|&(alertname, workload, firing, resolved)| {
                let key = (alertname.to_owned(), workload.to_owned());
                (key, Tally { firing, resolved })
            })
            .collect();
        let delivered = self.tally(namespace);
        assert_eq!(
            delivered, expected,
            "left: what was delivered for {namespace}; right: what should have been"
        );
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.refuse();
    }
}

/// How often an alert was delivered.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    firing: usize,
    resolved: usize,
}

fn pages(messages: &[Message], namespace: &str) -> Vec<Page> {
    messages
        .iter()
        .flat_map(|message| &message.alerts)
        .filter(|page| page.label("namespace") == namespace)
        .cloned()
        .collect()
}

async fn receive(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    let json = headers.get(header::CONTENT_TYPE);
    if json.is_none_or(|value| !value.as_bytes().starts_with(b"application/json")) {
        return StatusCode::UNSUPPORTED_MEDIA_TYPE.into_response();
    }
    let message = match serde_json::from_slice(&body) {
        Ok(message) => message,
        // The text goes to the sender's log, if anywhere.
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    let answer = *shared.answer.lock().unwrap();
    let note = |messages: &watch::Sender<Vec<Message>>| {
        messages.send_modify(|messages| messages.push(message));
    };
    match answer {
        Answer::Accept => {
            note(&shared.delivered);
            StatusCode::OK.into_response()
        }
        Answer::Fail(status, retry_after) => {
            note(&shared.failed);
            let mut response = StatusCode::from_u16(status).unwrap().into_response();
            if let Some(seconds) = retry_after {
                let headers = response.headers_mut();
                headers.insert(header::RETRY_AFTER, seconds.into());
            }
            response
        }
        Answer::Hang => {
            note(&shared.failed);
            std::future::pending().await
        }
    }
}
