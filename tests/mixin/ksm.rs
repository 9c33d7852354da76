//! What kube-state-metrics tells of an object, as far as the mixin's conditions ask for it.
//!
//! Names and labels are those of kube-state-metrics' `docs/metrics/`, one file a kind; which file is said at each kind. One metric is of kube-apiserver itself.

use std::fmt::Write as _;

use serde_json::Value;

use crate::history::{History, ORIGIN, Step};

/// How often everything is scraped, and the rules are evaluated: the default of kube-prometheus, which is half of Prometheus' own.
pub const INTERVAL_SECONDS: i64 = 30;

/// A series with a value for each scrape; none where it was not there.
pub struct Series {
    /// Its name and labels.
    pub id: String,
    /// Its values.
    pub values: Vec<Option<f64>>,
}

/// When the first scrape of a history is, in seconds from [`ORIGIN`]. What is seen at the time of a scrape is in it.
pub fn first_scrape(history: &History) -> i64 {
    history.steps[0].0.as_second() - ORIGIN.as_second()
}

/// How many scrapes there are.
pub fn scrapes(history: &History) -> usize {
    let lasts = history.ends.as_second() - history.steps[0].0.as_second();
    usize::try_from(lasts / INTERVAL_SECONDS).unwrap() + 1
}

/// Every series of a history.
pub fn series(history: &History) -> Vec<Series> {
    let mut objects: Vec<Value> = Vec::new();
    let mut all: Vec<Series> = Vec::new();
    let mut steps = history.steps.iter().peekable();
    let start = history.steps[0].0.as_second();
    let count = scrapes(history);
    for scrape in 0..count {
        let now = start + i64::try_from(scrape).unwrap() * INTERVAL_SECONDS;
        while let Some((_, step)) = steps.next_if(|(at, _)| at.as_second() <= now) {
            let (Step::Seen(object) | Step::Gone(object)) = step;
            let is_same = |other: &Value| {
                other["kind"] == object["kind"]
                    && other["metadata"]["name"] == object["metadata"]["name"]
            };
            objects.retain(|other| !is_same(other));
            if let Step::Seen(object) = step {
                objects.push(object.clone());
            }
        }
        for (id, value) in objects.iter().flat_map(|object| samples(object, start)) {
            let known = all.iter().position(|series| series.id == id);
            let position = known.unwrap_or_else(|| {
                let values = vec![None; count];
                all.push(Series { id, values });
                all.len() - 1
            });
            all[position].values[scrape] = Some(value);
        }
    }
    all
}

/// Samples of one object, with the labels that all of them have.
struct Samples {
    labels: String,
    all: Vec<(String, f64)>,
}

impl Samples {
    fn push(&mut self, metric: &str, labels: &[(&str, &str)], value: f64) {
        let mut id = format!("{metric}{{{}", self.labels);
        for (name, value) in labels {
            write!(id, ",{name}={value:?}").unwrap();
        }
        id.push('}');
        self.all.push((id, value));
    }

    /// Numbers of the object, each with the end of its metric's name.
    fn push_numbers(&mut self, prefix: &str, numbers: &[(&str, &Value)]) {
        for (end, value) in numbers {
            self.push(&format!("{prefix}{end}"), &[], number(value));
        }
    }

    /// One series for each status that a condition may have, and 1 for the one that it has.
    fn push_statuses(
        &mut self,
        metric: &str,
        labels: &[(&str, &str)],
        label: &str,
        status: &Value,
    ) {
        for known in ["true", "false", "unknown"] {
            let is = text(status).eq_ignore_ascii_case(known);
            let labels = [labels, &[(label, known)]].concat();
            self.push(metric, &labels, number_of(is));
        }
    }
}

/// What is told of the object, at any time. `start` is the time that `promtool` counts from, in Unix seconds: to it, that is 0.
fn samples(object: &Value, start: i64) -> Vec<(String, f64)> {
    let (meta, _, _) = parts(object);
    let kind = text(&object["kind"]);
    let label = match kind {
        "APIService" => "name".to_owned(),
        "Job" => "job_name".to_owned(),
        _ => kind.to_lowercase(),
    };
    let mut labels = format!("{label}={:?}", text(&meta["name"]));
    if let Some(namespace) = meta["namespace"].as_str() {
        write!(labels, ",namespace={namespace:?}").unwrap();
    }
    let mut samples = Samples {
        labels,
        all: Vec::new(),
    };
    match kind {
        "Pod" => pod(object, &mut samples),
        "Node" => node(object, &mut samples),
        "Deployment" => deployment(object, &mut samples),
        "StatefulSet" => stateful_set(object, &mut samples),
        "DaemonSet" => daemon_set(object, &mut samples),
        "Job" => job(object, start, &mut samples),
        "HorizontalPodAutoscaler" => autoscaler(object, &mut samples),
        "PodDisruptionBudget" => disruption_budget(object, &mut samples),
        "ResourceQuota" => quota(object, &mut samples),
        "PersistentVolume" => volume(object, &mut samples),
        "APIService" => api_service(object, &mut samples),
        kind => panic!("no metrics of {kind} are known: add them here"),
    }
    samples.all
}

