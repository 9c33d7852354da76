use std::time::Duration;

use jiff::SignedDuration;
use tokio::sync::mpsc;

use super::*;
use crate::{
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
    let clock = Clock::system();
    let server = Server::start(sim::Options::new(clock.clone())).await.unwrap();
    let broken = || mk_pod("shop", "web-1").crash_looping(SignedDuration::from_mins(5));
    BROKEN_PUT
    let (to, mut from) = mpsc::unbounded_channel();
    let out = Handed {
        text: Vec::new(),
        to,
    };
    let stop = CancellationToken::new();
    let (config, told) = (server.kube_config(), stop.clone());
    let recording =
        tokio::spawn(async move { watch(&config, &clock, "prod", out, told).await.unwrap() });
    let mut written = String::new();
    until(&mut written, &mut from, r#""of":"Pod","part":"end""#).await;
}
