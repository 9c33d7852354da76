//! Who holds what: rules 1 and 2.

use super::*;

/// What a replica does about one shard.
fn about(scene: &Scene, me: &str, wanted: Shard) -> Option<Action> {
    scene.decide(me).into_iter().find(|action| match action {
        Action::Hold(shard)
        | Action::Release(shard)
        | Action::Claim(shard)
        | Action::Acknowledge(shard, _)
        | Action::DeleteLease(shard)
        | Action::DeleteState(shard) => *shard == wanted,
        Action::WriteRecord(_) => false,
    })
}

fn holds(scene: &Scene, me: &str, wanted: Shard) -> bool {
    about(scene, me, wanted) == Some(Action::Hold(wanted))
}

#[test]
fn in_the_steady_state_each_holds_its_own_shard_and_nothing_else() {
    let scene = Scene::steady(3).later(s(60), &[]);
    for index in 0..3 {
        let me = format!("{index}/3/a");
        assert_eq!(scene.decide(&me), [Action::Hold(shard(index, 3))]);
    }
}

#[test]
fn a_shard_whose_holder_does_not_renew_is_taken_by_the_next_in_the_ring() {
    let scene = Scene::steady(4).later(s(14), &["1/4/a", "3/4/a"]);
    assert_eq!(scene.decide("2/4/a"), [Action::Hold(shard(2, 4))]);
    let scene = scene.later(s(1), &["1/4/a", "3/4/a"]);
    assert!(holds(&scene, "2/4/a", shard(1, 4)));
    assert!(holds(&scene, "0/4/a", shard(3, 4)));
    assert_eq!(about(&scene, "0/4/a", shard(1, 4)), None);
    assert_eq!(about(&scene, "2/4/a", shard(3, 4)), None);
}

#[test]
fn a_shard_that_was_let_go_is_taken_at_once() {
    let scene = Scene::steady(3).lease(shard(1, 3), mk_lease("", 1));
    assert!(holds(&scene, "2/3/a", shard(1, 3)));
    let scene = scene.no_lease(shard(1, 3));
    assert!(holds(&scene, "2/3/a", shard(1, 3)));
}

#[test]
fn marks_do_not_keep_a_lease_alive() {
    let mut lease = mk_lease("1/3/a", 1);
    let scene = Scene::steady(3).later(s(14), &["1/3/a"]);
    // Somebody claims it: the Lease has changed, but its holder has not.
    lease.claimed_by = Some(holder("1/3/b"));
    let scene = scene.lease(shard(1, 3), lease).later(s(1), &["1/3/a"]);
    assert!(holds(&scene, "2/3/a", shard(1, 3)));
}

#[test]
fn a_lease_lasts_as_long_as_it_says() {
    let long = Lease {
        duration: s(60),
        ..mk_lease("1/3/a", 1)
    };
    let scene = Scene::steady(3)
        .lease(shard(1, 3), long)
        .later(s(59), &["1/3/a"]);
    assert_eq!(about(&scene, "2/3/a", shard(1, 3)), None);
    let scene = scene.later(s(1), &["1/3/a"]);
    assert!(holds(&scene, "2/3/a", shard(1, 3)));
}

#[test]
fn an_heir_is_claimed_from_and_lets_go() {
    let scene = Scene::steady(3).lease(shard(1, 3), mk_lease("2/3/a", 1));
    assert_eq!(
        about(&scene, "1/3/b", shard(1, 3)),
        Some(Action::Claim(shard(1, 3)))
    );
    let claimed = Lease {
        claimed_by: Some(holder("1/3/b")),
        ..mk_lease("2/3/a", 1)
    };
    let scene = scene.lease(shard(1, 3), claimed);
    // It is claimed once, and not again while the claim stands.
    assert_eq!(about(&scene, "1/3/b", shard(1, 3)), None);
    assert_eq!(
        about(&scene, "2/3/a", shard(1, 3)),
        Some(Action::Release(shard(1, 3)))
    );
    // And the heir does not acknowledge for what it lets go.
    assert_eq!(scene.decide("2/3/a").len(), 2);
}

#[test]
fn a_claim_is_answered_once() {
    let free = Lease {
        claimed_by: Some(holder("1/3/b")),
        ..mk_lease("", 1)
    };
    let scene = Scene::steady(3).lease(shard(1, 3), free);
    // The claimant has the first turn, ...
    assert!(holds(&scene, "1/3/b", shard(1, 3)));
    assert_eq!(about(&scene, "2/3/a", shard(1, 3)), None);
    let scene = scene.later(s(14), &["1/3/b"]);
    assert_eq!(about(&scene, "2/3/a", shard(1, 3)), None);
    // ... for as long as a Lease lasts. It has died: the heir takes the shard again.
    let scene = scene.later(s(1), &["1/3/b"]);
    assert!(holds(&scene, "2/3/a", shard(1, 3)));
}

#[test]
fn a_claim_that_is_itself_outranked_keeps_nobody_waiting() {
    // Let go for index 1 of another total; the exact one need not wait.
    let free = Lease {
        claimed_by: Some(holder("1/4/a")),
        ..mk_lease("", 1)
    };
    let scene = Scene::steady(3).lease(shard(1, 3), free);
    assert!(holds(&scene, "1/3/b", shard(1, 3)));
    assert_eq!(about(&scene, "2/3/a", shard(1, 3)), None);
}

