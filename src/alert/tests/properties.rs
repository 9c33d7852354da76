//! What must hold for every story: random ones, told to the engine plainly, with noise, and with restarts.

use super::*;

/// What a pod can look like in a random story.
#[derive(Debug, Clone, Copy)]
enum Look {
    Healthy,
    CrashLooping,
    Restarted,
    NotReady,
    ImageFailing,
    OomKilled,
    Terminating,
    Gone,
}

/// A step of a random story: after so many seconds, that pod looks like this.
#[derive(Debug, Clone, Copy)]
struct Step {
    seconds: i64,
    pod: usize,
    look: Look,
}

const PODS: usize = 4;

fn story() -> impl Strategy<Value = Vec<Step>> {
    let look = prop_oneof![
        3 => Just(Look::Healthy),
        3 => Just(Look::CrashLooping),
        3 => Just(Look::Restarted),
        3 => Just(Look::NotReady),
        2 => Just(Look::ImageFailing),
        1 => Just(Look::OomKilled),
        1 => Just(Look::Terminating),
        1 => Just(Look::Gone),
    ];
    let step =
        (1_i64..400, 0..PODS, look).prop_map(|(seconds, pod, look)| Step { seconds, pod, look });
    prop::collection::vec(step, 1..40)
}

/// The pods of a random story as the API server would show them.
struct World {
    pods: Vec<Option<(Pod, u32)>>,
    restarts: i32,
    unready: Vec<Option<Timestamp>>,
    /// When the newest run of each began.
    began: Vec<Timestamp>,
}

impl World {
    fn new() -> Self {
        let pods = (0..PODS)
            .map(|pod| Some((mk_pod(&format!("web-{pod}")), 0)))
            .collect();
        Self {
            pods,
            restarts: 0,
            unready: vec![None; PODS],
            began: vec![at(-3600); PODS],
        }
    }

    fn step(&mut self, step: Step, now: Timestamp) {
        let Step { pod, look, .. } = step;
        let life = self.pods[pod].as_ref().map_or(0, |(_, life)| *life);
        let life = if self.pods[pod].is_none() {
            life + self.restarts.unsigned_abs() + 1
        } else {
            life
        };
        let base = mk_pod(&format!("web-{pod}")).with_uid(&format!("uid-{pod}-{life}"));
        self.restarts += 1;
        let unready = *self.unready[pod].get_or_insert(now);
        let shown = match look {
            Look::Healthy => Some(base),
            Look::CrashLooping => Some(
                base.crash_looping(now, 10, self.restarts)
                    .ran_since(self.began[pod])
                    .not_ready(unready),
            ),
            Look::Restarted => Some(
                base.restarted(now, self.restarts)
                    .ran_since(std::mem::replace(&mut self.began[pod], now)),
            ),
            Look::NotReady => Some(base.not_ready(unready)),
            Look::ImageFailing => Some(base.image_failing("ImagePullBackOff", unready)),
            Look::OomKilled => Some(base.oom_killed(now)),
            Look::Terminating => Some(base.terminating(now)),
            Look::Gone => None,
        };
        if !matches!(
            look,
            Look::NotReady | Look::CrashLooping | Look::ImageFailing
        ) {
            self.unready[pod] = None;
        }
        self.pods[pod] = shown.map(|shown| (shown, life));
    }

    fn objects(&self) -> impl Iterator<Item = Object> + '_ {
        self.pods
            .iter()
            .flatten()
            .map(|(pod, _)| pod.clone().object())
    }
}

/// Feeds a step to an engine, as a watch would.
fn feed(engine: &mut Engine, before: Option<&Object>, after: Option<&Object>, now: Timestamp) {
    run_until(engine, now - jiff::SignedDuration::from_nanos(1));
    if let Some(before) = before
        && after.is_none_or(|after| after.meta().uid != before.meta().uid)
    {
        engine.gone(&before.meta().uid, now);
    }
    if let Some(after) = after {
        engine.observe(after, now);
    }
    engine.advance(now);
}

fn list(engine: &mut Engine, world: &World, now: Timestamp) {
    engine.list_started(KindId::Pod);
    for object in world.objects() {
        engine.observe(&object, now);
    }
    engine.list_done(KindId::Pod, now);
    engine.advance(now);
}

fn essence(notices: &[Notice]) -> Vec<(Timestamp, Transition, String)> {
    let mut essence: Vec<_> = notices
        .iter()
        .map(|notice| {
            (
                notice.at,
                notice.transition,
                format!("{:?}", notice.alert.labels),
            )
        })
        .collect();
    essence.sort_by(|a, b| (a.0, &a.2).cmp(&(b.0, &b.2)));
    essence
}

/// Every condition that has stood for its `for`, as its object tells, is an alert that fires or is inhibited.
fn assert_nothing_is_missed(
    engine: &Engine,
    world: &World,
    now: Timestamp,
) -> Result<(), TestCaseError> {
    let alerts = engine.alerts(now);
    for object in world.objects() {
        for finding in findings(&object, now) {
            let Since::At(since) = finding.since else {
                continue;
            };
            if finding.quorum > 1 || since.min(now) + finding.r#for() > now {
                continue;
            }
            let found = alerts.iter().any(|alert| {
                alert.rule == finding.rule
                    && matches!(alert.state, State::Firing | State::Inhibited)
                    && alert
                        .members
                        .iter()
                        .any(|member| member.object == object.object_ref())
            });
            prop_assert!(
                found,
                "{} of {} is missed",
                finding.rule.name,
                object.meta().name
            );
        }
    }
    Ok(())
}

