//! What a container's spec says about its environment, resolved.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{self as api, ConfigMap, Container, EnvVarSource, Secret};
use kube::{Api, Client, ResourceExt as _};

/// The environment of a pod's container, or what is missing for it.
pub(super) async fn resolve(
    client: &Client,
    pod: &api::Pod,
    container: &Container,
) -> Result<BTreeMap<String, String>, String> {
    if container.env_from.is_some() {
        return Err("the tests' kubelet does not know envFrom".to_owned());
    }
    let mut environment = BTreeMap::new();
    for variable in container.env.iter().flatten() {
        let value = match &variable.value_from {
            None => Some(variable.value.clone().unwrap_or_default()),
            Some(source) => value_from(client, pod, source)
                .await
                .map_err(|wrong| format!("{}: {wrong}", variable.name))?,
        };
        if let Some(value) = value {
            environment.insert(variable.name.clone(), value);
        }
    }
    Ok(environment)
}

/// None: it is optional, and not there.
async fn value_from(
    client: &Client,
    pod: &api::Pod,
    source: &EnvVarSource,
) -> Result<Option<String>, String> {
    let namespace = pod.namespace().unwrap();
    if let Some(field) = &source.field_ref {
        return self::field(pod, &field.field_path).map(Some);
    }
    if let Some(wanted) = &source.secret_key_ref {
        let found = Api::<Secret>::namespaced(client.clone(), &namespace)
            .get_opt(&wanted.name)
            .await;
        let found = found.map_err(|error| error.to_string())?;
        let value = found
            .and_then(|secret| secret.data?.remove(&wanted.key))
            .map(|bytes| String::from_utf8(bytes.0).unwrap());
        return required("Secret", &wanted.name, &wanted.key, wanted.optional, value);
    }
    if let Some(wanted) = &source.config_map_key_ref {
        let found = Api::<ConfigMap>::namespaced(client.clone(), &namespace)
            .get_opt(&wanted.name)
            .await;
        let found = found.map_err(|error| error.to_string())?;
        let value = found.and_then(|config_map| config_map.data?.remove(&wanted.key));
        return required(
            "ConfigMap",
            &wanted.name,
            &wanted.key,
            wanted.optional,
            value,
        );
    }
    Err("the tests' kubelet does not know where its value comes from".to_owned())
}

fn required(
    kind: &str,
    name: &str,
    key: &str,
    optional: Option<bool>,
    value: Option<String>,
) -> Result<Option<String>, String> {
    if value.is_none() && optional != Some(true) {
        return Err(format!("there is no {key} in a {kind} {name}"));
    }
    Ok(value)
}

/// The value of a field, as the downward API has it: a label that the pod does not have is empty.
fn field(pod: &api::Pod, path: &str) -> Result<String, String> {
    let key_of = |map: &str| {
        let key = path.strip_prefix("metadata.")?.strip_prefix(map)?;
        key.strip_prefix("['")?.strip_suffix("']")
    };
    if let Some(key) = key_of("labels") {
        return Ok(pod.labels().get(key).cloned().unwrap_or_default());
    }
    if let Some(key) = key_of("annotations") {
        return Ok(pod.annotations().get(key).cloned().unwrap_or_default());
    }
    let spec = pod.spec.as_ref().unwrap();
    match path {
        "metadata.name" => Ok(pod.name_any()),
        "metadata.namespace" => Ok(pod.namespace().unwrap()),
        "metadata.uid" => Ok(pod.uid().unwrap()),
        "spec.serviceAccountName" => Ok(spec.service_account_name.clone().unwrap_or_default()),
        "status.podIP" => Ok(super::status::ADDRESS.to_owned()),
        _ => Err(format!("the tests' kubelet does not know the field {path}")),
    }
}
