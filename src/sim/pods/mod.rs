//! Pods of the size and shape of real ones: about 12 KB of JSON, with managed fields, environment, volumes, probes and conditions. A pod is
//! healthy as it is made, and a fault is the only difference.
//!
//! ```
//! use alertkube::sim::pods::{Owner, mk_pod};
//!
//! let last_exit = "2026-11-02T09:30:00Z".parse()?;
//! let pod = mk_pod("shop", "web-7d9c5b8f6-x2x4q").crash_looping(last_exit, 5).build();
//! assert_eq!(pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"], "CrashLoopBackOff");
//! let healthy = mk_pod("shop", "db-0").owned_by(Owner::StatefulSet("db".into())).build();
//! assert_eq!(healthy["status"]["phase"], "Running");
//! # Ok::<(), jiff::Error>(())
//! ```

mod status;
mod template;

use std::hash::Hasher as _;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::json::time;
use template::{container, fields_v1};

/// The image of the second container, `log-agent`.
const AGENT_IMAGE: &str = "registry.example.com/log-agent:2.9.4";

/// The init container, which runs the image of `app`.
const INIT: &str = "migrate";

/// Who made a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// A Deployment, by its name and the `pod-template-hash` of the `ReplicaSet` between.
    Deployment(String, String),
    /// A `StatefulSet`.
    StatefulSet(String),
    /// A `DaemonSet`.
    DaemonSet(String),
    /// A Job.
    Job(String),
    /// A `CronJob`, and the minute since 1970 that its Job has in its name.
    CronJob(String, u64),
    /// Nobody.
    Bare,
}

/// How the main container, `app`, is doing.
#[derive(Debug, Clone, Copy)]
enum State {
    Running,
    NotReady(Timestamp),
    CrashLooping(Timestamp, u32),
    OomKilled(Timestamp, u32),
    Recovered(Timestamp, u32),
    ImagePullBackOff,
    InitStuck(Timestamp),
    Unschedulable,
    Completed(Timestamp),
}

/// A pod in the making.
#[derive(Debug, Clone)]
pub struct PodBuilder {
    namespace: String,
    name: String,
    owner: Owner,
    created: Timestamp,
    node: String,
    image: String,
    state: State,
}

/// A healthy pod of a Deployment, 2 January 2026, on `node-1`. If the name looks like that of a Deployment's pod
/// (`web-7d9c5b8f6-x2x4q`), it tells the Deployment; else the Deployment has the name of the pod.
pub fn mk_pod(namespace: impl Into<String>, name: impl Into<String>) -> PodBuilder {
    let name = name.into();
    let owner = name
        .rsplit_once('-')
        .and_then(|(replica_set, _)| replica_set.rsplit_once('-'))
        .map_or_else(
            || Owner::Deployment(name.clone(), "7d9c5b8f6".into()),
            |(deployment, hash)| Owner::Deployment(deployment.into(), hash.into()),
        );
    PodBuilder {
        namespace: namespace.into(),
        owner,
        created: Timestamp::constant(1_767_340_800, 0),
        node: "node-1".into(),
        image: format!("registry.example.com/{}:v1.42.0", owner_name(&name)),
        name,
        state: State::Running,
    }
}

fn owner_name(name: &str) -> &str {
    name.split('-').next().unwrap_or(name)
}

impl PodBuilder {
    /// Who made it.
    #[must_use]
    pub fn owned_by(mut self, owner: Owner) -> Self {
        self.owner = owner;
        self
    }

    /// When it was created. It was scheduled at once, and ran 4 s later.
    #[must_use]
    pub fn created(mut self, at: Timestamp) -> Self {
        self.created = at;
        self
    }

    /// The node it runs on.
    #[must_use]
    pub fn node(mut self, node: impl Into<String>) -> Self {
        self.node = node.into();
        self
    }

    /// The image of `app`.
    #[must_use]
    pub fn image(mut self, image: impl Into<String>) -> Self {
        self.image = image.into();
        self
    }

