//! The engine's stories. `properties`: what must hold for every story; `histories`: from the cluster to the receiver.

use jiff::Timestamp;
use proptest::prelude::*;

mod causes;
mod daemon_sets;
mod histories;
mod inhibition;
mod looks;
mod memory;
mod properties;
mod ties;

use super::{Engine, Notice, Resolution, State, Transition};
use crate::{
    cluster::{KindId, Object, Pod},
    rules::{Evaluation, Finding, Lasts, Memo, Since},
    testing::{at, mk_pod, mk_terminated},
};

/// An engine that has seen an empty cluster at `START`.
fn mk_engine() -> Engine {
    let mut engine = Engine::new("test");
    engine.list_started(KindId::Pod);
    engine.list_done(KindId::Pod, at(0));
    engine
}

/// Lets the engine see a pod at a time, and everything that came due before it.
fn see(engine: &mut Engine, pod: Pod, now: Timestamp) -> Vec<(&'static str, Transition)> {
    run_until(engine, now);
    engine.observe(&pod.object(), now);
    engine.advance(now);
    names(engine)
}

/// Lets time pass, deadline by deadline, as the controller does.
fn wait(engine: &mut Engine, until: Timestamp) -> Vec<(&'static str, Transition)> {
    run_until(engine, until);
    names(engine)
}

fn run_until(engine: &mut Engine, until: Timestamp) {
    while let Some(deadline) = engine.next_deadline().filter(|deadline| *deadline <= until) {
        engine.advance(deadline);
    }
    engine.advance(until);
}

fn names(engine: &mut Engine) -> Vec<(&'static str, Transition)> {
    let notices = engine.take_notices();
    notices
        .iter()
        .map(|notice| (notice.alert.rule.name, notice.transition))
        .collect()
}

const RECOVERED: Transition = Transition::Resolved(Resolution::Recovered);
const DELETED: Transition = Transition::Resolved(Resolution::Deleted);
const LOOP: &str = "KubePodCrashLooping";
const NOT_READY: &str = "KubePodNotReady";

#[test]
fn a_crash_loop_is_one_alert_until_it_has_run_for_ten_minutes() {
    let mut engine = mk_engine();
    // The first back-off of 10 s is seen at its start: it counts from then.
    assert_eq!(
        see(
            &mut engine,
            mk_pod("web-1").crash_looping(at(0), 10, 1),
            at(0)
        ),
        []
    );
    assert_eq!(
        see(&mut engine, mk_pod("web-1").restarted(at(10), 2), at(10)),
        []
    );
    assert_eq!(
        see(
            &mut engine,
            mk_pod("web-1").crash_looping(at(70), 20, 2),
            at(70)
        ),
        []
    );
    assert_eq!(
        see(&mut engine, mk_pod("web-1").restarted(at(90), 3), at(90)),
        []
    );
    let fired = see(
        &mut engine,
        mk_pod("web-1").crash_looping(at(200), 40, 3),
        at(200),
    );
    assert_eq!(fired, [(LOOP, Transition::Fired)]);
    // It alternates between waiting and running; the alert goes on.
    assert_eq!(
        see(&mut engine, mk_pod("web-1").restarted(at(240), 4), at(240)),
        []
    );
    assert_eq!(wait(&mut engine, at(800)), []);
    assert_eq!(
        see(
            &mut engine,
            mk_pod("web-1").crash_looping(at(830), 80, 4),
            at(830)
        ),
        []
    );
    assert_eq!(
        see(&mut engine, mk_pod("web-1").restarted(at(910), 5), at(910)),
        []
    );
    assert_eq!(wait(&mut engine, at(910 + 599)), []);
    assert_eq!(wait(&mut engine, at(910 + 600)), [(LOOP, RECOVERED)]);
}

#[test]
fn a_crash_loop_is_not_over_while_its_container_has_just_ended_again() {
    let mut engine = mk_engine();
    let looping = mk_pod("web-1").crash_looping(at(0), 160, 6);
    assert_eq!(
        see(&mut engine, looping, at(31)),
        [(LOOP, Transition::Fired)]
    );
    see(&mut engine, mk_pod("web-1").restarted(at(160), 7), at(160));
    // It ends 5 s before it would count as well, and the kubelet takes 10 s to say that it backs off.
    let mut ended = mk_pod("web-1").restarted(at(160), 7);
    ended.status.container_statuses[0].state = mk_terminated("Error", 1, at(755));
    assert_eq!(see(&mut engine, ended, at(755)), []);
    assert_eq!(wait(&mut engine, at(764)), []);
    let looping = mk_pod("web-1").crash_looping(at(755), 300, 7);
    assert_eq!(see(&mut engine, looping, at(765)), []);
}

