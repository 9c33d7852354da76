//! What is seen.

use super::*;

#[test]
fn a_view_never_steps_back() {
    let mut view = View::default();
    let now = Instant::now();
    assert!(view.learn_record(Version(5), Some(mk_record(2, 3, 2))));
    assert!(!view.learn_record(Version(4), Some(mk_record(1, 2, None))));
    assert!(!view.learn_record(Version(5), None));
    assert_eq!(view.record(), Some(&mk_record(2, 3, 2)));

    let own = shard(0, 3);
    assert!(view.learn_lease(own, Version(7), Some(mk_lease("0/3/a", 2)), now));
    assert!(!view.learn_lease(own, Version(6), Some(mk_lease("2/3/a", 1)), now));
    assert_eq!(view.lease(own), Some(&mk_lease("0/3/a", 2)));
    assert_eq!(view.lease_version(own), Some(Version(7)));

    // A deletion, too, is a version: what was before it does not come back.
    assert!(view.learn_lease(own, Version(9), None, now));
    assert!(!view.learn_lease(own, Version(8), Some(mk_lease("0/3/a", 2)), now));
    assert_eq!((view.lease(own), view.lease_version(own)), (None, None));
    assert_eq!(view.leases().count(), 0);

    assert!(view.learn_state(own, Version(3), Some(2)));
    assert!(!view.learn_state(own, Version(2), None));
    assert_eq!(view.states().collect::<Vec<_>>(), [(own, 2)]);
    assert!(view.learn_state(own, Version(4), None));
    assert!(!view.learn_state(own, Version(3), Some(2)));
    assert_eq!(view.states().count(), 0);
}

#[test]
fn what_was_deleted_is_gone_before_the_watch_says_so() {
    let mut view = View::default();
    let (own, now) = (shard(0, 3), Instant::now());
    view.learn_lease(own, Version(3), Some(mk_lease("", 1)), now);
    view.learn_state(own, Version(4), Some(1));
    // Of another version than the one that is seen: there is a newer one.
    view.forget_lease(own, Version(2));
    view.forget_state(own, Version(3));
    assert_eq!((view.leases().count(), view.states().count()), (1, 1));
    view.forget_lease(own, Version(3));
    view.forget_state(own, Version(4));
    assert_eq!(
        (view.lease_version(own), view.state_version(own)),
        (None, None)
    );
    assert!(!view.learn_lease(own, Version(3), Some(mk_lease("", 1)), now));
    assert!(view.learn_lease(own, Version(6), Some(mk_lease("", 2)), now));
}

#[test]
fn only_what_its_holder_does_keeps_a_lease_fresh() {
    let own = shard(0, 3);
    let start = Instant::now();
    let mut lease = mk_lease("0/3/a", 1);
    let mut version = 0;
    let mut view = View::default();
    let mut fresh_until = |lease: &Lease, at: Duration, view: &mut View| {
        version += 1;
        view.learn_lease(own, Version(version), Some(lease.clone()), start + at);
        (0..100)
            .find(|second| !view.is_fresh(own, start + s(*second)))
            .unwrap()
    };
    // Seen for the first time: it counts from now, whatever it says.
    assert_eq!(fresh_until(&lease, s(0), &mut view), 15);
    lease.acknowledged = 2;
    lease.adopted = 2;
    lease.claimed_by = Some(holder("1/3/a"));
    assert_eq!(fresh_until(&lease, s(5), &mut view), 15);
    // A wall clock that was set back.
    lease.renewed -= 1;
    assert_eq!(fresh_until(&lease, s(10), &mut view), 25);
    lease.held_by = HeldBy::Nobody;
    assert_eq!(fresh_until(&lease, s(20), &mut view), 35);
    lease.held_by = HeldBy::read("somebody");
    assert_eq!(fresh_until(&lease, s(30), &mut view), 45);
    assert!(!view.is_fresh(shard(1, 3), start));
}
