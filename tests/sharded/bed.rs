//! What every test here stands on: a cluster, `manifests/sharded` in it, a kubelet, and a receiver.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Pod};
use kube::{Api, Client, api::DeleteParams};
use tempfile::TempDir;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::support::{
    self, ControlPlane, ControllerManager, Kubelet, PATIENCE, Webhook, eventually,
};

/// The namespace that the manifests make, and the name of everything in it.
pub const ALERTKUBE: &str = "alertkube";

/// One at a time: each has a control plane of its own and up to 8 replicas, and what is measured is measured in seconds.
static TURN: Semaphore = Semaphore::const_new(1);

/// A cluster in which alertkube can be installed.
pub struct Bed {
    // In the order in which they end: the kubelet stops its processes before what they talk to goes.
    pub kubelet: Kubelet,
    pub webhook: Webhook,
    _controllers: ControllerManager,
    pub client: Client,
    pub plane: ControlPlane,
    manifests: Manifests,
    _turn: SemaphorePermit<'static>,
}

impl Bed {
    /// Waits for its turn, and starts one. Nothing is installed in it yet.
    pub async fn start() -> Self {
        let turn = TURN.acquire().await.unwrap();
        let plane = ControlPlane::start().await;
        // The manifests bring a role of that name.
        plane.forbid(support::ALERTKUBE).await;
        let client = plane.client().await;
        let webhook = Webhook::start();
        let kubelet = Kubelet::start(&plane, ALERTKUBE, ALERTKUBE);
        kubelet.set("ALERTKUBE_WEBHOOK_URL", Some(&webhook.url()));
        Self {
            _controllers: ControllerManager::start(&plane),
            kubelet,
            webhook,
            client,
            plane,
            manifests: Manifests::copy(),
            _turn: turn,
        }
    }

    /// Installs alertkube with this many replicas, or changes their number: one edit and one apply.
    pub async fn apply(&self, total: u32) {
        let folder = self.manifests.sharded(total);
        self.plane
            .kubectl(&["apply", "--server-side", "-k", folder.to_str().unwrap()])
            .await;
    }

    /// Waits until the rollout of that many replicas is over, as `kubectl rollout status` does, and they are all there is.
    pub async fn wait_rolled_out(&self, total: u32) {
        // One pod after the other.
        let patience = PATIENCE + 20 * total * Duration::from_secs(1);
        let what = format!("the rollout of {total} replicas to be over");
        let wanted = i32::try_from(total).unwrap();
        eventually(what, patience, async || {
            let object = self.stateful_set().await?;
            let (spec, status) = (object.spec, object.status?);
            let is_over = spec.replicas == Some(wanted)
                && status.observed_generation == object.metadata.generation
                && status.update_revision == status.current_revision
                && status.replicas == wanted
                && status.ready_replicas == Some(wanted)
                && status.updated_replicas == Some(wanted);
            is_over.then_some(())
        })
        .await;
        self.kubelet.wait_ready(PATIENCE, &names(total)).await;
    }

    /// The StatefulSet as it is, if it can be had.
    pub async fn stateful_set(&self) -> Option<StatefulSet> {
        let api = Api::<StatefulSet>::namespaced(self.client.clone(), ALERTKUBE);
        api.get(ALERTKUBE).await.ok()
    }

    /// Starts one in which alertkube runs with this many replicas, all of them ready.
    pub async fn with_replicas(total: u32) -> Self {
        let this = Self::start().await;
        this.apply(total).await;
        this.wait_rolled_out(total).await;
        this
    }

    /// Deletes a pod: with its own grace period, or with another; 0 is by force, and nobody waits for its end.
    pub async fn delete_pod(&self, name: &str, grace_period_seconds: Option<u32>) {
        let pods = Api::<Pod>::namespaced(self.client.clone(), ALERTKUBE);
        let parameters = DeleteParams {
            grace_period_seconds,
            ..DeleteParams::default()
        };
        pods.delete(name, &parameters).await.unwrap();
    }
}

/// The name of the replica with that ordinal.
pub fn name(ordinal: u32) -> String {
    format!("{ALERTKUBE}-{ordinal}")
}

/// The names of that many replicas.
pub fn names(total: u32) -> Vec<String> {
    (0..total).map(name).collect()
}

/// A copy of `manifests/`, to be edited.
#[derive(Debug)]
struct Manifests(TempDir);

impl Manifests {
    fn copy() -> Self {
        let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        copy(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests"),
            folder.path(),
        );
        Self(folder)
    }

    /// The folder to apply, with this total in the one place where it is.
    fn sharded(&self, total: u32) -> PathBuf {
        let folder = self.0.path().join("sharded");
        let file = folder.join("kustomization.yaml");
        let text = fs::read_to_string(&file).unwrap();
        let mut places = 0;
        let edited: String = text
            .split_inclusive('\n')
            .map(|line| match line.split_once("count: ") {
                Some((before, _)) => {
                    places += 1;
                    format!("{before}count: {total}\n")
                }
                None => line.to_owned(),
            })
            .collect();
        assert_eq!(places, 1, "{} has another form", file.display());
        fs::write(&file, edited).unwrap();
        folder
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}
