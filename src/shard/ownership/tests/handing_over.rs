//! A hand-over, and what is left behind: rule 4.

use super::*;

/// From 2 to 3 in epoch 2, with all that it takes to be over.
fn done() -> Scene {
    let adopted = |index: u32| Lease {
        adopted: 2,
        ..mk_lease(&format!("{index}/3/b"), 2)
    };
    Scene::empty()
        .record(mk_record(2, 3, 2))
        .lease(shard(0, 2), mk_lease("0/3/b", 2))
        .lease(shard(1, 2), mk_lease("1/3/b", 2))
        .lease(shard(0, 3), adopted(0))
        .lease(shard(1, 3), adopted(1))
        .lease(shard(2, 3), adopted(2))
}

fn is_over(scene: &Scene) -> bool {
    let end = Action::WriteRecord(mk_record(2, 3, None));
    scene.decide("0/3/b").contains(&end)
}

#[test]
fn a_hand_over_is_over_when_all_have_left_and_all_have_arrived() {
    assert!(is_over(&done()));
    // Whoever sees it may say so, also of another total.
    let end = Action::WriteRecord(mk_record(2, 3, None));
    assert!(done().decide("4/5/c").contains(&end));
    // A shard of the old generation has not acknowledged, or cannot be seen; it need not be held any more.
    assert!(!is_over(&done().lease(shard(1, 2), mk_lease("1/3/b", 1))));
    assert!(!is_over(&done().no_lease(shard(1, 2))));
    assert!(is_over(&done().lease(shard(1, 2), mk_lease("", 2))));
    // One of the new generation has not adopted, or only in an earlier epoch; does not serve yet; or is held by nobody.
    let new = Lease {
        adopted: 2,
        ..mk_lease("1/3/b", 2)
    };
    let adopted = 1;
    assert!(!is_over(&done().lease(
        shard(1, 3),
        Lease {
            adopted,
            ..new.clone()
        }
    )));
    let acknowledged = 1;
    assert!(!is_over(&done().lease(
        shard(1, 3),
        Lease {
            acknowledged,
            ..new.clone()
        }
    )));
    let held_by = HeldBy::Nobody;
    assert!(!is_over(
        &done().lease(shard(1, 3), Lease { held_by, ..new })
    ));
    assert!(!is_over(&done().later(s(15), &["1/3/b"])));
}

#[test]
fn a_holder_acknowledges_each_epoch_also_for_the_dead() {
    let scene = Scene::empty()
        .record(mk_record(2, 2, 3))
        .whole(2, 2)
        .lease(shard(0, 3), mk_lease("0/2/a", 1))
        .lease(shard(1, 3), mk_lease("1/2/a", 2))
        .lease(shard(2, 3), mk_lease("2/3/a", 1))
        .later(s(15), &["2/3/a"]);
    assert_eq!(
        scene.decide("0/2/a"),
        [
            Action::Hold(shard(0, 2)),
            Action::Hold(shard(0, 3)),
            Action::Acknowledge(shard(0, 3), 2),
            // Taken first.
            Action::Hold(shard(2, 3)),
        ]
    );
    let scene = scene.lease(shard(2, 3), mk_lease("0/2/a", 1));
    assert!(
        scene
            .decide("0/2/a")
            .contains(&Action::Acknowledge(shard(2, 3), 2))
    );
}

#[test]
fn the_states_of_the_previous_generation_stay_until_it_has_been_handed_over() {
    let scene = Scene::empty()
        .record(mk_record(2, 3, 2))
        .whole(3, 2)
        .state(shard(0, 2), 1)
        .state(shard(1, 2), 1)
        .state(shard(0, 5), 0);
    let deletes = |action: &Action| matches!(action, Action::DeleteState(_));
    assert!(!scene.decide("0/3/a").iter().any(deletes));
    let scene = scene.record(mk_record(2, 3, None));
    for old in [shard(0, 2), shard(1, 2), shard(0, 5)] {
        assert!(
            scene.decide("0/3/a").contains(&Action::DeleteState(old)),
            "{old}"
        );
    }
}

#[test]
fn a_state_is_deleted_by_its_epoch_and_not_by_its_total() {
    // 2, then 3, then 2 again: what is left of the first 2 goes, although 2 is active; what is of the future stays, although its total is not.
    let scene = Scene::empty()
        .record(mk_record(3, 2, None))
        .whole(2, 3)
        .state(shard(0, 2), 3)
        .state(shard(1, 2), 1)
        .state(shard(0, 3), 2)
        .state(shard(1, 4), 4);
    let actions = scene.decide("0/2/a");
    assert_eq!(
        actions[1..],
        [
            Action::DeleteState(shard(1, 2)),
            Action::DeleteState(shard(0, 3)),
        ]
    );
}

#[test]
fn a_late_record_deletes_nothing_of_a_newer_one() {
    // This replica still sees epoch 1 with total 2. In truth 3 is active in epoch 2, and 2 again in epoch 3.
    let scene = Scene::steady(2)
        .state(shard(0, 3), 2)
        .state(shard(0, 2), 3)
        .lease(shard(0, 2), mk_lease("0/2/b", 3))
        .lease(shard(0, 3), mk_lease("0/3/a", 2));
    let deletes =
        |action: &Action| matches!(action, Action::DeleteState(_) | Action::DeleteLease(_));
    let actions = scene.decide("1/2/a");
    assert!(!actions.iter().any(deletes), "{actions:?}");
    // Nor does it take back an acknowledgement.
    let scene = scene.lease(shard(1, 2), mk_lease("1/2/a", 3));
    let actions = scene.decide("1/2/a");
    assert_eq!(actions, [Action::Hold(shard(1, 2))]);
}

#[test]
fn leases_of_a_generation_that_is_over_are_deleted_when_nobody_holds_them() {
    let scene = Scene::steady(3)
        .lease(shard(0, 2), mk_lease("", 1))
        .lease(shard(1, 2), mk_lease("1/2/z", 1))
        .lease(shard(0, 4), mk_lease("", 0));
    let deletes = |scene: &Scene, me: &str| -> Vec<_> {
        let delete = |action| match action {
            Action::DeleteLease(shard) => Some(shard),
            _ => None,
        };
        scene.decide(me).into_iter().filter_map(delete).collect()
    };
    // A while for those who come back, or are late.
    assert_eq!(deletes(&scene, "0/3/a"), []);
    let scene = scene.later(s(15), &[]);
    // Not those that live; and not those of one's own total, even if it is not active.
    assert_eq!(deletes(&scene, "0/3/a"), [shard(0, 2), shard(0, 4)]);
    assert_eq!(deletes(&scene, "1/4/c"), [shard(0, 2)]);
    let scene = scene.later(s(15), &["1/2/z"]);
    assert_eq!(
        deletes(&scene, "0/3/a"),
        [shard(0, 2), shard(1, 2), shard(0, 4)]
    );
    // During a hand-over nothing goes.
    let scene = scene.record(mk_record(2, 3, 2));
    assert_eq!(deletes(&scene, "0/3/a"), []);
}