#[test]
fn a_pending_clock_does_not_go_on_because_nobody_could_see() {
    let mut engine = mk_engine();
    see(&mut engine, mk_pod("web-1").not_ready(at(0)), at(0));
    see(&mut engine, mk_pod("web-1"), at(200));
    engine.blind(KindId::Pod);
    engine.list_started(KindId::Pod);
    let again = mk_pod("web-1").not_ready(at(4990));
    assert_eq!(see(&mut engine, again, at(5000)), []);
    engine.list_done(KindId::Pod, at(5000));
    assert_eq!(wait(&mut engine, at(5289)), []);
    assert_eq!(
        wait(&mut engine, at(5290)),
        [(NOT_READY, Transition::Fired)]
    );
}

#[test]
fn what_a_pending_alert_explained_fires_when_that_is_not_seen_any_more_also_while_the_watch_is_down()
 {
    let mut engine = mk_engine();
    let looping = mk_pod("web-1").crash_looping(at(0), 10, 1);
    see(&mut engine, looping.not_ready(at(-100)), at(0));
    let running = mk_pod("web-1").restarted(at(10), 2).not_ready(at(-100));
    see(&mut engine, running, at(10));
    engine.blind(KindId::Pod);
    assert_eq!(wait(&mut engine, at(199)), []);
    assert_eq!(wait(&mut engine, at(200)), [(NOT_READY, Transition::Fired)]);
}

#[test]
fn a_pending_cause_fires_when_what_it_explains_comes_due_and_is_as_severe() {
    let mut engine = mk_engine();
    let looping = mk_pod("web-1").crash_looping(at(0), 10, 1);
    see(&mut engine, looping.clone().not_ready(at(-200)), at(0));
    assert_eq!(wait(&mut engine, at(99)), []);
    assert_eq!(
        wait(&mut engine, at(100)),
        [("KubePodCrashLooping", Transition::Fired)]
    );
    assert_eq!(wait(&mut engine, at(500)), []);
    let [cause, effect] = &engine.alerts(at(500))[..] else {
        panic!("{:?}", engine.alerts(at(500)))
    };
    assert_eq!((cause.state, cause.fires_at), (State::Firing, at(100)));
    assert_eq!(effect.state, State::Inhibited);
}

#[test]
fn what_a_list_ends_is_told_in_the_same_order_every_time() {
    let mut engine = mk_engine();
    for pod in 10..30 {
        let mut pod = mk_pod(&format!("web-{pod}")).terminating(at(-1000));
        pod.metadata.owner = None;
        see(&mut engine, pod, at(0));
    }
    engine.list_started(KindId::Pod);
    engine.list_done(KindId::Pod, at(10));
    engine.advance(at(10));
    let ended: Vec<_> = engine.take_notices();
    let ended: Vec<_> = ended.iter().map(|notice| &notice.alert.subject).collect();
    assert_eq!(ended.len(), 20);
    assert!(ended.is_sorted());
}

#[test]
fn the_same_object_again_and_a_list_of_all_change_nothing() {
    let mut engine = mk_engine();
    let pod = || mk_pod("web-1").crash_looping(at(0), 160, 6);
    assert_eq!(see(&mut engine, pod(), at(31)), [(LOOP, Transition::Fired)]);
    for second in 32..40 {
        assert_eq!(see(&mut engine, pod(), at(second)), []);
    }
    engine.list_started(KindId::Pod);
    assert_eq!(see(&mut engine, pod(), at(50)), []);
    engine.list_done(KindId::Pod, at(50));
    assert_eq!(wait(&mut engine, at(1000)), []);
}

