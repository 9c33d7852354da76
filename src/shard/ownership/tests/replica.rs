//! What a replica does about it: rules 4 to 6, with an API server whose answers the test decides on.

use super::{bench::*, *};

#[test]
fn nothing_is_asked_for_before_the_watches_have_synced() {
    let mut bench = Bench::new("1/3/a", 1);
    bench.watch();
    assert!(bench.poll().is_empty());
    bench.replica.synced();
    assert!(
        bench
            .poll()
            .iter()
            .any(|request| is_own_lease_write(&request.call))
    );
}

#[test]
fn a_replica_takes_then_looks_then_serves() {
    let mut bench = Bench::new("1/3/a", 5);
    bench.server.set_state(OWN, 5, &[(own_key(), 7)]);
    bench.replica.synced();
    bench.watch();
    let [take] = bench.poll().try_into().unwrap();
    assert!(is_own_lease_write(&take.call));
    bench.answer(take);
    // The Lease is its own: it reads the record, directly.
    let requests = bench.poll();
    assert!(!bench.replica.serves(OWN, bench.now));
    let (looks, others): (Vec<_>, Vec<_>) = requests
        .into_iter()
        .partition(|request| request.call == Call::ReadRecord);
    assert_eq!(looks.len(), 1);
    for request in others {
        bench.answer(request);
    }
    assert!(!bench.replica.serves(OWN, bench.now));
    // In truth there is a newer record, which no watch has brought: it does not serve by the old one.
    bench.server.set_record(mk_record(6, 3, None));
    for request in looks {
        bench.answer(request);
    }
    assert!(!bench.replica.serves(OWN, bench.now));
    bench.server.set_state(OWN, 6, &[(own_key(), 8)]);
    bench.settle();
    assert_eq!(bench.lease(OWN).acknowledged, 6);
    assert!(bench.may_send(&own_key()));
    // And by its state as it is now.
    assert_eq!(bench.replica.alerts(OWN).unwrap()[&own_key()], 8);
    assert!(bench.changes.contains(&Change::Serves(OWN)));
}

#[test]
fn a_late_record_does_not_replace_a_newer_one() {
    let mut bench = Bench::serving("1/3/a", 1);
    let (old, record) = bench.server.record.clone().unwrap();
    bench.server.set_record(mk_record(2, 4, 3));
    bench.watch();
    assert!(!bench.replica.serves(OWN, bench.now));
    bench.replica.see_record(old, Some(record));
    bench.replica.see_record(old, None);
    assert_eq!(bench.replica.view().record(), Some(&mk_record(2, 4, 3)));
    assert!(!bench.replica.serves(OWN, bench.now));
}

#[test]
fn a_holder_that_cannot_renew_stops_by_its_own_clock() {
    let mut bench = Bench::serving("1/3/a", 1);
    bench.refuse = is_own_lease_write;
    bench.wait(9);
    assert!(bench.may_send(&own_key()));
    // A long one could outlast the Lease already.
    assert!(!bench.replica.may_send(&own_key(), bench.now, s(10)));
    bench.wait(1);
    assert!(!bench.may_send(&own_key()));
    assert!(!bench.replica.holds(OWN, bench.now));
    assert_eq!(bench.changes.last(), Some(&Change::Left(OWN)));
    bench.refuse = |_| false;
    bench.wait(2);
    assert!(bench.may_send(&own_key()));
}

#[test]
fn a_renewal_counts_from_when_it_was_sent() {
    let mut bench = Bench::serving("1/3/a", 1);
    bench.now += s(2);
    let [renewal] = bench.poll().try_into().unwrap();
    bench.now += s(9);
    bench.answer(renewal);
    assert!(bench.replica.serves(OWN, bench.now));
    bench.now += s(1);
    assert!(!bench.replica.serves(OWN, bench.now));
}

