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

use std::{hash::Hasher as _, time::Duration};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::write::time;

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
                vec![("controller-revision-hash", "5b8f6d7c9".to_owned()), ("pod-template-generation", "1".to_owned())],
                controller("apps/v1", "DaemonSet", name),
            ),
            Owner::Job(name) => (
                name,
                vec![("batch.kubernetes.io/job-name", name.clone()), ("job-name", name.clone())],
                controller("batch/v1", "Job", name),
            ),
            Owner::CronJob(name, minute) => {
                let job = format!("{name}-{minute}");
                (
                    name,
                    vec![("batch.kubernetes.io/job-name", job.clone()), ("job-name", job.clone())],
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
            "initContainers": [container("migrate", &self.image, 4)],
            "containers": [container("app", &self.image, 18), container("log-agent", "registry.example.com/log-agent:2.9.4", 6)],
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
        spec
    }

    fn status(&self) -> Value {
        if let State::Unschedulable = self.state {
            let mut condition = condition("PodScheduled", "False", self.created);
            condition["reason"] = "Unschedulable".into();
            condition["message"] = "0/12 nodes are available: 12 Insufficient cpu. preemption: 0/12 nodes are available: 12 No preemption victims found for incoming pod.".into();
            return json!({"phase": "Pending", "qosClass": "Burstable", "conditions": [condition]});
        }
        let started = after(self.created, 4);
        let ready_at = after(self.created, 14);
        let running = |since| json!({"running": {"startedAt": time(since)}});
        let ended = |code: u8, reason: &str, from, to| {
            json!({"terminated": {
                "containerID": format!("containerd://{}", hash(&[&self.name, reason]).repeat(4)),
                "exitCode": code, "reason": reason, "startedAt": time(from), "finishedAt": time(to),
            }})
        };
        let nothing = json!({});
        // Phase; state and last state of `app`; its restarts; ready, and since when.
        let (phase, state, last, restarts, ready, since) = match self.state {
            State::Running => ("Running", running(started), nothing, 0, true, ready_at),
            State::NotReady(since) => ("Running", running(started), nothing, 0, false, since),
            State::CrashLooping(exit, restarts) => {
                let waiting = json!({"waiting": {"reason": "CrashLoopBackOff", "message": format!(
                    "back-off {} restarting failed container=app pod={}_{}({})",
                    back_off(restarts), self.name, self.namespace, uid(&[&self.namespace, "Pod", &self.name]),
                )}});
                ("Running", waiting, ended(1, "Error", before(exit, 2), exit), restarts, false, exit)
            }
            State::OomKilled(at, restarts) => {
                let again = after(at, 1);
                ("Running", running(again), ended(137, "OOMKilled", started, at), restarts, true, after(again, 10))
            }
            State::Recovered(since, restarts) => {
                let exit = before(since, 40);
                ("Running", running(since), ended(1, "Error", before(exit, 2), exit), restarts, true, after(since, 10))
            }
            State::ImagePullBackOff => {
                let image = &self.image;
                let waiting = json!({"waiting": {"reason": "ImagePullBackOff", "message": format!(
                    "Back-off pulling image \"{image}\": ErrImagePull: failed to pull and unpack image \"{image}\": failed to resolve reference \"{image}\": {image}: not found",
                )}});
                ("Pending", waiting, nothing, 0, false, self.created)
            }
            State::Completed(at) => ("Succeeded", ended(0, "Completed", started, at), nothing, 0, false, at),
            State::Unschedulable => return Value::Null, // returned above
        };
        let done = phase == "Succeeded";
        let status = if ready { "True" } else { "False" };
        let mut conditions = vec![
            condition("PodReadyToStartContainers", if done { "False" } else { "True" }, if done { since } else { after(self.created, 2) }),
            condition("Initialized", "True", after(self.created, 3)),
            condition("Ready", status, since),
            condition("ContainersReady", status, since),
            condition("PodScheduled", "True", self.created),
        ];
        for condition in &mut conditions[2..4] {
            if done {
                condition["reason"] = "PodCompleted".into();
            } else if !ready {
                condition["reason"] = "ContainersNotReady".into();
                condition["message"] = "containers with unready status: [app]".into();
            }
        }
        let agent = if done { ended(0, "Completed", started, since) } else { running(started) };
        let migrated = ended(0, "Completed", after(self.created, 2), after(self.created, 3));
        json!({
            "phase": phase,
            "qosClass": "Burstable",
            "hostIP": "10.20.0.17",
            "hostIPs": [{"ip": "10.20.0.17"}],
            "podIP": "10.244.3.58",
            "podIPs": [{"ip": "10.244.3.58"}],
            "startTime": time(self.created),
            "conditions": conditions,
            "initContainerStatuses": [container_status("migrate", &self.image, &migrated, &json!({}), 0, true)],
            "containerStatuses": [
                container_status("app", &self.image, &state, &last, restarts, ready),
                container_status("log-agent", "registry.example.com/log-agent:2.9.4", &agent, &json!({}), 0, !done),
            ],
        })
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

const ENVIRONMENT: [(&str, &str); 18] = [
    ("LOG_LEVEL", "info"),
    ("LOG_FORMAT", "json"),
    ("HTTP_LISTEN_ADDRESS", "0.0.0.0:8080"),
    ("METRICS_LISTEN_ADDRESS", "0.0.0.0:9090"),
    ("DATABASE_HOST", "postgres-primary.databases.svc.cluster.local"),
    ("DATABASE_NAME", "orders"),
    ("DATABASE_POOL_SIZE", "20"),
    ("REDIS_URL", "redis://redis-master.caches.svc.cluster.local:6379/0"),
    ("KAFKA_BROKERS", "kafka-0.kafka:9092,kafka-1.kafka:9092,kafka-2.kafka:9092"),
    ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://otel-collector.observability:4317"),
    ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
    ("OTEL_TRACES_SAMPLER_ARG", "0.05"),
    ("FEATURE_FLAGS_URL", "http://flags.platform.svc.cluster.local/v2"),
    ("REQUEST_TIMEOUT_SECONDS", "15"),
    ("GRACEFUL_SHUTDOWN_SECONDS", "25"),
    ("GOMAXPROCS", "2"),
    ("GOMEMLIMIT", "460MiB"),
    ("REGION", "eu-central-1"),
];

fn container(name: &str, image: &str, variables: usize) -> Value {
    let mut env: Vec<Value> = ENVIRONMENT
        .iter()
        .take(variables)
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect();
    env.push(json!({"name": "DATABASE_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "database-credentials", "key": "password"}}}));
    env.push(json!({"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}));
    let mut container = json!({
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "env": env,
        "resources": {"limits": {"memory": "512Mi"}, "requests": {"cpu": "250m", "memory": "256Mi"}},
        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": true},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"mountPath": "/etc/app", "name": "config", "readOnly": true},
            {"mountPath": "/tmp", "name": "tmp"},
            {"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "name": "kube-api-access-x7k2p", "readOnly": true},
        ],
    });
    if name == "app" {
        let probe = |path: &str, failures: u8| {
            json!({
                "httpGet": {"path": path, "port": "http", "scheme": "HTTP"},
                "failureThreshold": failures, "initialDelaySeconds": 5, "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 2,
            })
        };
        container["livenessProbe"] = probe("/livez", 3);
        container["readinessProbe"] = probe("/readyz", 3);
        container["ports"] = json!([
            {"containerPort": 8080, "name": "http", "protocol": "TCP"},
            {"containerPort": 9090, "name": "metrics", "protocol": "TCP"},
        ]);
    }
    container
}

fn container_status(
    name: &str,
    image: &str,
    state: &Value,
    last: &Value,
    restarts: u32,
    ready: bool,
) -> Value {
    let mut status = json!({
        "name": name,
        "image": image,
        "imageID": format!("{image}@sha256:{}", hash(&[image]).repeat(4)),
        "state": state,
        "lastState": last,
        "ready": ready,
        "restartCount": restarts,
        "started": state.get("running").is_some(),
        "volumeMounts": [
            {"mountPath": "/etc/app", "name": "config", "readOnly": true, "recursiveReadOnly": "Disabled"},
            {"mountPath": "/tmp", "name": "tmp"},
        ],
    });
    if state.get("waiting").is_none() {
        status["containerID"] = format!("containerd://{}", hash(&[name, image]).repeat(4)).into();
    }
    status
}

fn condition(kind: &str, status: &str, since: Timestamp) -> Value {
    json!({"type": kind, "status": status, "lastProbeTime": null, "lastTransitionTime": time(since), "observedGeneration": 1})
}

/// What server-side apply notes about the fields that somebody has set.
fn fields_v1(value: &Value) -> Value {
    let mut fields = Map::new();
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                fields.insert(format!("f:{name}"), fields_v1(value));
            }
        }
        Value::Array(items) => {
            for item in items {
                let key = ["name", "mountPath", "containerPort", "type", "ip"]
                    .into_iter()
                    .find(|key| item.get(key).is_some());
                // Lists without a key are one field.
                let Some(key) = key else { continue };
                let mut item_fields = fields_v1(item);
                item_fields["."] = json!({});
                fields.insert(format!("k:{{\"{key}\":{}}}", item[key]), item_fields);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    Value::Object(fields)
}

/// The kubelet's back-off after so many restarts, as Go prints durations.
fn back_off(restarts: u32) -> String {
    let doublings = restarts.saturating_sub(1).min(5);
    let seconds = (10_u64 << doublings).min(300);
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}

fn after(time: Timestamp, seconds: u64) -> Timestamp {
    time.saturating_add(Duration::from_secs(seconds))
        .unwrap_or(Timestamp::MAX)
}

fn before(time: Timestamp, seconds: u64) -> Timestamp {
    time.saturating_sub(Duration::from_secs(seconds))
        .unwrap_or(Timestamp::MIN)
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
