//! When a state is written, what waits for it, and what a write that fails costs.

use super::{bench::*, *};

/// Something is learned about the own key that nobody waits for.
fn note(bench: &mut Bench, value: u32) {
    bench
        .replica
        .alerts_mut(OWN)
        .unwrap()
        .insert(own_key(), value);
}

/// Something is about to be sent for it.
fn promise(bench: &mut Bench, value: u32) {
    note(bench, value);
    bench.replica.promise(&own_key(), bench.now);
}

fn begin(bench: &mut Bench) -> Leave {
    bench.replica.begin_send(&own_key(), bench.now, s(3))
}

fn is_write(call: &Call<Memory>) -> bool {
    matches!(call, Call::WriteState { .. })
}

fn written(bench: &Bench) -> u32 {
    bench.server.states[&OWN].1.alerts[&own_key()]
}

/// The one write that is asked for now; there must be no other.
fn the_write(bench: &mut Bench) -> Request<Memory> {
    let requests = bench.poll();
    let mut writes: Vec<_> = requests
        .into_iter()
        .filter(|request| is_write(&request.call))
        .collect();
    assert_eq!(writes.len(), 1);
    writes.remove(0)
}

/// Somebody else writes the state, without this replica's knowledge.
fn overwrite(bench: &mut Bench, writer: &str, transitions: u32, value: u32) {
    let (version, mut state) = (bench.server.next(), bench.server.states[&OWN].1.clone());
    let holder = holder(writer);
    state.writer = Some(Writer {
        holder,
        transitions,
    });
    state.alerts.insert(own_key(), value);
    bench.server.states.insert(OWN, (version, state));
}

/// A replica whose state is read, and not yet written.
fn unfenced(refuse: fn(&Call<Memory>) -> bool) -> Bench {
    let mut bench = Bench::new("1/3/a", 1);
    bench.server.set_state(OWN, 1, &[(own_key(), 1)]);
    bench.refuse = refuse;
    bench.replica.synced();
    bench.watch();
    bench.settle();
    assert!(bench.replica.serves(OWN, bench.now));
    bench
}

// === The fence ===

#[test]
fn a_new_holder_writes_its_token_before_it_sends() {
    let mut bench = unfenced(is_write);
    let before = bench.server.states[&OWN].0;
    assert!(!bench.may_send(&own_key()));
    bench.refuse = |_| false;
    bench.wait(1);
    let (version, state) = &bench.server.states[&OWN];
    assert!(*version > before);
    let writer = Writer {
        holder: holder("1/3/a"),
        transitions: bench.lease(OWN).transitions,
    };
    assert_eq!(
        (state.writer.as_ref(), state.alerts[&own_key()]),
        (Some(&writer), 1)
    );
    assert!(bench.may_send(&own_key()));
    assert!(bench.changes.contains(&Change::Saved(OWN)));
}

#[test]
fn the_first_write_is_waited_for_2_s() {
    let mut bench = unfenced(is_write);
    let until = bench.now + s(2);
    assert_eq!(begin(&mut bench), Leave::NotBefore(until));
    // It is tried again before that.
    assert_eq!(bench.replica.next_deadline(), Some(bench.now + s(1)));
    bench.wait(1);
    assert!(!bench.may_send(&own_key()));
    assert!(!bench.changes.contains(&Change::Unsaved(OWN)));
    bench.wait(1);
    assert!(bench.may_send(&own_key()));
    assert_eq!(begin(&mut bench), Leave::Granted);
    bench.wait(3);
    // Said once.
    let said = |change: &&Change| **change == Change::Unsaved(OWN);
    assert_eq!(bench.changes.iter().filter(said).count(), 1);
    assert_eq!(bench.replica.sent_unsaved(), 1);
}

#[test]
fn what_a_former_holder_writes_before_the_fence_is_taken_over() {
    let mut bench = Bench::new("1/3/a", 1);
    bench.server.set_state(OWN, 1, &[(own_key(), 1)]);
    bench.replica.synced();
    bench.watch();
    let mut fence = None;
    for _ in 0..5 {
        let requests = bench.poll();
        let (writes, others): (Vec<_>, Vec<_>) = requests
            .into_iter()
            .partition(|request| is_write(&request.call));
        for request in others {
            bench.answer(request);
        }
        fence = fence.or_else(|| writes.into_iter().next());
    }
    let fence = fence.unwrap();
    assert!(bench.knows(&own_key()));
    bench.changes.clear();
    // It was under way when the Lease was lost, and lands now.
    overwrite(&mut bench, "2/3/z", 0, 2);
    bench.answer(fence);
    assert!(!bench.may_send(&own_key()));
    bench.settle();
    assert_eq!(
        bench.changes,
        [
            Change::Forgot(OWN),
            Change::Known(OWN, None),
            Change::Saved(OWN)
        ]
    );
    assert_eq!(bench.replica.alerts(OWN).unwrap()[&own_key()], 2);
    let writer = bench.server.states[&OWN].1.writer.clone().unwrap();
    assert_eq!(writer.holder, holder("1/3/a"));
    assert!(bench.may_send(&own_key()));
}