#[test]
fn nothing_resolves_during_the_first_list_nor_while_the_watch_is_down() {
    let mut engine = Engine::new("");
    engine.list_started(KindId::Pod);
    assert_eq!(
        see(&mut engine, mk_pod("web-1").not_ready(at(-400)), at(0)),
        [(NOT_READY, Transition::Fired)]
    );
    assert_eq!(see(&mut engine, mk_pod("web-1"), at(1)), []);
    assert_eq!(wait(&mut engine, at(1000)), []);
    engine.list_done(KindId::Pod, at(1000));
    assert_eq!(wait(&mut engine, at(1000)), [(NOT_READY, RECOVERED)]);

    let mut engine = mk_engine();
    see(&mut engine, mk_pod("web-1").not_ready(at(-400)), at(0));
    see(&mut engine, mk_pod("web-1"), at(10));
    engine.blind(KindId::Pod);
    assert_eq!(wait(&mut engine, at(1000)), []);
    // A list that follows says nothing before it is complete.
    engine.list_started(KindId::Pod);
    engine.sighted(KindId::Pod);
    assert_eq!(see(&mut engine, mk_pod("web-1"), at(1001)), []);
    engine.list_done(KindId::Pod, at(1002));
    assert_eq!(wait(&mut engine, at(1002)), [(NOT_READY, RECOVERED)]);

    let mut engine = mk_engine();
    see(&mut engine, mk_pod("web-1").not_ready(at(-400)), at(0));
    see(&mut engine, mk_pod("web-1"), at(10));
    engine.list_started(KindId::Pod);
    assert_eq!(wait(&mut engine, at(1000)), []);

    let mut engine = mk_engine();
    see(&mut engine, mk_pod("web-1").not_ready(at(-400)), at(0));
    see(&mut engine, mk_pod("web-1"), at(10));
    engine.blind(KindId::Pod);
    assert_eq!(wait(&mut engine, at(1000)), []);
    engine.sighted(KindId::Pod);
    assert_eq!(wait(&mut engine, at(1001)), [(NOT_READY, RECOVERED)]);
}

#[test]
fn an_alert_fires_also_while_the_watch_is_down() {
    let mut engine = mk_engine();
    see(&mut engine, mk_pod("web-1").not_ready(at(0)), at(0));
    engine.blind(KindId::Pod);
    assert_eq!(wait(&mut engine, at(300)), [(NOT_READY, Transition::Fired)]);
}

#[test]
fn a_deleted_object_resolves_as_deleted_and_a_replacement_goes_on() {
    let mut engine = mk_engine();
    see(&mut engine, mk_pod("web-1").not_ready(at(-400)), at(0));
    engine.gone("uid-web-1", at(10));
    assert_eq!(wait(&mut engine, at(129)), []);
    assert_eq!(wait(&mut engine, at(130)), [(NOT_READY, DELETED)]);

    let mut engine = mk_engine();
    see(&mut engine, mk_pod("web-1").not_ready(at(-400)), at(0));
    engine.gone("uid-web-1", at(10));
    assert_eq!(
        see(&mut engine, mk_pod("web-2").not_ready(at(60)), at(60)),
        []
    );
    assert_eq!(wait(&mut engine, at(1000)), []);
    assert_eq!(see(&mut engine, mk_pod("web-2"), at(1001)), []);
    assert_eq!(wait(&mut engine, at(1121)), [(NOT_READY, RECOVERED)]);
}

#[test]
fn a_deletion_holds_nothing_longer_than_the_recovery_before_it() {
    let mut engine = mk_engine();
    see(&mut engine, mk_pod("web-1").not_ready(at(-400)), at(0));
    see(&mut engine, mk_pod("web-1"), at(10));
    engine.gone("uid-web-1", at(100));
    assert_eq!(wait(&mut engine, at(130)), [(NOT_READY, DELETED)]);
}

#[test]
fn a_higher_severity_is_told_at_once() {
    let mut engine = mk_engine();
    let mut pod = mk_pod("web-1").crash_looping(at(0), 160, 6);
    pod.metadata.owner = None;
    let fired = see(&mut engine, pod.clone(), at(31));
    assert_eq!(fired, [(LOOP, Transition::Fired)]);
    // A static pod's crash loop is critical, and it has the subject of a bare one.
    pod.metadata.mirror = true;
    let changed = see(&mut engine, pod, at(32));
    assert_eq!(changed, [(LOOP, Transition::Changed)]);
}

