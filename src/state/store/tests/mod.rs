//! Against the API server in memory, with kube's own client. Two stores are two replicas.

mod damage;
mod failures;
mod layouts;
mod writers;

use http::StatusCode;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::*;
use crate::{
    sim::{self, CONFIG_MAPS, Fault, Injected, On, Server, Verb},
    state::testing::{Note, SHARD, app, realistic, state, writer},
    testing::capture,
};

type Store = super::Store<Note>;

const NAMESPACE: &str = "monitoring";

fn noon() -> Timestamp {
    "2026-11-02T12:00:00Z".parse().unwrap()
}

fn names() -> Names {
    Names {
        namespace: NAMESPACE.into(),
        name: "alertkube".into(),
    }
}

async fn server() -> Server {
    let clock = Clock::starting_at(noon(), 1.0);
    Server::start(sim::Options::new(clock)).await.unwrap()
}

fn replica(server: &Server) -> Store {
    let mut config = server.kube_config();
    config.default_retry = false;
    let client = Client::try_from(config).unwrap();
    Store::new(client, names(), Clock::starting_at(noon(), 0.0))
}

/// What is found, with its version.
async fn found(store: &Store) -> (Version, Option<State<Records<Note>>>) {
    match store.read(SHARD).await {
        Answer::State(version, state) => (version, state),
        other => panic!("{other:?}"),
    }
}

/// Writes what must succeed.
async fn write(store: &Store, state: &State<Records<Note>>, expect: Option<Version>) -> Version {
    match store.write(SHARD, state.clone(), expect).await {
        (Answer::State(version, Some(written)), _) => {
            assert_eq!(written, *state);
            version
        }
        other => panic!("{other:?}"),
    }
}

/// A replica that has written this state.
async fn serving(server: &Server, state: &State<Records<Note>>) -> (Store, Version) {
    let store = replica(server);
    let (_, nothing) = found(&store).await;
    assert_eq!(nothing, None);
    let version = write(&store, state, None).await;
    (store, version)
}

/// How many `ConfigMap`s have been created and updated.
fn writes(server: &Server) -> (u64, u64) {
    let count = |verb| server.requests().count(verb, "configmaps");
    (count(Verb::Create), count(Verb::Update))
}

fn refuse(server: &Server, status: u16, verb: Verb) -> Injected {
    let fault = Fault::Refuse(StatusCode::from_u16(status).unwrap(), None);
    let on = On::any().resource(&CONFIG_MAPS).verb(verb);
    server.faults().inject(fault, on)
}

fn object(server: &Server, name: &str) -> Value {
    let object = server.store().get(&CONFIG_MAPS, NAMESPACE, name);
    object.unwrap().json()
}

fn patch(server: &Server, name: &str, patch: &Value) {
    let store = server.store();
    store.patch(&CONFIG_MAPS, NAMESPACE, name, patch).unwrap();
}

/// The numbers of the parts of a state.
fn numbers(state: &State<Records<Note>>) -> Vec<Number> {
    let count = u32::try_from(state.alerts.parts().len()).unwrap();
    config_map::numbers(count).collect()
}

fn part_name(number: Number) -> String {
    names().part(SHARD, number)
}

#[tokio::test]
async fn a_state_is_read_as_it_was_written() {
    let server = server().await;
    for alerts in [Records::default(), realistic(10), realistic(3000)] {
        let state = State {
            epoch: 5 + alerts.len() as u64,
            ..state(alerts)
        };
        let store = replica(&server);
        let (version, old) = found(&store).await;
        let written = write(&store, &state, old.map(|_| version)).await;
        assert!(written > version);
        // By a replica that has not written it.
        assert_eq!(found(&replica(&server)).await, (written, Some(state)));
    }
}

#[tokio::test]
async fn where_there_is_no_state_that_has_a_version() {
    let server = server().await;
    let store = replica(&server);
    assert_eq!(
        found(&store).await,
        (Version(server.store().version()), None)
    );
    // The most recent one, whole.
    let list = &server.requests().uris(Verb::List, "configmaps")[0];
    assert!(
        !list.contains("resourceVersion") && !list.contains("limit"),
        "{list}"
    );
    let (store, _) = serving(&server, &state(realistic(1))).await;
    let other = Shard { total: 3, index: 2 };
    let answer = store.read(other).await;
    assert_eq!(
        answer,
        Answer::State(Version(server.store().version()), None)
    );
}