    /// `app` has run and failed; it waits to be restarted, in back-off as long as so many restarts make it (10 s, doubled, up to 5 min).
    #[must_use]
    pub fn crash_looping(mut self, last_exit: Timestamp, restarts: u32) -> Self {
        self.state = State::CrashLooping(last_exit, restarts);
        self
    }

    /// `app` was killed for its memory, and runs again since a second later.
    #[must_use]
    pub fn oom_killed(mut self, at: Timestamp, restarts: u32) -> Self {
        self.state = State::OomKilled(at, restarts);
        self
    }

    /// `app` runs again, and is ready, after it had failed.
    #[must_use]
    pub fn recovered(mut self, since: Timestamp, restarts: u32) -> Self {
        self.state = State::Recovered(since, restarts);
        self
    }

    /// `app` runs, but its readiness probe fails.
    #[must_use]
    pub fn not_ready(mut self, since: Timestamp) -> Self {
        self.state = State::NotReady(since);
        self
    }

    /// The image of `app` cannot be pulled, from the start.
    #[must_use]
    pub fn image_pull_back_off(mut self) -> Self {
        self.state = State::ImagePullBackOff;
        self
    }

    /// Its init container, `migrate`, runs since then, so that no other container starts.
    #[must_use]
    pub fn init_stuck(mut self, since: Timestamp) -> Self {
        self.state = State::InitStuck(since);
        self
    }

    /// No node has room for it, from the start.
    #[must_use]
    pub fn unschedulable(mut self) -> Self {
        self.state = State::Unschedulable;
        self
    }

    /// All its containers have ended well, as those of a Job do.
    #[must_use]
    pub fn completed(mut self, at: Timestamp) -> Self {
        self.state = State::Completed(at);
        self
    }