#[test]
fn a_holder_renews_at_each_period_and_not_at_each_turn() {
    let mut bench = Bench::serving("1/3/a", 1);
    assert!(bench.poll().is_empty());
    bench.now += Duration::from_millis(999);
    assert!(bench.poll().is_empty());
    bench.now += Duration::from_millis(1);
    let [renewal] = bench.poll().try_into().unwrap();
    assert!(is_own_lease_write(&renewal.call));
    // One write at a time.
    bench.now += s(2);
    assert!(bench.poll().is_empty());
}

#[test]
fn a_lease_in_other_hands_is_not_served_from_the_moment_it_is_seen() {
    let mut bench = Bench::serving("1/3/a", 1);
    bench.server.set_lease(OWN, mk_lease("2/3/other", 1));
    bench.watch();
    assert!(!bench.replica.serves(OWN, bench.now));
    assert_eq!(bench.replica.alerts(OWN), None);
}

#[test]
fn a_conflict_ends_serving_and_the_lease_is_read_again() {
    let mut bench = Bench::serving("1/3/a", 1);
    // Somebody has put a mark on it; the watch has not shown that yet.
    let mut marked = bench.lease(OWN).clone();
    marked.claimed_by = Some(holder("1/3/b"));
    bench.server.set_lease(OWN, marked);
    bench.now += s(2);
    let [renewal] = bench.poll().try_into().unwrap();
    bench.answer(renewal);
    assert!(!bench.replica.serves(OWN, bench.now));
    let calls = bench.settle();
    assert_eq!(calls[0], Call::ReadLease(OWN));
    // Taken again, and looked again.
    assert!(calls.contains(&Call::ReadRecord));
    assert!(bench.replica.serves(OWN, bench.now));
}

#[test]
fn a_write_without_an_answer_is_read_again() {
    let mut bench = Bench::serving("1/3/a", 1);
    bench.now += s(2);
    let [renewal] = bench.poll().try_into().unwrap();
    // It has landed all the same.
    let id = renewal.id;
    bench.server.call(renewal.call);
    bench.replica.answer(id, Answer::Unknown, bench.now);
    // Unknown is not lost: the last good renewal still counts.
    assert!(bench.replica.serves(OWN, bench.now));
    let calls = bench.settle();
    assert_eq!(calls[0], Call::ReadLease(OWN));
    bench.wait(2);
    assert!(bench.replica.serves(OWN, bench.now));
    // An answer that comes after all is none.
    bench.replica.answer(id, Answer::Conflict, bench.now);
    assert!(bench.replica.serves(OWN, bench.now));
}

#[test]
fn a_new_epoch_is_acknowledged_after_the_sends_in_flight_and_the_last_write() {
    let mut bench = Bench::serving("1/3/a", 1);
    let own = own_key();
    bench.replica.alerts_mut(OWN).unwrap().insert(own, 1);
    bench.settle();
    assert_eq!(
        bench.replica.begin_send(&own, bench.now, s(3)),
        Leave::Granted
    );
    bench.server.set_record(mk_record(2, 4, 3));
    bench.watch();
    assert!(!bench.may_send(&own));
    bench.wait(3);
    assert_eq!(bench.lease(OWN).acknowledged, 1);
    // The outcome of the send still belongs into the state.
    bench.replica.alerts_mut(OWN).unwrap().insert(own, 2);
    bench.replica.end_send(&own);
    let before = bench.server.states[&OWN].0;
    let calls = bench.settle();
    let write = |call: &Call<Memory>| matches!(call, Call::WriteState { shard: OWN, .. });
    let acknowledge = |call: &Call<Memory>| matches!(call, Call::WriteLease { shard: OWN, lease, .. } if lease.acknowledged == 2);
    assert!(calls.iter().position(write) < calls.iter().position(acknowledge));
    let (version, state) = &bench.server.states[&OWN];
    assert!(*version > before);
    assert_eq!((state.epoch, state.alerts[&own]), (1, 2));
    let lease = bench.lease(OWN);
    assert_eq!((lease.acknowledged, lease.incomplete), (2, false));
    // After that it does not change any more.
    assert_eq!(bench.replica.alerts_mut(OWN), None);
}

