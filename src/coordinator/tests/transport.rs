//! What becomes of one call.

use std::sync::atomic::AtomicBool;

use k8s_openapi::api::core::v1::ConfigMap;
use tokio::{io::AsyncReadExt as _, net::TcpListener};

use super::{
    super::transport::{Transport, Untellable},
    world::{ConfigMaps, Notes},
    *,
};
use crate::shard::ownership::{Call, Lease, Record};

const SHARD: Shard = Shard { total: 1, index: 0 };

fn transport(world: &World, client: Client) -> Transport<ConfigMaps> {
    let clock = Clock::starting_at(START, 1.0);
    let names = world.names.clone();
    Transport::new(names, clock, client.clone(), client, world.states())
}

fn ours(world: &World) -> Transport<ConfigMaps> {
    transport(world, world.client(&Arc::new(AtomicBool::new(false))))
}

async fn ask(transport: &Transport<ConfigMaps>, call: Call<Notes>) -> Answer<Notes> {
    transport.carry_out(call).await.answer
}

fn write(holder: &str, expect: Option<Version>) -> Call<Notes> {
    Call::WriteLease {
        shard: SHARD,
        lease: Lease {
            held_by: HeldBy::read(holder),
            duration: s(15),
            ..Lease::default()
        },
        renew: true,
        expect,
    }
}

fn record(epoch: Epoch, expect: Option<Version>) -> Call<Notes> {
    Call::WriteRecord {
        record: a_record(epoch),
        expect,
    }
}

fn a_record(epoch: Epoch) -> Record {
    Record {
        epoch,
        active: 1,
        previous: None,
        hash: HASH_ID.into(),
    }
}

