//! Alerts for the tests of delivery.

use std::sync::{Arc, Mutex};

use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    alert::{Alert, Labels, Member, Notice, Resolution, Severity, State, Transition},
    cluster::{ObjectRef, Subject},
    shard::ShardKey,
    testing::{RULE, START, at},
};

/// A firing alert on the Deployment `shop/<name>`.
pub fn mk_alert(name: &str, severity: Severity) -> Alert {
    let subject = Subject {
        kind: "Deployment".into(),
        namespace: "shop".into(),
        name: name.into(),
    };
    let summary = "container app: back-off 5m0s restarting failed container, exit code 1";
    Alert {
        rule: &RULE,
        shard_key: ShardKey::of(&subject),
        subject,
        labels: Labels::new()
            .with("alertname", RULE.name)
            .with("severity", severity.as_str())
            .with("cluster", "prod")
            .with("namespace", "shop")
            .with("workload", name)
            .with("workload_type", "deployment")
            .with("container", "app")
            .with("reason", "CrashLoopBackOff"),
        annotations: Labels::new()
            .with("summary", summary)
            .with(
                "description",
                "2 pods of Deployment shop/web crash again and again.",
            )
            .with(
                "runbook_url",
                "https://git.example.com/alertkube/blob/HEAD/docs/runbooks/KubePodCrashLooping.md",
            ),
        severity,
        reason: "CrashLoopBackOff".into(),
        state: State::Firing,
        starts_at: START,
        fires_at: at(60),
        ends_at: None,
        members: vec![
            mk_member(&format!("{name}-7d9f-a")),
            mk_member(&format!("{name}-7d9f-b")),
        ],
    }
}

/// A pod that shows it.
pub fn mk_member(name: &str) -> Member {
    Member {
        object: ObjectRef {
            kind: "Pod".into(),
            namespace: "shop".into(),
            name: name.into(),
        },
        node: "node-1".into(),
        since: START,
        reason: "CrashLoopBackOff".into(),
        summary: "container app: back-off 5m0s restarting failed container, exit code 1".into(),
    }
}

/// It fires, 60 s after the start.
pub fn mk_fired(name: &str) -> Notice {
    Notice {
        transition: Transition::Fired,
        alert: mk_alert(name, Severity::Warning),
        at: at(60),
    }
}

/// It has become critical, 120 s after the start.
pub fn mk_changed(name: &str) -> Notice {
    Notice {
        transition: Transition::Changed,
        alert: mk_alert(name, Severity::Critical),
        at: at(120),
    }
}

/// It has recovered, 960 s after the start.
pub fn mk_resolved(name: &str) -> Notice {
    let alert = Alert {
        state: State::Resolved,
        ends_at: Some(at(960)),
        ..mk_alert(name, Severity::Warning)
    };
    Notice {
        transition: Transition::Resolved(Resolution::Recovered),
        alert,
        at: at(960),
    }
}

/// An HTTP server on this machine that takes messages, as a receiver does.
pub struct Hook {
    /// Its address, with a path that nobody should see.
    pub url: String,
    bodies: Arc<Mutex<Vec<serde_json::Value>>>,
    _server: AbortOnDropHandle<()>,
}

impl Hook {
    /// Starts a server. `answer` gets the number of the request, from 0.
    pub async fn start<F>(answer: impl Fn(usize) -> F + Clone + Send + Sync + 'static) -> Self
    where
        F: Future<Output = axum::response::Response> + Send,
    {
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::clone(&bodies);
        let take = move |request: axum::extract::Request| {
            let (answer, taken) = (answer.clone(), Arc::clone(&taken));
            async move {
                let method = request.method().clone();
                let body = axum::body::to_bytes(request.into_body(), 1 << 20)
                    .await
                    .unwrap();
                let json = serde_json::from_slice(&body)
                    .unwrap_or_else(|_| serde_json::Value::String(method.to_string()));
                let number = {
                    let mut taken = taken.lock().unwrap();
                    taken.push(json);
                    taken.len() - 1
                };
                answer(number).await
            }
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/{SECRET_PATH}", listener.local_addr().unwrap());
        let router = axum::Router::new().fallback(take);
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            url,
            bodies,
            _server: AbortOnDropHandle::new(server),
        }
    }

    /// What it was sent.
    pub fn bodies(&self) -> Vec<serde_json::Value> {
        self.bodies.lock().unwrap().clone()
    }
}

/// The secret part of the address of a [`Hook`].
pub const SECRET_PATH: &str = "services/T0000/B0000/xoxsecretxox";
