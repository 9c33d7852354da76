//! Pods to break: healthy as they are made, with the fault as the only difference.
//!
//! Rules count from the times that the API tells, so a pod whose status says that it broke long ago is due at once.

use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};

use super::control_plane::{send, try_send};

/// The time that long ago, as the API writes times.
pub(super) fn ago(duration: Duration) -> String {
    #[expect(
        clippy::disallowed_methods,
        reason = "real servers run by the real clock; no test depends on how fast it goes"
    )]
    let now = Timestamp::now();
    let time = Timestamp::from_second((now - duration).as_second()).unwrap();
    time.to_string()
}

/// A number of minutes.
pub const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

/// A pod as a test wants it.
#[derive(Debug, Clone)]
pub struct Sketch {
    name: String,
    object: Value,
    status: Value,
}

/// A healthy pod that nothing controls, with one container `app` that has been ready for an hour.
pub fn mk_pod(name: &str) -> Sketch {
    let object = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name },
        "spec": {
            // Without a node a pod would be deleted at once, whatever grace period it is given.
            "nodeName": "node-1",
            "containers": [{ "name": "app", "image": "registry.example/app:1" }],
        },
    });
    Sketch {
        name: name.to_owned(),
        object,
        status: running(minutes(60)),
    }
}

/// The status of a pod whose container has been running and ready for that long.
fn running(uptime: Duration) -> Value {
    json!({
        "phase": "Running",
        "startTime": ago(minutes(60)),
        "conditions": [
            condition("PodScheduled", true, minutes(60)),
            condition("PodReadyToStartContainers", true, minutes(60)),
            condition("Initialized", true, minutes(60)),
            condition("ContainersReady", true, uptime),
            condition("Ready", true, uptime),
        ],
        "containerStatuses": [container_status(
            json!({ "running": { "startedAt": ago(uptime) } }), true,
        )],
    })
}

fn condition(name: &str, status: bool, since: Duration) -> Value {
    let status = if status { "True" } else { "False" };
    json!({ "type": name, "status": status, "lastTransitionTime": ago(since) })
}

fn container_status(state: Value, ready: bool) -> Value {
    let mut status = json!({
        "name": "app",
        "image": "registry.example/app:1",
        "imageID": "",
        "ready": ready,
        "started": ready,
        "restartCount": 0,
    });
    status["state"] = state;
    status
}

/// How a container ended that has run for that long.
fn terminated(reason: &str, exit_code: u8, uptime: Duration, finished: Duration) -> Value {
    json!({ "terminated": {
        "exitCode": exit_code,
        "reason": reason,
        "startedAt": ago(finished + uptime),
        "finishedAt": ago(finished),
    }})
}

impl Sketch {
    /// The same pod as one of a Deployment, by way of its ReplicaSet.
    pub fn of_deployment(mut self, deployment: &str) -> Self {
        const HASH: &str = "5d4f8c7b9d";
        self.object["metadata"]["labels"]["pod-template-hash"] = json!(HASH);
        self.of("apps/v1", "ReplicaSet", &format!("{deployment}-{HASH}"))
    }

    /// The same pod with another controller.
    pub fn of(mut self, api_version: &str, kind: &str, name: &str) -> Self {
        self.object["metadata"]["ownerReferences"] = json!([{
            "apiVersion": api_version, "kind": kind, "name": name,
            "uid": "00000000-0000-0000-0000-000000000001", "controller": true,
        }]);
        self
    }

    /// Its container has crashed again and again, the last time 6 minutes ago, and waits for its restart in 5.
    ///
    /// It became unready just now, so that no rule about that is due; and the restarts are few, so that no rule is that counts them.
    pub fn crash_looping(mut self) -> Self {
        let mut container = container_status(
            json!({ "waiting": {
                "reason": "CrashLoopBackOff",
                "message": "back-off 5m0s restarting failed container=app",
            }}),
            false,
        );
        container["restartCount"] = json!(2);
        container["lastState"] = terminated("Error", 1, minutes(1), minutes(6));
        self.become_unready("Running", container);
        self
    }

    /// Its image cannot be pulled, since that long ago.
    pub fn image_pull_failing(mut self, since: Duration) -> Self {
        let container = container_status(
            json!({ "waiting": {
                "reason": "ImagePullBackOff",
                "message": "Back-off pulling image \"registry.example/app:1\"",
            }}),
            false,
        );
        self.become_unready("Pending", container);
        self.status["startTime"] = json!(ago(since));
        for at in 0..3 {
            self.status["conditions"][at]["lastTransitionTime"] = json!(ago(since));
        }
        self
    }

