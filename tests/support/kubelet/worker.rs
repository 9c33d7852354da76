//! What keeps a pod and its process together.

use std::{
    collections::BTreeMap,
    fs,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use http::Method;
use k8s_openapi::api::core::v1 as api;
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::{
    Happening, Node, Pod, Shared, environment,
    pod::Seen,
    status::{self, End, Facts, State},
};
use crate::support::{control_plane::kubeconfig, program::Process, say};

/// How often a worker looks after its pod.
const EVERY: Duration = Duration::from_millis(50);
/// How often it asks the process whether it is ready.
const PROBE_EVERY: Duration = Duration::from_millis(250);
/// How long a process that ended stays down. A real kubelet's first back-off is 10 s; this one does not grow.
const BACK_OFF: Duration = Duration::from_secs(1);
/// How long the token of a pod lasts: longer than any test.
const TOKEN_SECONDS: u32 = 24 * 60 * 60;

/// Looks after a pod until it is no more.
pub(super) async fn work(shared: Arc<Shared>, client: Client, pod: Arc<Pod>) {
    let mut worker = Worker {
        pods: Api::namespaced(client.clone(), &shared.namespace),
        client,
        probe: Probe::of(&pod.object).expect("a readiness probe by HTTP"),
        pod,
        shared,
        facts: Facts {
            taken: status::now(),
            ready_changed: status::now(),
            ..Facts::default()
        },
        told: None,
        is_bound: false,
        start_at: Instant::now(),
        kill_at: None,
        probe_at: Instant::now(),
        probing: None,
        failed_probes: 0,
    };
    while !worker.pod.is_gone() {
        worker.step().await;
        tokio::time::sleep(EVERY).await;
    }
}

/// What a spec says about how to ask whether a process is ready.
#[derive(Debug)]
struct Probe {
    path: String,
    time_out: Duration,
    failure_threshold: i32,
}

impl Probe {
    fn of(pod: &api::Pod) -> Option<Self> {
        let probe = pod.spec.as_ref()?.containers[0].readiness_probe.as_ref()?;
        let seconds = probe.timeout_seconds.unwrap_or(1).try_into();
        Some(Self {
            path: probe.http_get.as_ref()?.path.clone()?,
            time_out: Duration::from_secs(seconds.unwrap_or(1)),
            failure_threshold: probe.failure_threshold.unwrap_or(3),
        })
    }
}

struct Worker {
    shared: Arc<Shared>,
    client: Client,
    pods: Api<api::Pod>,
    pod: Arc<Pod>,
    facts: Facts,
    /// The facts that the API server has.
    told: Option<Facts>,
    is_bound: bool,
    /// When the process may be started (again).
    start_at: Instant,
    /// When its grace ends, if it was asked to stop.
    kill_at: Option<Instant>,
    probe: Probe,
    probe_at: Instant,
    /// Beside the rest: a process that stands still does not answer.
    probing: Option<AbortOnDropHandle<bool>>,
    failed_probes: i32,
}

impl Worker {
    async fn step(&mut self) {
        let node = *self.pod.node.lock().unwrap();
        if node == Node::Off {
            drop(self.pod.process.lock().unwrap().take());
            self.pod.ready.store(false, Ordering::Relaxed);
            return;
        }
        self.reap();
        let runs = self.pod.process.lock().unwrap().is_some();
        if node == Node::Up {
            let seen = *self.pod.seen.lock().unwrap();
            let grace = match seen {
                Seen::There => None,
                Seen::Deleted(grace) => Some(grace),
                Seen::Missing => Some(self.grace()),
            };
            if let Some(grace) = grace {
                if !runs {
                    return self.finish(seen).await;
                }
                self.stop(grace);
            }
        }
        if !runs && self.kill_at.is_none() && Instant::now() >= self.start_at {
            self.start(node).await;
        }
        self.probe().await;
        if node == Node::Up && self.is_bound && self.told.as_ref() != Some(&self.facts) {
            self.tell().await;
        }
    }

    /// Sees whether the process has ended.
    fn reap(&mut self) {
        let mut process = self.pod.process.lock().unwrap();
        let Some(end) = process.as_mut().and_then(Process::ended) else {
            // Its node was switched off.
            if process.is_none() && matches!(self.facts.state, State::Running(_)) {
                self.facts.state = State::default();
                drop(process);
                self.become_ready(false);
            }
            return;
        };
        *process = None;
        drop(process);
        // What the old one answers is nothing about the next.
        self.probing = None;
        self.shared.note(&self.pod, Happening::Ended);
        self.become_ready(false);
        if let State::Running(started) = std::mem::take(&mut self.facts.state) {
            self.facts.last = Some(End::new(end, started));
        }
        self.facts.state = State::Waiting("CrashLoopBackOff", "back-off 1s".to_owned());
        self.start_at = Instant::now() + BACK_OFF;
    }

    fn grace(&self) -> Duration {
        let spec = self.pod.object.spec.as_ref().unwrap();
        let seconds = spec.termination_grace_period_seconds.unwrap_or(30);
        Duration::from_secs(seconds.try_into().unwrap_or_default())
    }

    /// Asks the process to end, once, and ends it if it has not by then.
    fn stop(&mut self, grace: Duration) {
        match self.kill_at {
            None => {
                self.kill_at = Some(Instant::now() + grace);
                self.shared.note(&self.pod, Happening::Stopping);
                self.pod.signal("TERM");
            }
            Some(at) => {
                // A second deletion may leave less time than the first.
                let at = at.min(Instant::now() + grace);
                self.kill_at = Some(at);
                if Instant::now() >= at {
                    self.pod.kill();
                }
            }
        }
    }

    /// Says that nothing runs any more, so that the pod goes.
    async fn finish(&mut self, seen: Seen) {
        if seen != Seen::Missing {
            let parameters = DeleteParams {
                grace_period_seconds: Some(0),
                preconditions: Some(Preconditions {
                    uid: Some(self.pod.uid.clone()),
                    resource_version: None,
                }),
                ..DeleteParams::default()
            };
            match self.pods.delete(&self.pod.name, &parameters).await {
                Ok(_) => {}
                Err(kube::Error::Api(answer)) if [404, 409].contains(&answer.code) => {}
                // Next time.
                Err(_) => return,
            }
        }
        self.shared.note(&self.pod, Happening::Gone);
        self.pod.gone.store(true, Ordering::Relaxed);
    }

    async fn start(&mut self, node: Node) {
        let known = self.pod.environment.lock().unwrap().clone();
        let environment = match known {
            // What it needs from the API server was asked for once; what the test has set since then counts all the same.
            Some(known) if node == Node::CutOff => known,
            _ => match self.prepare().await {
                Ok(environment) => environment,
                Err(wrong) => {
                    let state = State::Waiting("CreateContainerConfigError", wrong);
                    if self.facts.state != state {
                        say(format_args!("{}: {state:?}", self.pod.name));
                        self.facts.state = state;
                    }
                    self.start_at = Instant::now() + BACK_OFF;
                    return;
                }
            },
        };
        let mut overridden = environment.clone();
        self.shared
            .override_environment(&self.pod.name, &mut overridden);
        {
            let mut process = self.pod.process.lock().unwrap();
            if self.shared.is_closed.load(Ordering::SeqCst) {
                return;
            }
            *process = Some(self.pod.spawn(&overridden));
        }
        *self.pod.environment.lock().unwrap() = Some(overridden);
        if self.facts.last.is_some() {
            self.facts.restarts += 1;
            self.pod.restarts.fetch_add(1, Ordering::Relaxed);
        }
        self.facts.state = State::Running(status::now());
        self.shared.note(&self.pod, Happening::Started);
    }

    /// Does what comes before the first start: gives the pod its node and its token, and looks up its environment.
    async fn prepare(&mut self) -> Result<BTreeMap<String, String>, String> {
        self.bind().await.map_err(|error| error.to_string())?;
        let spec = self.pod.object.spec.as_ref().unwrap();
        let [container] = spec.containers.as_slice() else {
            return Err("the tests' kubelet runs pods of one container".to_owned());
        };
        if container.command.is_some() {
            return Err("the tests' kubelet runs the image's own program only".to_owned());
        }
        if !self.pod.kubeconfig.is_file() {
            let token = self.token().await.map_err(|error| error.to_string())?;
            let text = kubeconfig(
                self.pod.forwarder.address(),
                &self.shared.certificate,
                &token,
                &self.shared.namespace,
            );
            fs::write(&self.pod.kubeconfig, text).unwrap();
        }
        let mut environment =
            environment::resolve(&self.client, &self.pod.object, container).await?;
        // In a pod this comes from the token's volume.
        let kubeconfig = self.pod.kubeconfig.display().to_string();
        environment.insert("KUBECONFIG".to_owned(), kubeconfig);
        Ok(environment)
    }

    /// Gives the pod a node, as a scheduler does: a pod without one goes at once when it is deleted, whatever its grace period.
    async fn bind(&mut self) -> kube::Result<()> {
        if self.is_bound {
            return Ok(());
        }
        let spec = self.pod.object.spec.as_ref().unwrap();
        if spec.node_name.is_none() {
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding",
                "metadata": { "name": self.pod.name, "uid": self.pod.uid },
                "target": { "apiVersion": "v1", "kind": "Node", "name": "node-1" },
            });
            let path = format!("pods/{}/binding", self.pod.name);
            match self.post(&path, &binding).await {
                Ok(_) => {}
                // It was given one already, and the answer was lost; or it is gone, which shows soon enough.
                Err(kube::Error::Api(answer)) if answer.code == 409 => {}
                Err(error) => return Err(error),
            }
        }
        self.is_bound = true;
        Ok(())
    }

    /// A token of the pod's service account that is good for as long as the pod is there.
    async fn token(&self) -> kube::Result<String> {
        let spec = self.pod.object.spec.as_ref().unwrap();
        let account = spec.service_account_name.as_deref().unwrap_or("default");
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {
                "expirationSeconds": TOKEN_SECONDS,
                "boundObjectRef": {
                    "apiVersion": "v1", "kind": "Pod",
                    "name": self.pod.name, "uid": self.pod.uid,
                },
            },
        });
        let path = format!("serviceaccounts/{account}/token");
        let answer = self.post(&path, &request).await?;
        Ok(answer["status"]["token"].as_str().unwrap().to_owned())
    }

    async fn post(&self, path: &str, object: &Value) -> kube::Result<Value> {
        let namespace = &self.shared.namespace;
        let request = http::Request::builder()
            .method(Method::POST)
            .uri(format!("/api/v1/namespaces/{namespace}/{path}"))
            .header("content-type", "application/json")
            .body(serde_json::to_vec(object).unwrap())
            .unwrap();
        self.client.request(request).await
    }

    /// Asks the process whether it is ready, as its spec says.
    async fn probe(&mut self) {
        if let Some(probing) = self.probing.take_if(|probing| probing.is_finished()) {
            if probing.await.unwrap_or(false) {
                self.failed_probes = 0;
                self.become_ready(true);
            } else {
                self.failed_probes += 1;
                if self.failed_probes >= self.probe.failure_threshold {
                    self.become_ready(false);
                }
            }
        }
        if self.probing.is_some() || Instant::now() < self.probe_at {
            return;
        }
        self.probe_at = Instant::now() + PROBE_EVERY;
        let process = self.pod.process.lock().unwrap();
        let Some(process) = process.as_ref() else {
            return;
        };
        let answer = process.get(&self.probe.path);
        let time_out = self.probe.time_out;
        let probing = self.shared.runtime.spawn(async move {
            let answer = tokio::time::timeout(time_out, answer).await;
            matches!(answer, Ok(Some((200..400, _))))
        });
        self.probing = Some(AbortOnDropHandle::new(probing));
    }

    fn become_ready(&mut self, ready: bool) {
        if self.facts.ready == ready {
            return;
        }
        self.facts.ready = ready;
        self.facts.ready_changed = status::now();
        self.pod.ready.store(ready, Ordering::Relaxed);
        let what = if ready {
            Happening::Ready
        } else {
            Happening::Unready
        };
        self.shared.note(&self.pod, what);
    }

    async fn tell(&mut self) {
        let patch = status::patch(&self.pod.object, &self.facts);
        let parameters = PatchParams::default();
        let patched = self
            .pods
            .patch_status(&self.pod.name, &parameters, &Patch::Merge(&patch))
            .await;
        match patched {
            Ok(_) => self.told = Some(self.facts.clone()),
            // Gone, or another pod of the same name.
            Err(kube::Error::Api(answer)) if [404, 409].contains(&answer.code) => {
                self.told = Some(self.facts.clone());
            }
            // Next time.
            Err(_) => {}
        }
    }
}
