//! What listeners are told to be known and to be forgotten, and who is there.

use super::{bench::*, *};

/// What was said about the own shard since the last time.
fn said(bench: &mut Bench) -> Vec<Change> {
    let changes = std::mem::take(&mut bench.changes).into_iter();
    changes
        .filter(|change| matches!(change, Change::Known(OWN, _) | Change::Forgot(OWN)))
        .collect()
}

#[test]
fn what_is_read_is_known_and_what_is_lost_is_forgotten() {
    let mut bench = Bench::new("1/3/a", 1);
    bench.replica.synced();
    bench.watch();
    bench.refuse = |call| matches!(call, Call::ReadState(_));
    bench.settle();
    assert_eq!(
        (said(&mut bench), bench.replica.home(&own_key())),
        (vec![], None)
    );
    bench.refuse = |_| false;
    bench.wait(1);
    assert_eq!(said(&mut bench), [Change::Known(OWN, None)]);
    assert_eq!(bench.replica.home(&own_key()), Some(OWN));
    // It can be changed, and it is said once.
    bench.replica.alerts_mut(OWN).unwrap().insert(own_key(), 1);
    bench.wait(5);
    assert_eq!(said(&mut bench), []);
    bench.server.set_lease(OWN, mk_lease("2/3/other", 1));
    bench.watch();
    assert!(!bench.knows(&own_key()));
    bench.settle();
    assert_eq!(said(&mut bench), [Change::Forgot(OWN)]);
}

#[test]
fn a_lease_that_is_renewed_late_is_not_forgotten() {
    let mut bench = Bench::serving("1/3/a", 1);
    said(&mut bench);
    bench.refuse = |call| matches!(call, Call::WriteLease { .. });
    bench.wait(30);
    assert!(!bench.may_send(&own_key()));
    assert!(bench.knows(&own_key()));
    assert_eq!(said(&mut bench), []);
}

#[test]
fn a_state_that_cannot_be_read_is_known_as_far_as_it_can_be_and_again_when_it_is() {
    let mut bench = Bench::new("1/3/a", 1);
    bench.server.set_state(OWN, 1, &[(own_key(), 1)]);
    bench.refuse = |call| matches!(call, Call::ReadState(_));
    bench.replica.synced();
    bench.watch();
    bench.wait(29);
    assert_eq!(said(&mut bench), []);
    bench.wait(3);
    assert_eq!(said(&mut bench), [Change::Known(OWN, None)]);
    assert!(bench.replica.alerts(OWN).unwrap().is_empty());
    bench.refuse = |_| false;
    bench.wait(2);
    assert_eq!(
        said(&mut bench),
        [Change::Forgot(OWN), Change::Known(OWN, None)]
    );
    assert_eq!(bench.replica.alerts(OWN).unwrap().len(), 1);
}

#[test]
fn in_a_hand_over_each_portion_is_known_when_it_was_adopted() {
    let (mut bench, [first, second]) = handing_over();
    said(&mut bench);
    assert!(!bench.knows(&first) && !bench.knows(&second));
    acknowledge(&mut bench, 1);
    bench.settle();
    assert_eq!(said(&mut bench), [Change::Known(OWN, Some(shard(1, 2)))]);
    assert!(!bench.knows(&first) && bench.knows(&second));
    acknowledge(&mut bench, 0);
    bench.settle();
    assert_eq!(said(&mut bench), [Change::Known(OWN, Some(shard(0, 2)))]);
    assert!(bench.knows(&first));
    // When it is over, all was said; who takes the shard then, hears it in one.
    bench.server.set_record(mk_record(2, 3, None));
    bench.watch();
    bench.settle();
    assert_eq!(said(&mut bench), []);
    assert!(bench.knows(&first) && bench.knows(&second));
    bench.server.set_lease(OWN, mk_lease("", 2));
    bench.watch();
    bench.settle();
    assert_eq!(
        said(&mut bench),
        [Change::Forgot(OWN), Change::Known(OWN, None)]
    );
}

#[test]
fn who_takes_over_in_a_hand_over_knows_what_the_one_before_had_adopted() {
    let (mut bench, _) = handing_over();
    acknowledge(&mut bench, 0);
    bench.settle();
    said(&mut bench);
    bench.server.set_lease(OWN, mk_lease("", 2));
    bench.watch();
    bench.settle();
    assert_eq!(
        said(&mut bench),
        [Change::Forgot(OWN), Change::Known(OWN, Some(shard(0, 2)))]
    );
}

#[test]
fn what_is_handed_over_is_known_until_the_last_write() {
    let mut bench = Bench::serving("1/3/a", 1);
    let own = own_key();
    said(&mut bench);
    assert_eq!(
        bench.replica.begin_send(&own, bench.now, s(3)),
        Leave::Granted
    );
    bench.server.set_record(mk_record(2, 4, 3));
    bench.watch();
    bench.wait(2);
    // What becomes of the send goes to where the key is at home.
    assert_eq!(
        (said(&mut bench), bench.replica.home(&own)),
        (vec![], Some(OWN))
    );
    bench.replica.alerts_mut(OWN).unwrap().insert(own, 2);
    bench.replica.end_send(&own);
    bench.settle();
    assert_eq!(bench.server.states[&OWN].1.alerts[&own], 2);
    assert_eq!(said(&mut bench), [Change::Forgot(OWN)]);
    assert_ne!(bench.replica.home(&own), Some(OWN));
    assert_eq!(bench.replica.alerts_mut(OWN), None);
}

