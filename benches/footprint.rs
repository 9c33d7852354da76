//! What `alertkube run` costs: memory, processor time, and how long a page takes to leave. Prints one table.
//!
//! `cargo bench` measures the real program, as a process of its own, against a cluster in memory: healthy pods of the size and shape of real
//! ones. Linux only, because the figures come from `/proc`. Numbers after `--` are cluster sizes: `cargo bench -- 1000`.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::disallowed_macros,
    reason = "a benchmark prints, and may fail"
)]

use std::{
    fs,
    io::Read as _,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use alertkube::{
    cluster::Clock,
    sim::{Options, PODS, Server, pods::mk_pod},
};
use axum::{Router, body::Bytes, extract::State, routing::post};
use serde_json::Value;
use tokio::{
    net::TcpListener,
    sync::mpsc::{self, UnboundedReceiver, UnboundedSender},
    time::{Instant, sleep, timeout},
};

/// The sizes of clusters, in pods.
const SIZES: [usize; 2] = [10_000, 100_000];

/// Pages whose way from the status write to the receiver is timed.
const PAGES: usize = 300;

/// Clock ticks a second, as `/proc` counts processor time (`getconf CLK_TCK`; 100 on every Linux that matters).
const TICKS: f64 = 100.0;

/// No step takes this long.
const PATIENCE: Duration = Duration::from_secs(120);

fn main() {
    alertkube::cluster::install_crypto_provider();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let sizes: Vec<usize> = std::env::args()
        .filter_map(|size| size.parse().ok())
        .collect();
    let sizes = if sizes.is_empty() {
        SIZES.to_vec()
    } else {
        sizes
    };
    println!("{:<58} {:>12} {:>12}", "measured", "value", "at most");
    for pods in sizes {
        runtime.block_on(measure(pods));
    }
}

async fn measure(pods: usize) {
    let clock = Clock::system();
    let server = Server::start(Options::new(clock.clone())).await.unwrap();
    let store = server.store();
    let template = mk_pod("load", "web-{index}-7d9c5b8f6-x2x4q").build();
    let size = template.to_string().len();
    store.create_copies(&PODS, template, pods).unwrap();

    let (sender, mut arrivals) = mpsc::unbounded_channel();
    let webhook = receive(sender).await;
    let program = Program::start(&server.url(), &webhook);
    program.ready().await;
    let cpu = program.cpu_seconds();
    // What the list needed for a moment is given back, or not, within this.
    sleep(Duration::from_secs(2)).await;

    let bounds = match pods {
        10_000 => (Some(25.0), Some(0.5)),
        100_000 => (Some(60.0), None),
        _ => (None, None),
    };
    let what = format!("{pods} healthy pods of {:.1} KB", size as f64 / 1000.0);
    row(
        &format!("{what}: resident memory, MiB"),
        program.memory_mib("VmRSS"),
        bounds.0,
    );
    row(
        &format!("{what}: its peak, MiB"),
        program.memory_mib("VmHWM"),
        None,
    );
    row(
        &format!("{what}: CPU to list, decode and evaluate, s"),
        cpu,
        bounds.1,
    );

    let mut waits = Vec::new();
    for index in 0..PAGES.min(pods) {
        let name = format!("web-{index:05}-7d9c5b8f6-x2x4q");
        let killed = mk_pod("load", &name).oom_killed(clock.now(), 1).build();
        let written = Instant::now();
        store
            .patch_status(
                &PODS,
                "load",
                &name,
                &serde_json::json!({"status": killed["status"]}),
            )
            .unwrap();
        let arrived = next_about(&mut arrivals, &format!("web-{index:05}")).await;
        waits.push(arrived.duration_since(written).as_secs_f64() * 1000.0);
    }
    waits.sort_by(f64::total_cmp);
    let percentile = |part: usize| waits[(waits.len() * part / 100).min(waits.len() - 1)];
    row(
        &format!("{pods} pods: status write to request, p50, ms"),
        percentile(50),
        Some(10.0),
    );
    row(
        &format!("{pods} pods: status write to request, p99, ms"),
        percentile(99),
        Some(50.0),
    );
    drop(program);
    server.stop().await;
}

fn row(what: &str, value: f64, bound: Option<f64>) {
    let bound = bound.map_or_else(|| "-".to_owned(), |bound| format!("{bound:.1}"));
    println!("{what:<58} {value:>12.2} {bound:>12}");
}

type Arrival = (Instant, Bytes);

/// A webhook that notes when what arrived. Its address.
async fn receive(sender: UnboundedSender<Arrival>) -> String {
    async fn arrived(State(sender): State<UnboundedSender<Arrival>>, body: Bytes) {
        let _ = sender.send((Instant::now(), body));
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/", post(arrived)).with_state(sender);
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}/")
}

async fn next_about(arrivals: &mut UnboundedReceiver<Arrival>, workload: &str) -> Instant {
    loop {
        let (at, body) = timeout(PATIENCE, arrivals.recv()).await.unwrap().unwrap();
        let message: Value = serde_json::from_slice(&body).unwrap();
        if message["alerts"][0]["labels"]["workload"] == workload {
            return at;
        }
    }
}

/// The program under measurement. Killed when dropped.
struct Program {
    child: Child,
    address: String,
    _files: tempfile::TempDir,
}

impl Program {
    fn start(server: &str, webhook: &str) -> Self {
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
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            child,
            address,
            _files: files,
        }
    }

    async fn ready(&self) {
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

    fn memory_mib(&self, what: &str) -> f64 {
        let status = self.proc("status");
        let line = status.lines().find(|line| line.starts_with(what)).unwrap();
        let kib: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kib / 1024.0
    }

    fn cpu_seconds(&self) -> f64 {
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

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
