//! The program under test, as a process.

use std::{
    ffi::OsStr,
    fs::{self, File},
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use super::{
    ALERTKUBE, ControlPlane, PATIENCE, Webhook, control_plane::plain_http, eventually, free_port,
    show_on_failure,
};

/// A process of the program under test. It is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    address: SocketAddr,
    http: reqwest::Client,
}

impl Process {
    /// Starts one with these arguments and nothing in its environment but these variables and an address to listen on.
    pub(super) fn start<N: AsRef<OsStr>, V: AsRef<OsStr>>(
        arguments: &[impl AsRef<OsStr>],
        environment: impl IntoIterator<Item = (N, V)>,
        stdout: File,
        stderr: File,
    ) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let child = Command::new(env!("CARGO_BIN_EXE_alertkube"))
            .args(arguments)
            .env_clear()
            .env("ALERTKUBE_LISTEN", address.to_string())
            .envs(environment)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .unwrap();
        Self {
            child,
            address,
            http: plain_http(),
        }
    }

    /// Asks its HTTP server: status and body, or nothing if it does not answer.
    pub(super) fn get(
        &self,
        path: &str,
    ) -> impl Future<Output = Option<(u16, String)>> + Send + use<> {
        let request = self.http.get(format!("http://{}{path}", self.address));
        async {
            let answer = request.send().await.ok()?;
            Some((answer.status().as_u16(), answer.text().await.ok()?))
        }
    }

    /// Sends it a signal, by its name (`STOP`).
    pub(super) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args([format!("-{name}"), id]).status();
        assert!(status.unwrap().success(), "kill -{name} failed");
    }

    /// How it has ended, if it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A name of an installation that nobody else has.
pub fn fresh_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("test-{}-{count}", std::process::id())
}

/// A running alertkube. It is killed when this is dropped.
#[derive(Debug)]
pub struct Program {
    process: Process,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Program {
    /// Starts it with these arguments and nothing in its environment but these variables and an address to listen on.
    pub fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "program-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let output = |extension| {
            Path::new(env!("CARGO_TARGET_TMPDIR"))
                .join(&name)
                .with_extension(extension)
        };
        let (stdout, stderr) = (output("stdout"), output("stderr"));
        let process = Process::start(
            arguments,
            environment.iter().copied(),
            File::create(&stdout).unwrap(),
            File::create(&stderr).unwrap(),
        );
        Self {
            process,
            stdout,
            stderr,
        }
    }

    /// Starts `alertkube run` as it is installed, paging to a webhook, and waits until it is ready.
    pub async fn run_ready(plane: &ControlPlane, webhook: &Webhook) -> Self {
        let mut this = Self::run(plane, ALERTKUBE, webhook, &[]);
        this.wait_ready().await;
        this
    }

    /// Starts `alertkube run` as a user of a control plane, paging to a webhook.
    pub fn run(
        plane: &ControlPlane,
        user: &str,
        webhook: &Webhook,
        environment: &[(&str, &str)],
    ) -> Self {
        let kubeconfig = plane.kubeconfig(user).display().to_string();
        let url = webhook.url();
        // An installation of its own, unless the test says which.
        let name = fresh_name();
        let mut all = vec![
            ("ALERTKUBE_NAME", name.as_str()),
            // It would be the UID of the namespace kube-system, or the context's name.
            ("ALERTKUBE_CLUSTER", "test"),
            ("KUBECONFIG", kubeconfig.as_str()),
            ("ALERTKUBE_WEBHOOK_URL", url.as_str()),
        ];
        all.extend(environment);
        Self::start(&["run"], &all)
    }

    /// Waits until it says that it is ready.
    pub async fn wait_ready(&mut self) {
        eventually("alertkube to be ready", PATIENCE, async || {
            self.assert_running();
            matches!(self.get("/readyz").await, Some((200, _))).then_some(())
        })
        .await;
    }

    /// Asks its HTTP server: status and body, or nothing if it does not answer.
    pub async fn get(&self, path: &str) -> Option<(u16, String)> {
        self.process.get(path).await
    }

    /// What it has written to standard output.
    pub fn stdout(&self) -> String {
        fs::read_to_string(&self.stdout).unwrap()
    }

    /// What it has written to standard error.
    pub fn stderr(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap()
    }

    /// Waits for a line of its log that satisfies a condition, and returns it.
    pub async fn wait_for_line(&mut self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        eventually(format_args!("a line about {what}"), PATIENCE, async || {
            self.assert_running();
            let log = self.stderr() + &self.stdout();
            log.lines().find(|line| wanted(line)).map(str::to_owned)
        })
        .await
    }

    /// Panics if it has ended.
    pub fn assert_running(&mut self) {
        if let Some(status) = self.process.ended() {
            panic!("alertkube ended with {status}");
        }
    }

    /// Sends it a signal, by its name (`STOP`).
    pub fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// Kills it, as `kill -9` does, and waits until it is gone.
    pub fn kill(self) {
        drop(self);
    }

    /// How it has ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.ended()
    }

    /// The value of a metric that has no labels, or with its labels.
    pub async fn metric(&self, series: &str) -> Option<f64> {
        let (_, text) = self.get("/metrics").await?;
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
        value.parse().ok()
    }

    /// Asks it to stop, and waits until it has: with success, as it must.
    pub async fn stop(mut self) {
        self.signal("TERM");
        let status = self.wait_end().await;
        assert!(
            status.success(),
            "alertkube was asked to stop, and ended with {status}"
        );
    }

    /// Waits until it ends by itself.
    pub async fn wait_end(&mut self) -> ExitStatus {
        eventually("alertkube to end", PATIENCE, async || self.process.ended()).await
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if std::thread::panicking() {
            show_on_failure(&self.stdout);
            show_on_failure(&self.stderr);
        } else {
            let _ = fs::remove_file(&self.stdout);
            let _ = fs::remove_file(&self.stderr);
        }
    }
}

/// An address of which a test can tell whether anybody has connected to it.
#[derive(Debug)]
pub struct Tripwire(TcpListener);

impl Tripwire {
    /// Listens on a free port.
    pub fn set() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", free_port())).unwrap();
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    /// Its URL, as that of an API server.
    pub fn url(&self) -> String {
        format!("https://{}", self.0.local_addr().unwrap())
    }

    /// Panics if anybody has connected. The kernel accepts connections by itself, so none is missed.
    pub fn assert_untouched(&self) {
        assert!(self.0.accept().is_err(), "somebody has connected");
    }
}