/// docs/metrics/workload/pod-metrics.md
fn pod(pod: &Value, samples: &mut Samples) {
    let (meta, status) = (&pod["metadata"], &pod["status"]);
    for phase in ["Pending", "Running", "Succeeded", "Failed", "Unknown"] {
        let is = status["phase"] == phase;
        samples.push("kube_pod_status_phase", &[("phase", phase)], number_of(is));
    }
    if let Some(ready) = find(&status["conditions"], "Ready") {
        samples.push_statuses("kube_pod_status_ready", &[], "condition", &ready["status"]);
    }
    // Told of a closed set of reasons, of which the mixin asks for one.
    let gated = "SchedulingGated";
    let is = list(&status["conditions"]).any(|condition| condition["reason"] == gated);
    samples.push(
        "kube_pod_status_reason",
        &[("reason", gated)],
        number_of(is),
    );
    let owner = list(&meta["ownerReferences"]).next();
    let owner = owner.map_or("<none>", |owner| text(&owner["kind"]));
    samples.push("kube_pod_owner", &[("owner_kind", owner)], 1.0);
    // Of main containers; of init containers there are other metrics. The series is there only while the container waits.
    for container in list(&status["containerStatuses"]) {
        if let Some(reason) = container["state"]["waiting"]["reason"].as_str() {
            let metric = "kube_pod_container_status_waiting_reason";
            let labels = [("container", text(&container["name"])), ("reason", reason)];
            samples.push(metric, &labels, 1.0);
        }
    }
}

/// docs/metrics/cluster/node-metrics.md
fn node(node: &Value, samples: &mut Samples) {
    let unschedulable = node["spec"]["unschedulable"] == true;
    samples.push(
        "kube_node_spec_unschedulable",
        &[],
        number_of(unschedulable),
    );
    for taint in list(&node["spec"]["taints"]) {
        let labels = ["key", "value", "effect"].map(|name| (name, text(&taint[name])));
        samples.push("kube_node_spec_taint", &labels, 1.0);
    }
    for condition in list(&node["status"]["conditions"]) {
        let labels = [("condition", text(&condition["type"]))];
        let metric = "kube_node_status_condition";
        samples.push_statuses(metric, &labels, "status", &condition["status"]);
    }
}

/// docs/metrics/workload/deployment-metrics.md
fn deployment(deployment: &Value, samples: &mut Samples) {
    let (meta, spec, status) = parts(deployment);
    samples.push_numbers(
        "kube_deployment_",
        &[
            ("metadata_generation", &meta["generation"]),
            ("spec_replicas", &spec["replicas"]),
            ("status_observed_generation", &status["observedGeneration"]),
            ("status_replicas_available", &status["availableReplicas"]),
            ("status_replicas_updated", &status["updatedReplicas"]),
        ],
    );
    for condition in list(&status["conditions"]) {
        let labels = [
            ("condition", text(&condition["type"])),
            ("reason", text(&condition["reason"])),
        ];
        let metric = "kube_deployment_status_condition";
        samples.push_statuses(metric, &labels, "status", &condition["status"]);
    }
}

/// docs/metrics/workload/statefulset-metrics.md
fn stateful_set(set: &Value, samples: &mut Samples) {
    let (meta, spec, status) = parts(set);
    samples.push_numbers(
        "kube_statefulset_",
        &[
            ("metadata_generation", &meta["generation"]),
            ("replicas", &spec["replicas"]),
            ("status_observed_generation", &status["observedGeneration"]),
            ("status_replicas_ready", &status["readyReplicas"]),
            ("status_replicas_updated", &status["updatedReplicas"]),
        ],
    );
    let current = [("revision", text(&status["currentRevision"]))];
    samples.push("kube_statefulset_status_current_revision", &current, 1.0);
    let update = [("revision", text(&status["updateRevision"]))];
    samples.push("kube_statefulset_status_update_revision", &update, 1.0);
}

