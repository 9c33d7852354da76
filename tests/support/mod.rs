//! What the whole-program tests are made of: a real control plane, a receiver of webhooks, the program itself as a process, and objects to break.
//!
//! Nothing here sleeps and hopes: every wait is for a condition, ends as soon as it holds, and fails with what was there instead.

mod binaries;
mod control_plane;
mod controllers;
mod forwarder;
mod kubelet;
mod objects;
mod program;
mod webhook;

pub use control_plane::{ALERTKUBE, ControlPlane, EVERYTHING, OUTSIDER, watched};
pub use controllers::ControllerManager;
pub use forwarder::Flow;
pub use kubelet::{Event, Happening, Kubelet, Node, Pod};
pub use objects::{Sketch, create_namespace, minutes, mk_pod};
pub use program::{Program, Tripwire, fresh_name};
pub use webhook::{Answer, Message, Page, Webhook};

use std::{
    fmt::Display,
    fs,
    io::Write as _,
    net::TcpListener,
    path::Path,
    sync::atomic::{AtomicU16, Ordering},
    time::Duration,
};

use tokio::time::Instant;

/// How long a test waits for what should take less than a second or two. Long, because it only costs time when a test fails anyway, and because
/// the machines that tests run on are slow and busy.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// How long alertkube may take to notice that the API server answers again: it asks every 15 seconds at least.
pub const RECOVERY: Duration = Duration::from_secs(30);

/// Asks again every few milliseconds until there is an answer; panics if there is none in time.
pub async fn eventually<T>(
    what: impl Display,
    patience: Duration,
    mut ask: impl AsyncFnMut() -> Option<T>,
) -> T {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(
            Instant::now() < deadline,
            "waited {patience:?} in vain for {what}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Says something at once on standard error, which the test runner does not capture.
pub fn say(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// A port of the loopback address on which nothing listens.
///
/// The kernel's own choice (port 0) would be from the range of outgoing connections: while a server is down in the middle of a test, any connection of
/// this machine could take its port. So these are from below that range, and start at a different place in each test process.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = u16::try_from(std::process::id() % 600).unwrap() * 20;
    loop {
        let port = 15_000 + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % 15_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// If the test is failing, shows the end of a log on standard error.
fn show_on_failure(log: &Path) {
    if !std::thread::panicking() {
        return;
    }
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    let tail = &lines[lines.len().saturating_sub(20)..];
    say(format_args!(
        "--- the end of {}\n{}\n---",
        log.display(),
        tail.join("\n")
    ));
}