fn version(answer: &Answer<Notes>) -> Version {
    match answer {
        Answer::Lease(version, _) | Answer::Record(version, _) => *version,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn writes_are_conditional_on_what_they_were_decided_from() {
    let world = World::new().await;
    let (us, them) = (ours(&world), ours(&world));
    let first = ask(&us, write("0/1/a", None)).await;
    assert_eq!(ask(&them, write("0/1/b", None)).await, Answer::Conflict);
    let seen = ask(&them, Call::ReadLease(SHARD)).await;
    assert_eq!(seen, first);
    let second = ask(&them, write("0/1/b", Some(version(&first)))).await;
    assert!(version(&second) > version(&first));
    let late = write("0/1/a", Some(version(&first)));
    assert_eq!(ask(&us, late).await, Answer::Conflict);
    let late = Call::DeleteLease(SHARD, version(&first));
    assert_eq!(ask(&us, late).await, Answer::Conflict);

    let first = ask(&us, record(1, None)).await;
    assert_eq!(ask(&them, record(2, None)).await, Answer::Conflict);
    assert_eq!(ask(&them, Call::ReadRecord).await, first);
    ask(&them, record(2, Some(version(&first)))).await;
    let late = record(3, Some(version(&first)));
    assert_eq!(ask(&us, late).await, Answer::Conflict);
    assert_eq!(world.record()["data"]["epoch"], "2");
}

#[tokio::test(start_paused = true)]
async fn what_is_gone_is_not_written_anew() {
    let world = World::new().await;
    let us = ours(&world);
    let lease = version(&ask(&us, write("0/1/a", None)).await);
    let kept = version(&ask(&us, record(1, None)).await);
    world.delete(&LEASES, "ak-shard-0-of-1");
    world.delete(&CONFIG_MAPS, "ak-generation");
    assert_eq!(
        ask(&us, write("0/1/a", Some(lease))).await,
        Answer::Conflict
    );
    assert_eq!(ask(&us, record(2, Some(kept))).await, Answer::Conflict);
    assert!(world.lease(0, 1).is_null() && world.record().is_null());
    // And it is known since when there is none.
    let Answer::Lease(absent, None) = ask(&us, Call::ReadLease(SHARD)).await else {
        panic!("it is there");
    };
    assert!(absent > lease);
    let Answer::Record(absent, None) = ask(&us, Call::ReadRecord).await else {
        panic!("it is there");
    };
    assert!(absent > kept);
    // Not even if it was seen to be gone.
    assert_eq!(
        ask(&us, write("0/1/a", Some(lease))).await,
        Answer::Conflict
    );
    assert_eq!(
        ask(&us, Call::DeleteLease(SHARD, lease)).await,
        Answer::Deleted
    );
}

#[tokio::test(start_paused = true)]
async fn a_failure_says_whether_it_can_have_had_an_effect() {
    let world = World::new().await;
    let us = ours(&world);
    let known = version(&ask(&us, write("0/1/a", None)).await);
    for (fault, expected) in [
        (400, Answer::Refused),
        (401, Answer::Refused),
        (403, Answer::Refused),
        (404, Answer::Conflict),
        (408, Answer::Unknown),
        (409, Answer::Conflict),
        (422, Answer::Refused),
        (429, Answer::Refused),
        // The write may be on its way to etcd.
        (500, Answer::Unknown),
        (503, Answer::Unknown),
        (504, Answer::Unknown),
    ] {
        let status = StatusCode::from_u16(fault).unwrap();
        let on = On::any().times(1);
        let fault = world
            .server
            .faults()
            .inject(Fault::Refuse(status, None), on);
        let answer = ask(&us, write("0/1/a", Some(known))).await;
        assert_eq!(answer, expected, "{status}");
        assert_eq!(fault.struck(), 1, "tried once");
    }
    for fault in [Fault::Slow(s(60)), Fault::SlowAnswer(s(60))] {
        let started = Instant::now();
        let fault = world.server.faults().inject(fault, On::any().times(1));
        let answer = ask(&us, write("0/1/a", Some(known))).await;
        assert_eq!(answer, Answer::Unknown);
        assert_eq!(started.elapsed().as_secs(), 5);
        assert_eq!(fault.struck(), 1);
    }
}

#[tokio::test]
async fn a_connection_that_is_refused_has_no_effect_and_one_that_breaks_may() {
    let world = World::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let config = kube::Config::new(url.parse().unwrap());
    let tap = Tap::new("Lease", Clock::starting_at(START, 1.0));
    let us = transport(&world, client(&config, &tap).unwrap());
    let breaks = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        assert!(stream.read(&mut [0; 1024]).await.unwrap() > 0);
    });
    assert_eq!(ask(&us, write("0/1/a", None)).await, Answer::Unknown);
    breaks.await.unwrap();
    assert_eq!(ask(&us, write("0/1/a", None)).await, Answer::Refused);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_cannot_be_read_is_told_to_newcomers_only() {
    let (_log, _guard) = capture();
    let world = World::new().await;
    let us = ours(&world);
    let good = ask(&us, record(1, None)).await;
    world.patch(
        &CONFIG_MAPS,
        "ak-generation",
        &json!({"data": {"epoch": "one"}}),
    );
    assert_eq!(ask(&us, Call::ReadRecord).await, Answer::Refused);
    let newcomer = ours(&world);
    let Answer::Record(_, Some(told)) = ask(&newcomer, Call::ReadRecord).await else {
        panic!("it counts as absent");
    };
    assert_ne!(&*told.hash, HASH_ID);
    // An old one that is seen late changes nothing about that.
    let old = super::super::record::object(&world.names, &a_record(1), None, None);
    let seen = newcomer.see_record(version(&good), Some(old));
    assert_eq!(seen, Ok(Some(a_record(1))));
    let again = newcomer.see_record(Version(1 << 40), Some(ConfigMap::default()));
    assert!(matches!(again, Ok(Some(record)) if &*record.hash != HASH_ID));
    let known = us.see_record(Version(1 << 40), Some(ConfigMap::default()));
    assert_eq!(known, Err(Untellable));
    // Nor is a record that was deleted one to go by.
    assert_eq!(us.see_record(Version(1 << 41), None), Ok(None));
    let created = us.see_record(Version(1 << 42), Some(ConfigMap::default()));
    assert!(matches!(created, Ok(Some(record)) if &*record.hash != HASH_ID));
}
