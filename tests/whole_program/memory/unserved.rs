//! A shard that nobody serves, since nobody takes over.

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;

use super::{Installation, pod_of, wait_until_it_is_written, wait_until_it_says};
use crate::support::{ControlPlane, Webhook, create_namespace, mk_pod};

const ALERT: &str = "KubePodInitStuck";
const NOT_SERVED: &str = "AlertkubeShardNotServed";

#[tokio::test]
async fn without_takeover_a_shard_waits_for_its_own_replica_and_the_other_pages_for_that() {
    let plane = ControlPlane::shared().await;
    let client = plane.client().await;
    let ns = "static";
    create_namespace(&client, ns).await;
    let installation = Installation::new(&plane);
    let name = &installation.name;
    let webhooks = [Webhook::start(), Webhook::start()];
    let start = |index: u32| {
        let webhook = &webhooks[usize::try_from(index).unwrap()];
        installation.start_shard(webhook, index, 2, &[("ALERTKUBE_TAKEOVER", "false")])
    };
    let (mut stays, mut goes) = (start(0), start(1));
    stays.wait_ready().await;
    goes.wait_ready().await;
    let by_its_own = "shard 1-of-2 served by its own replica";
    wait_until_it_says(&mut stays, by_its_own).await;
    let [mine, yours] = [0, 1].map(|index| pod_of(index, ns, "before"));
    for (webhook, workload) in webhooks.iter().zip([&mine, &yours]) {
        mk_pod(workload).init_stuck().create(&client, ns).await;
        webhook.wait_for_page("firing", ALERT, ns, workload).await;
    }
    wait_until_it_is_written(&goes).await;

    let leases = Api::<Lease>::namespaced(client.clone(), "default");
    let holder = async || {
        let lease = leases.get(&format!("{name}-shard-1-of-2")).await.unwrap();
        lease.spec.unwrap().holder_identity
    };
    goes.kill();
    let dead = holder().await;
    assert!(dead.as_ref().is_some_and(|dead| !dead.is_empty()));
    // It recovers while nobody sees to it.
    mk_pod(&yours).update(&client, ns).await;
    let [during_mine, during] = [0, 1].map(|index| pod_of(index, ns, "during"));
    mk_pod(&during).init_stuck().create(&client, ns).await;
    let page = webhooks[0]
        .wait_for_page("firing", NOT_SERVED, "default", name)
        .await;
    assert_eq!(page.label("shard"), "1-of-2");
    // That is long after its Lease was over, and what it serves goes on.
    mk_pod(&during_mine).init_stuck().create(&client, ns).await;
    webhooks[0]
        .wait_for_page("firing", ALERT, ns, &during_mine)
        .await;
    assert_eq!(holder().await, dead, "somebody has taken over");
    webhooks[1].assert_exactly(ns, &[(ALERT, &yours, 1, 0)]);

    let mut back = start(1);
    back.wait_ready().await;
    webhooks[1]
        .wait_for_page("firing", ALERT, ns, &during)
        .await;
    webhooks[1]
        .wait_for_page("resolved", ALERT, ns, &yours)
        .await;
    assert_ne!(holder().await, dead);
    wait_until_it_says(&mut stays, by_its_own).await;
    webhooks[0]
        .wait_for_page("resolved", NOT_SERVED, "default", name)
        .await;
    back.stop().await;
    stays.stop().await;

    let [first, second] = &webhooks;
    first.assert_exactly(ns, &[(ALERT, &mine, 1, 0), (ALERT, &during_mine, 1, 0)]);
    second.assert_exactly(ns, &[(ALERT, &yours, 1, 1), (ALERT, &during, 1, 0)]);
    first.assert_exactly("default", &[(NOT_SERVED, name, 1, 1)]);
    second.assert_exactly("default", &[]);
}
