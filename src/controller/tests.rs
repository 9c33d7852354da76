//! The controller. `world`: several of them, with all that they have of the program, in simulated time; `histories`: what must hold whatever happens to them.

mod histories;
mod world;

use futures::stream;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::*;
use crate::{
    cluster::{FailureReason, Pod},
    notify::Event as Message,
    shard::{Sharder, ownership::Shard},
    testing::{START, at, capture, mk_pod},
};

const ONLY: Shard = Shard { total: 1, index: 0 };

/// What was told: the event, and the name of the rule.
fn told(world: &mut world::World) -> Vec<(Message, String)> {
    let told = std::mem::take(&mut world.told).into_iter();
    let name = |message: &notify::Message| message.alert.labels.get("alertname").map(str::to_owned);
    told.map(|told| (told.message.event, name(&told.message).unwrap_or_default()))
        .collect()
}

fn killed() -> Pod {
    mk_pod("web-1").oom_killed(at(0))
}

const OOM_KILLED: &str = "KubePodOOMKilled";
const DELETED: Message = Message::Resolved(crate::alert::Resolution::Deleted);
const RECOVERED: Message = Message::Resolved(crate::alert::Resolution::Recovered);

/// One replica, that has paged.
fn paging() -> world::World {
    let mut world = world::World::new(vec![Some(killed())]);
    world.start(0, 1, "test");
    assert_eq!(told(&mut world), [(Message::Fired, OOM_KILLED.to_owned())]);
    world
}

#[tokio::test(start_paused = true)]
async fn a_restart_is_silent() {
    let mut world = paging();
    world.stop(0);
    world.start(0, 1, "test");
    world.pass(Duration::from_secs(600)).await;
    assert_eq!(told(&mut world), []);
}

/// From one replica to two, and what was paged goes on.
async fn rescale(world: &mut world::World) {
    world.start(1, 2, "test");
    world.stop(0);
    world.start(0, 2, "test");
    world.pass(Duration::from_secs(300)).await;
    assert_eq!(world.objects.record.as_ref().unwrap().1.active, 2);
    assert_eq!(told(world), []);
}

#[tokio::test(start_paused = true)]
async fn a_receivers_reference_comes_back_with_the_resolve_also_after_a_restart_and_a_rescale() {
    let mut world = paging();
    world.stop(0);
    as_json(&mut world, ONLY, |_| ());
    world.start(0, 1, "test");
    rescale(&mut world).await;
    world.set_pod(0, None);
    world.pass(Duration::from_secs(600)).await;
    let [ended] = &world.told[..] else {
        panic!("{:?}", world.told)
    };
    assert!(!ended.message.event.is_firing(), "{ended:?}");
    let key = ended.message.alert.dedup_key();
    assert_eq!(ended.message.reference, notify::Reference::new(&key));
}

#[tokio::test(start_paused = true)]
async fn what_a_later_version_has_written_besides_is_still_there_for_it() {
    let mut world = paging();
    world.stop(0);
    as_json(&mut world, ONLY, |record| {
        record["acknowledgements"] = json!([{"by": "ops", "until": 1.5}]);
        record["receivers"]["recorder"][0]["escalation"] = json!({"level": 2});
    });
    world.start(0, 1, "test");
    rescale(&mut world).await;
    let remembered = world.remembered();
    let [(_, record)] = &remembered[..] else {
        panic!("{remembered:?}")
    };
    let record = serde_json::to_value(&**record).unwrap();
    assert_eq!(
        record["acknowledgements"],
        json!([{"by": "ops", "until": 1.5}])
    );
    let debt = &record["receivers"]["recorder"][0];
    assert_eq!(debt["escalation"], json!({"level": 2}));
}

/// Changes what is remembered in the way in which it is written.
fn as_json(world: &mut world::World, shard: Shard, change: impl Fn(&mut Value)) {
    world.rewrite(shard, |remembered| {
        let mut json = serde_json::to_value(&*remembered).unwrap();
        change(&mut json);
        *remembered = serde_json::from_value(json).unwrap();
    });
}

#[tokio::test(start_paused = true)]
async fn what_fired_by_a_rule_that_there_is_no_more_ends_at_the_next_start() {
    let mut world = paging();
    world.stop(0);
    world.rewrite(ONLY, |remembered| {
        let text = serde_json::to_string(remembered).unwrap();
        *remembered =
            serde_json::from_str(&text.replace(OOM_KILLED, "KubePodOfYesterday")).unwrap();
    });
    world.start(0, 1, "test");
    let of_yesterday = (RECOVERED, "KubePodOfYesterday".to_owned());
    let fired = (Message::Fired, OOM_KILLED.to_owned());
    let mut told_at_start = told(&mut world);
    told_at_start.sort_by_key(|(event, _)| event.is_firing());
    assert_eq!(told_at_start, [of_yesterday, fired]);
    // Once.
    world.stop(0);
    world.start(0, 1, "test");
    assert_eq!(told(&mut world), []);
}