    /// The pod as JSON.
    pub fn build(&self) -> Value {
        let (labels, references) = self.ownership();
        let spec = self.spec();
        let status = self.status();
        let mut metadata = json!({
            "namespace": self.namespace,
            "name": self.name,
            "creationTimestamp": time(self.created),
            "labels": labels,
            "annotations": {
                "checksum/config": "9f3c1b0a7d5e4c2f8b6a9e1d3c5f7a9b1d3e5f7092a4b6c8d0e2f4061829304a",
                "kubectl.kubernetes.io/restartedAt": time(self.created),
                "prometheus.io/path": "/metrics",
                "prometheus.io/port": "9090",
                "prometheus.io/scrape": "true",
            },
        });
        let made = json!({"metadata": {"labels": labels}, "spec": spec});
        metadata["managedFields"] = json!([
            self.managed("kube-controller-manager", "", &made),
            self.managed("kubelet", "status", &json!({"status": status})),
        ]);
        if !references.is_null() {
            metadata["ownerReferences"] = references;
        }
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status})
    }

    fn ownership(&self) -> (Value, Value) {
        let controller = |api_version: &str, kind: &str, name: &str| {
            json!([{
                "apiVersion": api_version, "kind": kind, "name": name, "uid": uid(&[&self.namespace, kind, name]),
                "controller": true, "blockOwnerDeletion": true,
            }])
        };
        let (app, extra, references) = match &self.owner {
            Owner::Deployment(name, hash) => {
                let replica_set = format!("{name}-{hash}");
                (
                    name,
                    vec![("pod-template-hash", hash.clone())],
                    controller("apps/v1", "ReplicaSet", &replica_set),
                )
            }
            Owner::StatefulSet(name) => (
                name,
                vec![
                    ("controller-revision-hash", format!("{name}-6c5f8d9b7")),
                    ("statefulset.kubernetes.io/pod-name", self.name.clone()),
                ],
                controller("apps/v1", "StatefulSet", name),
            ),
            Owner::DaemonSet(name) => (
                name,
                vec![
                    ("controller-revision-hash", "5b8f6d7c9".to_owned()),
                    ("pod-template-generation", "1".to_owned()),
                ],
                controller("apps/v1", "DaemonSet", name),
            ),
            Owner::Job(name) => (
                name,
                vec![
                    ("batch.kubernetes.io/job-name", name.clone()),
                    ("job-name", name.clone()),
                ],
                controller("batch/v1", "Job", name),
            ),
            Owner::CronJob(name, minute) => {
                let job = format!("{name}-{minute}");
                (
                    name,
                    vec![
                        ("batch.kubernetes.io/job-name", job.clone()),
                        ("job-name", job.clone()),
                    ],
                    controller("batch/v1", "Job", &job),
                )
            }
            Owner::Bare => (&self.name, Vec::new(), Value::Null),
        };
        let mut labels = json!({
            "app.kubernetes.io/instance": format!("{app}-{}", self.namespace),
            "app.kubernetes.io/managed-by": "Helm",
            "app.kubernetes.io/name": app,
            "app.kubernetes.io/version": "1.42.0",
            "helm.sh/chart": format!("{app}-3.8.1"),
        });
        for (label, value) in extra {
            labels[label] = value.into();
        }
        (labels, references)
    }

    fn spec(&self) -> Value {
        let once = matches!(self.owner, Owner::Job(_) | Owner::CronJob(..));
        let mut spec = json!({
            "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
                "weight": 100,
                "podAffinityTerm": {
                    "topologyKey": "kubernetes.io/hostname",
                    "labelSelector": {"matchLabels": {"app.kubernetes.io/name": owner_name(&self.name)}},
                },
            }]}},
            "containers": [container("app", &self.image, 9), container("log-agent", AGENT_IMAGE, 2)],
            "dnsPolicy": "ClusterFirst",
            "enableServiceLinks": true,
            "imagePullSecrets": [{"name": "registry-credentials"}],
            "preemptionPolicy": "PreemptLowerPriority",
            "priority": 0,
            "restartPolicy": if once { "Never" } else { "Always" },
            "schedulerName": "default-scheduler",
            "securityContext": {"fsGroup": 2000, "runAsNonRoot": true, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
            "serviceAccount": owner_name(&self.name),
            "serviceAccountName": owner_name(&self.name),
            "terminationGracePeriodSeconds": 30,
            "tolerations": [
                {"effect": "NoExecute", "key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300},
                {"effect": "NoExecute", "key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 300},
            ],
            "volumes": [
                {"name": "config", "configMap": {"name": "app-config", "defaultMode": 420}},
                {"name": "tls", "secret": {"secretName": "app-tls", "defaultMode": 420}},
                {"name": "tmp", "emptyDir": {"sizeLimit": "256Mi"}},
                {"name": "kube-api-access-x7k2p", "projected": {"defaultMode": 420, "sources": [
                    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                    {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
                ]}},
            ],
        });
        if !matches!(self.state, State::Unschedulable) {
            spec["nodeName"] = self.node.as_str().into();
        }
        if matches!(self.state, State::InitStuck(_)) {
            spec["initContainers"] =
                json!([{"name": INIT, "image": self.image, "imagePullPolicy": "IfNotPresent"}]);
        }
        spec
    }

    fn managed(&self, manager: &str, subresource: &str, fields: &Value) -> Value {
        let mut entry = json!({
            "apiVersion": "v1", "fieldsType": "FieldsV1", "manager": manager, "operation": "Update",
            "time": time(self.created), "fieldsV1": fields_v1(fields),
        });
        if !subresource.is_empty() {
            entry["subresource"] = subresource.into();
        }
        entry
    }
}

/// 16 hex digits that stand for these words.
fn hash(words: &[&str]) -> String {
    let mut hasher = fnv::FnvHasher::default();
    for word in words {
        hasher.write(word.as_bytes());
        hasher.write(b"/");
    }
    format!("{:016x}", hasher.finish())
}

/// A uid that stands for these words.
fn uid(words: &[&str]) -> String {
    let hash = hash(words);
    format!(
        "{}-{}-4{}-8{}-{}",
        &hash[..8],
        &hash[8..12],
        &hash[12..15],
        &hash[1..4],
        &hash[4..16]
    )
}