#[test]
fn a_former_holder_writes_nothing_over_what_a_later_one_has_written() {
    let mut bench = Bench::serving("1/3/a", 1);
    promise(&mut bench, 1);
    bench.settle();
    // The Lease is lost, and the watch has not shown that; nor can it be read.
    let lease = Lease {
        transitions: 9,
        ..mk_lease("2/3/b", 1)
    };
    bench.server.set_lease(OWN, lease);
    overwrite(&mut bench, "2/3/b", 9, 2);
    bench.refuse = |call| matches!(call, Call::ReadLease(_));
    promise(&mut bench, 3);
    bench.wait(5);
    assert_eq!(written(&bench), 2);
    bench.refuse = |_| false;
    bench.wait(5);
    assert_eq!(written(&bench), 2);
    assert_eq!(bench.replica.alerts(OWN), None);
    assert_eq!(bench.changes.last(), Some(&Change::Forgot(OWN)));
}

#[test]
fn a_state_of_a_later_holder_is_not_written_over_even_if_the_lease_seems_to_be_ones_own() {
    let mut bench = Bench::serving("1/3/a", 1);
    promise(&mut bench, 1);
    bench.settle();
    overwrite(&mut bench, "2/3/b", 9, 2);
    promise(&mut bench, 3);
    bench.wait(20);
    assert_eq!(written(&bench), 2);
    // It is its own in truth (somebody has deleted it, and it counts anew): paging comes first.
    bench.wait(20);
    assert!(bench.changes.contains(&Change::Incomplete(OWN, Step::Load)));
    assert_ne!(
        bench.server.states[&OWN].1.writer.as_ref().unwrap().holder,
        holder("2/3/b")
    );
}

// === What a write without success costs ===

#[test]
fn a_write_that_nobody_knows_about_loses_nothing() {
    for landed in [false, true] {
        let mut bench = Bench::serving("1/3/a", 1);
        bench.changes.clear();
        promise(&mut bench, 1);
        let write = the_write(&mut bench);
        if landed {
            bench.server.call(write.call.clone());
        }
        // Learned after it was asked for.
        note(&mut bench, 2);
        bench.replica.answer(write.id, Answer::Unknown, bench.now);
        bench.wait(2);
        assert_eq!(bench.replica.alerts(OWN).unwrap()[&own_key()], 2);
        assert_eq!(written(&bench), 2, "landed: {landed}");
        assert!(bench.replica.is_saved(OWN));
        assert_eq!(bench.changes, [Change::Saved(OWN)]);
    }
}

#[test]
fn a_write_that_lands_late_is_ones_own() {
    let mut bench = Bench::serving("1/3/a", 1);
    bench.changes.clear();
    promise(&mut bench, 1);
    let late = the_write(&mut bench);
    bench.replica.answer(late.id, Answer::Unknown, bench.now);
    bench.now += s(1);
    // It is read again, and has not landed.
    let [read] = bench
        .poll()
        .into_iter()
        .filter(|request| request.call == Call::ReadState(OWN))
        .collect::<Vec<_>>()
        .try_into()
        .unwrap();
    bench.answer(read);
    note(&mut bench, 2);
    let again = the_write(&mut bench);
    bench.server.call(late.call);
    bench.answer(again);
    bench.wait(2);
    assert_eq!(written(&bench), 2);
    assert_eq!(bench.changes, [Change::Saved(OWN)]);
}

#[test]
fn a_state_that_somebody_deletes_is_written_again() {
    let mut bench = Bench::serving("1/3/a", 1);
    note(&mut bench, 1);
    bench.wait(1);
    bench.server.states.remove(&OWN);
    promise(&mut bench, 2);
    bench.settle();
    assert_eq!(written(&bench), 2);
    assert!(!bench.changes.contains(&Change::Forgot(OWN)));
}

/// A replica that has written all that it knows.
fn idle() -> Bench {
    let mut bench = Bench::serving("1/3/a", 1);
    note(&mut bench, 1);
    bench.wait(2);
    bench.watch();
    assert!(bench.replica.is_saved(OWN));
    bench.changes.clear();
    bench
}