#[test]
fn an_object_that_a_list_no_longer_has_is_gone() {
    let mut engine = mk_engine();
    see(&mut engine, mk_pod("web-1").not_ready(at(-400)), at(0));
    engine.blind(KindId::Pod);
    engine.list_started(KindId::Pod);
    engine.list_done(KindId::Pod, at(60));
    assert_eq!(wait(&mut engine, at(180)), [(NOT_READY, DELETED)]);
    assert_eq!(engine.kept_objects(), 0);
}

#[test]
fn a_pod_made_anew_under_its_name_is_another_member_of_the_same_alert() {
    let mut engine = mk_engine();
    see(&mut engine, mk_pod("db-0").not_ready(at(-400)), at(0));
    // The list shows only the new one: the deletion of the old was never seen.
    engine.list_started(KindId::Pod);
    assert_eq!(
        see(
            &mut engine,
            mk_pod("db-0").with_uid("new").not_ready(at(50)),
            at(60)
        ),
        []
    );
    engine.list_done(KindId::Pod, at(60));
    assert_eq!(wait(&mut engine, at(1000)), []);
    assert_eq!(engine.alerts(at(1000))[0].members.len(), 1);
}

#[test]
fn a_rolling_restart_in_which_each_pod_is_unready_for_a_while_stays_silent() {
    let mut engine = mk_engine();
    for pod in 0..20 {
        let (begin, name) = (pod * 90, format!("web-{pod}"));
        assert_eq!(
            see(&mut engine, mk_pod(&name).not_ready(at(begin)), at(begin)),
            []
        );
        assert_eq!(see(&mut engine, mk_pod(&name), at(begin + 89)), []);
    }
    assert_eq!(wait(&mut engine, at(10_000)), []);
    assert_eq!(engine.kept_objects(), 0);
}

#[test]
fn readiness_that_flaps_faster_than_the_hold_fires() {
    let mut engine = mk_engine();
    let mut fired = Vec::new();
    for minute in 0..8 {
        let now = minute * 60;
        fired.extend(see(
            &mut engine,
            mk_pod("web-1").not_ready(at(now)),
            at(now),
        ));
        fired.extend(see(&mut engine, mk_pod("web-1"), at(now + 30)));
    }
    assert_eq!(fired, [(NOT_READY, Transition::Fired)]);
}

#[test]
fn a_pending_alert_that_ends_says_nothing() {
    let mut engine = mk_engine();
    assert_eq!(
        see(&mut engine, mk_pod("web-1").not_ready(at(0)), at(0)),
        []
    );
    assert_eq!(engine.alerts(at(0))[0].state, State::Pending);
    assert_eq!(engine.alerts(at(0))[0].fires_at, at(300));
    assert_eq!(see(&mut engine, mk_pod("web-1"), at(299)), []);
    assert_eq!(wait(&mut engine, at(1000)), []);
    assert_eq!(engine.kept_objects(), 0);
}

#[test]
fn an_out_of_memory_kill_ends_by_itself_an_hour_later() {
    let mut engine = mk_engine();
    let killed = see(&mut engine, mk_pod("web-1").oom_killed(at(0)), at(1));
    assert_eq!(killed, [("KubePodOOMKilled", Transition::Fired)]);
    // Another crash hides the kill: the kill was nevertheless.
    see(&mut engine, mk_pod("web-1").restarted(at(100), 2), at(100));
    assert_eq!(wait(&mut engine, at(3599)), []);
    assert_eq!(
        wait(&mut engine, at(3600)),
        [("KubePodOOMKilled", RECOVERED)]
    );
}

#[test]
fn a_kill_on_a_node_whose_clock_is_ahead_ends_once() {
    let mut engine = mk_engine();
    let killed = || mk_pod("web-1").oom_killed(at(120));
    let mut told = see(&mut engine, killed(), at(0));
    // Seen again just before and just after an hour from the first look.
    told.extend(see(&mut engine, killed(), at(3590)));
    told.extend(see(&mut engine, killed(), at(3610)));
    told.extend(see(&mut engine, killed(), at(3730)));
    let oom = "KubePodOOMKilled";
    assert_eq!(told, [(oom, Transition::Fired), (oom, RECOVERED)]);
}

