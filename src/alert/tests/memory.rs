//! A restart: what one life of the engine remembers, the next goes on with.

use serde_json::{Value, json};

use super::*;
use crate::{
    alert::{Alert, Memory},
    cluster::Subject,
    testing::mk_waiting,
};

const RESTARTING: &str = "KubePodRestarting";
const EVICTED: &str = "KubePodEvicted";

/// What is written down, and read again.
fn written(engine: &Engine) -> Vec<(Subject, Memory)> {
    let subjects: std::collections::BTreeSet<_> = engine.remembered().cloned().collect();
    let memories = subjects.into_iter().map(|subject| {
        let json = serde_json::to_string(&engine.memory(&subject)).unwrap();
        (subject, serde_json::from_str(&json).unwrap())
    });
    memories
        .filter(|(_, memory): &(_, Memory)| !memory.is_empty())
        .collect()
}

fn list(engine: &mut Engine, pods: &[Pod], now: Timestamp) {
    engine.list_started(KindId::Pod);
    for pod in pods {
        engine.observe(&pod.clone().object(), now);
    }
    engine.list_done(KindId::Pod, now);
    engine.advance(now);
}

fn restore(engine: &mut Engine, memories: &[(Subject, Memory)], now: Timestamp) {
    for (subject, memory) in memories {
        engine.restore(subject, memory, &[], now);
    }
    engine.advance(now);
}

/// The next life, as it begins in the program: the cluster is listed, and only then it is known what is remembered. What is decided before that is nobody's, because
/// nobody has charge of it yet.
fn restart(engine: &Engine, pods: &[Pod], now: Timestamp) -> Engine {
    let mut next = Engine::new("test");
    list(&mut next, pods, now);
    next.take_notices();
    restore(&mut next, &written(engine), now);
    next
}

/// The one that fires.
fn only(engine: &Engine, now: Timestamp) -> Alert {
    let mut alerts = engine.alerts(now);
    alerts.retain(|alert| alert.state == State::Firing);
    assert_eq!(alerts.len(), 1, "{alerts:#?}");
    alerts.remove(0)
}

/// A crash loop that fires from `at(180)` on.
fn looping() -> Pod {
    mk_pod("web-1").crash_looping(at(0), 10, 1)
}

fn firing() -> Engine {
    let mut engine = mk_engine();
    see(&mut engine, looping(), at(0));
    assert_eq!(wait(&mut engine, at(180)), [(LOOP, Transition::Fired)]);
    engine
}

#[test]
fn an_alert_that_still_stands_goes_on_in_silence() {
    let mut before = firing();
    let waiting = mk_pod("web-1").crash_looping(at(600), 160, 5);
    see(&mut before, waiting.clone(), at(600));
    let alert = only(&before, at(600));

    let mut after = restart(&before, &[waiting], at(700));
    assert_eq!(names(&mut after), []);
    assert_eq!(only(&after, at(700)), alert);
    assert_eq!(wait(&mut after, at(2000)), []);
}

#[test]
fn what_was_seen_to_end_does_not_come_back_to_life() {
    // Who served it was killed before it could write down that it is over.
    let remembered = written(&firing());
    let mut heir = firing();
    see(&mut heir, mk_pod("web-1").restarted(at(200), 2), at(200));
    run_until(&mut heir, at(900));
    let ended = heir.take_notices().pop().unwrap();
    assert_eq!(ended.transition, RECOVERED);

    for (subject, memory) in &remembered {
        heir.restore(subject, memory, &[&ended], at(910));
    }
    heir.advance(at(910));
    assert_eq!(heir.alerts(at(910)), []);
}

#[test]
fn what_fired_under_another_face_is_known_under_it() {
    let mut before = mk_engine();
    let failing = |reason| mk_pod("web-1").image_failing(reason, at(0));
    see(&mut before, failing("ErrImagePull"), at(0));
    wait(&mut before, at(300));
    let alert = only(&before, at(300));
    // By itself, the next life would say that it is the back-off.
    let mut after = restart(&before, &[failing("ImagePullBackOff")], at(310));
    assert_eq!(names(&mut after), []);
    assert_eq!(only(&after, at(310)).labels, alert.labels);
}

#[test]
fn what_is_well_at_the_first_list_resolves_when_its_hold_is_over_and_not_before() {
    // Nobody saw when it became well, so its hold begins with the list.
    let well = mk_pod("web-1").restarted(at(900), 2);
    let mut after = restart(&firing(), std::slice::from_ref(&well), at(1000));
    assert_eq!(names(&mut after), []);
    assert_eq!(wait(&mut after, at(1599)), []);
    assert_eq!(wait(&mut after, at(1600)), [(LOOP, RECOVERED)]);

    // It was seen, and the hold is not begun anew.
    let mut before = firing();
    see(&mut before, well.clone(), at(900));
    let mut after = restart(&before, std::slice::from_ref(&well), at(1000));
    assert_eq!(wait(&mut after, at(1499)), []);
    assert_eq!(wait(&mut after, at(1500)), [(LOOP, RECOVERED)]);

    // It is over by then.
    let mut after = restart(&before, &[well], at(1501));
    assert_eq!(names(&mut after), [(LOOP, RECOVERED)]);
}

