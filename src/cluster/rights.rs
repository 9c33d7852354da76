//! What must be allowed for Leases and states.

use std::{fmt::Debug, time::Duration};

use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        authorization::v1::{
            ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
        },
        coordination::v1::Lease,
        core::v1::ConfigMap,
    },
};
use kube::{
    Api, Client, Resource,
    api::{ListParams, PostParams},
};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;

use super::{backoff::Backoff, failure::clip};

/// How long one question may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Refusals in a row, this often, may be passing ones: an API server that has just started forbids everything to everybody until it has read its roles.
const PASSING_REFUSALS: u32 = 3;

/// What is needed besides to list: as in `manifests/base/rbac.yaml`.
const VERBS: [&str; 4] = ["watch", "create", "update", "delete"];

/// Leases or states may not be kept: nothing would keep two replicas from paging for the same, and nothing would be remembered.
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
    /// What the API server says, or what it does not allow.
    pub refusals: Vec<String>,
}

/// Makes sure that Leases and `ConfigMap`s of a namespace may be kept: by a list of at most one object each, and by asking the API server what else is allowed. Only a
/// refusal that stands counts: whatever else goes wrong may pass, and whoever needs them says so.
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

/// The refusal to list objects of a kind, or else to do what else is needed with them, if it stands.
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
        let said = match answer {
            Ok(_) => missing::<K>(client, namespace).await?,
            Err(kube::Error::Api(status)) if status.code == 403 => match clip(&status.message) {
                said if said.is_empty() => format!("{} may not be listed", K::plural(&())),
                said => said,
            },
            Err(_) => return None,
        };
        if refusals == PASSING_REFUSALS {
            return Some(said);
        }
        if refusals == 0 {
            warn!(
                refusal = said,
                namespace, "may not do all that it needs; trying again"
            );
        }
        sleep(backoff.next(Instant::now(), fastrand::f64())).await;
    }
    None
}

/// What is not allowed with objects of a kind. Nothing, if the API server does not tell: anybody may ask by default, but not everywhere.
async fn missing<K>(client: &Client, namespace: &str) -> Option<String>
where
    K: Resource<DynamicType = ()>,
{
    let reviews = Api::<SelfSubjectAccessReview>::all(client.clone());
    let mut missing = Vec::new();
    for verb in VERBS {
        let attributes = ResourceAttributes {
            namespace: Some(namespace.to_owned()),
            group: Some(K::group(&()).into_owned()),
            resource: Some(K::plural(&()).into_owned()),
            verb: Some(verb.to_owned()),
            ..ResourceAttributes::default()
        };
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(attributes),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let params = PostParams::default();
        let answer = timeout(TIMEOUT, reviews.create(&params, &review)).await;
        if !answer.ok()?.ok()?.status?.allowed {
            missing.push(verb);
        }
    }
    let verbs = missing.join(" or ");
    (!missing.is_empty()).then(|| format!("it may not {verbs} {}", K::plural(&())))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use http::{Method, Request, Response};
    use http_body_util::Full;
    use kube::client::Body;
    use tower::service_fn;

    use super::*;
    use crate::testing::{capture, scripted};

    const LIST: &str = r#"{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{},"items":[{"metadata":{"name":"a"}}]}"#;

    const ALLOWED: &str = r#"{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","metadata":{},"spec":{},"status":{"allowed":true}}"#;
    const NOT_ALLOWED: &str = r#"{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","metadata":{},"spec":{},"status":{"allowed":false}}"#;
    const UNDECIDED: &str = r#"{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","metadata":{},"spec":{}}"#;

    #[tokio::test(start_paused = true)]
    async fn one_object_of_each_is_asked_for_and_then_what_else_is_allowed() {
        let (client, asked) = scripted(&[(200, LIST), (200, LIST), (201, ALLOWED)]);
        assert_eq!(check_rights(&client, "ops").await, Ok(()));
        let asked = asked.all();
        let (lists, reviews) = asked.split_at(2);
        assert_eq!(
            lists,
            [
                "/apis/coordination.k8s.io/v1/namespaces/ops/leases?&limit=1",
                "/api/v1/namespaces/ops/configmaps?&limit=1",
            ]
        );
        let review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews?";
        assert_eq!(reviews, [review; 2 * VERBS.len()]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_allowed_is_named() {
        let service = service_fn(async |request: Request<Body>| {
            let is_list = request.method() == Method::GET;
            let body = if is_list { LIST } else { NOT_ALLOWED };
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(body))))
        });
        let client = Client::new(service, "default");
        let error = check_rights(&client, "ops").await.unwrap_err();
        assert_eq!(
            error.refusals,
            [
                "it may not watch or create or update or delete leases",
                "it may not watch or create or update or delete configmaps",
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
            &[(200, LIST), (200, LIST), (403, "no")],
            &[(200, LIST), (200, LIST), (0, "")],
            &[(200, LIST), (200, LIST), (201, UNDECIDED)],
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
