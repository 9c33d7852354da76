//! Calls that fail.

use std::time::Duration;

use super::*;

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
    let records = realistic(1500);
    for status in [403, 422, 429] {
        let server = server().await;
        let mut state = state(records.clone());
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
async fn who_gave_up_waiting_for_another_does_not_say_what_became_of_a_write() {
    let server = server().await;
    let store = replica(&server);
    found(&store).await;
    for status in [408, 500, 502, 503, 504] {
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
        found(&store).await;
        let (answer, _) = store.write(SHARD, state(realistic(1)), None).await;
        assert_eq!(answer, Answer::Refused);
    }
    fault.lift();
    write(&store, &state(realistic(1)), None).await;
    drop(capturing);
    let logs = logs.text();
    assert_eq!(logs.matches("cannot write the state").count(), 1, "{logs}");
    assert!(
        logs.contains("not allowed to create configmaps in the namespace monitoring: allow it"),
        "{logs}"
    );
}
