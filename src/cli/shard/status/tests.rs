use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease as LeaseObject;
use serde_json::{Value, json};

use super::*;
use crate::{
    cli::shard::status::look::LookError,
    cluster::{Clock, FailureReason, install_crypto_provider},
    coordinator::Names,
    sim::{CONFIG_MAPS, Fault, LEASES, On, Server},
    testing::{START, at, scripted},
};

/// An installation called `ak` in a cluster in memory, whose time stands still but for the test's own.
struct Installation {
    server: Server,
    names: Names,
}

impl Installation {
    async fn new() -> Self {
        install_crypto_provider();
        let clock = Clock::starting_at(START, 1.0);
        Self {
            server: Server::start(crate::sim::Options::new(clock))
                .await
                .unwrap(),
            names: Names {
                namespace: "ops".into(),
                name: "ak".into(),
            },
        }
    }

    fn record(&self, epoch: u64, active: u32, previous: Option<u32>) {
        let mut record = json!({
            "metadata": { "namespace": "ops", "name": "ak-generation", "labels": { "app.kubernetes.io/instance": "ak" } },
            "data": { "epoch": epoch.to_string(), "active": active.to_string(), "hash": "fnv1a64-fnv1a32" },
        });
        if let Some(previous) = previous {
            record["data"]["previous"] = previous.to_string().into();
        }
        self.server.store().create(&CONFIG_MAPS, record).unwrap();
    }

    /// A Lease, taken an hour ago and renewed so many seconds ago.
    fn lease(&self, shard: &str, holder: &str, renewed: i64, marks: &Value) {
        let lease = mk_lease(shard, holder, renewed, marks);
        self.server.store().create(&LEASES, lease).unwrap();
    }

    fn state(&self, shard: &str, alerts: u32, written: i64) {
        let (index, total) = shard.split_once("-of-").unwrap();
        let state = json!({
            "metadata": {
                "namespace": "ops",
                "name": format!("ak-state-{shard}"),
                "labels": {
                    "app.kubernetes.io/name": "alertkube",
                    "app.kubernetes.io/instance": "ak",
                    "alertkube.io/shard-index": index,
                    "alertkube.io/shard-total": total,
                },
                "annotations": {
                    "alertkube.io/state-version": "1",
                    "alertkube.io/epoch": "4",
                    "alertkube.io/adopted": "",
                    "alertkube.io/parts": "1",
                    "alertkube.io/alerts": alerts.to_string(),
                    "alertkube.io/written-at": at(-written).to_string(),
                },
            },
        });
        self.server.store().create(&CONFIG_MAPS, state).unwrap();
    }

    async fn look(&self) -> Result<look::Seen, LookError> {
        let mut config = self.server.kube_config();
        config.default_retry = false;
        let client = kube::Client::try_from(config).unwrap();
        let clock = Clock::starting_at(START, 1.0);
        look_twice(&client, &self.names, &clock).await
    }
}

fn mk_lease(shard: &str, holder: &str, renewed: i64, marks: &Value) -> Value {
    let (index, total) = shard.split_once("-of-").unwrap();
    let micros = |time: Timestamp| format!("{time:.6}");
    json!({
        "metadata": {
            "namespace": "ops",
            "name": format!("ak-shard-{shard}"),
            "labels": {
                "app.kubernetes.io/name": "alertkube",
                "app.kubernetes.io/instance": "ak",
                "alertkube.io/shard-index": index,
                "alertkube.io/shard-total": total,
            },
            "annotations": marks,
        },
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": 15,
            "acquireTime": micros(at(-3_600)),
            "renewTime": micros(at(-renewed)),
            "leaseTransitions": 1,
        },
    })
}

fn table(status: &Status<'_>) -> String {
    let mut out = Vec::new();
    status.write_table(&mut out, false).unwrap();
    String::from_utf8(out).unwrap()
}

#[tokio::test]
async fn all_is_well() {
    let installation = Installation::new().await;
    installation.record(4, 2, None);
    for (shard, pod) in [("0-of-2", "ak-0"), ("1-of-2", "ak-1")] {
        let holder = shard.replace("-of-", "/") + &format!("/{pod}_0123456789ab");
        installation.lease(shard, &holder, 1, &json!({}));
        installation.state(shard, 7, 90);
    }
    // Another installation in the same namespace.
    let mut other = mk_lease("0-of-9", "0/9/x", 1, &json!({}));
    other["metadata"]["name"] = "ak-2-shard-0-of-9".into();
    other["metadata"]["labels"]["app.kubernetes.io/instance"] = "ak-2".into();
    installation.server.store().create(&LEASES, other).unwrap();

    let seen = installation.look().await.unwrap();
    let status = Status::new(&installation.names, &seen);
    insta::assert_snapshot!(table(&status));
    assert!(status.is_served());
}