#[test]
fn the_last_write_fences_a_former_holder() {
    // An heir acknowledges for the dead: it has nothing to add, and writes all the same.
    let mut bench = Bench::serving("1/3/a", 2);
    let old = shard(1, 2);
    bench.server.set_state(old, 1, &[(key(1), 1)]);
    bench.server.set_lease(old, mk_lease("", 1));
    bench.server.set_record(mk_record(2, 3, 2));
    let before = bench.server.states[&old].0;
    bench.watch();
    bench.settle();
    let (version, state) = &bench.server.states[&old];
    assert!(*version > before);
    assert_eq!((state.epoch, state.alerts.len()), (1, 1));
    assert_eq!(bench.lease(old).acknowledged, 2);
}

#[test]
fn a_new_owner_sends_when_the_old_shard_has_acknowledged_and_its_alerts_are_written() {
    let (mut bench, [first, second]) = handing_over();
    assert!(!bench.may_send(&first) && !bench.may_send(&second));
    acknowledge(&mut bench, 0);
    let [read] = bench.poll().try_into().unwrap();
    assert_eq!(read.call, Call::ReadState(shard(0, 2)));
    bench.answer(read);
    // Taken over, but not written: if it crashed now, its heir would not know.
    assert!(!bench.may_send(&first));
    let [write] = bench.poll().try_into().unwrap();
    bench.answer(write);
    assert!(bench.may_send(&first) && !bench.may_send(&second));
    let written = &bench.server.states[&OWN].1;
    assert_eq!((written.alerts[&first], written.adopted.len()), (1, 1));
    // Only when it has all of them it says so.
    bench.settle();
    assert_eq!(bench.lease(OWN).adopted, 0);
    acknowledge(&mut bench, 1);
    bench.settle();
    assert_eq!(bench.lease(OWN).adopted, 2);
    assert!(bench.may_send(&first) && bench.may_send(&second));
}

#[test]
fn an_old_lease_that_cannot_be_seen_has_not_acknowledged() {
    let (mut bench, [first, _]) = handing_over();
    let version = bench.server.next();
    bench.server.leases.remove(&shard(0, 2));
    // Deleted, as far as this replica sees; it is no heir of that shard.
    bench
        .replica
        .see_lease(shard(0, 2), version, None, bench.now);
    bench.settle();
    assert!(!bench.may_send(&first));
}

#[test]
fn what_was_adopted_is_not_adopted_again() {
    let (mut bench, [first, _]) = handing_over();
    acknowledge(&mut bench, 0);
    bench.settle();
    *bench
        .replica
        .alerts_mut(OWN)
        .unwrap()
        .get_mut(&first)
        .unwrap() = 2;
    // Something is to be sent for it: it is written at once.
    bench.replica.promise(&first, bench.now);
    bench.settle();
    // It loses the Lease, and takes it again: what is in the old state is older than what it knows.
    bench.server.set_lease(OWN, mk_lease("", 2));
    bench.watch();
    let calls = bench.settle();
    assert!(calls.contains(&Call::ReadState(OWN)), "{calls:?}");
    assert!(!calls.contains(&Call::ReadState(shard(0, 2))), "{calls:?}");
    assert_eq!(bench.replica.alerts(OWN).unwrap()[&first], 2);
    assert!(bench.may_send(&first));
}

#[test]
fn an_old_state_that_is_not_of_the_epoch_before_counts_as_empty() {
    for epoch in [0, 2, 3] {
        let (mut bench, [first, _]) = handing_over();
        bench.server.set_state(shard(0, 2), epoch, &[(first, 9)]);
        acknowledge(&mut bench, 0);
        bench.settle();
        assert!(bench.may_send(&first));
        assert_eq!(
            bench.replica.alerts(OWN).unwrap().get(&first),
            None,
            "{epoch}"
        );
    }
}

