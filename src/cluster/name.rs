//! The name of a cluster that nobody has named.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use tokio::time::{Instant, sleep};
use tracing::{error, warn};

use super::{Failure, FailureReason, backoff::Backoff, failure};

/// The namespace that every cluster has from its first moment to its last.
const NAMESPACE: &str = "kube-system";

/// How long one attempt may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Refusals in a row, this often, may be passing ones: an API server that has just started forbids everything to everybody until it has read its roles.
const PASSING_REFUSALS: u32 = 4;

/// Reads what tells a cluster from all others: the UID of its namespace `kube-system`.
///
/// # Errors
///
/// It cannot be read; it is the least of reads, but `get` of that namespace must be allowed.
pub async fn cluster_uid(client: &Client) -> Result<String, Failure> {
    let what = "the Namespace kube-system";
    let namespaces = Api::<Namespace>::all(client.clone());
    let namespace = failure::get(what, TIMEOUT, namespaces.get_metadata(NAMESPACE)).await?;
    let uid = namespace.metadata.uid.filter(|uid| !uid.is_empty());
    uid.ok_or_else(|| Failure::new(FailureReason::Decode, format!("{what} has no UID")))
}

/// Asks until it is known, or known that it will not be told (`None`), which is said loudly.
///
/// The name is part of what alerts are known by. So a passing failure must not decide it: with another name than before a restart, all that stands would be
/// paged again, as something else. Nothing is lost by waiting, because an API server that does not answer this serves no lists either.
pub async fn wait_for_cluster_uid(client: &Client) -> Option<String> {
    let mut backoff = Backoff::default();
    let mut refusals = 0;
    let mut said = String::new();
    loop {
        let failure = match cluster_uid(client).await {
            Ok(uid) => return Some(uid),
            Err(failure) => failure,
        };
        refusals = if failure.reason.is_permanent() {
            refusals + 1
        } else {
            0
        };
        if refusals > PASSING_REFUSALS {
            error!(
                %failure,
                "alerts will have no label `cluster`: set ALERTKUBE_CLUSTER, or allow get on namespaces, resource name kube-system, in its ClusterRole"
            );
            return None;
        }
        if failure.message != said {
            warn!(%failure, "cannot tell yet which cluster this is; trying again");
            said.clone_from(&failure.message);
        }
        sleep(backoff.next(Instant::now(), fastrand::f64())).await;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        cluster::{Clock, install_crypto_provider},
        sim::{NAMESPACES, Options, Server},
        testing::{START, capture, scripted},
    };

    const KUBE_SYSTEM: &str = r#"{"metadata":{"name":"kube-system","uid":"8c1f"}}"#;

    #[tokio::test]
    async fn a_cluster_is_told_by_the_uid_of_its_first_namespace() {
        install_crypto_provider();
        let clock = Clock::starting_at(START, 1.0);
        let server = Server::start(Options::new(clock)).await.unwrap();
        let namespace = json!({ "metadata": { "name": "kube-system" } });
        let made = server.store().create(&NAMESPACES, namespace).unwrap();
        let client = Client::try_from(server.kube_config()).unwrap();
        assert_eq!(cluster_uid(&client).await, Ok(made.uid().to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn passing_failures_do_not_decide_it() {
        // Long after a refusal would have.
        let mut answers = vec![(503, "down"); 20];
        answers.extend([
            (0, ""),
            (403, "no"),
            (403, "no"),
            (200, "{}"),
            (200, KUBE_SYSTEM),
        ]);
        let (client, asked) = scripted(&answers);
        assert_eq!(wait_for_cluster_uid(&client).await.as_deref(), Some("8c1f"));
        assert_eq!(asked.all().len(), answers.len());
        assert_eq!(asked.all()[0], "/api/v1/namespaces/kube-system");
    }

    #[tokio::test(start_paused = true)]
    async fn without_the_right_there_is_no_name_and_what_to_grant_is_said() {
        let (logs, _guard) = capture();
        let (client, asked) = scripted(&[(403, "no")]);
        assert_eq!(wait_for_cluster_uid(&client).await, None);
        assert_eq!(asked.all().len(), PASSING_REFUSALS as usize + 1);
        let logs = logs.text();
        let said = logs.lines().filter(|line| line.contains("trying again"));
        assert_eq!(said.count(), 1, "{logs}");
        assert!(
            logs.contains("set ALERTKUBE_CLUSTER, or allow get"),
            "{logs}"
        );
    }
}
