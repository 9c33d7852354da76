//! What time alone brings about: a run on a CronJob's schedule that nobody starts changes no object.

use serde_json::{Value, json};

use super::*;
use crate::cluster::CronJob;

const MISSED: &str = "KubeCronJobMissed";

fn time(text: &str) -> Timestamp {
    format!("2026-11-{text}Z").parse().unwrap()
}

/// A CronJob that is to run each night at 3, and last did on the 19th.
fn mk_cron_job() -> Value {
    json!({
        "metadata": {
            "creationTimestamp": "2026-11-01T00:00:00Z", "generation": 1,
            "name": "report", "namespace": "shop", "uid": "report",
        },
        "spec": {"schedule": "0 3 * * *", "timeZone": "Etc/UTC"},
        "status": {
            "lastScheduleTime": "2026-11-19T03:00:00Z",
            "lastSuccessfulTime": "2026-11-19T03:04:00Z",
        },
    })
}

fn observe(engine: &mut Engine, cron_job: Value, now: Timestamp) {
    let cron_job: CronJob = serde_json::from_value(cron_job).unwrap();
    engine.observe(&Object::CronJob(cron_job), now);
}

/// An engine that has seen this CronJob at noon of the 19th, in a list.
fn mk_seen(cron_job: Value) -> Engine {
    let mut engine = Engine::new("test");
    let noon = time("19T12:00:00");
    engine.list_started(KindId::CronJob);
    observe(&mut engine, cron_job, noon);
    engine.list_done(KindId::CronJob, noon);
    assert_eq!(wait(&mut engine, noon), []);
    engine
}

fn states(engine: &Engine, now: Timestamp) -> Vec<State> {
    engine.alerts(now).iter().map(|alert| alert.state).collect()
}

#[test]
fn a_run_that_nobody_starts_is_found_without_any_event() {
    let mut engine = mk_seen(mk_cron_job());
    assert_eq!(engine.next_deadline(), Some(time("20T03:00:00")));
    assert_eq!(engine.kept_objects(), 0, "it is well until then");
    assert_eq!(wait(&mut engine, time("20T02:59:59")), []);
    assert_eq!(states(&engine, time("20T02:59:59")), []);
    assert_eq!(wait(&mut engine, time("20T03:04:59")), []);
    assert_eq!(states(&engine, time("20T03:04:59")), [State::Pending]);
    let fired = wait(&mut engine, time("20T03:05:00"));
    assert_eq!(fired, [(MISSED, Transition::Fired)]);
}

#[test]
fn one_that_has_never_run_is_found_too() {
    let mut never = mk_cron_job();
    never["status"] = json!({});
    never["metadata"]["creationTimestamp"] = json!("2026-11-19T10:00:00Z");
    let mut engine = mk_seen(never);
    assert_eq!(wait(&mut engine, time("20T03:04:59")), []);
    let fired = wait(&mut engine, time("20T03:05:00"));
    assert_eq!(fired, [(MISSED, Transition::Fired)]);
}

#[test]
fn runs_that_are_started_are_silent_night_after_night() {
    let mut engine = mk_seen(mk_cron_job());
    for day in 20..26 {
        let due = time(&format!("{day}T03:00:00"));
        assert_eq!(wait(&mut engine, time(&format!("{day}T03:00:02"))), []);
        let mut run = mk_cron_job();
        run["status"]["lastScheduleTime"] = json!(due);
        run["status"]["lastSuccessfulTime"] = json!(format!("2026-11-{day}T03:00:01Z"));
        observe(&mut engine, run, time(&format!("{day}T03:00:02")));
        assert_eq!(wait(&mut engine, time(&format!("{day}T12:00:00"))), []);
        assert_eq!(engine.kept_objects(), 0);
    }
    assert_eq!(engine.next_deadline(), Some(time("26T03:00:00")));
}

#[test]
fn what_is_suspended_deleted_or_no_longer_listed_is_not_looked_at() {
    let mut suspended = mk_cron_job();
    suspended["spec"]["suspend"] = json!(true);
    let mut terminating = mk_cron_job();
    terminating["metadata"]["deletionTimestamp"] = json!("2026-11-19T13:00:00Z");
    let one = time("19T13:00:00");
    for changed in [suspended, terminating] {
        let mut engine = mk_seen(mk_cron_job());
        observe(&mut engine, changed, one);
        assert_eq!(wait(&mut engine, time("21T00:00:00")), []);
    }

    let mut engine = mk_seen(mk_cron_job());
    engine.gone("report", one);
    assert_eq!(engine.next_deadline(), None);

    let mut engine = mk_seen(mk_cron_job());
    engine.list_started(KindId::CronJob);
    engine.list_done(KindId::CronJob, one);
    assert_eq!(engine.next_deadline(), None);
}

#[test]
fn a_new_schedule_has_its_time_from_when_it_was_seen_to_be_overdue() {
    let mut changed = mk_cron_job();
    changed["metadata"]["generation"] = json!(3);
    let mut engine = mk_seen(changed);
    assert_eq!(wait(&mut engine, time("20T03:04:59")), []);
    let fired = wait(&mut engine, time("20T03:05:00"));
    assert_eq!(fired, [(MISSED, Transition::Fired)]);
}

#[test]
fn nobody_is_paged_for_a_run_that_could_not_be_seen() {
    let mut engine = mk_seen(mk_cron_job());
    engine.blind(KindId::CronJob);
    assert_eq!(engine.next_deadline(), None);
    assert_eq!(wait(&mut engine, time("20T09:00:00")), []);
    // The run was there.
    let mut run = mk_cron_job();
    run["status"]["lastScheduleTime"] = json!("2026-11-20T03:00:00Z");
    run["status"]["lastSuccessfulTime"] = json!("2026-11-20T03:01:00Z");
    observe(&mut engine, run, time("20T09:00:00"));
    engine.sighted(KindId::CronJob);
    assert_eq!(wait(&mut engine, time("20T12:00:00")), []);
}

#[test]
fn a_list_that_is_under_way_must_bring_the_object_itself() {
    let mut engine = mk_seen(mk_cron_job());
    let due = time("20T03:00:00");
    assert_eq!(wait(&mut engine, due), []);
    assert_eq!(states(&engine, due), [State::Pending]);
    engine.list_started(KindId::CronJob);
    engine.list_done(KindId::CronJob, due);
    assert_eq!(wait(&mut engine, time("21T00:00:00")), []);
    assert_eq!(states(&engine, time("21T00:00:00")), []);
}

#[test]
fn a_rule_that_is_turned_off_finds_nothing_and_says_so_to_no_one() {
    let mut tuning = crate::rules::Tuning::default();
    let off = crate::rules::Setting {
        enabled: Some(false),
        ..Default::default()
    };
    tuning.set(crate::rules::named(MISSED).unwrap(), off);
    let mut engine = mk_seen(mk_cron_job()).tuned(tuning);
    assert_eq!(wait(&mut engine, time("21T00:00:00")), []);
    assert_eq!(states(&engine, time("21T00:00:00")), []);
}
