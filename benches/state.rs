//! What a shard's state costs: its size, and the time to write and to read it, against an API server in memory. Prints one table.
//!
//! `cargo bench --bench state`. Numbers after `--` are numbers of alerts: `cargo bench --bench state -- 1000`. The server shares the processor with what is
//! measured, and has no disk.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_macros,
    reason = "a benchmark prints, and may fail"
)]

mod support;

use alertkube::{
    cluster::{Clock, Subject},
    coordinator::{Names, States as _},
    shard::ownership::{Answer, Holder, Shard, State, Version, Writer},
    sim::{Options, Server, Verb},
    state::{Record, Records, Store},
};
use serde::{Deserialize, Serialize};
use support::sizes;
use tokio::time::Instant;

/// Alerts in the state.
const SIZES: [usize; 3] = [1_000, 10_000, 50_000];

const SHARD: Shard = Shard { total: 1, index: 0 };

/// About as much as is remembered about a subject with one alert.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Note {
    labels: Vec<(String, String)>,
    summary: String,
    told: Vec<(String, String)>,
}

impl Record for Note {
    fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    fn weight(&self) -> usize {
        let pairs = self.labels.iter().chain(&self.told);
        40 + self.summary.len()
            + pairs
                .map(|(name, value)| 8 + name.len() + value.len())
                .sum::<usize>()
    }

    fn adopt(&mut self, older: &Self) {
        self.told.extend(older.told.iter().cloned());
    }
}

fn note(number: usize) -> Note {
    let mut random = fastrand::Rng::with_seed(number as u64);
    let mut hex = |digits: usize| -> String { (0..digits).map(|_| random.digit(16)).collect() };
    let label = |name: &str, value: String| (name.to_owned(), value);
    Note {
        labels: vec![
            label("alertname", "KubePodCrashLooping".into()),
            label("cluster", "production-eu-1".into()),
            label("container", "app".into()),
            label("namespace", format!("team-{}", number % 97)),
            label("reason", "CrashLoopBackOff".into()),
            label("severity", "critical".into()),
            label("workload", format!("app-{number}")),
            label("workload_type", "deployment".into()),
            label("member", format!("app-{number}-{}-{}", hex(9), hex(5))),
            label("uid", hex(32)),
            label(
                "since",
                format!("2026-11-02T12:{:02}:{:02}Z", number / 60 % 60, number % 60),
            ),
        ],
        summary: format!(
            "Container app of pod app-{number} is restarting again and again (exit code {}, {} restarts)",
            number % 3,
            number % 211
        ),
        told: vec![label("slack/#oncall", hex(10)), label("pagerduty", hex(64))],
    }
}

fn subject(number: usize) -> Subject {
    Subject {
        kind: "Deployment".into(),
        namespace: format!("team-{}", number % 97).into(),
        name: format!("app-{number}").into(),
    }
}

fn main() {
    alertkube::cluster::install_crypto_provider();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    println!(
        "{:>8} {:>12} {:>6} {:>12} {:>12} {:>14} {:>14} {:>12}",
        "alerts",
        "JSON",
        "parts",
        "written",
        "write all",
        "change one",
        "bytes of that",
        "read all"
    );
    for alerts in sizes(&SIZES) {
        runtime.block_on(measure(alerts));
    }
}

async fn measure(alerts: usize) {
    let clock = Clock::system();
    let server = Server::start(Options::new(clock.clone())).await.unwrap();
    let store = || -> Store<Note> {
        let mut config = server.kube_config();
        config.default_retry = false;
        let client = kube::Client::try_from(config).unwrap();
        let names = Names {
            namespace: "monitoring".into(),
            name: "alertkube".into(),
        };
        Store::new(client, names, clock.clone())
    };
    let mut records = Records::default();
    let mut json = 0;
    for number in 0..alerts {
        let note = note(number);
        json += serde_json::to_string(&note).unwrap().len();
        records.update(&subject(number), |old| *old = note);
    }
    let mut state = State {
        writer: Some(Writer {
            holder: Holder {
                ordinal: 0,
                total: 1,
                uid: "bench".into(),
            },
            transitions: 1,
        }),
        epoch: 1,
        adopted: [].into(),
        alerts: records,
    };

    let own = store();
    own.read(SHARD).await;
    let begun = Instant::now();
    let (version, bytes) = write(&own, &state, None).await;
    let all = begun.elapsed();
    let parts = server.requests().count(Verb::Create, "configmaps");

    state
        .alerts
        .update(&subject(0), |note| note.told.truncate(1));
    let begun = Instant::now();
    let (_, changed) = write(&own, &state, Some(version)).await;
    let one = begun.elapsed();

    let begun = Instant::now();
    let Answer::State(_, Some(read)) = store().read(SHARD).await else {
        panic!("nothing was read");
    };
    let reading = begun.elapsed();
    assert_eq!(read.alerts.len(), alerts);
    println!(
        "{alerts:>8} {json:>12} {parts:>6} {bytes:>12} {:>9.1} ms {:>11.1} ms {changed:>14} {:>9.1} ms",
        all.as_secs_f64() * 1e3,
        one.as_secs_f64() * 1e3,
        reading.as_secs_f64() * 1e3,
    );
    server.stop().await;
}

async fn write(
    store: &Store<Note>,
    state: &State<Records<Note>>,
    expect: Option<Version>,
) -> (Version, usize) {
    match store.write(SHARD, state.clone(), expect).await {
        (Answer::State(version, _), bytes) => (version, bytes),
        (other, _) => panic!("not written: {:?}", std::mem::discriminant(&other)),
    }
}
