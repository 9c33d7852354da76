//! What must be allowed for Leases and states.

use std::{fmt::Debug, time::Duration};

use k8s_openapi::{
    NamespaceResourceScope,
    api::{coordination::v1::Lease, core::v1::ConfigMap},
};
use kube::{Api, Client, Resource, api::ListParams};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;

use super::{backoff::Backoff, failure::clip};

/// How long one question may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Refusals in a row, this often, may be passing ones: an API server that has just started forbids everything to everybody until it has read its roles.
const PASSING_REFUSALS: u32 = 3;

/// Leases or states may not be read: nothing would keep two replicas from paging for the same, and nothing would be remembered.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "it may not keep Leases and states in the namespace {namespace} ({}); grant it by a Role there: list, watch, create, update and delete \
     on leases (API group coordination.k8s.io) and on configmaps (API group \"\"), and get on statefulsets (API group apps) if a StatefulSet runs it; \
     or name another namespace by ALERTKUBE_NAMESPACE; or run alone and without them: alertkube run --ephemeral",
    .refusals.join("; ")
)]
pub struct RightsError {
    /// Where.
    pub namespace: String,
    /// What the API server says.
    pub refusals: Vec<String>,
}

/// Makes sure, by a list of at most one object each, that Leases and `ConfigMap`s of a namespace may be read. Only a refusal that stands counts: whatever else
/// goes wrong may pass, and whoever needs them says so.
///
/// # Errors
///
/// They may not be.
pub async fn check_rights(client: &Client, namespace: &str) -> Result<(), RightsError> {
    let (leases, states) = tokio::join!(
        refusal::<Lease>(client, namespace),
        refusal::<ConfigMap>(client, namespace)
    );
    let refusals: Vec<String> = leases.into_iter().chain(states).collect();
    if refusals.is_empty() {
        return Ok(());
    }
    Err(RightsError {
        namespace: namespace.to_owned(),
        refusals,
    })
}

/// The refusal to list objects of a kind, if it stands.
async fn refusal<K>(client: &Client, namespace: &str) -> Option<String>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + DeserializeOwned,
{
    let objects = Api::<K>::namespaced(client.clone(), namespace);
    let params = ListParams::default().limit(1);
    let mut backoff = Backoff::default();
    for refusals in 0.. {
        let answer = timeout(TIMEOUT, objects.list_metadata(&params))
            .await
            .ok()?;
        let kube::Error::Api(status) = answer.err()? else {
            return None;
        };
        if status.code != 403 {
            return None;
        }
        let said = match clip(&status.message) {
            said if said.is_empty() => format!("{} may not be listed", K::plural(&())),
            said => said,
        };
        if refusals == PASSING_REFUSALS {
            return Some(said);
        }
        if refusals == 0 {
            warn!(
                refusal = said,
                namespace, "may not read what it is to keep; trying again"
            );
        }
        sleep(backoff.next(Instant::now(), fastrand::f64())).await;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{capture, scripted};

    const LIST: &str = r#"{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{},"items":[{"metadata":{"name":"a"}}]}"#;

    #[tokio::test(start_paused = true)]
    async fn one_object_of_each_is_asked_for() {
        let (client, asked) = scripted(&[(200, LIST)]);
        assert_eq!(check_rights(&client, "ops").await, Ok(()));
        assert_eq!(
            asked.all(),
            [
                "/apis/coordination.k8s.io/v1/namespaces/ops/leases?&limit=1",
                "/api/v1/namespaces/ops/configmaps?&limit=1",
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_pass_is_no_missing_right() {
        for answers in [
            &[(0, "")][..],
            &[(500, "oops")],
            &[(200, "no json")],
            &[(403, "no"), (403, "no"), (200, LIST)],
        ] {
            let (client, _) = scripted(answers);
            assert_eq!(check_rights(&client, "ops").await, Ok(()), "{answers:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_says_what_to_grant_and_how_to_do_without() {
        let (logs, _guard) = capture();
        let (client, _) = scripted(&[(
            403,
            r#"{"kind":"Status","status":"Failure","code":403,"reason":"Forbidden","message":"User \"ops\" cannot list it"}"#,
        )]);
        let error = check_rights(&client, "ops").await.unwrap_err();
        insta::assert_snapshot!(
            error,
            @r#"it may not keep Leases and states in the namespace ops (User "ops" cannot list it; User "ops" cannot list it); grant it by a Role there: list, watch, create, update and delete on leases (API group coordination.k8s.io) and on configmaps (API group ""), and get on statefulsets (API group apps) if a StatefulSet runs it; or name another namespace by ALERTKUBE_NAMESPACE; or run alone and without them: alertkube run --ephemeral"#
        );
        assert_eq!(logs.text().matches("trying again").count(), 2);
    }
}