#[tokio::test]
async fn a_hand_over_with_an_heir_and_a_shard_that_is_missing() {
    let installation = Installation::new().await;
    installation.record(5, 3, Some(2));
    let done = json!({ "alertkube.io/acknowledged": "5", "alertkube.io/adopted": "5" });
    installation.lease("0-of-3", "0/3/ak-0_aaaaaaaaaaaa", 0, &done);
    installation.lease("1-of-3", "0/3/ak-0_aaaaaaaaaaaa", 0, &json!({}));
    installation.lease("0-of-2", "", 30, &done);
    installation.lease("1-of-2", "1/2/ak-1_bbbbbbbbbbbb", 0, &json!({}));
    installation.lease("0-of-4", "somebody", 0, &json!({}));
    installation.state("0-of-2", 1_200, 150);
    installation.state("0-of-3", 400, 4_000);

    let seen = installation.look().await.unwrap();
    let status = Status::new(&installation.names, &seen);
    insta::assert_snapshot!(table(&status));
    insta::assert_json_snapshot!(status);
    assert!(!status.is_served());
}

#[tokio::test]
async fn where_nothing_has_run_nothing_is_served() {
    let installation = Installation::new().await;
    let seen = installation.look().await.unwrap();
    let status = Status::new(&installation.names, &seen);
    insta::assert_snapshot!(
        table(&status),
        @"ops/ak: nothing has been served yet; ALERTKUBE_NAME and --namespace say where to look"
    );
    assert!(!status.is_served());
}

#[tokio::test]
async fn what_may_not_be_read_is_an_error() {
    let installation = Installation::new().await;
    let fault = Fault::Refuse(http::StatusCode::FORBIDDEN, None);
    let fault = installation
        .server
        .faults()
        .inject(fault, On::any().resource(&CONFIG_MAPS));
    match installation.look().await.unwrap_err() {
        LookError::Read(failure) => {
            assert_eq!(failure.reason, FailureReason::Forbidden);
            let said =
                "not allowed to list ConfigMaps in the namespace ops: a Role there must allow list";
            assert!(failure.message.starts_with(said), "{failure}");
        }
        LookError::Record { .. } => panic!("no record was read"),
    }
    assert_eq!(fault.struck(), 1);
}

#[tokio::test]
async fn a_record_that_says_nothing_is_an_error_that_names_it() {
    let installation = Installation::new().await;
    let record = json!({ "metadata": { "namespace": "ops", "name": "ak-generation" } });
    let store = installation.server.store();
    store.create(&CONFIG_MAPS, record).unwrap();
    let error = installation.look().await.unwrap_err();
    insta::assert_snapshot!(
        error,
        @r#"the record ops/ak-generation cannot be used: it has no "hash""#
    );
}

/// Looks at Leases that are listed so at first, and so after a wait.
async fn twice(first: &[Value], second: Option<&[Value]>) -> Vec<String> {
    let list = |leases: &[Value]| json!({ "metadata": {}, "items": leases }).to_string();
    let look_again = second.is_some();
    let (first, second) = (list(first), list(second.unwrap_or_default()));
    let none = list(&[]);
    let mut answers = vec![(200, first.as_str())];
    // It is asked for only if the first list leaves a doubt.
    if look_again {
        answers.push((200, second.as_str()));
    }
    answers.extend([(200, none.as_str()), (200, none.as_str())]);
    let (client, asked) = scripted(&answers);
    let names = Names {
        namespace: "ops".into(),
        name: "ak".into(),
    };
    let clock = Clock::starting_at(START, 1.0);
    let seen = look_twice(&client, &names, &clock).await.unwrap();
    assert_eq!(asked.all().len(), answers.len());
    let alive = seen.leases.iter().filter(|(_, seen)| seen.alive);
    alive.map(|(shard, _)| shard.to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_holder_is_alive_if_it_renews_whatever_its_clock_says() {
    let lease = |shard: &str, renewed| {
        let holder = shard.replace("-of-", "/") + "/x";
        mk_lease(shard, &holder, renewed, &json!({}))
    };
    let before = [
        lease("0-of-4", 600),
        lease("1-of-4", -600),
        lease("2-of-4", 600),
        lease("3-of-4", -600),
    ];
    let after = [
        lease("0-of-4", 585),
        lease("1-of-4", -615),
        lease("2-of-4", 600),
        lease("3-of-4", -600),
    ];
    let started = tokio::time::Instant::now();
    assert_eq!(twice(&before, Some(&after)).await, ["0-of-4", "1-of-4"]);
    assert_eq!(started.elapsed(), std::time::Duration::from_secs(15));

    let fresh = [lease("0-of-2", 14), lease("1-of-2", -3)];
    assert_eq!(twice(&fresh, None).await, ["0-of-2", "1-of-2"]);
}

#[test]
fn a_lease_of_the_tests_is_one_of_the_api_servers() {
    let lease = mk_lease("0-of-1", "0/1/x", 0, &json!({}));
    let lease: LeaseObject = serde_json::from_value(lease).unwrap();
    assert_eq!(
        lease.spec.unwrap().holder_identity.as_deref(),
        Some("0/1/x")
    );
}
