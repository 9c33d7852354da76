//! A small kubelet: real processes of the program under test for the pods that the real StatefulSet controller makes.
//!
//! It does for one StatefulSet what a node's kubelet does. It gives each pod a node (there is no scheduler), and a token of its service account that ends with the
//! pod; starts the container's command with the environment that its spec says; tells the API whether the process is ready; starts it again when it ends; and
//! stops it when the pod is deleted. All probing is quicker than a real one's. It does not restart a process for its liveness probe.
//!
//! It has threads of its own, so that it works whatever the test does.

mod environment;
mod pod;
mod status;
mod worker;

pub use pod::{Node, Pod};

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1 as api;
use kube::{Api, Client, ResourceExt as _, api::ListParams};
use tokio::{
    runtime::{Handle, Runtime},
    sync::watch,
    time::Instant,
};

use super::{
    ControlPlane, PATIENCE,
    control_plane::{ADMIN, client_of},
    eventually, say, show_on_failure,
};

/// How often it asks the API server for its pods. A watch would spare little, for a handful of pods, and would have to be begun anew after each outage.
const EVERY: Duration = Duration::from_millis(200);

/// A running kubelet. Its processes end with it.
#[derive(Debug)]
pub struct Kubelet {
    shared: Arc<Shared>,
    // None while it is dropped.
    runtime: Option<Runtime>,
}

/// What happened to a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happening {
    /// Its process was started, for the first time or again.
    Started,
    /// It is ready.
    Ready,
    /// It is not ready any more.
    Unready,
    /// It was asked to stop.
    Stopping,
    /// Its process has ended: by itself, or because it was asked to, or by force.
    Ended,
    /// It is no more, and neither is its process.
    Gone,
}

/// An event in the life of a pod.
#[derive(Debug, Clone)]
pub struct Event {
    /// When.
    #[expect(dead_code, reason = "for whoever reads a failure")]
    pub at: Instant,
    /// The pod's name.
    pub pod: String,
    /// Which pod of that name.
    #[expect(dead_code, reason = "for whoever reads a failure")]
    pub uid: String,
    /// What.
    pub what: Happening,
}

#[derive(Debug)]
struct Shared {
    namespace: String,
    stateful_set: String,
    /// Of the API server.
    address: std::net::SocketAddr,
    certificate: PathBuf,
    /// Where the logs and the kubeconfigs are.
    folder: PathBuf,
    runtime: Handle,
    /// Set before the processes are ended: none is started after it.
    is_closed: AtomicBool,
    overrides: Mutex<Vec<Override>>,
    /// All that there ever were, in the order of their appearance.
    pods: watch::Sender<Vec<Arc<Pod>>>,
    events: watch::Sender<Vec<Event>>,
}

/// A variable that a test sets in the stead of the pod's spec.
#[derive(Debug)]
struct Override {
    /// None: for all.
    pod: Option<String>,
    name: String,
    /// None: the variable is not there.
    value: Option<String>,
}

impl Kubelet {
    /// Starts one for the pods of a StatefulSet.
    pub fn start(plane: &ControlPlane, namespace: &str, stateful_set: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let shared = Arc::new(Shared {
            namespace: namespace.to_owned(),
            stateful_set: stateful_set.to_owned(),
            address: plane.address(),
            certificate: plane.certificate(),
            folder: mk_folder(),
            runtime: runtime.handle().clone(),
            is_closed: AtomicBool::default(),
            overrides: Mutex::default(),
            pods: watch::Sender::default(),
            events: watch::Sender::default(),
        });
        let admin = plane.kubeconfig(ADMIN);
        runtime.spawn(Arc::clone(&shared).sync(admin));
        Self {
            shared,
            runtime: Some(runtime),
        }
    }

    /// Sets a variable of all processes that are started from now on, or removes it.
    pub fn set(&self, name: &str, value: Option<&str>) {
        self.shared.set(None, name, value);
    }

    /// Sets a variable of one pod's processes that are started from now on, or removes it. This counts before what is set for all.
    pub fn set_for(&self, pod: &str, name: &str, value: Option<&str>) {
        self.shared.set(Some(pod), name, value);
    }

    /// The newest pod of a name. What is done with it goes on to mean that very pod when it is replaced.
    pub fn pod(&self, name: &str) -> Arc<Pod> {
        let pods = self.shared.pods.borrow();
        let found = pods.iter().rfind(|pod| pod.name() == name);
        Arc::clone(found.unwrap_or_else(|| panic!("there was never a pod {name}")))
    }

    /// The pods that there are, by name.
    pub fn pods(&self) -> BTreeMap<String, Arc<Pod>> {
        let pods = self.shared.pods.borrow();
        let there = pods.iter().filter(|pod| !pod.is_gone());
        there
            .map(|pod| (pod.name().to_owned(), Arc::clone(pod)))
            .collect()
    }

