//! A pod as tests see it, and what they do to it.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Write as _,
    path::PathBuf,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1 as api;
use kube::ResourceExt as _;

use super::{Shared, status};
use crate::support::{
    forwarder::{Flow, Forwarder},
    program::Process,
};

/// The node of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node {
    /// It works.
    Up,
    /// The kubelet does not reach the API server: it tells nothing, and learns of no deletion. The processes go on; whether they reach it is another matter
    /// ([`Pod::network`]).
    CutOff,
    /// Nothing runs there.
    Off,
}

/// A pod of the StatefulSet. It may be gone.
#[derive(Debug)]
pub struct Pod {
    /// As it was at first.
    pub(super) object: api::Pod,
    pub(super) name: String,
    pub(super) uid: String,
    log: PathBuf,
    /// What goes to standard output.
    output: PathBuf,
    pub(super) kubeconfig: PathBuf,
    pub(super) forwarder: Forwarder,
    pub(super) node: Mutex<Node>,
    pub(super) seen: Mutex<Seen>,
    pub(super) process: Mutex<Option<Process>>,
    twin: Mutex<Option<Process>>,
    pub(super) environment: Mutex<Option<BTreeMap<String, String>>>,
    pub(super) ready: AtomicBool,
    pub(super) gone: AtomicBool,
    pub(super) restarts: AtomicU32,
}

/// What the API server says of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    There,
    /// It is to end within this time.
    Deleted(Duration),
    /// It is not there any more.
    Missing,
}

impl Pod {
    pub(super) fn new(shared: &Shared, object: api::Pod) -> Self {
        let (name, uid) = (object.name_any(), object.uid().unwrap());
        let file = |extension| {
            let name = format!("{name}-{}", &uid[..8]);
            shared.folder.join(name).with_extension(extension)
        };
        Self {
            log: file("log"),
            output: file("output"),
            kubeconfig: file("kubeconfig"),
            forwarder: Forwarder::start(&shared.runtime, shared.address),
            node: Mutex::new(Node::Up),
            seen: Mutex::new(seen(&object)),
            process: Mutex::default(),
            twin: Mutex::default(),
            environment: Mutex::default(),
            ready: AtomicBool::default(),
            gone: AtomicBool::default(),
            restarts: AtomicU32::default(),
            object,
            name,
            uid,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its UID: pods that replace each other have the same name.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// A label that it was made with; empty if there is none.
    pub fn label(&self, name: &str) -> &str {
        self.object.labels().get(name).map_or("", String::as_str)
    }

    /// Whether its process said so when it was last asked.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    /// Whether it and its process are no more.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// How often its process was started again.
    pub fn restarts(&self) -> u32 {
        self.restarts.load(Ordering::Relaxed)
    }

    /// What its processes have logged so far.
    pub fn logged(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub(super) fn log(&self) -> PathBuf {
        self.log.clone()
    }

    /// Sends a signal to its process, by name; false if there is none.
    pub fn signal(&self, name: &str) -> bool {
        let process = self.process.lock().unwrap();
        process.as_ref().is_some_and(|process| {
            process.signal(name);
            true
        })
    }

    /// Ends its process with no warning, as lack of memory does. It is started again.
    pub fn kill(&self) -> bool {
        self.signal("KILL")
    }

    /// Changes what its node does.
    pub fn node(&self, node: Node) {
        *self.node.lock().unwrap() = node;
    }

    /// Changes what the network between its process and the API server does.
    pub fn network(&self, flow: Flow) {
        self.forwarder.set(flow);
    }

    /// Asks its process by HTTP: status and body, or nothing if it does not answer.
    pub async fn get(&self, path: &str) -> Option<(u16, String)> {
        // The lock is not held while it answers.
        let answer = self.process.lock().unwrap().as_ref()?.get(path);
        answer.await
    }

    /// Starts a second process of the very same pod, as a container runtime that has lost its memory would, until [`Pod::end_twin`].
    pub fn start_twin(&self) {
        let environment = self.environment.lock().unwrap().clone();
        let environment = environment.expect("a process that this is the twin of");
        *self.twin.lock().unwrap() = Some(self.spawn(&environment));
    }

    /// Asks the twin by HTTP.
    pub async fn get_of_twin(&self, path: &str) -> Option<(u16, String)> {
        let answer = self.twin.lock().unwrap().as_ref()?.get(path);
        answer.await
    }

    /// Ends the twin.
    pub fn end_twin(&self) {
        drop(self.twin.lock().unwrap().take());
    }

    /// Ends everything that runs of it, when the test is over.
    pub(super) fn kill_for_good(&self) {
        drop(self.process.lock().unwrap().take());
        self.end_twin();
    }

    /// Notes what the API server has of it: nothing if it is not there.
    pub(super) fn see(&self, object: Option<&api::Pod>) {
        *self.seen.lock().unwrap() = object.map_or(Seen::Missing, seen);
    }

    pub(super) fn spawn(&self, environment: &BTreeMap<String, String>) -> Process {
        let append = |path| {
            let mut options = File::options();
            options.create(true).append(true).open(path).unwrap()
        };
        let mut log = append(&self.log);
        writeln!(log, "--- {}: a process starts", status::now()).unwrap();
        let container = &self.object.spec.as_ref().unwrap().containers[0];
        let arguments = container.args.as_deref().unwrap_or_default();
        Process::start(arguments, environment, append(&self.output), log)
    }
}

fn seen(object: &api::Pod) -> Seen {
    if object.metadata.deletion_timestamp.is_none() {
        return Seen::There;
    }
    let seconds = object.metadata.deletion_grace_period_seconds;
    let seconds = seconds.and_then(|seconds| seconds.try_into().ok());
    Seen::Deleted(Duration::from_secs(seconds.unwrap_or_default()))
}
