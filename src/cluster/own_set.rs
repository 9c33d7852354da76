//! The `StatefulSet` that this pod is one of.

use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use kube::{
    Api, Client,
    core::{ApiResource, NotUsed, Object},
};
use serde::Deserialize;

use super::{Failure, failure};

/// How long the question may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What the pod's own `StatefulSet` wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnSet {
    /// `spec.replicas`.
    pub replicas: u32,
    /// `spec.ordinals.start`: the first ordinal.
    pub start: u32,
    /// `spec.template.spec.terminationGracePeriodSeconds`: how long a pod has to stop.
    pub grace: Duration,
}

impl OwnSet {
    /// Whether there is to be a pod with this ordinal.
    pub const fn wants(self, ordinal: u32) -> bool {
        match ordinal.checked_sub(self.start) {
            Some(index) => index < self.replicas,
            None => false,
        }
    }
}

/// What is read of a `StatefulSet`.
#[derive(Debug, Clone, Deserialize)]
struct Spec {
    // The API server's default, written to every object.
    #[serde(default = "one")]
    replicas: u32,
    #[serde(default)]
    ordinals: Ordinals,
    #[serde(default)]
    template: Template,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct Template {
    #[serde(default)]
    spec: PodSpec,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec {
    #[serde(default = "thirty")]
    termination_grace_period_seconds: u32,
}

impl Default for PodSpec {
    fn default() -> Self {
        Self {
            termination_grace_period_seconds: thirty(),
        }
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
struct Ordinals {
    #[serde(default)]
    start: u32,
}

const fn one() -> u32 {
    1
}

/// The default of the grace period, in seconds.
const fn thirty() -> u32 {
    30
}

/// Reads the `StatefulSet` that runs the pod of this name: the one whose name the pod's is, but for the ordinal. Two pods cannot have one name, so there is no other
/// that could. `None` if there is none, or if it is being deleted: then nothing can be told from it.
///
/// # Errors
///
/// It cannot be read.
pub async fn own_stateful_set(
    client: &Client,
    namespace: &str,
    pod_name: &str,
) -> Result<Option<OwnSet>, Failure> {
    let Some(name) = set_of(pod_name) else {
        return Ok(None);
    };
    let resource = ApiResource::erase::<StatefulSet>(&());
    let sets = Api::<Object<Spec, NotUsed>>::namespaced_with(client.clone(), namespace, &resource);
    let what = format!("the StatefulSet {namespace}/{name}");
    let set = failure::get(&what, TIMEOUT, sets.get_opt(name)).await?;
    Ok(set
        .filter(|set| set.metadata.deletion_timestamp.is_none())
        .map(|set| OwnSet {
            replicas: set.spec.replicas,
            start: set.spec.ordinals.start,
            grace: Duration::from_secs(
                set.spec
                    .template
                    .spec
                    .termination_grace_period_seconds
                    .into(),
            ),
        }))
}

/// The name of the `StatefulSet` that could have made a pod of this name: it names its pods after itself, with `-` and an ordinal.
fn set_of(pod_name: &str) -> Option<&str> {
    let (set, ordinal) = pod_name.rsplit_once('-')?;
    let is_ordinal = ordinal.bytes().all(|byte| byte.is_ascii_digit())
        && ordinal
            .parse::<u32>()
            .is_ok_and(|number| number.to_string() == ordinal);
    (is_ordinal && !set.is_empty()).then_some(set)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        cluster::{Clock, FailureReason, install_crypto_provider},
        sim::{Fault, On, Options, STATEFUL_SETS, Server},
        testing::{START, scripted},
    };

    #[test]
    fn the_name_of_the_set_is_in_the_name_of_the_pod() {
        for (pod, set) in [
            ("alertkube-0", Some("alertkube")),
            ("alertkube-eu-12", Some("alertkube-eu")),
            ("a.b-3", Some("a.b")),
            ("alertkube-7d9c5b8f6-x2x4q", None),
            ("alertkube-00", None),
            ("alertkube-+1", None),
            ("alertkube-", None),
            ("alertkube", None),
            ("-0", None),
            ("alertkube-4294967296", None),
            ("", None),
        ] {
            assert_eq!(set_of(pod), set, "{pod}");
        }
    }

    #[test]
    fn ordinals_begin_where_the_set_says() {
        let set = OwnSet {
            replicas: 2,
            start: 3,
            grace: Duration::ZERO,
        };
        let wanted: Vec<_> = (0..8).filter(|&ordinal| set.wants(ordinal)).collect();
        assert_eq!(wanted, [3, 4]);
        let all = OwnSet {
            replicas: u32::MAX,
            start: u32::MAX,
            grace: Duration::ZERO,
        };
        assert!(all.wants(u32::MAX));
    }

    #[tokio::test]
    async fn the_set_of_a_pod_is_read_from_its_own_namespace() {
        install_crypto_provider();
        let clock = Clock::starting_at(START, 1.0);
        let server = Server::start(Options::new(clock)).await.unwrap();
        for (namespace, spec) in [
            (
                "ops",
                json!({ "replicas": 3, "serviceName": "alertkube", "template": { "spec": { "terminationGracePeriodSeconds": 60 } } }),
            ),
            (
                "later",
                json!({ "replicas": 0, "ordinals": { "start": 5 }, "template": { "spec": {} } }),
            ),
            ("plain", json!({})),
        ] {
            let set = json!({ "metadata": { "namespace": namespace, "name": "alertkube" }, "spec": spec, "status": { "replicas": 7 } });
            server.store().create(&STATEFUL_SETS, set).unwrap();
        }
        let mut config = server.kube_config();
        config.default_retry = false;
        let client = Client::try_from(config).unwrap();
        let set = |replicas, start, grace| {
            Ok(Some(OwnSet {
                replicas,
                start,
                grace: Duration::from_secs(grace),
            }))
        };
        for (namespace, pod, expected) in [
            ("ops", "alertkube-2", set(3, 0, 60)),
            ("later", "alertkube-0", set(0, 5, 30)),
            ("plain", "alertkube-0", set(1, 0, 30)),
            ("ops", "other-0", Ok(None)),
            ("ops", "alertkube", Ok(None)),
            ("none", "alertkube-0", Ok(None)),
        ] {
            let found = own_stateful_set(&client, namespace, pod).await;
            assert_eq!(found, expected, "{namespace}/{pod}");
        }

        let fault = Fault::Refuse(http::StatusCode::FORBIDDEN, None);
        let fault = server.faults().inject(fault, On::any());
        let refused = own_stateful_set(&client, "ops", "alertkube-0").await;
        assert_eq!(refused.unwrap_err().reason, FailureReason::Forbidden);
        assert_eq!(fault.struck(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_set_that_is_being_deleted_tells_nothing() {
        let deleted = r#"{"metadata":{"name":"alertkube","deletionTimestamp":"2026-11-30T12:00:00Z"},"spec":{"replicas":3}}"#;
        let (client, asked) = scripted(&[(200, deleted)]);
        let found = own_stateful_set(&client, "ops", "alertkube-0").await;
        assert_eq!(found, Ok(None));
        assert_eq!(
            asked.all(),
            ["/apis/apps/v1/namespaces/ops/statefulsets/alertkube"]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_does_not_come_is_given_up() {
        let (client, _) = scripted(&[(0, "")]);
        let found = own_stateful_set(&client, "ops", "alertkube-0").await;
        assert_eq!(found.unwrap_err().reason, FailureReason::Silent);
    }
}