/// No resolve while an object shows the condition.
fn assert_no_false_resolve(notices: &[Notice], world: &World) -> Result<(), TestCaseError> {
    for notice in notices {
        if !matches!(notice.transition, Transition::Resolved(_)) {
            continue;
        }
        for object in world.objects() {
            for finding in findings(&object, notice.at) {
                let stands = finding.lasts == Lasts::WhileSeen
                    && finding.rule == notice.alert.rule
                    && object.subject().0 == notice.alert.subject;
                prop_assert!(
                    !stands,
                    "{} resolved, but {} shows it",
                    finding.rule.name,
                    object.meta().name
                );
            }
        }
    }
    Ok(())
}

/// Each alert's transitions alternate: it fires, may change, resolves.
fn assert_in_order(notices: &[Notice]) -> Result<Vec<String>, TestCaseError> {
    let mut firing = std::collections::BTreeSet::new();
    for notice in notices {
        let identity = format!("{:?}", notice.alert.identity());
        match notice.transition {
            Transition::Fired => {
                prop_assert!(firing.insert(identity), "fired twice");
            }
            Transition::Changed => {
                prop_assert!(firing.contains(&identity), "changed before it fired");
            }
            Transition::Resolved(_) => {
                prop_assert!(firing.remove(&identity), "resolved before it fired");
            }
        }
    }
    Ok(firing.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Duplicates and lists at any moment change nothing; nothing is missed, resolved falsely or out of order; all ends in the end.
    #[test]
    fn every_story_is_told_once_and_truly(steps in story(), noise in prop::collection::vec(0_u8..4, 40)) {
        let (mut plain, mut noisy) = (mk_engine(), mk_engine());
        let (mut told, mut told_noisy) = (Vec::new(), Vec::new());
        let mut world = World::new();
        let mut now = at(0);
        list(&mut plain, &world, now);
        list(&mut noisy, &world, now);
        for (step, noise) in steps.into_iter().zip(noise) {
            // Until the step, the world is as it was.
            now += jiff::SignedDuration::from_secs(step.seconds);
            run_until(&mut plain, now - jiff::SignedDuration::from_nanos(1));
            let quiet = plain.take_notices();
            assert_no_false_resolve(&quiet, &world)?;
            told.extend(quiet);

            let before = world.pods[step.pod].as_ref().map(|(pod, _)| pod.clone().object());
            world.step(step, now);
            let after = world.pods[step.pod].as_ref().map(|(pod, _)| pod.clone().object());
            for engine in [&mut plain, &mut noisy] {
                feed(engine, before.as_ref(), after.as_ref(), now);
            }
            match noise {
                0 => feed(&mut noisy, after.as_ref(), after.as_ref(), now),
                1 => list(&mut noisy, &world, now),
                2 => {
                    noisy.blind(KindId::Pod);
                    noisy.sighted(KindId::Pod);
                }
                _ => {}
            }
            let told_now = plain.take_notices();
            assert_no_false_resolve(&told_now, &world)?;
            told.extend(told_now);
            told_noisy.extend(noisy.take_notices());
            assert_nothing_is_missed(&plain, &world, now)?;
        }
        for pod in 0..PODS {
            let before = world.pods[pod].as_ref().map(|(pod, _)| pod.clone().object());
            for engine in [&mut plain, &mut noisy] {
                feed(engine, before.as_ref(), None, now);
            }
        }
        let end = now + jiff::SignedDuration::from_hours(30);
        run_until(&mut plain, end);
        run_until(&mut noisy, end);
        told.extend(plain.take_notices());
        told_noisy.extend(noisy.take_notices());
        prop_assert_eq!(essence(&told), essence(&told_noisy));
        prop_assert_eq!(assert_in_order(&told)?, Vec::<String>::new());
        prop_assert_eq!((plain.kept_objects(), plain.next_deadline()), (0, None));
    }

    /// A restart, at any moment, forgets no alert whose start the API tells, and resolves nothing falsely. Jumps of the clock do not break it.
    #[test]
    fn a_restart_knows_what_the_api_tells(steps in story(), restart in 0_usize..40, jump in -300_i64..300) {
        let mut engine = mk_engine();
        let mut world = World::new();
        let mut now = at(0);
        list(&mut engine, &world, now);
        for (count, step) in steps.into_iter().enumerate() {
            now += jiff::SignedDuration::from_secs(step.seconds);
            if count == restart {
                now = now.max(at(0)) + jiff::SignedDuration::from_secs(jump);
                engine = Engine::new("test");
                list(&mut engine, &world, now);
                let told = engine.take_notices();
                prop_assert!(told.iter().all(|notice| notice.transition == Transition::Fired));
                assert_nothing_is_missed(&engine, &world, now)?;
            }
            run_until(&mut engine, now - jiff::SignedDuration::from_nanos(1));
            assert_no_false_resolve(&engine.take_notices(), &world)?;
            let before = world.pods[step.pod].as_ref().map(|(pod, _)| pod.clone().object());
            world.step(step, now);
            let after = world.pods[step.pod].as_ref().map(|(pod, _)| pod.clone().object());
            feed(&mut engine, before.as_ref(), after.as_ref(), now);
            assert_no_false_resolve(&engine.take_notices(), &world)?;
            assert_nothing_is_missed(&engine, &world, now)?;
        }
    }
}