#[test]
fn an_own_state_of_an_older_epoch_counts_as_empty_and_so_do_its_marks() {
    let mut bench = Bench::new("1/3/a", 5);
    // Nobody has come to delete it.
    bench.refuse = |call| matches!(call, Call::DeleteState(..));
    bench.server.set_state(OWN, 3, &[(own_key(), 7)]);
    bench
        .server
        .states
        .get_mut(&OWN)
        .unwrap()
        .1
        .adopted
        .extend([0, 1]);
    bench.replica.synced();
    bench.watch();
    bench.settle();
    assert!(bench.replica.alerts(OWN).unwrap().is_empty());
    bench.replica.alerts_mut(OWN).unwrap().insert(own_key(), 1);
    bench.settle();
    let written = &bench.server.states[&OWN].1;
    assert_eq!((written.epoch, written.adopted.len()), (5, 0));
}

#[test]
fn a_state_of_a_later_epoch_is_not_overwritten() {
    // This replica lags: in truth the shard is served in epoch 3 by now.
    let mut bench = Bench::new("1/3/a", 1);
    bench.server.set_state(OWN, 3, &[(own_key(), 7)]);
    bench.replica.synced();
    bench.watch();
    bench.wait(20);
    assert_eq!(bench.server.states[&OWN].1.epoch, 3);
    assert!(!bench.may_send(&own_key()));
    // It is the record that was wrong (made anew while not all was in sight): paging comes first.
    bench.wait(30);
    assert!(bench.may_send(&own_key()));
    assert!(bench.changes.contains(&Change::Incomplete(OWN, Step::Load)));
}

#[test]
fn states_that_are_deleted_slowly_count_for_nothing_in_the_next_hand_over() {
    // 2, 3 and 2 again: nobody has come to delete the states of the first 2, and there is one hand-over more, to 3 in epoch 4.
    let mut bench = Bench::serving("1/3/a", 4);
    bench.server.set_record(mk_record(4, 3, 2));
    let keys = [0, 1].map(|index| key_of([shard(index, 2), OWN]));
    bench.server.set_state(shard(0, 2), 1, &[(keys[0], 1)]);
    bench.server.set_state(shard(1, 2), 3, &[(keys[1], 3)]);
    for index in [0, 1] {
        let lease = mk_lease(&format!("{index}/2/other"), 4);
        bench.server.set_lease(shard(index, 2), lease);
    }
    bench.watch();
    bench.settle();
    let alerts = bench.replica.alerts(OWN).unwrap();
    assert_eq!(
        (alerts.get(&keys[0]), alerts.get(&keys[1])),
        (None, Some(&3))
    );
    // And nothing is deleted before it is over.
    assert_eq!(bench.server.states.len(), 3);
}

#[test]
fn a_last_write_that_fails_for_30_s_is_given_up_loudly() {
    let mut bench = Bench::serving("1/3/a", 1);
    bench.refuse = |call| matches!(call, Call::WriteState { .. });
    bench.server.set_record(mk_record(2, 4, 3));
    bench.watch();
    bench.wait(29);
    assert_eq!(bench.lease(OWN).acknowledged, 1);
    bench.wait(3);
    let lease = bench.lease(OWN);
    assert_eq!((lease.acknowledged, lease.incomplete), (2, true));
    assert!(
        bench
            .changes
            .contains(&Change::Incomplete(OWN, Step::LastWrite(2)))
    );
}