#[test]
fn the_exact_index_and_total_may_claim_from_any_other() {
    let own = shard(1, 3);
    for (held_by, me, expected) in [
        // An heir; one of the same index, of another total; something foreign.
        ("2/3/a", "1/3/b", true),
        ("1/4/a", "1/3/b", true),
        ("somebody", "1/3/b", true),
        // The same index, another total: only from an heir, and from something foreign.
        ("2/3/a", "1/4/b", true),
        ("somebody", "1/4/b", true),
        ("1/3/a", "1/4/b", false),
        ("1/2/a", "1/4/b", false),
        // A second pod of the same ordinal stands by.
        ("1/3/a", "1/3/b", false),
        // Any other has no claim.
        ("2/3/a", "0/3/b", false),
    ] {
        let scene = Scene::steady(3).lease(own, mk_lease(held_by, 1));
        let claims = about(&scene, me, own) == Some(Action::Claim(own));
        assert_eq!(claims, expected, "{me} from {held_by}");
    }
}

#[test]
fn the_exact_holder_gives_way_to_nobody() {
    for claimant in ["1/4/b", "1/3/b", "2/3/b"] {
        let claimed = Lease {
            claimed_by: Some(holder(claimant)),
            ..mk_lease("1/3/a", 1)
        };
        let scene = Scene::steady(3).lease(shard(1, 3), claimed);
        assert!(holds(&scene, "1/3/a", shard(1, 3)), "{claimant}");
    }
}

#[test]
fn one_of_the_same_index_gives_way_to_the_exact_one_only() {
    for (claimant, gives_way) in [("1/3/b", true), ("1/5/b", false), ("2/3/b", false)] {
        let claimed = Lease {
            claimed_by: Some(holder(claimant)),
            ..mk_lease("1/4/a", 1)
        };
        let scene = Scene::steady(3).lease(shard(1, 3), claimed);
        assert_eq!(
            holds(&scene, "1/4/a", shard(1, 3)),
            !gives_way,
            "{claimant}"
        );
    }
}

#[test]
fn what_an_earlier_process_held_is_not_ones_own() {
    let scene = Scene::steady(3);
    // It has restarted: the Lease is another's until it expires.
    assert_eq!(scene.decide("1/3/b"), []);
    let scene = scene.later(s(15), &["1/3/a"]);
    assert!(holds(&scene, "1/3/b", shard(1, 3)));
}

#[test]
fn a_foreign_holder_is_respected_until_it_expires_and_is_no_replica() {
    let scene = Scene::steady(3)
        .lease(shard(1, 3), mk_lease("somebody", 1))
        .later(s(14), &["somebody"]);
    assert_eq!(about(&scene, "2/3/a", shard(1, 3)), None);
    let scene = scene.later(s(1), &["somebody"]);
    assert!(holds(&scene, "2/3/a", shard(1, 3)));
}

#[test]
fn without_takeover_an_orphan_waits_for_its_own() {
    let scene = Scene::steady(3).without_takeover().later(s(15), &["1/3/a"]);
    assert_eq!(scene.decide("2/3/a"), [Action::Hold(shard(2, 3))]);
    assert!(holds(&scene, "1/3/b", shard(1, 3)));
}

#[test]
fn without_takeover_a_hand_over_has_heirs_all_the_same() {
    // From 3 to 2. Nobody of the old generation is there any more; without heirs nobody would ever acknowledge for it.
    let scene = Scene::empty()
        .without_takeover()
        .record(mk_record(2, 2, 3))
        .whole(2, 2)
        .lease(shard(0, 3), mk_lease("", 1))
        .lease(shard(1, 3), mk_lease("", 1))
        .lease(shard(2, 3), mk_lease("", 1));
    assert!(holds(&scene, "0/2/a", shard(0, 3)));
    assert!(holds(&scene, "1/2/a", shard(1, 3)));
    assert!(holds(&scene, "0/2/a", shard(2, 3)));
}

#[test]
fn without_takeover_a_rollout_has_heirs_while_another_total_is_about() {
    // From 3 to 4: index 2 has restarted with the new total, and serves the old shard meanwhile; so would an heir, if it were down.
    let scene = Scene::steady(3)
        .without_takeover()
        .lease(shard(3, 4), mk_lease("3/4/b", 0))
        .later(s(15), &["2/3/a"]);
    assert!(holds(&scene, "2/4/b", shard(2, 3)));
    assert!(holds(&scene, "3/4/b", shard(2, 3)));
    // It is over as soon as nobody of another total is up.
    let scene = scene.later(s(15), &["2/3/a", "3/4/b"]);
    assert_eq!(about(&scene, "0/3/a", shard(2, 3)), None);
    assert!(holds(&scene, "2/3/c", shard(2, 3)));
}

#[test]
fn a_replica_of_a_new_total_serves_the_old_one_until_its_own_is_whole() {
    let scene = Scene::steady(2).lease(shard(1, 2), mk_lease("", 1));
    let actions = scene.decide("1/3/b");
    assert!(actions.contains(&Action::Hold(shard(1, 3))), "{actions:?}");
    assert!(actions.contains(&Action::Hold(shard(1, 2))), "{actions:?}");
}

#[test]
fn what_is_not_wanted_any_more_is_let_go() {
    // An heir, of what has been taken in hand otherwise; and of a generation that is over.
    let scene = Scene::steady(3)
        .lease(shard(1, 2), mk_lease("1/3/a", 1))
        .lease(shard(0, 3), mk_lease("1/3/a", 1))
        .lease(shard(0, 2), mk_lease("0/3/a", 1));
    assert_eq!(
        scene.decide("1/3/a"),
        [
            Action::Release(shard(1, 2)),
            // Index 0 is alive: it holds another shard.
            Action::Release(shard(0, 3)),
            Action::Hold(shard(1, 3)),
        ]
    );
}