/// docs/metrics/workload/daemonset-metrics.md
fn daemon_set(set: &Value, samples: &mut Samples) {
    let (_, _, status) = parts(set);
    samples.push_numbers(
        "kube_daemonset_status_",
        &[
            (
                "current_number_scheduled",
                &status["currentNumberScheduled"],
            ),
            (
                "desired_number_scheduled",
                &status["desiredNumberScheduled"],
            ),
            ("number_available", &status["numberAvailable"]),
            ("number_misscheduled", &status["numberMisscheduled"]),
            (
                "updated_number_scheduled",
                &status["updatedNumberScheduled"],
            ),
        ],
    );
}

/// docs/metrics/workload/job-metrics.md
fn job(job: &Value, start: i64, samples: &mut Samples) {
    let (_, _, status) = parts(job);
    samples.push_numbers("kube_job_status_", &[("active", &status["active"])]);
    if let Some(started) = status["startTime"].as_str() {
        let started: jiff::Timestamp = started.parse().unwrap();
        let metric = "kube_job_status_start_time";
        samples.push(metric, &[], (started.as_second() - start) as f64);
    }
    if let Some(failed) = find(&status["conditions"], "Failed") {
        samples.push_statuses("kube_job_failed", &[], "condition", &failed["status"]);
    }
}

/// docs/metrics/workload/horizontalpodautoscaler-metrics.md
fn autoscaler(autoscaler: &Value, samples: &mut Samples) {
    let (_, spec, status) = parts(autoscaler);
    samples.push_numbers(
        "kube_horizontalpodautoscaler_",
        &[
            ("spec_max_replicas", &spec["maxReplicas"]),
            ("spec_min_replicas", &spec["minReplicas"]),
            ("status_current_replicas", &status["currentReplicas"]),
            ("status_desired_replicas", &status["desiredReplicas"]),
        ],
    );
    for condition in list(&status["conditions"]) {
        let metric = "kube_horizontalpodautoscaler_status_condition";
        let labels = [("condition", text(&condition["type"]))];
        samples.push_statuses(metric, &labels, "status", &condition["status"]);
    }
}

/// docs/metrics/policy/poddisruptionbudget-metrics.md
fn disruption_budget(budget: &Value, samples: &mut Samples) {
    let (_, _, status) = parts(budget);
    samples.push_numbers(
        "kube_poddisruptionbudget_status_",
        &[
            ("current_healthy", &status["currentHealthy"]),
            ("desired_healthy", &status["desiredHealthy"]),
        ],
    );
}

/// docs/metrics/policy/resourcequota-metrics.md
fn quota(quota: &Value, samples: &mut Samples) {
    let (_, _, status) = parts(quota);
    for r#type in ["hard", "used"] {
        for (resource, quantity) in status[r#type].as_object().into_iter().flatten() {
            let labels = [("resource", resource.as_str()), ("type", r#type)];
            let value = text(quantity).parse();
            let value = value.expect("histories write quantities without a unit");
            samples.push("kube_resourcequota", &labels, value);
        }
    }
}

/// docs/metrics/storage/persistentvolume-metrics.md
fn volume(volume: &Value, samples: &mut Samples) {
    let (_, _, status) = parts(volume);
    for phase in ["Pending", "Available", "Bound", "Released", "Failed"] {
        let is = number_of(status["phase"] == phase);
        samples.push(
            "kube_persistentvolume_status_phase",
            &[("phase", phase)],
            is,
        );
    }
}

/// kube-apiserver: kube-aggregator, `pkg/controllers/status/metrics`.
fn api_service(service: &Value, samples: &mut Samples) {
    let (_, _, status) = parts(service);
    let available = find(&status["conditions"], "Available");
    let is_unavailable = available.is_some_and(|condition| condition["status"] != "True");
    let metric = "aggregator_unavailable_apiservice";
    samples.push(metric, &[], number_of(is_unavailable));
}

/// Its metadata, spec and status.
fn parts(object: &Value) -> (&Value, &Value, &Value) {
    (&object["metadata"], &object["spec"], &object["status"])
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn find<'a>(conditions: &'a Value, r#type: &str) -> Option<&'a Value> {
    list(conditions).find(|condition| condition["type"] == r#type)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A count; what is not written is 0, as in the objects of Kubernetes.
fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}

fn number_of(is: bool) -> f64 {
    f64::from(u8::from(is))
}