#[test]
fn a_state_that_somebody_deletes_while_nothing_changes_is_written_again() {
    let mut bench = idle();
    bench.server.states.remove(&OWN);
    let version = bench.server.next();
    bench.replica.see_state(OWN, version, None);
    bench.wait(2);
    assert_eq!(written(&bench), 1);
    assert_eq!(bench.changes, [Change::Meddled(OWN)]);
}

#[test]
fn an_old_state_that_somebody_puts_back_does_not_count() {
    let mut bench = idle();
    overwrite(&mut bench, "2/3/z", 0, 7);
    bench.watch();
    bench.wait(2);
    assert_eq!(written(&bench), 1);
    assert_eq!(bench.changes, [Change::Meddled(OWN)]);
}

#[test]
fn what_the_watch_shows_of_ones_own_writes_is_no_meddling() {
    let mut bench = idle();
    for value in 2..20 {
        promise(&mut bench, value);
        let write = the_write(&mut bench);
        let answer = bench.server.call(write.call);
        // Before its answer, and after it.
        bench.watch();
        bench.replica.answer(write.id, answer, bench.now);
        bench.watch();
        bench.wait(1);
    }
    assert!(!bench.changes.contains(&Change::Meddled(OWN)));
}

#[test]
fn a_write_that_conflicts_for_ever_is_not_tried_without_a_pause() {
    let mut bench = Bench::serving("1/3/a", 1);
    bench.changes.clear();
    promise(&mut bench, 1);
    let mut writes = 0;
    for _ in 0..200 {
        for request in bench.poll() {
            if matches!(request.call, Call::WriteState { shard: OWN, .. }) {
                writes += 1;
                bench
                    .replica
                    .answer(request.id, Answer::Conflict, bench.now);
            } else {
                bench.answer(request);
            }
        }
        bench.now += Duration::from_millis(250);
    }
    assert!((20..60).contains(&writes), "{writes} in 50 s");
    assert!(bench.changes.contains(&Change::Incomplete(OWN, Step::Save)));
}

#[test]
fn a_mark_on_the_lease_does_not_cost_what_is_not_written() {
    let mut bench = Bench::serving("1/3/a", 1);
    bench.changes.clear();
    note(&mut bench, 1);
    let mut marked = bench.lease(OWN).clone();
    marked.claimed_by = Some(holder("1/3/b"));
    bench.server.set_lease(OWN, marked);
    bench.refuse = is_write;
    bench.wait(2);
    assert_eq!(bench.replica.alerts(OWN).unwrap()[&own_key()], 1);
    assert!(!bench.changes.contains(&Change::Forgot(OWN)));
    assert!(bench.may_send(&own_key()));
}

// === The pace ===

#[test]
fn what_nobody_waits_for_is_written_once_a_second() {
    let mut bench = Bench::serving("1/3/a", 1);
    let start = bench.now;
    let mut writes = Vec::new();
    for value in 0..40 {
        note(&mut bench, value);
        let calls = bench.settle();
        writes.extend(calls.iter().any(is_write).then_some(bench.now - start));
        bench.now += Duration::from_millis(100);
    }
    assert_eq!(writes, [s(1), s(2), s(3)]);
    // The last change comes at the next deadline, without another one.
    assert!(!bench.replica.is_saved(OWN));
    assert_eq!(bench.replica.next_deadline(), Some(start + s(4)));
    let since = start + Duration::from_millis(3100);
    assert_eq!(bench.replica.unsaved_since(), Some(since));
    bench.now = start + s(4);
    bench.settle();
    assert!(bench.replica.is_saved(OWN));
    assert_eq!(
        (bench.replica.next_deadline(), bench.replica.unsaved_since()),
        (None, None)
    );
}

#[test]
fn a_large_write_holds_up_what_nobody_waits_for_and_nothing_else() {
    let mut bench = Bench::serving("1/3/a", 1);
    let start = bench.now;
    bench.replica.wrote(OWN, 10 * 64 * 1024, start);
    note(&mut bench, 1);
    bench.wait(9);
    assert!(!bench.replica.is_saved(OWN));
    assert_eq!(bench.replica.next_deadline(), Some(start + s(10)));
    promise(&mut bench, 2);
    bench.settle();
    assert!(bench.replica.is_saved(OWN));
    // What was adopted, the last write, and letting go wait for nothing either.
    note(&mut bench, 3);
    bench.replica.wrote(OWN, 10 * 64 * 1024, bench.now);
    bench.server.set_record(mk_record(2, 4, 3));
    bench.watch();
    bench.settle();
    assert_eq!((written(&bench), bench.lease(OWN).acknowledged), (3, 2));
}