#[test]
fn what_is_not_handed_over_is_forgotten_with_its_epoch() {
    let mut bench = Bench::serving("1/3/a", 1);
    said(&mut bench);
    // The record was deleted, and made anew.
    bench.server.set_record(mk_record(5, 3, None));
    bench.watch();
    assert!(!bench.knows(&own_key()));
    bench.settle();
    assert_eq!(
        said(&mut bench),
        [Change::Forgot(OWN), Change::Known(OWN, None)]
    );
}

#[test]
fn a_replica_that_stops_forgets_after_its_last_sends() {
    let mut bench = Bench::serving("1/3/a", 1);
    said(&mut bench);
    assert_eq!(
        bench.replica.begin_send(&own_key(), bench.now, s(3)),
        Leave::Granted
    );
    bench.replica.stop();
    bench.settle();
    assert!(bench.knows(&own_key()));
    bench.replica.end_send(&own_key());
    bench.settle();
    assert_eq!(said(&mut bench), [Change::Forgot(OWN)]);
}

// === Taking part ===

#[test]
fn a_replica_that_may_not_take_part_holds_nothing_and_says_nothing() {
    let mut bench = Bench::new("1/3/a", 1);
    bench.server.record = None;
    bench.replica.allow(false);
    bench.replica.synced();
    bench.watch();
    bench.wait(20);
    assert!(!bench.server.leases.contains_key(&OWN) && bench.server.record.is_none());
    bench.replica.allow(true);
    bench.wait(2);
    assert!(bench.may_send(&own_key()));
    // Forbidden again, it lets go in order.
    assert_eq!(
        bench.replica.begin_send(&own_key(), bench.now, s(3)),
        Leave::Granted
    );
    bench.replica.allow(false);
    bench.wait(2);
    assert!(!bench.may_send(&own_key()));
    assert_eq!(bench.lease(OWN).held_by, HeldBy::read("1/3/a"));
    bench.replica.end_send(&own_key());
    bench.settle();
    assert_eq!(bench.lease(OWN).held_by, HeldBy::Nobody);
}

#[test]
fn a_successor_is_another_that_lives_and_stays() {
    let mut bench = Bench::serving("1/3/a", 1);
    assert!(bench.replica.has_successor(3, bench.now));
    // Of 2 that are wanted, there are those of a total of 3 only.
    assert!(!bench.replica.has_successor(2, bench.now));
    bench.server.set_lease(shard(1, 2), mk_lease("1/2/b", 1));
    bench.watch();
    assert!(bench.replica.has_successor(2, bench.now));
    assert!(!bench.replica.has_successor(0, bench.now));
    bench.now += s(15);
    assert!(!bench.replica.has_successor(2, bench.now));
    let mut alone = Bench::new("0/1/a", 1);
    alone.replica.synced();
    alone.watch();
    alone.settle();
    assert!(alone.replica.serves(shard(0, 1), alone.now));
    assert!(!alone.replica.has_successor(1, alone.now));
}

// === Coverage ===

#[test]
fn it_is_seen_who_serves_what_and_since_when() {
    let mut bench = Bench::serving("1/3/a", 1);
    let start = bench.now;
    let by = |bench: &Bench| -> Vec<_> {
        let covered = bench.replica.coverage(bench.now).into_iter();
        covered
            .map(|covered| (covered.shard, covered.by, (covered.since - start).as_secs()))
            .collect()
    };
    let own = |index: u32, name: &str| By::Own(holder(&format!("{index}/3/{name}")));
    assert_eq!(
        by(&bench),
        [
            (shard(0, 3), own(0, "other"), 0),
            (OWN, own(1, "a"), 0),
            (shard(2, 3), own(2, "other"), 0),
        ]
    );
    // The others do not renew. This one is an heir of 0, and may not take 2 for a while.
    bench.refuse = |call| matches!(call, Call::WriteLease { shard, .. } if shard.index == 2);
    bench.wait(20);
    let heir = By::Heir(holder("1/3/a"));
    assert_eq!(
        by(&bench),
        [
            (shard(0, 3), heir.clone(), 15),
            (OWN, own(1, "a"), 0),
            (shard(2, 3), By::Nobody, 15),
        ]
    );
    bench.refuse = |_| false;
    bench.wait(2);
    assert_eq!(by(&bench)[2], (shard(2, 3), heir, 21));
    // Something that is no replica serves nothing.
    bench.server.set_lease(shard(2, 3), mk_lease("somebody", 1));
    bench.watch();
    assert_eq!(by(&bench)[2], (shard(2, 3), By::Nobody, 22));
}

#[test]
fn a_shard_of_the_previous_generation_counts_until_its_end_is_acknowledged() {
    let (mut bench, _) = handing_over();
    let shards = |bench: &Bench| -> Vec<_> {
        let covered = bench.replica.coverage(bench.now).into_iter();
        covered.map(|covered| covered.shard).collect()
    };
    assert_eq!(shards(&bench)[..2], [shard(0, 2), shard(1, 2)]);
    acknowledge(&mut bench, 0);
    assert_eq!(shards(&bench)[..2], [shard(1, 2), shard(0, 3)]);
}
