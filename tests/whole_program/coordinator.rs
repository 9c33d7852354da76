//! Leases, the record and the states' metadata on the real API server: that it treats them as the cluster in memory does, and which rights it takes.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use alertkube::{
    cluster::{Clock, ConnectOptions, connect, install_crypto_provider},
    coordinator::{Access, Clients, Coordinator, Names, States},
    shard::{
        ShardKey,
        ownership::{Answer, Shard, State, Timing, Version},
    },
};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::ConfigMap,
    rbac::v1::{Role, RoleBinding},
};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::{sync::oneshot, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::support::{ControlPlane, OUTSIDER, PATIENCE, create_namespace, eventually};

const NAMESPACE: &str = "coordinator";
const ONLY: Shard = Shard { total: 1, index: 0 };

type Notes = BTreeMap<ShardKey, u32>;

/// States in memory, and what was deleted of them.
#[derive(Debug, Clone, Default)]
struct Memory {
    states: Arc<Mutex<BTreeMap<Shard, Kept>>>,
    deleted: Arc<Mutex<Vec<(Shard, Version)>>>,
}

type Kept = (u64, State<Notes>);

impl States<Notes> for Memory {
    async fn read(&self, shard: Shard) -> Answer<Notes> {
        match self.states.lock().unwrap().get(&shard) {
            Some((version, state)) => Answer::State(Version(*version), Some(state.clone())),
            None => Answer::State(Version(0), None),
        }
    }

    async fn write(
        &self,
        shard: Shard,
        state: State<Notes>,
        expect: Option<Version>,
    ) -> (Answer<Notes>, usize) {
        let mut states = self.states.lock().unwrap();
        let version = states.get(&shard).map(|(version, _)| *version);
        if version.map(Version) != expect {
            return (Answer::Conflict, 0);
        }
        let version = version.unwrap_or(0) + 1;
        states.insert(shard, (version, state.clone()));
        (Answer::State(Version(version), Some(state)), 1)
    }

    fn retain(&self, _: impl Fn(Shard) -> bool) {}

    async fn delete(&self, shard: Shard, version: Version) -> Answer<Notes> {
        self.deleted.lock().unwrap().push((shard, version));
        Answer::Deleted
    }
}

struct Member {
    coordinator: Coordinator<Notes>,
    stop: CancellationToken,
    task: JoinHandle<bool>,
}

async fn start(plane: &ControlPlane, holder: &str, states: &Memory) -> Member {
    install_crypto_provider();
    let options = ConnectOptions {
        kubeconfig: Some(plane.kubeconfig(OUTSIDER).into()),
        ..ConnectOptions::default()
    };
    let config = connect(&options).await.unwrap();
    let clock = Clock::system();
    let access = Access {
        clients: Clients::new(&config.config, &clock).unwrap(),
        names: Names {
            namespace: NAMESPACE.into(),
            name: "ak".into(),
        },
        states: states.clone(),
        clock,
    };
    let (coordinator, _) = Coordinator::new(holder.parse().unwrap(), true, Timing::default());
    let (synced, sync) = oneshot::channel();
    synced.send(()).unwrap();
    let stop = CancellationToken::new();
    let run = coordinator
        .clone()
        .run(access, sync, stop.clone(), Duration::from_secs(20));
    Member {
        coordinator,
        stop,
        task: tokio::spawn(run),
    }
}

/// Grants what it takes, and nothing else.
async fn grant(client: &Client) {
    let role: Role = serde_json::from_value(json!({
        "metadata": { "name": "ak" },
        "rules": [
            {
                "apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
                "verbs": ["list", "watch", "create", "update", "delete"],
            },
            {
                "apiGroups": [""], "resources": ["configmaps"],
                "verbs": ["list", "watch", "create", "update"],
            },
        ],
    }))
    .unwrap();
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": { "name": "ak" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "ak" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": OUTSIDER }],
    }))
    .unwrap();
    let params = PostParams::default();
    let roles = Api::namespaced(client.clone(), NAMESPACE);
    roles.create(&params, &role).await.unwrap();
    let bindings = Api::namespaced(client.clone(), NAMESPACE);
    bindings.create(&params, &binding).await.unwrap();
}

