use std::{
    collections::BTreeSet,
    future::{pending, poll_fn},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    task::Poll,
};

use axum::response::{IntoResponse as _, Response};
use http::{StatusCode, header};

use super::*;
use crate::{
    notify::{
        Event, Late, Message, Secret,
        receivers::{Stdout, Style, Webhook},
        test_client,
        test_support::{Hook, SECRET_PATH, mk_fired, mk_resolved},
    },
    shard::{ShardKey, Sharder},
    testing::{Captured, capture},
};

/// What a scripted receiver does with a message.
#[derive(Debug, Clone, Copy)]
enum Act {
    Take,
    Fail(u16),
    Hang,
}

/// A receiver in the process, so that its time can be simulated. What it does with a message is decided by the number of the attempt.
#[derive(Clone)]
struct Scripted {
    act: fn(usize, &Message) -> Act,
    attempts: Arc<Mutex<Vec<(String, Event)>>>,
    under_way: Arc<AtomicUsize>,
    most_under_way: Arc<AtomicUsize>,
}

impl Scripted {
    fn new(act: fn(usize, &Message) -> Act) -> Self {
        Self {
            act,
            attempts: Arc::default(),
            under_way: Arc::default(),
            most_under_way: Arc::default(),
        }
    }

    fn attempts(&self) -> Vec<(String, Event)> {
        self.attempts.lock().unwrap().clone()
    }
}

/// Counts down also when an attempt is dropped.
struct Count(Arc<AtomicUsize>);

impl Drop for Count {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Receiver for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn late(&self) -> Late {
        Late::FireThenResolve
    }

    fn max_in_flight(&self) -> usize {
        3
    }

    async fn send(&self, message: &Message) -> Result<Option<Reference>, SendError> {
        let now = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_under_way.fetch_max(now, Ordering::SeqCst);
        let _count = Count(Arc::clone(&self.under_way));
        let number = {
            let mut attempts = self.attempts.lock().unwrap();
            let name = message.alert.labels.get("workload").unwrap().to_owned();
            attempts.push((name, message.event));
            attempts.len() - 1
        };
        tokio::task::yield_now().await;
        match (self.act)(number, message) {
            Act::Take => Ok(None),
            Act::Fail(status) => Err(SendError::status(
                StatusCode::from_u16(status).unwrap(),
                None,
                "",
                &Secret::new(""),
            )),
            Act::Hang => pending().await,
        }
    }
}

fn metrics() -> Arc<Metrics> {
    Arc::new(Metrics::new(0, 1, &[], &["scripted", "webhook", "stdout"]).unwrap())
}

fn spawn(receiver: impl Receiver) -> Worker {
    Worker::spawn(receiver, Arc::new(Sharder::default()), None, metrics())
}

