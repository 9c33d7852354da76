//! The record: rules 1 and 3.

use super::*;

#[test]
fn a_missing_record_is_written_above_every_epoch_in_sight() {
    assert_eq!(
        Scene::empty().decide("1/3/a"),
        [
            Action::WriteRecord(mk_record(1, 3, None)),
            Action::Hold(shard(1, 3))
        ]
    );
    // It was deleted: nothing that was acknowledged, adopted or written before must count in the new life.
    let scene = Scene::empty()
        .lease(shard(0, 2), mk_lease("0/2/a", 7))
        .lease(shard(1, 3), mk_lease("", 4));
    assert_eq!(
        scene.decide("1/3/a")[0],
        Action::WriteRecord(mk_record(8, 3, None))
    );
    let adopted = Lease {
        adopted: 8,
        ..mk_lease("0/2/a", 7)
    };
    let scene = scene.lease(shard(0, 2), adopted);
    assert_eq!(
        scene.decide("1/3/a")[0],
        Action::WriteRecord(mk_record(9, 3, None))
    );
    assert_eq!(
        scene.state(shard(4, 5), 9).decide("1/3/a")[0],
        Action::WriteRecord(mk_record(10, 3, None))
    );
}

#[test]
fn without_a_record_only_the_own_shard_is_held() {
    let scene = Scene::empty()
        .lease(shard(1, 3), mk_lease("0/3/a", 0))
        .lease(shard(0, 3), mk_lease("0/3/a", 0))
        .lease(shard(2, 3), mk_lease("", 0));
    let holds = |me| {
        let mut actions = scene.decide(me);
        actions.remove(0);
        actions
    };
    assert_eq!(holds("0/3/a"), [Action::Hold(shard(0, 3))]);
    assert_eq!(holds("1/3/a"), []);
    assert_eq!(holds("2/3/a"), [Action::Hold(shard(2, 3))]);
}

#[test]
fn a_generation_becomes_active_when_it_is_whole() {
    let half = Scene::steady(2)
        .lease(shard(0, 3), mk_lease("0/3/b", 0))
        .lease(shard(2, 3), mk_lease("2/3/b", 0))
        .lease(shard(0, 2), mk_lease("1/2/a", 1));
    let change = Action::WriteRecord(mk_record(2, 3, 2));
    assert!(!half.decide("0/3/b").contains(&change));
    // Its last shard is held, but by an heir, by one of another generation, or by nobody any more.
    for (held_by, at) in [
        ("2/3/b", s(0)),
        ("1/2/a", s(0)),
        ("somebody", s(0)),
        ("1/3/b", s(15)),
    ] {
        let almost = Scene::steady(2)
            .whole(3, 0)
            .lease(shard(0, 2), mk_lease("1/2/a", 1))
            .lease(shard(1, 3), mk_lease(held_by, 0))
            .later(at, &["1/3/b"]);
        assert!(!almost.decide("0/3/a").contains(&change), "{held_by}");
    }
    let whole = half.lease(shard(1, 3), mk_lease("1/3/b", 0));
    for me in ["0/3/b", "1/3/b", "2/3/b"] {
        assert!(whole.decide(me).contains(&change), "{me}");
    }
    // Those of other generations do not push it.
    assert!(!whole.decide("1/2/a").contains(&change));
}

#[test]
fn two_generations_that_are_whole_do_not_take_turns() {
    let scene = Scene::steady(2).whole(3, 0);
    for me in ["0/2/a", "1/2/a", "0/3/a", "1/3/a", "2/3/a"] {
        let actions = scene.decide(me);
        let writes = |action: &Action| matches!(action, Action::WriteRecord(_));
        assert!(!actions.iter().any(writes), "{me}: {actions:?}");
    }
}

#[test]
fn there_is_one_change_at_a_time() {
    // 3 is whole, but 1 is still being handed over to 2.
    let scene = Scene::empty()
        .record(mk_record(2, 2, 1))
        .lease(shard(0, 1), mk_lease("0/1/a", 1))
        .lease(shard(0, 2), mk_lease("0/3/a", 2))
        .whole(3, 0);
    let actions = scene.decide("0/3/a");
    let writes = |action: &Action| matches!(action, Action::WriteRecord(_));
    assert!(!actions.iter().any(writes), "{actions:?}");
}

#[test]
fn a_record_of_another_hash_is_left_alone() {
    let other = Record {
        hash: "sha256".into(),
        ..mk_record(3, 2, None)
    };
    let scene = Scene::empty()
        .record(other)
        .lease(shard(1, 2), mk_lease("1/2/a", 3));
    assert_eq!(scene.decide("0/2/a"), []);
    assert_eq!(scene.decide("1/2/a"), [Action::Release(shard(1, 2))]);
}