impl Member {
    fn serves(&self) -> bool {
        self.coordinator
            .look(|replica, now| replica.serves(ONLY, now))
    }

    async fn wait_serves(&self) {
        eventually("a shard that is served", PATIENCE, async || {
            self.serves().then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn leases_change_hands_on_a_real_api_server() {
    // One of its own, to know what was asked.
    let plane = ControlPlane::start().await;
    let client = plane.client().await;
    create_namespace(&client, NAMESPACE).await;
    let leases = Api::<Lease>::namespaced(client.clone(), NAMESPACE);
    let maps = Api::<ConfigMap>::namespaced(client.clone(), NAMESPACE);
    grant(&client).await;
    // Something of a generation long gone.
    let old: ConfigMap = serde_json::from_value(json!({"metadata": {
        "name": "ak-state-1-of-5",
        "labels": {"app.kubernetes.io/instance": "ak", "alertkube.io/shard-total": "5"},
        "annotations": {"alertkube.io/epoch": "0"},
    }}))
    .unwrap();
    let old = maps.create(&PostParams::default(), &old).await.unwrap();

    let states = Memory::default();
    let mut first = start(&plane, "0/1/first", &states).await;
    first.wait_serves().await;
    let second = start(&plane, "0/1/second", &states).await;
    let lease = leases.get("ak-shard-0-of-1").await.unwrap();
    let (uid, spec) = (lease.metadata.uid, lease.spec.unwrap());
    assert_eq!(spec.holder_identity.as_deref(), Some("0/1/first"));
    assert_eq!(spec.lease_transitions, Some(1));
    eventually("the metadata of a state", PATIENCE, async || {
        let deleted = states.deleted.lock().unwrap();
        let (shard, version) = *deleted.first()?;
        let expected = old.metadata.resource_version.as_ref().unwrap();
        assert_eq!((shard.index, shard.total), (1, 5));
        assert_eq!(version.0.to_string(), *expected);
        Some(())
    })
    .await;

    // It is renewed with its uid: one that somebody deletes is seen to be gone, and taken anew.
    leases
        .delete("ak-shard-0-of-1", &DeleteParams::default())
        .await
        .unwrap();
    eventually("the Lease", PATIENCE, async || {
        let lease = leases.get_opt("ak-shard-0-of-1").await.unwrap()?;
        (lease.metadata.uid != uid).then_some(())
    })
    .await;
    // Without its label it is out of sight of a watch, and there all the same.
    let bare = json!({"metadata": {"labels": {"app.kubernetes.io/instance": null}}});
    leases
        .patch(
            "ak-shard-0-of-1",
            &PatchParams::default(),
            &Patch::Merge(&bare),
        )
        .await
        .unwrap();
    eventually("its label", PATIENCE, async || {
        let lease = leases.get("ak-shard-0-of-1").await.unwrap();
        let labels = lease.metadata.labels?;
        (labels.get("app.kubernetes.io/instance")? == "ak").then_some(())
    })
    .await;

    let holder = eventually("a holder that serves", PATIENCE, async || {
        let lease = leases.get("ak-shard-0-of-1").await.unwrap();
        let serves = first.serves() || second.serves();
        lease.spec?.holder_identity.filter(|_| serves)
    })
    .await;
    let mut last = if holder == "0/1/first" {
        first.stop.cancel();
        assert!((&mut first.task).await.unwrap(), "not all was freed");
        second
    } else {
        second.stop.cancel();
        assert!(second.task.await.unwrap(), "not all was freed");
        first
    };
    last.wait_serves().await;
    last.stop.cancel();
    assert!((&mut last.task).await.unwrap(), "not all was freed");
    let spec = leases.get("ak-shard-0-of-1").await.unwrap().spec.unwrap();
    assert_eq!(spec.holder_identity.unwrap_or_default(), "");
    let record = maps.get("ak-generation").await.unwrap().data.unwrap();
    assert_eq!(record["active"], "1");

    let asked = plane.requests_of(OUTSIDER);
    let expected = [
        "create configmaps",
        "create leases",
        "list configmaps",
        "list leases",
        "update leases",
        "watch configmaps",
        "watch leases",
    ];
    assert_eq!(asked, expected.map(str::to_owned).into());
}
