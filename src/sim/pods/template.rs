//! The parts that all pods share.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{super::json::time, hash};

const ENVIRONMENT: [(&str, &str); 18] = [
    ("LOG_LEVEL", "info"),
    ("LOG_FORMAT", "json"),
    ("HTTP_LISTEN_ADDRESS", "0.0.0.0:8080"),
    ("METRICS_LISTEN_ADDRESS", "0.0.0.0:9090"),
    (
        "DATABASE_HOST",
        "postgres-primary.databases.svc.cluster.local",
    ),
    ("DATABASE_NAME", "orders"),
    ("DATABASE_POOL_SIZE", "20"),
    (
        "REDIS_URL",
        "redis://redis-master.caches.svc.cluster.local:6379/0",
    ),
    (
        "KAFKA_BROKERS",
        "kafka-0.kafka:9092,kafka-1.kafka:9092,kafka-2.kafka:9092",
    ),
    (
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "http://otel-collector.observability:4317",
    ),
    ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
    ("OTEL_TRACES_SAMPLER_ARG", "0.05"),
    (
        "FEATURE_FLAGS_URL",
        "http://flags.platform.svc.cluster.local/v2",
    ),
    ("REQUEST_TIMEOUT_SECONDS", "15"),
    ("GRACEFUL_SHUTDOWN_SECONDS", "25"),
    ("GOMAXPROCS", "2"),
    ("GOMEMLIMIT", "460MiB"),
    ("REGION", "eu-central-1"),
];

pub(super) fn container(name: &str, image: &str, variables: usize) -> Value {
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

pub(super) fn container_status(
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
    });
    if state.get("waiting").is_none() {
        status["containerID"] = format!("containerd://{}", hash(&[name, image]).repeat(4)).into();
    }
    status
}

pub(super) fn condition(kind: &str, status: &str, since: Timestamp) -> Value {
    json!({"type": kind, "status": status, "lastProbeTime": null, "lastTransitionTime": time(since), "observedGeneration": 1})
}

/// What server-side apply notes about the fields that somebody has set.
pub(super) fn fields_v1(value: &Value) -> Value {
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