#[test]
fn evictions_are_counted_even_if_their_pods_are_gone() {
    let mut engine = mk_engine();
    for pod in 0..3 {
        let (now, name) = (at(pod * 600), format!("web-{pod}"));
        let fired = see(&mut engine, mk_pod(&name).evicted(now), now);
        engine.gone(&format!("uid-{name}"), now);
        assert_eq!(fired.is_empty(), pod < 2, "after eviction {pod}");
    }
    assert_eq!(engine.alerts(at(1200))[0].members.len(), 3);
    assert_eq!(wait(&mut engine, at(4799)), []);
    assert_eq!(wait(&mut engine, at(4800)), [("KubePodEvicted", DELETED)]);
}

#[test]
fn a_pod_that_is_unready_because_it_crash_loops_is_one_page() {
    let mut engine = mk_engine();
    let looping = |now| {
        mk_pod("web-1")
            .crash_looping(now, 160, 6)
            .not_ready(at(-2000))
    };
    assert_eq!(
        see(&mut engine, looping(at(0)), at(40)),
        [(LOOP, Transition::Fired)]
    );
    let states: Vec<_> = engine
        .alerts(at(40))
        .iter()
        .map(|alert| (alert.rule.name, alert.state))
        .collect();
    assert_eq!(
        states,
        [(LOOP, State::Firing), (NOT_READY, State::Inhibited)]
    );
    // It runs, but never becomes ready: when the crash loop is over, that is a page of its own.
    let mut unready = mk_pod("web-1").restarted(at(160), 7);
    unready = unready.not_ready(at(-2000));
    assert_eq!(see(&mut engine, unready, at(160)), []);
    assert_eq!(wait(&mut engine, at(759)), []);
    assert_eq!(
        wait(&mut engine, at(760)),
        [(LOOP, RECOVERED), (NOT_READY, Transition::Fired)]
    );
}

#[test]
fn a_crash_loop_is_explained_by_a_kill_for_memory_only_while_its_runs_end_so() {
    let mut engine = mk_engine();
    let mut killed = mk_pod("web-1").crash_looping(at(0), 160, 6);
    killed.status.container_statuses[0].last_state = mk_terminated("OOMKilled", 137, at(0));
    let oom = ("KubePodOOMKilled", Transition::Fired);
    assert_eq!(see(&mut engine, killed, at(40)), [oom]);
    let failed = mk_pod("web-1").crash_looping(at(400), 300, 7);
    assert_eq!(
        see(&mut engine, failed, at(400)),
        [(LOOP, Transition::Fired)]
    );

    // Of one container, the kill explains nothing of another.
    let mut engine = mk_engine();
    let mut both = mk_pod("web-1").crash_looping(at(0), 160, 6);
    let mut proxy = mk_pod("web-1").oom_killed(at(0));
    proxy.status.container_statuses[0].name = "proxy".into();
    both.status
        .container_statuses
        .append(&mut proxy.status.container_statuses);
    assert_eq!(
        see(&mut engine, both, at(40)),
        [(LOOP, Transition::Fired), oom]
    );
}

#[test]
fn two_reasons_of_one_failure_that_alternate_are_no_change() {
    let mut engine = mk_engine();
    let failing = |reason| mk_pod("web-1").image_failing(reason, at(0));
    see(&mut engine, failing("ErrImagePull"), at(0));
    let mut seen = wait(&mut engine, at(180));
    for second in (181..1800).step_by(60) {
        seen.extend(see(&mut engine, failing("ImagePullBackOff"), at(second)));
        seen.extend(see(&mut engine, failing("ErrImagePull"), at(second + 50)));
    }
    assert_eq!(seen, [("KubePodImagePullFailing", Transition::Fired)]);
    // The other reason alone, for longer than the hold, is one.
    see(&mut engine, failing("ImagePullBackOff"), at(2000));
    assert_eq!(wait(&mut engine, at(2119)), []);
    assert_eq!(
        wait(&mut engine, at(2120)),
        [("KubePodImagePullFailing", Transition::Changed)]
    );
    assert_eq!(&*engine.alerts(at(2120))[0].reason, "ImagePullBackOff");
}

