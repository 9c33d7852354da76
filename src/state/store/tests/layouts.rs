//! Other numbers of parts, and deletion.

use super::*;

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
    let fault = refuse(&server, 422, Verb::Update);
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
            .get(&CONFIG_MAPS, NAMESPACE, &part_name(HEAD))
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