#[test]
fn failures_far_apart_are_no_outage() {
    let mut bench = Bench::serving("1/3/a", 1);
    let fail = |bench: &mut Bench| {
        bench.replica.alerts_mut(OWN).unwrap().insert(own_key(), 1);
        for request in bench.poll() {
            match &request.call {
                Call::WriteState { .. } => {
                    bench.replica.answer(request.id, Answer::Unknown, bench.now);
                }
                _ => bench.answer(request),
            }
        }
    };
    fail(&mut bench);
    // It is read again, and there is nothing to write for a while.
    bench.wait(60);
    fail(&mut bench);
    bench.wait(60);
    let gave_up = |change: &Change| matches!(change, Change::Incomplete(..));
    assert!(!bench.changes.iter().any(gave_up));
}

#[test]
fn a_state_that_cannot_be_read_for_30_s_is_done_without_loudly() {
    let (mut bench, [first, _]) = handing_over();
    bench.refuse = |call| *call == Call::ReadState(shard(0, 2));
    acknowledge(&mut bench, 0);
    bench.wait(29);
    assert!(!bench.may_send(&first));
    bench.wait(3);
    assert!(bench.may_send(&first));
    assert!(
        bench
            .changes
            .contains(&Change::Incomplete(OWN, Step::Adopt(0)))
    );
}

#[test]
fn an_acknowledgement_that_says_incomplete_is_passed_on() {
    let (mut bench, [first, _]) = handing_over();
    let lease = Lease {
        incomplete: true,
        ..mk_lease("0/2/other", 2)
    };
    bench.server.set_lease(shard(0, 2), lease);
    bench.watch();
    bench.settle();
    assert!(bench.may_send(&first));
    assert!(
        bench
            .changes
            .contains(&Change::Incomplete(OWN, Step::Adopt(0)))
    );
}

#[test]
fn an_own_state_that_is_readable_late_is_merged_and_then_written() {
    let mut bench = Bench::new("1/3/a", 1);
    let [known, new] = [key_of([OWN, shard(0, 2)]), key_of([OWN, shard(1, 2)])];
    bench.server.set_state(OWN, 1, &[(known, 1), (new, 1)]);
    bench.refuse = |call| matches!(call, Call::ReadState(_));
    bench.replica.synced();
    bench.watch();
    bench.wait(29);
    assert!(!bench.may_send(&new));
    bench.wait(3);
    assert!(bench.may_send(&new));
    bench.replica.alerts_mut(OWN).unwrap().insert(new, 2);
    bench.wait(5);
    // It is not written over what could not be read.
    assert_eq!(bench.server.states[&OWN].1.alerts[&new], 1);
    assert!(!bench.replica.is_saved(OWN));
    bench.refuse = |_| false;
    bench.wait(2);
    let alerts = &bench.server.states[&OWN].1.alerts;
    assert_eq!((alerts[&known], alerts[&new]), (1, 2));
    assert!(bench.replica.is_saved(OWN));
}

#[test]
fn pages_leave_when_what_was_adopted_cannot_be_written_for_30_s() {
    let (mut bench, [first, second]) = handing_over();
    bench.refuse = |call| matches!(call, Call::WriteState { .. });
    acknowledge(&mut bench, 0);
    acknowledge(&mut bench, 1);
    bench.wait(29);
    assert!(!bench.may_send(&first));
    bench.wait(3);
    assert!(bench.may_send(&first) && bench.may_send(&second));
    assert!(bench.changes.contains(&Change::Incomplete(OWN, Step::Save)));
    // But the old states are still needed: it does not say that it has adopted.
    assert_eq!(bench.lease(OWN).adopted, 0);
    bench.refuse = |_| false;
    bench.wait(2);
    assert_eq!(bench.lease(OWN).adopted, 2);
}