#[test]
fn a_release_and_a_stop_write_at_once() {
    let mut bench = Bench::serving("1/3/a", 1);
    note(&mut bench, 1);
    bench.replica.allow(false);
    bench.settle();
    assert_eq!(
        (written(&bench), &bench.lease(OWN).held_by),
        (1, &HeldBy::Nobody)
    );
    bench.replica.allow(true);
    bench.settle();
    note(&mut bench, 2);
    bench.replica.stop();
    bench.settle();
    assert_eq!(
        (written(&bench), &bench.lease(OWN).held_by),
        (2, &HeldBy::Nobody)
    );
    assert!(bench.replica.is_stopped());
}

#[test]
fn a_stop_writes_also_what_came_while_a_write_was_under_way() {
    let mut bench = Bench::serving("1/3/a", 1);
    promise(&mut bench, 1);
    let write = the_write(&mut bench);
    note(&mut bench, 2);
    bench.replica.stop();
    assert!(bench.poll().is_empty());
    bench.answer(write);
    bench.settle();
    assert_eq!(written(&bench), 2);
    assert!(bench.replica.is_stopped());
}

// === Promises ===

#[test]
fn a_first_page_waits_until_it_is_written() {
    let mut bench = Bench::serving("1/3/a", 1);
    bench.changes.clear();
    let until = bench.now + s(2);
    promise(&mut bench, 1);
    // Gate 1 does not ask for that.
    assert!(bench.may_send(&own_key()));
    let write = the_write(&mut bench);
    assert_eq!(begin(&mut bench), Leave::NotBefore(until));
    bench.answer(write);
    assert_eq!(begin(&mut bench), Leave::Granted);
    bench.poll();
    assert_eq!(bench.changes, [Change::Saved(OWN)]);
    assert_eq!(bench.replica.sent_unsaved(), 0);
}

#[test]
fn a_promise_is_kept_only_by_a_write_that_contains_it() {
    let mut bench = Bench::serving("1/3/a", 1);
    promise(&mut bench, 1);
    let first = the_write(&mut bench);
    bench.now += s(1);
    // For another key of the shard; the first page of it is in no write yet.
    let other = (0..1000)
        .map(key)
        .find(|key| OWN.owns(key) && *key != own_key())
        .unwrap();
    bench.replica.alerts_mut(OWN).unwrap().insert(other, 1);
    bench.replica.promise(&other, bench.now);
    bench.answer(first);
    assert_eq!(begin(&mut bench), Leave::Granted);
    let waits = Leave::NotBefore(bench.now + s(2));
    assert_eq!(bench.replica.begin_send(&other, bench.now, s(3)), waits);
    // One write at a time; this one comes at once after it.
    let second = the_write(&mut bench);
    bench.answer(second);
    let granted = bench.replica.begin_send(&other, bench.now, s(3));
    assert_eq!(granted, Leave::Granted);
}

#[test]
fn a_page_leaves_after_2_s_also_if_it_cannot_be_written_and_that_is_said() {
    let mut bench = Bench::serving("1/3/a", 1);
    bench.changes.clear();
    bench.refuse = is_write;
    let until = bench.now + s(2);
    promise(&mut bench, 1);
    bench.wait(1);
    // Made again, it does not wait for longer.
    promise(&mut bench, 2);
    assert_eq!(begin(&mut bench), Leave::NotBefore(until));
    bench.wait(1);
    assert_eq!(begin(&mut bench), Leave::Granted);
    assert_eq!(begin(&mut bench), Leave::Granted);
    bench.poll();
    assert_eq!(bench.changes, [Change::Unsaved(OWN)]);
    assert_eq!(bench.replica.sent_unsaved(), 2);
    bench.refuse = |_| false;
    bench.wait(2);
    assert_eq!(written(&bench), 2);
    // The next time it is said again.
    bench.refuse = is_write;
    promise(&mut bench, 3);
    bench.wait(2);
    assert_eq!(begin(&mut bench), Leave::Granted);
    bench.poll();
    assert_eq!(
        bench.changes,
        [
            Change::Unsaved(OWN),
            Change::Saved(OWN),
            Change::Unsaved(OWN)
        ]
    );
}

#[test]
fn a_send_that_may_not_start_does_not_wait_but_is_refused() {
    let mut bench = Bench::serving("1/3/a", 1);
    bench.refuse = |_| true;
    promise(&mut bench, 1);
    bench.now += s(10);
    assert_eq!(begin(&mut bench), Leave::Refused);
    let elsewhere = key_of([shard(0, 3), shard(0, 3)]);
    assert_eq!(
        bench.replica.begin_send(&elsewhere, bench.now, s(3)),
        Leave::Refused
    );
}