#[tokio::test]
async fn only_changed_parts_are_written() {
    let server = server().await;
    let mut state = state(realistic(3000));
    let (store, version) = serving(&server, &state).await;
    let parts = numbers(&state).len() as u64;
    assert!(parts >= 4, "{parts}");
    assert_eq!(writes(&server), (parts, 0));

    // Nothing has changed.
    let (answer, sent) = store.write(SHARD, state.clone(), Some(version)).await;
    assert_eq!(
        (answer, sent),
        (Answer::State(version, Some(state.clone())), 0)
    );
    assert_eq!(writes(&server), (parts, 0));

    // One record that is not in the head.
    let at = (0..3000)
        .find(|number| {
            let mut changed = state.alerts.clone();
            changed.update(&app(*number), |note| note.told.clear());
            Arc::ptr_eq(&changed.parts()[0], &state.alerts.parts()[0])
        })
        .unwrap();
    state
        .alerts
        .update(&app(at), |note| note.told.push("webhook".into()));
    let (answer, sent) = store.write(SHARD, state.clone(), Some(version)).await;
    assert_eq!(answer, Answer::State(version, Some(state.clone())));
    assert!((1..128 << 10).contains(&sent), "{sent}");
    assert_eq!(writes(&server), (parts, 1));

    // What only the head says.
    state.adopted.insert(1);
    let newer = write(&store, &state, Some(version)).await;
    assert!(newer > version);
    assert_eq!(writes(&server), (parts, 2));
    assert_eq!(found(&replica(&server)).await, (newer, Some(state)));
}

#[tokio::test]
async fn fifty_thousand_alerts_fit() {
    let server = server().await;
    let state = state(realistic(50_000));
    let (_, version) = serving(&server, &state).await;
    let mut sizes = Vec::new();
    for number in numbers(&state) {
        let map = object(&server, &names().part(SHARD, number));
        let ByteString(bytes) = serde_json::from_value(map["binaryData"]["state"].clone()).unwrap();
        sizes.push(bytes.len());
    }
    let (most, all) = (*sizes.iter().max().unwrap(), sizes.iter().sum::<usize>());
    let average = all / sizes.len();
    assert!((32 << 10..96 << 10).contains(&average), "{average}");
    assert!(most < 128 << 10, "{most}");
    assert_eq!(found(&replica(&server)).await, (version, Some(state)));
}

#[tokio::test]
async fn whatever_fails_on_the_way_each_record_is_as_it_was_or_as_it_was_to_be() {
    for seed in 0..12 {
        let mut random = fastrand::Rng::with_seed(seed);
        let server = server().await;
        let mut life = 1;
        let mut store = replica(&server);
        let mut version = None;
        let mut book = state(Records::default());
        found(&store).await;
        // What may be found: the last state that is known to be written, and what was tried since.
        let mut possible = vec![book.alerts.clone()];
        for _ in 0..25 {
            for _ in 0..random.usize(1..12) {
                let text = "x".repeat(random.usize(0..100 << 10));
                let gone = random.u8(..) < 100;
                let note = if gone {
                    Note::default()
                } else {
                    Note::new(text)
                };
                book.alerts
                    .update(&app(random.usize(..40)), |old| *old = note);
            }
            let verb = random
                .choice([Verb::Create, Verb::Update, Verb::Delete])
                .unwrap();
            let status = random
                .choice([StatusCode::FORBIDDEN, StatusCode::GATEWAY_TIMEOUT])
                .unwrap();
            let on = On::any().verb(verb).times(random.u64(0..3));
            let fault = server.faults().inject(Fault::Refuse(status, None), on);
            possible.push(book.alerts.clone());
            let (answer, _) = store.write(SHARD, book.clone(), version).await;
            fault.lift();
            match answer {
                Answer::State(written, _) => {
                    version = Some(written);
                    possible.drain(..possible.len() - 1);
                }
                Answer::Refused if random.bool() => {}
                Answer::Refused | Answer::Unknown | Answer::Conflict => {
                    // It crashes, and another one takes over what it finds.
                    life += 1;
                    store = replica(&server);
                    let (seen, read) = found(&store).await;
                    version = read.is_some().then_some(seen);
                    let alerts = read.map(|state| state.alerts).unwrap_or_default();
                    for subject in (0..40).map(app) {
                        let is = alerts.get(&subject);
                        assert!(
                            possible.iter().any(|possible| possible.get(&subject) == is),
                            "seed {seed}: {subject}"
                        );
                    }
                    book.alerts = alerts;
                    book.writer = Some(writer(life));
                    possible = vec![book.alerts.clone()];
                }
                other => panic!("seed {seed}: {other:?}"),
            }
        }
        assert!(life > 1, "seed {seed}: nothing went wrong");
    }
}
