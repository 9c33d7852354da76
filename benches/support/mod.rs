//! What benchmarks share: the real program as a process of its own, a webhook that notes when what arrived, the sizes, and the table.

#![allow(dead_code, reason = "each benchmark uses its part of it")]

use std::{
    fs,
    io::Read as _,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use alertkube::{
    cluster::Clock,
    sim::{PODS, Store, pods::mk_pod},
};
use axum::{Router, body::Bytes, extract::State, routing::post};
use serde_json::Value;
use tokio::{
    net::TcpListener,
    sync::mpsc::{UnboundedReceiver, UnboundedSender},
    time::{Instant, sleep, timeout},
};

/// Clock ticks a second, as `/proc` counts processor time (`getconf CLK_TCK`; 100 on every Linux that matters).
const TICKS: f64 = 100.0;

/// No step takes this long.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The name of the pods in the cluster, as [`Store::create_copies`] wants it: one for each of the Deployments `web-00000`, `web-00001`, ...
pub const POD: &str = "web-{index}-7d9c5b8f6-x2x4q";

/// A pod of the namespace `load`, by the number in its name, is killed for want of memory. That fires at once. Returns when it was written.
pub fn break_one(store: &Store, clock: &Clock, index: usize) -> Instant {
    let name = POD.replace("{index}", &format!("{index:05}"));
    let killed = mk_pod("load", &name).oom_killed(clock.now(), 1).build();
    let status = serde_json::json!({"status": killed["status"]});
    let written = Instant::now();
    store.patch_status(&PODS, "load", &name, &status).unwrap();
    written
}

/// A message at the webhook: when, and its body.
pub type Arrival = (Instant, Bytes);

/// A webhook that notes when what arrived. Its address.
pub async fn receive(sender: UnboundedSender<Arrival>) -> String {
    async fn arrived(State(sender): State<UnboundedSender<Arrival>>, body: Bytes) {
        let _ = sender.send((Instant::now(), body));
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/", post(arrived)).with_state(sender);
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}/")
}

pub async fn next_about(arrivals: &mut UnboundedReceiver<Arrival>, workload: &str) -> Instant {
    loop {
        let (at, body) = timeout(PATIENCE, arrivals.recv()).await.unwrap().unwrap();
        let message: Value = serde_json::from_slice(&body).unwrap();
        if message["alerts"][0]["labels"]["workload"] == workload {
            return at;
        }
    }
}

/// The program under measurement. Killed when dropped.
pub struct Program {
    child: Child,
    address: String,
    _files: tempfile::TempDir,
}

impl Program {
    /// Starts `alertkube run`. `variables` are more of its environment.
    pub fn start(server: &str, webhook: &str, variables: &[(&str, &str)]) -> Self {
        let files = tempfile::tempdir().unwrap();
        let kubeconfig = files.path().join("kubeconfig");
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: \"{server}\"}}}}]\nusers: [{{name: u, user: {{}}}}]\n"
        );
        fs::write(&kubeconfig, text).unwrap();
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let child = Command::new(env!("CARGO_BIN_EXE_alertkube"))
            .env("KUBECONFIG", &kubeconfig)
            .env("ALERTKUBE_WEBHOOK_URL", webhook)
            .env("ALERTKUBE_LISTEN", &address)
            .env("ALERTKUBE_LOG", "warn")
            .envs(variables.iter().copied())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            child,
            address,
            _files: files,
        }
    }

    /// Waits until it is ready.
    pub async fn ready(&self) {
        let client = alertkube::notify::http_client();
        let client = client.unwrap();
        let url = format!("http://{}/readyz", self.address);
        let poll = async {
            while !client
                .get(&url)
                .send()
                .await
                .is_ok_and(|answer| answer.status().is_success())
            {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, poll).await.unwrap();
    }

    fn proc(&self, file: &str) -> String {
        let mut text = String::new();
        let path = Path::new("/proc")
            .join(self.child.id().to_string())
            .join(file);
        fs::File::open(path)
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        text
    }

    /// A line of its `/proc/PID/status`, such as `VmRSS`.
    pub fn memory_mib(&self, what: &str) -> f64 {
        let status = self.proc("status");
        let line = status.lines().find(|line| line.starts_with(what)).unwrap();
        let kib: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kib / 1024.0
    }

    /// The processor time that it has used.
    pub fn cpu_seconds(&self) -> f64 {
        let stat = self.proc("stat");
        // After the name, which is in parentheses and may hold spaces: utime and stime are fields 14 and 15.
        let fields: Vec<&str> = stat
            .rsplit_once(')')
            .unwrap()
            .1
            .split_whitespace()
            .collect();
        let ticks: f64 = fields[11..13]
            .iter()
            .map(|ticks| ticks.parse::<f64>().unwrap())
            .sum();
        ticks / TICKS
    }
}

impl Program {
    /// Asks it to stop, as the kubelet does, and waits until it has.
    pub fn terminate(mut self) {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args(["-TERM", &id]).status();
        assert!(status.unwrap().success(), "kill -TERM failed");
        self.child.wait().unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The sizes that the command line asks for, or else these.
pub fn sizes(otherwise: &[usize]) -> Vec<usize> {
    let asked: Vec<usize> = std::env::args()
        .filter_map(|size| size.parse().ok())
        .collect();
    if asked.is_empty() {
        otherwise.to_vec()
    } else {
        asked
    }
}

/// A row of the table: what was measured, and what it may be.
pub fn row(what: &str, value: f64, bound: Option<f64>) {
    let bound = bound.map_or_else(|| "-".to_owned(), |bound| format!("{bound:.1}"));
    println!("{what:<64} {value:>12.2} {bound:>12}");
}

/// The head of the table.
pub fn head() {
    println!("{:<64} {:>12} {:>12}", "measured", "value", "at most");
}

/// Runs a benchmark on a runtime of its own.
pub fn run(benchmark: impl Future<Output = ()>) {
    alertkube::cluster::install_crypto_provider();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(benchmark);
}
