//! Who writes what, when there are two.

use super::*;

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
        let name = part_name(number);
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