#[test]
fn what_tells_since_when_it_is_well_resolves_when_that_hold_is_over() {
    let mut after = Engine::new("test");
    after.call_roll(true);
    list(
        &mut after,
        &[mk_pod("web-1").restarted(at(900), 2)],
        at(1000),
    );
    restore(&mut after, &written(&firing()), at(1000));
    assert_eq!(wait(&mut after, at(1499)), []);
    assert_eq!(wait(&mut after, at(1500)), [(LOOP, RECOVERED)]);
}

#[test]
fn what_failed_once_more_while_nobody_looked_is_held_from_then_on() {
    let mut before = firing();
    see(&mut before, mk_pod("web-1").restarted(at(200), 1), at(200));
    // By what is remembered, its hold is over at 800. It has not been well for so long.
    let again = mk_pod("web-1").restarted(at(600), 2);
    for listed in [790, 1000] {
        let mut after = Engine::new("test");
        after.call_roll(true);
        list(&mut after, std::slice::from_ref(&again), at(listed));
        restore(&mut after, &written(&before), at(listed));
        assert_eq!(names(&mut after), []);
        assert_eq!(wait(&mut after, at(1199)), []);
        assert_eq!(wait(&mut after, at(1200)), [(LOOP, RECOVERED)]);
    }

    // After the end of that hold, it is nothing that goes on.
    let later = mk_pod("web-1").restarted(at(800), 2);
    let mut after = Engine::new("test");
    after.call_roll(true);
    list(&mut after, &[later], at(801));
    restore(&mut after, &written(&before), at(801));
    assert_eq!(names(&mut after), [(LOOP, RECOVERED)]);
}

#[test]
fn what_is_gone_resolves_when_its_hold_is_over() {
    let mut after = restart(&firing(), &[], at(1000));
    assert_eq!(wait(&mut after, at(1599)), []);
    assert_eq!(wait(&mut after, at(1600)), [(LOOP, RECOVERED)]);
    assert_eq!(after.kept_objects(), 0);
}

#[test]
fn nothing_resolves_before_the_cluster_is_seen() {
    let mut after = Engine::new("test");
    restore(&mut after, &written(&firing()), at(1000));
    assert_eq!(wait(&mut after, at(9000)), []);
    assert_eq!(only(&after, at(9000)).state, State::Firing);
    // It is still broken, as is seen at last.
    list(&mut after, &[looping()], at(9000));
    assert_eq!(wait(&mut after, at(9999)), []);
    // And now it is not.
    list(&mut after, &[], at(10_000));
    assert_eq!(wait(&mut after, at(10_120)), [(LOOP, DELETED)]);
}

#[test]
fn an_event_stands_as_long_as_it_did() {
    let killed = mk_pod("web-1").oom_killed(at(0));
    let mut before = mk_engine();
    see(&mut before, killed.clone(), at(5));
    let end = only(&before, at(5)).starts_at + jiff::SignedDuration::from_hours(1);
    let mut after = restart(&before, &[killed], at(100));
    assert_eq!(
        wait(&mut after, end - jiff::SignedDuration::from_secs(1)),
        []
    );
    assert_eq!(wait(&mut after, end), [("KubePodOOMKilled", RECOVERED)]);
}

#[test]
fn who_has_seen_it_first_is_right() {
    // The API does not tell when it began: nobody knows when it crashed, nor how long it backs off.
    let mut pod = mk_pod("web-1").crash_looping(at(0), 10, 1);
    pod.status.container_statuses[0].state = mk_waiting("CrashLoopBackOff", "");
    pod.status.container_statuses[0].last_state = crate::cluster::ContainerState::default();
    let mut before = mk_engine();
    assert_eq!(see(&mut before, pod.clone(), at(0)), []);
    let mut after = restart(&before, std::slice::from_ref(&pod), at(120));
    assert_eq!(wait(&mut after, at(179)), []);
    assert_eq!(wait(&mut after, at(180)), [(LOOP, Transition::Fired)]);

    // Also if the next life has seen it before what is remembered: a replica that took over.
    let mut early = mk_engine();
    see(&mut early, pod.clone(), at(0));
    let mut late = mk_engine();
    see(&mut late, pod, at(100));
    restore(&mut early, &written(&late), at(110));
    assert_eq!(wait(&mut early, at(179)), []);
    assert_eq!(wait(&mut early, at(180)), [(LOOP, Transition::Fired)]);
}