    /// Its init container `migrate` has been running for 20 minutes.
    pub fn init_stuck(mut self) -> Self {
        let container =
            container_status(json!({ "waiting": { "reason": "PodInitializing" } }), false);
        self.become_unready("Pending", container);
        self.object["spec"]["initContainers"] =
            json!([{ "name": "migrate", "image": "registry.example/migrate:1" }]);
        let mut init = container_status(
            json!({ "running": { "startedAt": ago(minutes(20)) } }),
            false,
        );
        init["name"] = json!("migrate");
        self.status["initContainerStatuses"] = json!([init]);
        self.status["conditions"][2] = condition("Initialized", false, minutes(21));
        self
    }

    /// It runs again, but its container was killed for its memory that long ago.
    pub fn oom_killed(mut self, finished: Duration) -> Self {
        let container = &mut self.status["containerStatuses"][0];
        container["restartCount"] = json!(1);
        container["lastState"] = terminated("OOMKilled", 137, minutes(60), finished);
        self
    }

    /// It has crashed, but runs again since that long ago.
    pub fn recovered(mut self, uptime: Duration) -> Self {
        self.status = running(uptime);
        let container = &mut self.status["containerStatuses"][0];
        container["restartCount"] = json!(2);
        container["lastState"] = terminated("Error", 1, minutes(1), uptime + minutes(5));
        self
    }

    /// It should have been gone that long ago, but its containers do not stop. Only [`ControlPlane::store`](super::ControlPlane::store) takes this.
    pub fn stuck_terminating(mut self, since: Duration) -> Self {
        self.object["metadata"]["deletionTimestamp"] = json!(ago(since));
        self.object["metadata"]["deletionGracePeriodSeconds"] = json!(30);
        self
    }

    /// The pod's name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The pod as an API server would store it: with its status, and what it would have filled in.
    pub(super) fn as_stored(&self, namespace: &str) -> Value {
        let mut object = self.object.clone();
        object["status"] = self.status.clone();
        let metadata = &mut object["metadata"];
        metadata["namespace"] = json!(namespace);
        // Unique enough: nothing here makes two pods of one name in one namespace in this way.
        metadata["uid"] = json!(format!("{namespace}-{}", self.name));
        metadata["creationTimestamp"] = json!(ago(minutes(60)));
        object
    }

    fn become_unready(&mut self, phase: &str, container: Value) {
        self.status["phase"] = json!(phase);
        self.status["containerStatuses"] = Value::Array(vec![container]);
        self.status["conditions"][3] = condition("ContainersReady", false, Duration::ZERO);
        self.status["conditions"][4] = condition("Ready", false, Duration::ZERO);
    }

    /// Creates the pod, with its status.
    pub async fn create(&self, client: &Client, namespace: &str) {
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        send(client, Method::POST, &pods, &self.object).await;
        self.update(client, namespace).await;
    }

    /// Creates the pod, with its status, unless it is there already.
    pub async fn try_create(&self, client: &Client, namespace: &str) -> kube::Result<()> {
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        match try_send(client, Method::POST, &pods, &self.object).await {
            Err(kube::Error::Api(answer)) if answer.is_already_exists() => {}
            other => other?,
        }
        self.try_update(client, namespace).await
    }

    /// Gives the pod, which is there already, the status of this sketch.
    pub async fn update(&self, client: &Client, namespace: &str) {
        self.try_update(client, namespace).await.unwrap();
    }

    /// Gives the pod, which is there already, the status of this sketch, if the API server answers.
    pub async fn try_update(&self, client: &Client, namespace: &str) -> kube::Result<()> {
        let mut object = self.object.clone();
        object["status"] = self.status.clone();
        let status = format!("{}/status", self.path(namespace));
        try_send(client, Method::PUT, &status, &object).await
    }

    /// Deletes the pod at once, as a kubelet does when its containers have stopped.
    pub async fn delete(&self, client: &Client, namespace: &str) {
        let now = json!({ "gracePeriodSeconds": 0 });
        send(client, Method::DELETE, &self.path(namespace), &now).await;
    }

    /// Deletes the pod at once, unless it is gone already.
    pub async fn try_delete(&self, client: &Client, namespace: &str) -> kube::Result<()> {
        let now = json!({ "gracePeriodSeconds": 0 });
        match try_send(client, Method::DELETE, &self.path(namespace), &now).await {
            Err(kube::Error::Api(answer)) if answer.is_not_found() => Ok(()),
            other => other,
        }
    }

    fn path(&self, namespace: &str) -> String {
        format!("/api/v1/namespaces/{namespace}/pods/{}", self.name)
    }
}

/// Creates a namespace.
pub async fn create_namespace(client: &Client, name: &str) {
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
    send(client, Method::POST, "/api/v1/namespaces", &namespace).await;
}