/// Lets the worker run until it owes nothing. In simulated time this takes none.
async fn settled(worker: &Worker) {
    let owes_nothing = async {
        let mut pause = Duration::from_millis(1);
        while worker.handle().owed() > 0 {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    };
    timeout(Duration::from_secs(24 * 3_600), owes_nothing)
        .await
        .expect("all is delivered in the end");
}

fn mk_workloads(n: usize) -> Vec<String> {
    (0..n).map(|n| format!("web-{n}")).collect()
}

#[tokio::test(start_paused = true)]
async fn each_alert_is_told_in_order_and_so_many_at_once() {
    let receiver = Scripted::new(|_, _| Act::Take);
    let worker = spawn(receiver.clone());
    let workloads = mk_workloads(20);
    for name in &workloads {
        worker.handle().push(mk_fired(name));
    }
    for name in &workloads {
        worker.handle().push(mk_resolved(name));
    }
    settled(&worker).await;
    let attempts = receiver.attempts();
    assert_eq!(attempts.len(), 40);
    for name in &workloads {
        let firing: Vec<_> = attempts
            .iter()
            .filter(|(other, _)| other == name)
            .map(|(_, event)| event.is_firing())
            .collect();
        assert_eq!(firing, [true, false], "{name}");
    }
    assert_eq!(receiver.most_under_way.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_always_fails_holds_up_no_other() {
    let receiver = Scripted::new(|_, message| match message.alert.labels.get("workload") {
        Some("web-0") => Act::Fail(503),
        Some("web-1") => Act::Hang,
        _ => Act::Take,
    });
    let worker = spawn(receiver.clone());
    for name in mk_workloads(50) {
        worker.handle().push(mk_fired(&name));
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(worker.handle().owed(), 2);
    let tried: BTreeSet<_> = receiver
        .attempts()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(tried.len(), 50);
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_comes_back_gets_all_that_it_is_owed() {
    let receiver = Scripted::new(|number, _| match number {
        0..100 if number % 3 == 0 => Act::Hang,
        0..100 => Act::Fail(500),
        _ => Act::Take,
    });
    let worker = spawn(receiver.clone());
    for name in mk_workloads(5) {
        worker.handle().push(mk_fired(&name));
        worker.handle().push(mk_resolved(&name));
    }
    settled(&worker).await;
    let attempts = receiver.attempts();
    let resolved = attempts.iter().filter(|(_, event)| !event.is_firing());
    assert_eq!(resolved.count(), 5);
}

/// A gate that opens.
#[derive(Debug)]
struct Door(AtomicBool);

impl Gate for Door {
    fn may_send(&self, _key: &ShardKey, within: Duration) -> bool {
        assert!(within <= Duration::from_secs(10));
        self.0.load(Ordering::SeqCst)
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_while_the_gate_is_shut_and_all_when_it_opens() {
    let receiver = Scripted::new(|_, _| Act::Take);
    let gate = Arc::new(Door(AtomicBool::new(false)));
    let metrics = metrics();
    let worker = Worker::spawn(
        receiver.clone(),
        Arc::clone(&gate) as Arc<dyn Gate>,
        None,
        Arc::clone(&metrics),
    );
    worker.handle().push(mk_fired("web"));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(receiver.attempts(), []);
    let text = metrics.render().unwrap();
    assert!(text.contains("alertkube_notification_queue_length{receiver=\"scripted\"} 1\n"));
    assert!(text.contains("alertkube_notification_queue_age_seconds{receiver=\"scripted\"} 60\n"));
    assert!(!text.contains("alertkube_notifications_refused_total{receiver=\"scripted\"} 0\n"));

    gate.0.store(true, Ordering::SeqCst);
    worker.handle().poke();
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(receiver.attempts().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn shutdown_delivers_what_it_can_tries_the_rest_once_and_says_what_is_left() {
    let receiver = Scripted::new(|_, message| {
        if message.alert.labels.get("workload") == Some("web-0") {
            Act::Fail(500)
        } else {
            Act::Take
        }
    });
    let worker = spawn(receiver.clone());
    for name in mk_workloads(10) {
        worker.handle().push(mk_fired(&name));
    }
    let started = Instant::now();
    assert_eq!(worker.shutdown(Duration::from_secs(5)).await, 1);
    assert!(started.elapsed() < Duration::from_millis(1));
    assert!(receiver.attempts().len() >= 10);
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_in_time_also_while_a_receiver_hangs() {
    let receiver = Scripted::new(|_, _| Act::Hang);
    let worker = spawn(receiver.clone());
    for name in mk_workloads(10) {
        worker.handle().push(mk_fired(&name));
    }
    let started = Instant::now();
    assert_eq!(worker.shutdown(Duration::from_secs(5)).await, 10);
    assert_eq!(started.elapsed().as_secs(), 5);
    assert_eq!(receiver.under_way.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_worker_by_a_defect_is_seen() {
    let receiver = Scripted::new(|_, _| panic!("a defect"));
    let mut worker = spawn(receiver);
    let mut ended = Box::pin(worker.ended());
    let early = poll_fn(|context| Poll::Ready(ended.as_mut().poll(context).is_ready())).await;
    assert!(!early);
    drop(ended);
    worker.handle().push(mk_fired("web"));
    worker.ended().await;
    worker.ended().await;
    assert_eq!(worker.shutdown(Duration::from_secs(5)).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_lasts_is_loud_once() {
    for (status, level) in [(404, "ERROR"), (400, "ERROR"), (503, " WARN")] {
        let (captured, _logging) = capture();
        let receiver = Scripted::new(match status {
            404 => |number, _| {
                if number < 50 {
                    Act::Fail(404)
                } else {
                    Act::Take
                }
            },
            400 => |number, _| {
                if number < 50 {
                    Act::Fail(400)
                } else {
                    Act::Take
                }
            },
            _ => |number, _| {
                if number < 50 {
                    Act::Fail(503)
                } else {
                    Act::Take
                }
            },
        });
        let worker = spawn(receiver);
        worker.handle().push(mk_fired("web"));
        worker.handle().push(mk_fired("api"));
        settled(&worker).await;
        let logs = captured.text();
        let count = |text: &str| logs.matches(text).count();
        assert_eq!(count("cannot deliver"), 1, "{logs}");
        let line = logs.lines().find(|line| line.contains("cannot deliver"));
        assert!(line.unwrap().contains(level), "{logs}");
        assert_eq!(count("delivers again"), 1, "{logs}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_given_up_is_counted_and_said() {
    let (captured, _logging) = capture();
    let metrics = metrics();
    let worker = Worker::spawn(
        Scripted::new(|_, _| Act::Fail(404)),
        Arc::new(Sharder::default()),
        None,
        Arc::clone(&metrics),
    );
    worker.handle().push(mk_fired("web"));
    worker.handle().push(mk_resolved("web"));
    settled(&worker).await;
    let metrics = metrics.render().unwrap();
    assert!(metrics.contains("alertkube_notifications_dropped_total{receiver=\"scripted\"} 1\n"));
    let logs = captured.text();
    assert!(logs.contains("gave up on a message"), "{logs}");
    assert!(logs.contains("web"), "{logs}");
}

#[tokio::test]
async fn a_webhook_gets_each_page_and_its_address_is_shown_nowhere() {
    let (captured, _logging) = capture();

    // It fails in several ways first, and quotes its own address.
    let hook = Hook::start(|number| async move {
        let body = format!("failed at /{SECRET_PATH}");
        let soon = [(header::RETRY_AFTER, "0")];
        match number {
            0 => (StatusCode::TOO_MANY_REQUESTS, soon, body).into_response(),
            1 => (StatusCode::BAD_REQUEST, body).into_response(),
            _ => Response::default(),
        }
    })
    .await;
    let metrics = metrics();
    let webhook = Webhook::new(test_client(), Secret::new(&hook.url), String::new()).unwrap();
    let debug = format!("{webhook:?}");
    let worker = Worker::spawn(
        webhook,
        Arc::new(Sharder::default()),
        None,
        Arc::clone(&metrics),
    );
    worker.handle().push(mk_fired("web"));
    settled(&worker).await;
    worker.handle().push(mk_resolved("web"));
    settled(&worker).await;
    assert_eq!(worker.shutdown(Duration::from_secs(5)).await, 0);
    let statuses: Vec<_> = hook
        .bodies()
        .iter()
        .map(|body| body["status"].clone())
        .collect();
    assert_eq!(statuses, ["firing", "firing", "firing", "resolved"]);

    // Where nobody listens, and what a worker's last words are.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/{SECRET_PATH}", listener.local_addr().unwrap());
    drop(listener);
    let webhook = Webhook::new(test_client(), Secret::new(&url), String::new()).unwrap();
    let worker = Worker::spawn(
        webhook,
        Arc::new(Sharder::default()),
        None,
        Arc::clone(&metrics),
    );
    worker.handle().push(mk_fired("api"));
    assert_eq!(worker.shutdown(Duration::from_secs(5)).await, 1);

    let logs = captured.text();
    let ours: Vec<_> = logs
        .lines()
        .filter(|line| line.contains("alertkube"))
        .collect();
    assert_eq!(ours.len(), 7, "{logs}");
    let metrics = metrics.render().unwrap();
    assert!(metrics.contains("alertkube_notifications_total{receiver=\"webhook\"} 2\n"));
    let parts = SECRET_PATH.split('/').filter(|part| part.len() > 5);
    for part in parts.chain([url.as_str(), hook.url.as_str()]) {
        for (what, text) in [("debug", &debug), ("logs", &logs), ("metrics", &metrics)] {
            assert!(!text.contains(part), "{part} is in the {what}: {text}");
        }
    }
}

#[tokio::test]
async fn standard_output_is_written_in_order() {
    let out = Captured::default();
    let worker = spawn(Stdout::new(Style::Json, out.clone()));
    for name in mk_workloads(10) {
        worker.handle().push(mk_fired(&name));
    }
    assert_eq!(worker.shutdown(Duration::from_secs(5)).await, 0);
    let text = out.text();
    let names: Vec<_> = text
        .lines()
        .map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            line["alert"]["labels"]["workload"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(names, mk_workloads(10));
}