#[test]
fn a_since_in_the_future_counts_as_now() {
    let mut engine = mk_engine();
    for second in [0, 100, 200] {
        see(
            &mut engine,
            mk_pod("web-1").not_ready(at(86_400)),
            at(second),
        );
    }
    assert_eq!(wait(&mut engine, at(300)), [(NOT_READY, Transition::Fired)]);
}

#[test]
fn many_pods_of_one_workload_are_one_alert() {
    let mut engine = mk_engine();
    let mut seen = Vec::new();
    for pod in 0..40 {
        seen.extend(see(
            &mut engine,
            mk_pod(&format!("web-{pod}")).crash_looping(at(0), 160, 6),
            at(60),
        ));
    }
    assert_eq!(seen, [(LOOP, Transition::Fired)]);
    let alert = &engine.alerts(at(60))[0];
    assert_eq!(alert.members.len(), 40);
    assert!(
        alert
            .annotations
            .get("summary")
            .unwrap()
            .ends_with("(and 39 more)")
    );
    assert_eq!(
        alert.annotations.get("runbook_url"),
        Some("https://git.example.com/alertkube/blob/HEAD/docs/runbooks/KubePodCrashLooping.md")
    );
    assert_eq!(alert.labels.get("workload"), Some("web"));
    assert_eq!(alert.labels.get("workload_type"), Some("deployment"));
    assert_eq!(alert.labels.get("container"), Some("app"));
    assert_eq!(alert.labels.get("cluster"), Some("test"));
}

#[test]
fn a_healthy_object_leaves_nothing_behind() {
    let mut engine = mk_engine();
    for pod in 0..100 {
        see(&mut engine, mk_pod(&format!("web-{pod}")), at(pod));
    }
    assert_eq!((engine.kept_objects(), engine.next_deadline()), (0, None));
}

/// What the rules say of an object alone, without any memory.
fn findings(object: &Object, now: Timestamp) -> Vec<Finding> {
    let (mut memo, mut findings) = (Memo::default(), Vec::new());
    object.evaluate(&mut Evaluation::new(now, &mut memo, &mut findings));
    findings
}

#[test]
fn overrides_apply_to_the_alerts_that_they_match_and_the_later_wins() {
    use crate::{alert::Severity, settings::file::Config};

    let pod = |namespace: &str| {
        let pod = crate::sim::pods::mk_pod(namespace, "web-7d9c5b8f6-x2x4q");
        let pod = pod.oom_killed(at(0), 1).build();
        let (pod, _) = Object::decode("v1", "Pod", &pod).unwrap().unwrap();
        pod
    };
    let alerts = |text: &str, namespace: &str| {
        let config = Config::parse("a.yaml", text).unwrap();
        let engine = Engine::new("eu").tuned(config.tuning);
        let alerts = engine.scan([pod(namespace)], at(0));
        let mut alerts = alerts.into_iter();
        alerts
            .find(|alert| alert.rule.name == "KubePodOOMKilled")
            .map(|alert| alert.severity)
    };
    let rules = |overrides: &str| {
        format!("rules:\n  KubePodOOMKilled:\n    severity: warning\n    overrides:\n{overrides}")
    };
    let one = |matchers: &str, setting: &str| {
        format!("      - matchers: ['{matchers}']\n        {setting}\n")
    };
    let dev = rules(
        &(one("namespace=~\"dev-.*\"", "severity: info")
            + &one(
                "cluster=\"eu\",workload=web,namespace=dev-2",
                "severity: critical",
            )),
    );
    assert_eq!(alerts(&dev, "shop"), Some(Severity::Warning));
    assert_eq!(alerts(&dev, "dev-1"), Some(Severity::Info));
    assert_eq!(alerts(&dev, "dev-2"), Some(Severity::Critical));
    let container = rules(&one("container=app", "enabled: false"));
    assert_eq!(alerts(&container, "shop"), None);
    let container = rules(&one("container!=app", "enabled: false"));
    assert_eq!(alerts(&container, "shop"), Some(Severity::Warning));
    let reason = rules(&one("reason=OOMKilled", "severity: critical"));
    assert_eq!(alerts(&reason, "shop"), Some(Severity::Critical));
    let kind = rules(&one("workload_type=statefulset", "enabled: false"));
    assert_eq!(alerts(&kind, "shop"), Some(Severity::Warning));
}
