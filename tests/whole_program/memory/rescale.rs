//! Rescaling, and crashes while what is left of the old generation is deleted.

use std::os::unix::process::ExitStatusExt as _;

use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap};
use kube::{Api, Client, api::ListParams};

use super::{Installation, crashes::SIGABRT, pod_of, wait_until_it_is_written};
use crate::support::{
    ControlPlane, PATIENCE, Program, Webhook, create_namespace, eventually, mk_pod, say,
};

const ALERT: &str = "KubePodInitStuck";

/// The replicas of an installation of two shards, each of which is started again when it has crashed.
struct Pair<'a> {
    installation: &'a Installation<'a>,
    webhook: &'a Webhook,
    replicas: [Program; 2],
    crashes: usize,
}

impl<'a> Pair<'a> {
    /// Both are to crash at a point: which of them gets there first is open.
    fn begin(installation: &'a Installation<'a>, webhook: &'a Webhook, crash: &str) -> Self {
        let fault = [("ALERTKUBE_FAULT_CRASH_AT", crash)];
        Self {
            installation,
            webhook,
            replicas: [0, 1].map(|index| installation.start_shard(webhook, index, 2, &fault)),
            crashes: 0,
        }
    }

    fn go_on(&mut self) {
        for (index, replica) in (0..).zip(&mut self.replicas) {
            if let Some(status) = replica.ended() {
                assert_eq!(status.signal(), Some(SIGABRT), "{status}");
                self.crashes += 1;
                *replica = self.installation.start_shard(self.webhook, index, 2, &[]);
            }
        }
    }

    async fn are_ready(&self) -> bool {
        for replica in &self.replicas {
            if !matches!(replica.get("/readyz").await, Some((200, _))) {
                return false;
            }
        }
        true
    }
}

/// The Leases and `ConfigMap`s of an installation that are of the only shard of one.
async fn of_one(client: &Client, installation: &str) -> Vec<String> {
    let params =
        ListParams::default().labels(&format!("app.kubernetes.io/instance={installation}"));
    let leases = Api::<Lease>::namespaced(client.clone(), "default");
    let maps = Api::<ConfigMap>::namespaced(client.clone(), "default");
    let (leases, maps) = tokio::join!(leases.list_metadata(&params), maps.list_metadata(&params));
    let leases = leases.unwrap().items.into_iter();
    let maps = maps.unwrap().items.into_iter();
    let names = leases
        .map(|lease| lease.metadata.name)
        .chain(maps.map(|map| map.metadata.name));
    names
        .flatten()
        .filter(|name| name.contains("-0-of-1"))
        .collect()
}

async fn a_crash_while_the_old_generation_is_deleted_leaves_nothing_of_it(point: &str) {
    let plane = ControlPlane::shared().await;
    let client = plane.client().await;
    let ns = &format!("rescale-{point}");
    create_namespace(&client, ns).await;
    // One of each shard to be.
    let workloads = [0, 1].map(|index| pod_of(index, ns, "web"));
    for workload in &workloads {
        mk_pod(workload).init_stuck().create(&client, ns).await;
    }
    let installation = Installation::new(&plane);
    let webhook = Webhook::start();
    let only = installation.start(&webhook);
    for workload in &workloads {
        webhook.wait_for_page("firing", ALERT, ns, workload).await;
    }
    wait_until_it_is_written(&only).await;
    only.stop().await;
    let name = &installation.name;
    assert_eq!(
        of_one(&client, name).await,
        [
            format!("{name}-shard-0-of-1"),
            format!("{name}-state-0-of-1")
        ]
    );

    let mut pair = Pair::begin(&installation, &webhook, &format!("{point}:1"));
    let what = format!("the old generation to be gone in spite of a crash at {point}");
    eventually(what, PATIENCE, async || {
        pair.go_on();
        let is_over =
            pair.crashes > 0 && of_one(&client, name).await.is_empty() && pair.are_ready().await;
        is_over.then_some(())
    })
    .await;
    for workload in &workloads {
        mk_pod(workload).update(&client, ns).await;
    }
    let what = format!("both to be resolved in spite of a crash at {point}");
    eventually(what, PATIENCE, async || {
        // The second may get to the point now.
        pair.go_on();
        let pages = webhook.pages(ns);
        let is_resolved = |name: &String| pages.iter().any(|page| page.is("resolved", ALERT, name));
        workloads.iter().all(is_resolved).then_some(())
    })
    .await;
    let Pair {
        replicas, crashes, ..
    } = pair;
    say(format_args!("rescale: {crashes} crashes at {point}"));
    for replica in replicas {
        wait_until_it_is_written(&replica).await;
        replica.stop().await;
    }
    let [first, second] = &workloads;
    webhook.assert_exactly(ns, &[(ALERT, first, 1, 1), (ALERT, second, 1, 1)]);
    assert_eq!(of_one(&client, name).await, [""; 0]);
}

#[tokio::test]
async fn a_crash_at_deleting_the_old_generation_leaves_nothing_of_it_and_tells_nothing_again() {
    let after = a_crash_while_the_old_generation_is_deleted_leaves_nothing_of_it;
    tokio::join!(after("delete-state"), after("delete-lease"));
}
