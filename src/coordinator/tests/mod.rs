//! Replicas on one API server, on a paused clock.

mod codec;
mod transport;
mod watch;
mod world;

use http::StatusCode;
use serde_json::json;
use tokio::time::{advance, sleep};

use self::world::{Member, NAMESPACE, World, always, eventually};
use super::*;
use crate::{
    cluster::Subject,
    shard::ownership::{Epoch, HASH_ID},
    sim::{CONFIG_MAPS, End, Fault, LEASES, On, Verb},
    testing::{START, capture},
};

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn key(number: u32) -> ShardKey {
    ShardKey::of(&Subject {
        kind: "Deployment".into(),
        namespace: "shop".into(),
        name: format!("web-{number}").into(),
    })
}

async fn serving(world: &World, holder: &str) -> Member {
    let member = world.start(holder);
    let Shard { total, index } = member.coordinator.me().shard();
    eventually(s(3), holder, || member.serves(index, total)).await;
    member
}

#[tokio::test(start_paused = true)]
async fn one_takes_its_lease_writes_the_record_and_serves() {
    let world = World::new().await;
    let mut member = serving(&world, "0/1/a").await;
    assert!(member.coordinator.holds_own());

    let lease = world.lease(0, 1);
    assert_eq!(
        lease["metadata"]["labels"],
        json!({
            "app.kubernetes.io/name": "alertkube",
            "app.kubernetes.io/instance": "ak",
            "alertkube.io/shard-index": "0",
            "alertkube.io/shard-total": "1",
        })
    );
    assert_eq!(
        lease["metadata"]["annotations"],
        json!({"alertkube.io/acknowledged": "1"})
    );
    assert_eq!(lease["spec"]["holderIdentity"], "0/1/a");
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 15);
    assert_eq!(lease["spec"]["leaseTransitions"], 1);
    assert_eq!(
        world.record()["data"],
        json!({"epoch": "1", "active": "1", "hash": "fnv1a64-fnv1a32"})
    );

    let only = Shard { total: 1, index: 0 };
    let mut changes = Vec::new();
    while let Ok(change) = member.changes.try_recv() {
        changes.push(change);
    }
    assert!(matches!(changes[0], Change::Record(_)), "{changes:?}");
    assert!(changes.contains(&Change::Serves(only)), "{changes:?}");

    always(s(120), "it serves", || member.serves(0, 1)).await;
    let updates = world.server.requests().count(Verb::Update, "leases");
    assert!((54..=70).contains(&updates), "{updates} in 2 minutes");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_taken_before_the_cluster_is_seen() {
    let world = World::new().await;
    let mut member = world.start_blind("0/1/a", Clock::starting_at(START, 1.0));
    sleep(s(60)).await;
    assert!(world.lease(0, 1).is_null());
    assert!(world.record().is_null());
    member.sync.take().unwrap().send(()).unwrap();
    eventually(s(3), "it serves", || member.serves(0, 1)).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_taken_before_every_list_is_complete() {
    let world = World::new().await;
    let forbid = Fault::Refuse(StatusCode::FORBIDDEN, None);
    let fault = world
        .server
        .faults()
        .inject(forbid, On::any().verb(Verb::List).resource(&CONFIG_MAPS));
    let member = world.start("0/1/a");
    sleep(s(60)).await;
    assert!(world.lease(0, 1).is_null());
    fault.lift();
    eventually(s(20), "it serves", || member.serves(0, 1)).await;
}

#[tokio::test(start_paused = true)]
async fn the_second_of_a_shard_takes_over_when_the_first_has_died() {
    let world = World::new().await;
    let first = serving(&world, "0/1/a").await;
    let second = world.start("0/1/b");
    always(s(60), "the second stands by", || {
        !second.serves(0, 1) && !second.coordinator.holds_own()
    })
    .await;
    assert_eq!(
        second.coordinator.stands_by_for(),
        Some(HeldBy::read("0/1/a"))
    );
    first.kill().await;
    let took = eventually(s(20), "the second serves", || second.serves(0, 1)).await;
    assert!((s(12)..=s(18)).contains(&took), "{took:?}");
    assert_eq!(second.coordinator.stands_by_for(), None);
    assert_eq!(world.lease(0, 1)["spec"]["leaseTransitions"], 2);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_cut_off_has_stopped_before_another_serves() {
    let world = World::new().await;
    for _ in 0..20 {
        let first = serving(&world, "0/1/a").await;
        let second = world.start("0/1/b");
        sleep(Duration::from_millis(fastrand::u64(3_000..8_000))).await;
        first.cut_off();
        let took = eventually(s(30), "the second serves", || {
            assert!(!(first.serves(0, 1) && second.serves(0, 1)));
            second.serves(0, 1)
        });
        took.await;
        assert!(!first.coordinator.holds_own());
        second.stop.cancel();
        first.kill().await;
        eventually(s(20), "it is free", || second.task.is_finished()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_second_of_a_shard_takes_over_at_once_when_the_first_stops() {
    let world = World::new().await;
    let mut first = serving(&world, "0/1/a").await;
    let second = world.start("0/1/b");
    sleep(s(10)).await;
    first.stop.cancel();
    let took = eventually(s(5), "the second serves", || second.serves(0, 1)).await;
    assert!(took < s(1), "{took:?}");
    assert!((&mut first.task).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_send_in_flight_is_waited_for_when_stopping() {
    let world = World::new().await;
    let mut member = serving(&world, "0/1/a").await;
    let key = key(0);
    eventually(s(3), "the state was read", || {
        member.coordinator.may_send(&key, s(10))
    })
    .await;
    let permission = member.coordinator.begin(&key, s(10));
    assert!(matches!(permission, Permission::Granted(_)));
    member.stop.cancel();
    always(s(5), "it waits", || {
        !member.task.is_finished() && world.lease(0, 1)["spec"]["holderIdentity"] == "0/1/a"
    })
    .await;
    assert!(!member.coordinator.may_send(&key, s(0)));
    drop(permission);
    assert!((&mut member.task).await.unwrap());
    assert!(world.lease(0, 1)["spec"]["holderIdentity"].is_null());
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_even_if_nothing_can_be_freed() {
    let world = World::new().await;
    let mut member = serving(&world, "0/1/a").await;
    member.cut_off();
    member.stop.cancel();
    let since = Instant::now();
    assert!(!(&mut member.task).await.unwrap());
    assert_eq!(since.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn who_cannot_renew_stops_serving_before_the_lease_can_be_taken() {
    let (log, _guard) = capture();
    for fault in [
        Fault::Refuse(StatusCode::SERVICE_UNAVAILABLE, None),
        Fault::Refuse(StatusCode::FORBIDDEN, None),
        Fault::Slow(s(3600)),
        Fault::SlowAnswer(s(3600)),
    ] {
        let world = World::new().await;
        let member = serving(&world, "0/1/a").await;
        sleep(s(5)).await;
        let fault = world
            .server
            .faults()
            .inject(fault, On::any().resource(&LEASES).verb(Verb::Update));
        let renewals = || world.lease(0, 1)["spec"]["renewTime"].clone();
        let stopped = eventually(s(60), "it stops serving", || !member.serves(0, 1)).await;
        assert!(stopped <= s(11), "{stopped:?} {fault:?}");
        assert!(fault.struck() > 0);
        let why = member.coordinator.obstacle().unwrap();
        assert!(
            why.contains(" to update leases") || why.contains("cannot update Lease: "),
            "{why}"
        );
        let last = renewals();
        fault.lift();
        // The renewal that is under way may have to time out.
        eventually(s(10), "it serves again", || member.serves(0, 1)).await;
        assert_ne!(renewals(), last);
        assert_eq!(member.coordinator.obstacle(), None);
    }
    let text = log.text();
    let said = text.matches(
        "WARN alertkube::coordinator::story: could not renew the Lease of shard 0-of-1 in time",
    );
    assert_eq!(said.count(), 4, "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_record_that_somebody_deletes_is_made_anew_and_that_is_said() {
    let (log, _guard) = capture();
    let world = World::new().await;
    let member = serving(&world, "0/1/a").await;
    sleep(s(5)).await;
    assert!(!log.text().contains("deleted"), "{}", log.text());
    world.delete(&CONFIG_MAPS, "ak-generation");
    eventually(s(30), "there is a new one, and it serves", || {
        world.record()["data"]["epoch"] == "2" && member.serves(0, 1)
    })
    .await;
    let said = "somebody has deleted the old one: what has been paged for is forgotten";
    assert_eq!(log.text().matches(said).count(), 1, "{}", log.text());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_of_which_the_answer_is_lost_costs_nothing() {
    let world = World::new().await;
    let member = serving(&world, "0/1/a").await;
    let on = On::any().resource(&LEASES).verb(Verb::Update).times(1);
    let fault = world.server.faults().inject(Fault::SlowAnswer(s(60)), on);
    always(s(60), "it serves", || member.serves(0, 1)).await;
    assert_eq!(fault.struck(), 1);
    assert_eq!(world.lease(0, 1)["spec"]["leaseTransitions"], 1);
    let traffic = member.coordinator.traffic();
    assert_eq!(traffic.leases.unknown, 1, "{traffic:?}");
    assert!(traffic.leases.ok > 20, "{traffic:?}");
    assert!(
        traffic.state_writes.ok > 0 && traffic.state_bytes > 0,
        "{traffic:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_deletes_is_taken_again() {
    let world = World::new().await;
    let mut member = serving(&world, "0/1/a").await;
    while member.changes.try_recv().is_ok() {}
    world.delete(&LEASES, "ak-shard-0-of-1");
    let only = Shard { total: 1, index: 0 };
    // It stops at once, and looks again before it serves.
    for expected in [
        Change::Left(only),
        Change::Forgot(only),
        Change::Serves(only),
        Change::Known(only, None),
    ] {
        let next = tokio::time::timeout(s(3), member.changes.recv());
        assert_eq!(next.await.unwrap(), Some(expected));
    }
    assert_eq!(world.lease(0, 1)["spec"]["holderIdentity"], "0/1/a");
    assert_eq!(world.record()["data"]["epoch"], "1");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_loses_its_labels_gets_them_back() {
    let world = World::new().await;
    let holder = serving(&world, "0/1/a").await;
    let other = world.start("0/1/b");
    sleep(s(5)).await;
    let bare = json!({"metadata": {"labels": {"app.kubernetes.io/instance": null}}});
    world.patch(&LEASES, "ak-shard-0-of-1", &bare);
    let label = || world.lease(0, 1)["metadata"]["labels"]["app.kubernetes.io/instance"] == "ak";
    eventually(s(5), "it has its label", label).await;
    eventually(s(5), "it serves", || holder.serves(0, 1)).await;
    always(s(60), "the other stands by", || !other.serves(0, 1)).await;

    // Nobody is left to see it, but a replica that has never seen it.
    world.patch(&LEASES, "ak-shard-0-of-1", &bare);
    holder.kill().await;
    other.kill().await;
    world.patch(&LEASES, "ak-shard-0-of-1", &bare);
    let next = world.start("0/1/c");
    eventually(s(20), "the next serves", || next.serves(0, 1)).await;
    assert!(label());
}

#[tokio::test(start_paused = true)]
async fn what_is_foreign_on_a_lease_and_on_the_record_stays() {
    let world = World::new().await;
    let member = serving(&world, "0/1/a").await;
    let foreign = json!({"metadata": {
        "labels": {"team": "sre"},
        "annotations": {"example.com/note": "ours"},
    }});
    world.patch(&LEASES, "ak-shard-0-of-1", &foreign);
    eventually(s(5), "it serves", || member.serves(0, 1)).await;
    sleep(s(30)).await;
    let metadata = &world.lease(0, 1)["metadata"];
    assert_eq!(metadata["labels"]["team"], "sre");
    assert_eq!(metadata["annotations"]["example.com/note"], "ours");
    assert_eq!(metadata["annotations"]["alertkube.io/acknowledged"], "1");
    assert_eq!(metadata["labels"]["alertkube.io/shard-total"], "1");

    world.patch(&CONFIG_MAPS, "ak-generation", &foreign);
    let others = ["0/2/b", "1/2/c"].map(|holder| world.start(holder));
    sleep(s(5)).await;
    member.stop.cancel();
    eventually(s(30), "the new generation is active", || {
        world.record()["data"]["active"] == "2"
    })
    .await;
    assert_eq!(world.record()["metadata"]["labels"]["team"], "sre");
    drop(others);
}

#[tokio::test(start_paused = true)]
async fn clocks_10_minutes_apart_change_nothing() {
    let world = World::new().await;
    let minutes = jiff::SignedDuration::from_mins;
    let mut members: Vec<_> = [("0/1/a", -10), ("0/1/b", 0), ("0/1/c", 10)]
        .map(|(holder, ahead)| {
            world.start_blind(holder, Clock::starting_at(START + minutes(ahead), 1.0))
        })
        .into();
    for member in &mut members {
        member.sync.take().unwrap().send(()).unwrap();
        sleep(s(3)).await;
    }
    always(s(120), "the first serves, alone", || {
        let serve = members.iter().map(|member| member.serves(0, 1));
        serve.eq([true, false, false])
    })
    .await;
    assert_eq!(world.lease(0, 1)["spec"]["leaseTransitions"], 1);
    let first = members.remove(0);
    first.kill().await;
    let took = eventually(s(20), "one of the others serves", || {
        members.iter().any(|member| member.serves(0, 1))
    });
    let took = took.await;
    assert!((s(12)..=s(18)).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_allowed_is_said_once_with_what_to_allow() {
    let (log, _guard) = capture();
    let world = World::new().await;
    let forbid = Fault::Refuse(StatusCode::FORBIDDEN, None);
    let faults = world.server.faults();
    let fault = faults.inject(forbid, On::any().verb(Verb::Create).resource(&LEASES));
    let member = world.start("0/1/a");
    sleep(s(30)).await;
    assert!(fault.struck() > 5, "{}", fault.struck());
    let why = member.coordinator.obstacle().unwrap();
    assert!(why.starts_with("not allowed to create leases"), "{why}");
    fault.lift();
    eventually(s(5), "it serves", || member.serves(0, 1)).await;
    let text = log.text();
    let said: Vec<_> = text
        .lines()
        .filter(|line| line.contains(" ERROR "))
        .collect();
    assert_eq!(said.len(), 1, "{text}");
    assert!(
        said[0].contains(
            "not allowed to create leases.coordination.k8s.io in the namespace monitoring: allow it in a Role of this namespace"
        ),
        "{text}"
    );
    assert!(
        text.contains("it is possible again to create Lease"),
        "{text}"
    );
    assert!(text.contains("serves shard 0-of-1, its own"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn three_replicas_serve_a_shard_each() {
    let world = World::new().await;
    let members = ["0/3/a", "1/3/b", "2/3/c"].map(|holder| world.start(holder));
    eventually(s(5), "each serves its own", || {
        (0..3).all(|index| members[index as usize].serves(index, 3))
    })
    .await;
    always(s(60), "and nothing else", || {
        members.iter().enumerate().all(|(at, member)| {
            (0..3).all(|index| member.serves(index, 3) == (index as usize == at))
        })
    })
    .await;
    assert_eq!(world.record()["data"]["active"], "3");
    assert_eq!(world.record()["data"]["epoch"], "1");
    // One dies without a word: the next in the ring is its heir, until it is back.
    let [first, second, third] = members;
    second.kill().await;
    let took = eventually(s(20), "the heir serves", || third.serves(1, 3)).await;
    assert!((s(12)..=s(18)).contains(&took), "{took:?}");
    let back = world.start("1/3/d");
    let took = eventually(s(10), "it is back", || back.serves(1, 3)).await;
    assert!(took < s(3), "{took:?}");
    assert!(!third.serves(1, 3) && first.serves(0, 3));
}

#[tokio::test(start_paused = true)]
async fn from_one_to_three_all_is_handed_over() {
    let world = World::new().await;
    let old = serving(&world, "0/1/a").await;
    let only = Shard { total: 1, index: 0 };
    eventually(s(3), "it remembers", || {
        old.coordinator.update(|replica, _| {
            let notes = replica.alerts_mut(only);
            notes.map(|notes| notes.0.insert(7)).is_some()
        })
    })
    .await;
    let new = ["0/3/b", "1/3/c", "2/3/d"].map(|holder| world.start(holder));
    let keys: Vec<_> = (0..9).map(key).collect();
    let owners = |key| {
        let all = [&old, &new[0], &new[1], &new[2]];
        let may = all.map(|member| member.coordinator.may_send(key, s(0)));
        may.into_iter().filter(|may| *may).count()
    };
    always(s(60), "the old one pages while it is there", || {
        keys.iter()
            .all(|key| old.coordinator.may_send(key, s(0)) && owners(key) == 1)
    })
    .await;
    assert!(new[2].coordinator.holds_own());

    old.stop.cancel();
    let took = eventually(s(30), "the new ones page", || {
        assert!(keys.iter().all(|key| owners(key) <= 1));
        keys.iter().all(|key| owners(key) == 1)
    });
    let took = took.await;
    assert!(took < s(5), "{took:?}");
    eventually(s(10), "the hand-over is over", || {
        let data = &world.record()["data"];
        data["epoch"] == "2" && data["active"] == "3" && data["previous"].is_null()
    })
    .await;
    for index in 0..3 {
        assert_eq!(world.state(index, 3)["data"]["alerts"], json!([7]));
        let lease = world.lease(index, 3);
        assert_eq!(
            lease["metadata"]["annotations"]["alertkube.io/adopted"],
            "2"
        );
    }
    eventually(s(60), "what is left of the old one is deleted", || {
        world.state(0, 1).is_null() && world.lease(0, 1).is_null()
    })
    .await;
    always(s(60), "the new ones page", || {
        keys.iter().all(|key| owners(key) == 1)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_record_that_cannot_be_read_is_no_missing_one() {
    let (log, _guard) = capture();
    let world = World::new().await;
    let member = serving(&world, "0/1/a").await;
    sleep(s(5)).await;
    let garbage = json!({"data": {"epoch": "1", "active": "many"}});
    world.patch(&CONFIG_MAPS, "ak-generation", &garbage);
    always(s(30), "who knows it goes on", || member.serves(0, 1)).await;
    let other = world.start("0/1/b");
    sleep(s(30)).await;
    member.kill().await;
    always(s(60), "a newcomer takes no part", || {
        !other.coordinator.holds_own() && world.record()["data"]["active"] == "many"
    })
    .await;
    world.delete(&CONFIG_MAPS, "ak-generation");
    eventually(s(30), "it serves", || other.serves(0, 1)).await;
    assert_eq!(
        world.record()["data"],
        json!({"epoch": "2", "active": "1", "hash": "fnv1a64-fnv1a32"})
    );
    let text = log.text();
    for said in [
        "the ConfigMap monitoring/ak-generation cannot be read: its \"active\" is \"many\", which is no whole number from 1 to 10000; what it said before goes on",
        "this replica takes no part",
        "takes no part: the record of the active generation is of the hash \"unreadable\"",
    ] {
        assert_eq!(text.matches(said).count(), 1, "{said}: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn watches_that_break_in_any_way_are_taken_up_again() {
    let world = World::new().await;
    let first = serving(&world, "0/1/a").await;
    let second = world.start("0/1/b");
    sleep(s(5)).await;
    for fault in [
        Fault::EndWatches(End::Clean),
        Fault::EndWatches(End::Cut),
        Fault::EndWatches(End::CutWithinLine),
        Fault::ExpireWatches,
    ] {
        let fault = world.server.faults().inject(fault, On::any());
        always(s(45), "nothing changes", || {
            first.serves(0, 1) && !second.serves(0, 1)
        })
        .await;
        assert_eq!(fault.struck(), 6, "{fault:?}");
    }
    let silence = world.server.faults().inject(Fault::SilentWatch, On::any());
    always(s(300), "nobody takes what is held", || {
        first.serves(0, 1) && !second.serves(0, 1)
    })
    .await;
    silence.lift();
    first.stop.cancel();
    eventually(s(90), "the second serves", || second.serves(0, 1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_process_that_was_stopped_does_not_burst() {
    let world = World::new().await;
    let member = serving(&world, "0/1/a").await;
    sleep(s(10)).await;
    let count = || world.server.requests().last().len();
    let before = count();
    advance(s(600)).await;
    assert!(!member.serves(0, 1), "by its own clock");
    sleep(s(2)).await;
    assert!(member.serves(0, 1));
    let burst = count() - before;
    assert!(burst < 20, "{burst} requests");
}

#[tokio::test(start_paused = true)]
async fn what_is_known_of_a_state_is_forgotten_when_it_is_not_needed_any_more() {
    let world = World::new().await;
    let only = Shard { total: 1, index: 0 };
    let own = Shard { total: 2, index: 0 };
    let kept = || world.kept.lock().unwrap().clone();
    let old = serving(&world, "0/1/a").await;
    assert_eq!(kept(), [[only]]);
    drop(old);
    let _replicas = (world.start("0/2/a"), world.start("1/2/a"));
    eventually(s(60), "all is handed over, and forgotten", || {
        let record = world.record();
        record["data"]["active"] == "2"
            && record["data"].get("previous").is_none()
            && kept().iter().rfind(|kept| kept.contains(&own)) == Some(&vec![own])
    })
    .await;
    // What is read in the hand-over was not forgotten during it.
    assert!(kept().contains(&vec![only, own]), "{:?}", kept());
}