#[test]
fn a_claimed_shard_is_let_go_after_its_sends_and_keeps_its_lease_until_then() {
    let mut bench = Bench::serving("1/3/a", 1);
    let orphan = shard(0, 3);
    bench.server.set_lease(orphan, mk_lease("", 1));
    bench.watch();
    bench.settle();
    // Index 0 is gone, and 1 is the next in the ring.
    let key = key_of([orphan, orphan]);
    assert_eq!(
        bench.replica.begin_send(&key, bench.now, s(3)),
        Leave::Granted
    );
    let mut claimed = bench.lease(orphan).clone();
    claimed.claimed_by = Some(holder("0/3/new"));
    bench.server.set_lease(orphan, claimed);
    bench.watch();
    bench.settle();
    assert!(!bench.may_send(&key));
    let renewed = bench.lease(orphan).renewed;
    bench.wait(2);
    assert_eq!(bench.lease(orphan).held_by, HeldBy::read("1/3/a"));
    assert!(bench.lease(orphan).renewed > renewed);
    bench.replica.end_send(&key);
    bench.settle();
    let lease = bench.lease(orphan);
    assert_eq!(lease.held_by, HeldBy::Nobody);
    // The claim stays on it: the claimant has the first turn. Whoever holds it next takes the claim off.
    assert_eq!(lease.claimed_by, Some(holder("0/3/new")));
    bench.wait(16);
    let lease = bench.lease(orphan);
    assert_eq!(
        (&lease.held_by, &lease.claimed_by),
        (&HeldBy::read("1/3/a"), &None)
    );
}

#[test]
fn a_replica_that_stops_ends_its_sends_then_writes_then_lets_go() {
    let mut bench = Bench::serving("1/3/a", 1);
    let own = own_key();
    assert_eq!(
        bench.replica.begin_send(&own, bench.now, s(3)),
        Leave::Granted
    );
    bench.replica.stop();
    assert!(!bench.may_send(&own));
    bench.wait(2);
    assert_eq!(bench.lease(OWN).held_by, HeldBy::read("1/3/a"));
    bench.replica.alerts_mut(OWN).unwrap().insert(own, 1);
    bench.replica.end_send(&own);
    assert!(!bench.replica.is_stopped());
    bench.settle();
    assert!(bench.replica.is_stopped());
    assert_eq!(bench.server.states[&OWN].1.alerts[&own], 1);
    assert_eq!(bench.lease(OWN).held_by, HeldBy::Nobody);
}

#[test]
fn a_replica_that_stops_frees_also_what_it_does_not_know_to_hold() {
    let mut bench = Bench::new("1/3/a", 1);
    bench.replica.synced();
    bench.watch();
    // It has taken its shard, but the answer is lost; and it has claimed another, without seeing that.
    let [take] = bench.poll().try_into().unwrap();
    bench.server.call(take.call);
    let claimed = Lease {
        claimed_by: Some(holder("1/3/a")),
        ..mk_lease("2/3/other", 1)
    };
    bench.server.set_lease(shard(2, 3), claimed);
    bench.replica.stop();
    bench.settle();
    assert!(!bench.replica.is_stopped());
    bench.replica.answer(take.id, Answer::Unknown, bench.now);
    bench.wait(2);
    assert!(bench.replica.is_stopped());
    assert_eq!(bench.lease(OWN).held_by, HeldBy::Nobody);
    let other = bench.lease(shard(2, 3));
    assert_eq!(
        (&other.held_by, &other.claimed_by),
        (&HeldBy::read("2/3/other"), &None)
    );
}

#[test]
fn a_record_of_another_hash_is_not_served() {
    let mut bench = Bench::serving("1/3/a", 1);
    let other = Record {
        hash: "sha256".into(),
        ..mk_record(1, 3, None)
    };
    bench.server.set_record(other);
    bench.watch();
    assert!(!bench.may_send(&own_key()));
    bench.settle();
    assert_eq!(bench.lease(OWN).held_by, HeldBy::Nobody);
}

#[test]
fn what_fails_is_not_asked_for_again_at_once() {
    let mut bench = Bench::new("1/3/a", 1);
    bench.refuse = |_| true;
    bench.replica.synced();
    bench.watch();
    assert_eq!(bench.settle().len(), 1);
    assert!(bench.settle().is_empty());
    bench.now += s(1);
    assert_eq!(bench.settle().len(), 1);
}
