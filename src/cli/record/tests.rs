use std::time::Duration;

use jiff::SignedDuration;
use tokio::sync::mpsc;

use super::*;
use crate::{
    alert::{Resolution, Transition},
    history::{Reader, Replay},
    sim::{self, PODS, Server, pods::mk_pod},
};

/// A file that hands on what was written to it whenever it is brought up to date.
struct Handed {
    text: Vec<u8>,
    to: mpsc::UnboundedSender<Vec<u8>>,
}

impl Write for Handed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        _ = self.to.send(std::mem::take(&mut self.text));
        Ok(())
    }
}

/// Waits until `part` was written.
async fn until(written: &mut String, from: &mut mpsc::UnboundedReceiver<Vec<u8>>, part: &str) {
    while !written.contains(part) {
        let more = tokio::time::timeout(Duration::from_secs(60), from.recv()).await;
        let more = more.unwrap_or_else(|_| panic!("{part} is not in {written}"));
        written.push_str(str::from_utf8(&more.unwrap()).unwrap());
    }
}

#[tokio::test]
async fn what_is_recorded_of_a_cluster_can_be_replayed() {
    cluster::install_crypto_provider();
    // A clock that answers correct may stand still, and what has one time is taken over together.
    let clock = Clock::starting_at(Clock::system().now(), 1.0);
    let server = Server::start(sim::Options::new(clock.clone()))
        .await
        .unwrap();
    let long_ago = clock.now() - SignedDuration::from_mins(30);
    let broken = mk_pod("shop", "web-1").crash_looping(long_ago, 5);
    let store = server.store();
    store.create(&PODS, broken.build()).unwrap();
    let (to, mut from) = mpsc::unbounded_channel();
    let out = Handed {
        text: Vec::new(),
        to,
    };
    let stop = CancellationToken::new();
    let (config, told) = (server.kube_config(), stop.clone());
    let recorded = clock.clone();
    let recording = tokio::spawn(async move { watch(&config, &recorded, "prod", out, told).await });
    let mut written = String::new();
    // What is gone before every kind is listed is never paged.
    for kind in KindId::ALL {
        let listed = format!(r#""of":"{}","part":"end""#, kind.as_str());
        until(&mut written, &mut from, &listed).await;
    }
    store
        .create(&PODS, mk_pod("shop", "web-2").build())
        .unwrap();
    until(&mut written, &mut from, r#""type":"ADDED""#).await;
    store
        .delete(&PODS, "shop", "web-1", &sim::DeleteOptions::now())
        .unwrap();
    until(&mut written, &mut from, r#""type":"DELETED""#).await;
    stop.cancel();
    let lines = recording.await.unwrap().unwrap();
    while let Some(more) = from.recv().await {
        written.push_str(str::from_utf8(&more).unwrap());
    }
    assert_eq!(written.lines().count() as u64, lines);
    server.stop().await;

    let mut reader = Reader::new("recorded", written.as_bytes());
    let mut replay = Replay::new("prod");
    while let Some((time, seen)) = reader.read().unwrap() {
        replay.see(time, &seen).unwrap();
    }
    let end = clock.now() + SignedDuration::from_mins(30);
    replay.finish(end).unwrap();
    assert_eq!(replay.waits_for().count(), 0, "{written}");
    let told: Vec<_> = replay
        .take_notices()
        .iter()
        .map(|notice| (notice.alert.rule.name, notice.transition))
        .collect();
    assert_eq!(
        told,
        [
            ("KubePodCrashLooping", Transition::Fired),
            (
                "KubePodCrashLooping",
                Transition::Resolved(Resolution::Deleted)
            ),
        ]
    );
}

#[test]
fn a_file_that_is_there_is_not_written_over_unless_told() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("night.jsonl");
    create(&file, false).unwrap().write_all(b"old").unwrap();
    let error = create(&file, false).unwrap_err().to_string();
    assert!(
        error.ends_with("there is one already: name another, or write over it with --overwrite"),
        "{error}"
    );
    assert_eq!(std::fs::read(&file).unwrap(), b"old");
    create(&file, true).unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), b"");
    let error = create(&directory.path().join("none/night.jsonl"), false).unwrap_err();
    assert!(error.to_string().ends_with("cannot be written"), "{error}");
}