    /// Everything that happened so far.
    pub fn events(&self) -> Vec<Event> {
        self.shared.events.borrow().clone()
    }

    /// Waits until there are exactly these pods, and all of them are ready.
    pub async fn wait_ready(&self, patience: Duration, names: &[String]) {
        eventually(
            format_args!("{names:?} to be all there is, and ready"),
            patience,
            async || {
                let pods = self.pods();
                let all = pods.len() == names.len() && pods.keys().all(|pod| names.contains(pod));
                (all && pods.values().all(|pod| pod.is_ready())).then_some(())
            },
        )
        .await;
    }

    /// Waits until a pod was replaced by another one of its name that is ready, and returns that.
    pub async fn wait_replaced(&self, old: &Pod) -> Arc<Pod> {
        let what = format!("{} to be replaced", old.name());
        eventually(what, PATIENCE, async || {
            let new = self.pod(old.name());
            (new.uid() != old.uid() && new.is_ready()).then_some(new)
        })
        .await
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::SeqCst);
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
        let failing = std::thread::panicking();
        for pod in self.shared.pods.borrow().iter() {
            pod.kill_for_good();
            if !pod.is_gone() {
                show_on_failure(&pod.log());
            }
        }
        if failing {
            let events = self.shared.events.borrow();
            let lines: Vec<_> = events.iter().map(|event| format!("{event:?}\n")).collect();
            let _ = fs::write(self.shared.folder.join("events"), lines.concat());
            say(format_args!(
                "the logs of all pods, and what happened to them, are in {}",
                self.shared.folder.display()
            ));
        } else {
            let _ = fs::remove_dir_all(&self.shared.folder);
        }
    }
}

impl Shared {
    fn set(&self, pod: Option<&str>, name: &str, value: Option<&str>) {
        self.overrides.lock().unwrap().push(Override {
            pod: pod.map(str::to_owned),
            name: name.to_owned(),
            value: value.map(str::to_owned),
        });
    }

    /// Puts what a test has set over a pod's environment.
    fn override_environment(&self, pod: &str, environment: &mut BTreeMap<String, String>) {
        let overrides = self.overrides.lock().unwrap();
        // Later ones over earlier ones, and those of a pod over those of all.
        let all = overrides.iter().filter(|one| one.pod.is_none());
        let own = overrides
            .iter()
            .filter(|one| one.pod.as_deref() == Some(pod));
        for Override { name, value, .. } in all.chain(own) {
            match value {
                Some(value) => environment.insert(name.clone(), value.clone()),
                None => environment.remove(name),
            };
        }
    }

    fn note(&self, pod: &Pod, what: Happening) {
        let event = Event {
            at: Instant::now(),
            pod: pod.name().to_owned(),
            uid: pod.uid().to_owned(),
            what,
        };
        self.events.send_modify(|events| events.push(event));
    }

    /// Looks for pods, and starts a worker for each; tells each worker what became of its pod.
    async fn sync(self: Arc<Self>, admin: PathBuf) {
        let client = client_of(&admin).await.expect("a client for the kubelet");
        let pods = Api::<api::Pod>::namespaced(client.clone(), &self.namespace);
        let mut known = HashMap::<String, Arc<Pod>>::new();
        loop {
            // While the API server does not answer, nothing changes.
            if let Ok(list) = pods.list(&ListParams::default()).await {
                let mut there = HashMap::new();
                for object in list.items.into_iter().filter(|pod| self.is_ours(pod)) {
                    there.insert(object.uid().unwrap(), object);
                }
                for (uid, pod) in &known {
                    pod.see(there.remove(uid).as_ref());
                }
                for (uid, object) in there {
                    let pod = self.adopt(&client, object);
                    known.insert(uid, pod);
                }
                known.retain(|_, pod| !pod.is_gone());
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    fn is_ours(&self, pod: &api::Pod) -> bool {
        pod.owner_references().iter().any(|owner| {
            owner.kind == "StatefulSet"
                && owner.name == self.stateful_set
                && owner.controller == Some(true)
        })
    }

    fn adopt(self: &Arc<Self>, client: &Client, object: api::Pod) -> Arc<Pod> {
        let pod = Arc::new(Pod::new(self, object));
        self.pods.send_modify(|pods| pods.push(Arc::clone(&pod)));
        self.runtime.spawn(worker::work(
            Arc::clone(self),
            client.clone(),
            Arc::clone(&pod),
        ));
        pod
    }
}

/// A new folder under `target/`.
fn mk_folder() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!(
        "kubelet-{}-{}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    ));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}
