//! Against the API server in memory, with kube's own client. Two stores are two replicas.

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

async fn server() -> Server {
    let clock = Clock::starting_at(noon(), 1.0);
    Server::start(sim::Options::new(clock)).await.unwrap()
}

fn replica(server: &Server) -> Store {
    let mut config = server.kube_config();
    config.default_retry = false;
    let client = Client::try_from(config).unwrap();
    Store::new(
        client,
        NAMESPACE,
        "alertkube",
        Clock::starting_at(noon(), 0.0),
    )
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

fn part_name(store: &Store, number: Number) -> String {
    store.names().part(SHARD, number)
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
async fn a_new_writer_writes_every_part_and_the_former_one_overwrites_nothing() {
    let server = server().await;
    let first = state(realistic(3000));
    let (former, version) = serving(&server, &first).await;
    let parts = numbers(&first).len() as u64;

    let new = replica(&server);
    let (seen, found_state) = found(&new).await;
    assert_eq!(seen, version);
    let second = State {
        writer: Some(writer(2)),
        ..found_state.unwrap()
    };
    let newer = write(&new, &second, Some(seen)).await;
    assert_eq!(writes(&server), (parts, parts));

    // Every single record that the former one might change is in a part that is not its own any more.
    for number in 0..20 {
        let mut late = first.clone();
        late.alerts
            .update(&app(number), |note| note.text = "late".into());
        let (answer, _) = former.write(SHARD, late, Some(version)).await;
        assert_eq!(answer, Answer::Conflict);
    }
    assert_eq!(found(&new).await, (newer, Some(second)));
}

#[tokio::test]
async fn of_two_that_create_a_state_one_is_too_late() {
    let server = server().await;
    let (one, other) = (replica(&server), replica(&server));
    for store in [&one, &other] {
        assert_eq!(found(store).await.1, None);
    }
    let state = state(realistic(10));
    write(&one, &state, None).await;
    let (answer, sent) = other.write(SHARD, state, None).await;
    assert_eq!(answer, Answer::Conflict);
    assert!(sent > 0);
}

#[tokio::test]
async fn a_write_from_another_version_than_was_read_is_a_conflict_without_a_request() {
    let server = server().await;
    let state = state(realistic(10));
    let (store, version) = serving(&server, &state).await;
    let before = writes(&server);
    for expect in [
        None,
        Some(Version(version.0 - 1)),
        Some(Version(version.0 + 1)),
    ] {
        let (answer, sent) = store.write(SHARD, state.clone(), expect).await;
        assert_eq!((answer, sent), (Answer::Conflict, 0));
    }
    store.retain(|_| false);
    let (answer, _) = store.write(SHARD, state.clone(), Some(version)).await;
    assert_eq!(answer, Answer::Conflict);
    assert_eq!(writes(&server), before);
    assert_eq!(found(&store).await, (version, Some(state.clone())));
    assert_eq!(write(&store, &state, Some(version)).await, version);
}

#[tokio::test]
async fn a_part_that_somebody_else_wrote_is_a_conflict_until_it_was_read() {
    let server = server().await;
    let mut state = state(realistic(3000));
    let (store, version) = serving(&server, &state).await;
    for number in numbers(&state) {
        let name = part_name(&store, number);
        patch(
            &server,
            &name,
            &json!({"metadata": {"annotations": {"touched": "yes"}}}),
        );
    }
    state.alerts.update(&app(0), |note| note.told.clear());
    let (answer, _) = store.write(SHARD, state.clone(), Some(version)).await;
    assert_eq!(answer, Answer::Conflict);
    let (version, _) = found(&store).await;
    write(&store, &state, Some(version)).await;
    assert_eq!(found(&replica(&server)).await.1, Some(state));
}

#[tokio::test]
async fn a_write_without_an_answer_is_unknown_and_is_found_by_reading() {
    let server = server().await;
    let mut state = state(realistic(10));
    let (store, version) = serving(&server, &state).await;
    state.alerts.update(&app(0), |note| note.told.clear());
    let hour = Duration::from_secs(3600);
    let on = On::any().verb(Verb::Update).times(1);
    let fault = server.faults().inject(Fault::SlowAnswer(hour), on);
    let writing = store.write(SHARD, state.clone(), Some(version));
    let stuck = async {
        fault.wait_struck(1).await;
        tokio::time::pause();
    };
    let ((answer, sent), ()) = tokio::join!(writing, stuck);
    tokio::time::resume();
    assert_eq!(answer, Answer::Unknown);
    assert!(sent > 0);
    let (newer, now) = found(&store).await;
    assert!(newer > version);
    assert_eq!(now, Some(state.clone()));
    // All is there: nothing is to be sent.
    let (answer, sent) = store.write(SHARD, state.clone(), Some(newer)).await;
    assert_eq!((answer, sent), (Answer::State(newer, Some(state)), 0));
}

#[tokio::test]
async fn a_refused_write_goes_on_where_it_was_without_a_read() {
    for status in [403, 422, 429, 500, 503] {
        let server = server().await;
        let mut state = state(realistic(3000));
        let (store, version) = serving(&server, &state).await;
        let fault = refuse(&server, status, Verb::Update);
        state.adopted.insert(1);
        for number in 0..100 {
            state.alerts.update(&app(number), |note| note.told.clear());
        }
        let (answer, _) = store.write(SHARD, state.clone(), Some(version)).await;
        assert_eq!(answer, Answer::Refused, "{status}");
        let before = fault.struck();
        // Those that were on their way, no more.
        assert!((1..=SIDE_BY_SIDE as u64).contains(&before), "{before}");
        fault.lift();
        let lists = server.requests().count(Verb::List, "configmaps");
        write(&store, &state, Some(version)).await;
        assert_eq!(server.requests().count(Verb::List, "configmaps"), lists);
        assert_eq!(found(&replica(&server)).await.1, Some(state));
    }
}

#[tokio::test]
async fn a_gateway_that_gave_up_waiting_does_not_say_what_became_of_a_write() {
    let server = server().await;
    let store = replica(&server);
    found(&store).await;
    for status in [502, 504] {
        let fault = refuse(&server, status, Verb::Create);
        let (answer, _) = store.write(SHARD, state(realistic(1)), None).await;
        assert_eq!(answer, Answer::Unknown, "{status}");
        fault.lift();
    }
}

#[tokio::test]
async fn without_a_connection_nothing_was_sent() {
    let server = server().await;
    let store = replica(&server);
    found(&store).await;
    server.stop().await;
    let (answer, _) = store.write(SHARD, state(realistic(1)), None).await;
    assert_eq!(answer, Answer::Refused);
    assert_eq!(store.read(SHARD).await, Answer::Refused);
}

#[tokio::test]
async fn a_failure_is_said_once_with_what_to_do() {
    let server = server().await;
    let store = replica(&server);
    found(&store).await;
    let fault = refuse(&server, 403, Verb::Create);
    let (logs, capturing) = capture();
    for _ in 0..3 {
        let (answer, _) = store.write(SHARD, state(realistic(1)), None).await;
        assert_eq!(answer, Answer::Refused);
    }
    fault.lift();
    write(&store, &state(realistic(1)), None).await;
    drop(capturing);
    let logs = logs.text();
    assert_eq!(logs.matches("cannot write the state").count(), 1, "{logs}");
    assert!(
        logs.contains("allow list, create, update and delete of configmaps"),
        "{logs}"
    );
}

/// Replaces the bytes of a part.
fn damage(server: &Server, name: &str, bytes: &[u8]) {
    let bytes = ByteString(bytes.to_vec());
    patch(server, name, &json!({"binaryData": {"state": bytes}}));
}

#[tokio::test]
async fn a_damaged_part_counts_as_empty_is_kept_aside_and_said_once() {
    let server = server().await;
    let state = state(realistic(3000));
    let (store, version) = serving(&server, &state).await;
    let number = numbers(&state)[2];
    let name = part_name(&store, number);
    damage(&server, &name, b"not gzip");
    let damaged = object(&server, &name);

    let (logs, capturing) = capture();
    let new = replica(&server);
    for _ in 0..2 {
        let (seen, read) = found(&new).await;
        let read = read.unwrap();
        assert_eq!(
            (seen, read.epoch, &read.adopted),
            (version, 5, &state.adopted)
        );
        let lost = state.alerts.parts()[2].len();
        assert!(lost > 0);
        assert_eq!(read.alerts.len(), 3000 - lost);
        assert!(
            read.alerts
                .iter()
                .all(|(subject, note)| state.alerts.get(subject) == Some(note))
        );
    }
    drop(capturing);
    let logs = logs.text();
    assert_eq!(logs.matches("ERROR").count(), 1, "{logs}");
    for part in [
        &*name,
        "its bytes are damaged",
        "may be paged again",
        "the resolve of what has ended",
    ] {
        assert!(logs.contains(part), "{part}: {logs}");
    }

    let kept = format!(
        "{name}-kept-{}",
        damaged["metadata"]["resourceVersion"].as_str().unwrap()
    );
    assert!(logs.contains(&kept), "{logs}");
    let kept = object(&server, &kept);
    assert_eq!(kept["binaryData"], damaged["binaryData"]);
    assert_eq!(
        kept["metadata"]["labels"],
        json!({NAME: "alertkube", INSTANCE: "alertkube"})
    );

    // The next write makes it whole.
    let next = State {
        writer: Some(writer(2)),
        ..state
    };
    write(&new, &next, Some(version)).await;
    assert_eq!(found(&replica(&server)).await.1, Some(next));
}

const NAME: &str = config_map::NAME_LABEL;
const INSTANCE: &str = config_map::INSTANCE_LABEL;

#[tokio::test]
async fn without_a_head_that_can_be_read_the_state_is_of_no_epoch_and_all_of_it_is_kept() {
    for (annotation, value) in [
        (config_map::STATE_VERSION, json!("2")),
        (config_map::STATE_VERSION, Value::Null),
        (config_map::EPOCH, json!("five")),
        (config_map::ADOPTED, json!("0,x")),
        (config_map::PARTS, json!("3")),
        (config_map::PARTS, json!("4294967295")),
        (config_map::PARTS, json!("2147483648")),
    ] {
        let server = server().await;
        let state = state(realistic(3000));
        let (store, _) = serving(&server, &state).await;
        let head = part_name(&store, HEAD);
        patch(
            &server,
            &head,
            &json!({"metadata": {"annotations": {annotation: value}}}),
        );
        let (logs, capturing) = capture();
        let (version, read) = found(&store).await;
        drop(capturing);
        let read = read.unwrap();
        assert_eq!(
            (read.epoch, read.adopted.len(), read.alerts.len()),
            (0, 0, 0)
        );
        let parts = numbers(&state).len();
        assert_eq!(logs.text().matches("a copy is kept").count(), parts);
        assert_eq!(server.store().len(&CONFIG_MAPS), 2 * parts);
        // It can be written over, and deleted.
        write(&store, &state, Some(version)).await;
        let (version, read) = found(&replica(&server)).await;
        assert_eq!(read, Some(state));
        assert_eq!(store.delete(SHARD, version).await, Answer::Deleted);
        assert_eq!(server.store().len(&CONFIG_MAPS), parts);
    }
}

#[tokio::test]
async fn a_missing_part_is_said_and_the_others_are_used() {
    let server = server().await;
    let state = state(realistic(3000));
    let (store, _) = serving(&server, &state).await;
    let name = part_name(&store, numbers(&state)[1]);
    let now = sim::DeleteOptions::now();
    server
        .store()
        .delete(&CONFIG_MAPS, NAMESPACE, &name, &now)
        .unwrap();
    let (logs, capturing) = capture();
    let (_, read) = found(&store).await;
    drop(capturing);
    let lost = state.alerts.parts()[1].len();
    assert_eq!(read.unwrap().alerts.len(), 3000 - lost);
    assert!(
        logs.text()
            .contains(&format!("ConfigMap {name} is missing"))
    );
}

#[tokio::test]
async fn a_new_layout_comes_into_force_as_a_whole_and_the_old_one_is_removed() {
    let server = server().await;
    let small = state(realistic(1000));
    let (store, version) = serving(&server, &small).await;
    let large = State {
        adopted: [0, 1, 2].into(),
        ..state(realistic(5000))
    };
    assert!(numbers(&large).len() > numbers(&small).len());

    // It dies before the head: what is read is the old state, in full.
    let fault = refuse(&server, 500, Verb::Update);
    let (answer, _) = store.write(SHARD, large.clone(), Some(version)).await;
    assert_eq!(answer, Answer::Refused);
    assert_eq!(fault.struck(), 1);
    fault.lift();
    let new = replica(&server);
    assert_eq!(found(&new).await, (version, Some(small.clone())));

    // Whoever comes next may grow into the same layout, ...
    let large = State {
        writer: Some(writer(2)),
        ..large
    };
    let version = write(&new, &large, Some(version)).await;
    assert_eq!(
        found(&replica(&server)).await,
        (version, Some(large.clone()))
    );
    assert_eq!(server.store().len(&CONFIG_MAPS), numbers(&large).len());

    // ... and whoever comes after a quiet time starts smaller.
    let small = State {
        writer: Some(writer(3)),
        ..small
    };
    let third = replica(&server);
    found(&third).await;
    let version = write(&third, &small, Some(version)).await;
    assert_eq!(
        found(&replica(&server)).await,
        (version, Some(small.clone()))
    );
    assert_eq!(server.store().len(&CONFIG_MAPS), numbers(&small).len());
}

#[tokio::test]
async fn a_former_holder_that_grows_leaves_at_most_what_no_head_names() {
    let server = server().await;
    let small = state(realistic(100));
    let (former, version) = serving(&server, &small).await;
    let new = replica(&server);
    found(&new).await;
    let taken = State {
        writer: Some(writer(2)),
        ..small
    };
    let newer = write(&new, &taken, Some(version)).await;
    let large = state(realistic(3000));
    let (answer, _) = former.write(SHARD, large.clone(), Some(version)).await;
    assert_eq!(answer, Answer::Conflict);
    assert_eq!(found(&replica(&server)).await, (newer, Some(taken)));

    // The holder comes to need these parts: it finds them, and writes over them.
    let grown = State {
        writer: Some(writer(2)),
        ..large
    };
    let (answer, _) = new.write(SHARD, grown.clone(), Some(newer)).await;
    assert_eq!(answer, Answer::Conflict);
    let (version, _) = found(&new).await;
    assert_eq!(version, newer);
    let version = write(&new, &grown, Some(version)).await;
    assert_eq!(found(&replica(&server)).await, (version, Some(grown)));
}

#[tokio::test]
async fn a_deletion_takes_all_of_the_shard_and_nothing_else() {
    let server = server().await;
    let state = state(realistic(3000));
    let (store, version) = serving(&server, &state).await;
    let other = Shard { total: 3, index: 0 };
    store.read(other).await;
    store.write(other, state.clone(), None).await;
    let both = server.store().len(&CONFIG_MAPS);

    for stale in [Version(version.0 - 1), Version(version.0 + 1)] {
        assert_eq!(store.delete(SHARD, stale).await, Answer::Conflict);
    }
    assert_eq!(server.store().len(&CONFIG_MAPS), both);

    // It fails half-way: the head is still there, for the next attempt.
    let on = On::any().verb(Verb::Delete).times(1);
    let fault = server
        .faults()
        .inject(Fault::Refuse(StatusCode::FORBIDDEN, None), on);
    assert_eq!(store.delete(SHARD, version).await, Answer::Refused);
    assert_eq!(fault.struck(), 1);
    assert!(
        server
            .store()
            .get(&CONFIG_MAPS, NAMESPACE, &part_name(&store, HEAD))
            .is_ok()
    );

    // By a replica that has never read it.
    assert_eq!(
        replica(&server).delete(SHARD, version).await,
        Answer::Deleted
    );
    assert_eq!(server.store().len(&CONFIG_MAPS), both / 2);
    assert_eq!(found(&store).await.1, None);
    assert_eq!(store.delete(SHARD, version).await, Answer::Deleted);
    let Answer::State(_, Some(left)) = store.read(other).await else {
        panic!("the other state is gone");
    };
    assert_eq!(left, state);
}

#[tokio::test]
async fn objects_of_others_with_the_same_labels_are_left_out() {
    let server = server().await;
    let state = state(realistic(10));
    let (store, version) = serving(&server, &state).await;
    let head = part_name(&store, HEAD);
    for name in [
        "other".to_owned(),
        format!("{head}-x"),
        format!("{head}-01"),
        format!("{head}-kept-7"),
    ] {
        let mut copy = object(&server, &head);
        copy["metadata"] =
            json!({"name": name, "namespace": NAMESPACE, "labels": copy["metadata"]["labels"]});
        server.store().create(&CONFIG_MAPS, copy).unwrap();
    }
    assert_eq!(found(&store).await, (version, Some(state)));
}

#[tokio::test]
async fn fifty_thousand_alerts_fit() {
    let server = server().await;
    let state = state(realistic(50_000));
    let (_, version) = serving(&server, &state).await;
    let mut sizes = Vec::new();
    for number in numbers(&state) {
        let map = object(&server, &store_name(number));
        let ByteString(bytes) = serde_json::from_value(map["binaryData"]["state"].clone()).unwrap();
        sizes.push(bytes.len());
    }
    let (most, all) = (*sizes.iter().max().unwrap(), sizes.iter().sum::<usize>());
    let average = all / sizes.len();
    assert!((32 << 10..96 << 10).contains(&average), "{average}");
    assert!(most < 128 << 10, "{most}");
    assert_eq!(found(&replica(&server)).await, (version, Some(state)));
}

fn store_name(number: Number) -> String {
    Names::new("alertkube").part(SHARD, number)
}