#[test]
fn what_is_pending_is_written_only_if_the_cluster_does_not_tell_since_when() {
    let mut engine = mk_engine();
    see(&mut engine, mk_pod("web-1").not_ready(at(0)), at(0));
    assert_eq!(engine.alerts(at(100))[0].state, State::Pending);
    assert_eq!(written(&engine), []);

    let mut engine = mk_engine();
    see(&mut engine, looping(), at(0));
    assert_eq!(engine.alerts(at(100))[0].state, State::Pending);
    assert_eq!(written(&engine).len(), 1);
}

#[test]
fn a_gap_that_was_too_short_to_begin_anew_stays_one() {
    // Not ready for 3 minutes, ready for one, and not ready again: with the hold of 2 minutes, that is one stretch.
    let mut before = mk_engine();
    see(&mut before, mk_pod("web-1").not_ready(at(0)), at(0));
    see(&mut before, mk_pod("web-1"), at(180));
    let again = mk_pod("web-1").not_ready(at(240));
    see(&mut before, again.clone(), at(240));
    let mut after = restart(&before, std::slice::from_ref(&again), at(250));
    assert_eq!(wait(&mut after, at(299)), []);
    assert_eq!(wait(&mut after, at(300)), [(NOT_READY, Transition::Fired)]);
}

#[test]
fn restarts_are_counted_across_lives() {
    let restarted = |seconds, count| {
        mk_pod("web-1")
            .restarted(at(seconds), count)
            .ran_since(at(seconds - 1200))
    };
    let mut before = mk_engine();
    for (seconds, count) in [(100, 1), (1500, 2)] {
        see(&mut before, restarted(seconds, count), at(seconds));
    }
    // The third comes when the next life watches, ...
    let mut after = restart(&before, &[restarted(1500, 2)], at(1600));
    assert_eq!(names(&mut after), []);
    let third = see(&mut after, restarted(2900, 3), at(2900));
    assert_eq!(third, [(RESTARTING, Transition::Fired)]);

    // ... or when nobody does.
    let mut after = restart(&before, &[restarted(2900, 3)], at(3000));
    assert_eq!(names(&mut after), [(RESTARTING, Transition::Fired)]);
}

#[test]
fn evictions_are_counted_across_lives_although_their_pods_are_gone() {
    let evicted = |engine: &mut Engine, pod: i64| {
        let now = at(pod * 60);
        see(engine, mk_pod(&format!("web-{pod}")).evicted(now), now)
    };
    let mut before = mk_engine();
    assert_eq!(evicted(&mut before, 0), []);
    // One goes before the restart, and one in between.
    before.gone("uid-web-0", at(30));
    assert_eq!(evicted(&mut before, 1), []);
    let mut after = restart(&before, &[], at(100));
    assert_eq!(evicted(&mut after, 2), [(EVICTED, Transition::Fired)]);
}

#[test]
fn an_alert_of_a_rule_that_there_is_no_more_is_left_out() {
    let written = written(&firing());
    let (subject, memory) = &written[0];
    let mut json = serde_json::to_value(memory).unwrap();
    json["alerts"][0]["rule"] = json!("KubePodOfYesterday");
    let memory: Memory = serde_json::from_value(json).unwrap();
    let mut after = mk_engine();
    restore(&mut after, &[(subject.clone(), memory)], at(1000));
    assert_eq!(wait(&mut after, at(9000)), []);
    assert_eq!(after.alerts(at(9000)), []);
    assert_eq!(after.kept_objects(), 0);
}

#[test]
fn what_another_version_wrote_can_be_read() {
    assert!(serde_json::from_str::<Memory>("{}").unwrap().is_empty());
    let written = written(&firing());
    let (subject, memory) = &written[0];
    let mut json = serde_json::to_value(memory).unwrap();
    add_field_everywhere(&mut json);
    let read: Memory = serde_json::from_value(json).unwrap();
    assert_eq!(read, *memory);
    assert_eq!(memory.len(), 1);
    assert_eq!(&*subject.name, "web");
}

/// In each object that is a structure, not a map: maps have UIDs or containers as their keys, in these tests `uid-...`.
fn add_field_everywhere(json: &mut Value) {
    match json {
        Value::Array(values) => values.iter_mut().for_each(add_field_everywhere),
        Value::Object(fields) => {
            fields.values_mut().for_each(add_field_everywhere);
            // A duration takes no other field.
            let map = fields
                .keys()
                .any(|key| key.starts_with("uid-") || key == "nanos");
            // Externally tagged: their one field is their name.
            let tagged = [
                "at",
                "firstSeenOr",
                "firstSeenAfter",
                "until",
                "untilEvenIfGone",
            ];
            let tagged = fields.len() == 1 && fields.keys().all(|key| tagged.contains(&&**key));
            if !map && !tagged {
                fields.insert("ofTomorrow".to_owned(), json!({"new": true}));
            }
        }
        _ => {}
    }
}