#[tokio::test(start_paused = true)]
async fn what_was_to_be_told_of_a_rule_that_there_is_no_more_is_told_with_its_end() {
    let mut world = world::World::new(vec![Some(killed())]);
    world.weather = world::Weather::Down;
    world.start(0, 1, "test");
    world.stop(0);
    world.rewrite(ONLY, |remembered| {
        let text = serde_json::to_string(remembered).unwrap();
        *remembered =
            serde_json::from_str(&text.replace(OOM_KILLED, "KubePodOfYesterday")).unwrap();
    });
    world.weather = world::Weather::Fine;
    world.set_pod(0, None);
    world.start(0, 1, "test");
    let Message::Resolved(why) = RECOVERED else {
        unreachable!()
    };
    let event = Message::FiredAndResolved(why);
    assert_eq!(told(&mut world), [(event, "KubePodOfYesterday".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn what_fired_under_another_name_of_the_cluster_ends_and_fires_under_the_new_one() {
    let mut world = paging();
    world.stop(0);
    world.start(0, 1, "prod");
    let mut told_at_start = told(&mut world);
    told_at_start.sort_by_key(|(event, _)| event.is_firing());
    let name = OOM_KILLED.to_owned();
    assert_eq!(
        told_at_start,
        [(RECOVERED, name.clone()), (Message::Fired, name)]
    );
}

/// As [`paging`], but it could not write down what it has told; and as it could not renew its Lease, it has charge of nothing by now.
async fn paging_without_rights() -> world::World {
    let mut world = world::World::new(vec![Some(mk_pod("web-1"))]);
    world.start(0, 1, "test");
    world.forbidden.insert(0);
    world.set_pod(0, Some(killed()));
    world.pass(Duration::from_secs(10)).await;
    assert_eq!(told(&mut world), [(Message::Fired, OOM_KILLED.to_owned())]);
    world.pass(Duration::from_secs(300)).await;
    world
}

#[tokio::test(start_paused = true)]
async fn a_page_that_could_not_be_written_down_gets_its_resolve_once_there_are_rights_again() {
    let mut world = paging_without_rights().await;
    world.set_pod(0, None);
    // Longer than an end is kept in mind for the sake of others.
    world.pass(Duration::from_secs(1200)).await;
    assert_eq!(told(&mut world), []);
    world.forbidden.clear();
    world.pass(Duration::from_secs(300)).await;
    assert_eq!(told(&mut world), [(DELETED, OOM_KILLED.to_owned())]);
}

/// One that began too late to see any of it takes over, and finds nothing written.
async fn heir_of_paging_without_rights(gone: bool) -> world::World {
    let mut world = paging_without_rights().await;
    let key = ShardKey::of(&killed().object().subject().0);
    if gone {
        world.set_pod(0, None);
        world.pass(Duration::from_secs(1200)).await;
    }
    world.start(1, 1, "test");
    world.pass(Duration::from_secs(300)).await;
    assert_eq!(world.owner(&key).unwrap().number, 2);
    world
}

#[tokio::test(start_paused = true)]
async fn a_page_that_could_not_be_written_down_gets_its_resolve_also_after_an_heir_has_been_there()
{
    let mut world = heir_of_paging_without_rights(true).await;
    assert_eq!(told(&mut world), []);
    world.forbidden.clear();
    world.pass(Duration::from_secs(300)).await;
    assert_eq!(told(&mut world), [(DELETED, OOM_KILLED.to_owned())]);
    world.pass(Duration::from_secs(600)).await;
    assert_eq!(told(&mut world), []);
}

#[tokio::test(start_paused = true)]
async fn what_an_heir_has_paged_and_ended_is_not_ended_again_by_who_could_not_write_it_down() {
    let mut world = heir_of_paging_without_rights(false).await;
    assert_eq!(told(&mut world), [(Message::Fired, OOM_KILLED.to_owned())]);
    world.set_pod(0, None);
    world.pass(Duration::from_secs(60)).await;
    assert_eq!(told(&mut world), [(DELETED, OOM_KILLED.to_owned())]);
    world.forbidden.clear();
    world.pass(Duration::from_secs(600)).await;
    assert_eq!(told(&mut world), []);
}

#[tokio::test(start_paused = true)]
async fn a_page_that_could_not_be_written_down_and_stands_is_not_repeated_by_who_sent_it() {
    let mut world = paging_without_rights().await;
    world.forbidden.clear();
    world.pass(Duration::from_secs(300)).await;
    assert_eq!(told(&mut world), []);
    // It is written down by now.
    world.stop(0);
    world.set_pod(0, None);
    world.start(0, 1, "test");
    world.pass(Duration::from_secs(300)).await;
    assert_eq!(told(&mut world), [(DELETED, OOM_KILLED.to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn what_ended_and_began_again_while_nobody_could_be_told_is_told() {
    let mut world = paging_without_rights().await;
    world.set_pod(0, None);
    world.pass(Duration::from_secs(1200)).await;
    world.set_pod(0, Some(mk_pod("web-1").oom_killed(at(1500))));
    world.forbidden.clear();
    world.pass(Duration::from_secs(300)).await;
    let again = told(&mut world);
    assert!(
        again.contains(&(Message::Fired, OOM_KILLED.to_owned())),
        "{again:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_state_that_somebody_deletes_is_written_again() {
    let mut world = paging();
    world.pass(Duration::from_secs(60)).await;
    world.delete_state(ONLY);
    world.pass(Duration::from_secs(60)).await;
    world.stop(0);
    world.set_pod(0, None);
    world.start(0, 1, "test");
    world.pass(Duration::from_secs(300)).await;
    assert_eq!(told(&mut world), [(DELETED, OOM_KILLED.to_owned())]);
}

/// What it finds written down has fired and ended while it stood still: that it is well, and since when, is in the list that it begins with.
#[tokio::test(start_paused = true)]
async fn who_stood_still_ends_at_once_what_it_finds_to_be_over() {
    let looping = mk_pod("web-1").crash_looping(at(-600), 300, 9);
    let mut world = world::World::new(vec![Some(mk_pod("web-1"))]);
    let owner = Shard::of(&ShardKey::of(&looping.clone().object().subject().0), 2).index;
    world.start(0, 2, "test");
    world.start(1, 2, "test");
    world.frozen.insert(owner);
    world.pass(Duration::from_secs(120)).await;
    world.set_pod(0, Some(looping));
    world.pass(Duration::from_secs(60)).await;
    let fired = told(&mut world);
    assert_eq!(fired, [(Message::Fired, "KubePodCrashLooping".to_owned())]);
    // Its heir stands still in turn, and sees as little of the end.
    world.frozen.insert(1 - owner);
    world.set_pod(0, Some(mk_pod("web-1").restarted(at(-900), 9)));
    world.pass(Duration::from_secs(60)).await;
    world.thaw(owner);
    // Until it may take over.
    world.pass(Duration::from_secs(120)).await;
    let ended = told(&mut world);
    assert_eq!(ended, [(RECOVERED, "KubePodCrashLooping".to_owned())]);
}

/// Its hold would go on for whoever does not know when it became well.
#[tokio::test(start_paused = true)]
async fn what_ended_before_the_eyes_of_who_takes_over_is_over() {
    let looping = mk_pod("web-1").crash_looping(at(-600), 300, 9);
    let mut world = world::World::new(vec![Some(looping.clone())]);
    world.start(0, 2, "test");
    world.start(1, 2, "test");
    world.pass(Duration::from_secs(120)).await;
    let fired = told(&mut world);
    assert_eq!(fired, [(Message::Fired, "KubePodCrashLooping".to_owned())]);
    let key = ShardKey::of(&looping.object().subject().0);
    world.kill(Shard::of(&key, 2).index);
    world.set_pod(0, Some(mk_pod("web-1")));
    world.pass(Duration::from_secs(3600)).await;
    let ended = told(&mut world);
    assert_eq!(ended, [(RECOVERED, "KubePodCrashLooping".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn a_lasting_failure_is_said_once_and_loudly_when_it_has_lasted_a_minute() {
    let (logs, _logging) = capture();
    let metrics = Arc::new(Metrics::new(0, 1, &[], &[]).unwrap());
    let clock = Clock::starting_at(START, 1.0);
    let controller = Controller::new(
        Engine::new(String::new()),
        Arc::new(Sharder::default()),
        None,
        clock,
        Vec::new(),
        Arc::clone(&metrics),
        Health::new(&[KindId::Pod]),
    );
    // One failure every 10 s, for two minutes.
    let failures = stream::iter(0..12).then(|_| async {
        sleep(Duration::from_secs(10)).await;
        let failure = Failure {
            reason: FailureReason::Connection,
            message: "connection refused".into(),
        };
        (KindId::Pod, Event::Failed(failure))
    });
    controller
        .run(failures, oneshot::channel().0, CancellationToken::new())
        .await;

    let logs = logs.text();
    let count = |level: &str| {
        let is_it = |line: &&str| line.contains(level) && line.contains("connection refused");
        logs.lines().filter(is_it).count()
    };
    assert_eq!((count("WARN"), count("ERROR")), (1, 1), "{logs}");
    let shown = metrics.render().unwrap();
    let failed = r#"alertkube_watch_failures_total{kind="Pod",reason="connection"} 12"#;
    assert!(shown.contains(failed), "{shown}");
}
