//! Where the API server is: by a kubeconfig, or as a pod.

use std::{
    env,
    ffi::{OsStr, OsString},
    io,
};

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use kube::{
    Config,
    config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError, LoadDataError},
};

use super::failure::causes;

/// How to find the API server.
#[derive(Debug, Clone, Default)]
pub struct ConnectOptions {
    /// The context of the kubeconfig; its current one if unset. If set, there must be a kubeconfig.
    pub context: Option<String>,
    /// The variable `KUBECONFIG`: a list of files. If it is unset or empty, the one in the home folder is meant.
    pub kubeconfig: Option<OsString>,
    /// The variable `NO_PROXY`, or `no_proxy`: hosts that are not reached through the proxy that the environment names.
    pub no_proxy: Option<String>,
}

/// Where the API server is, and how it was found.
#[derive(Debug, Clone)]
pub struct Connection {
    /// How to reach it. `default_namespace` is that of the pod or of the context, `default` if that names none.
    pub config: Config,
    /// The name of the kubeconfig's context; none in a pod.
    pub context: Option<String>,
}

/// The API server cannot be reached, as far as that can be told before a request.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// A kubeconfig is there and cannot be used.
    #[error(
        "cannot use the kubeconfig: {reason}; check KUBECONFIG (or ~/.kube/config), and `kubectl config view`"
    )]
    Kubeconfig {
        /// Why. The causes are not kept: they may quote the file.
        reason: String,
    },
    /// There is no kubeconfig, and this is no pod.
    #[error(
        "found no cluster: no kubeconfig ({kubeconfig}), and not in a pod ({in_cluster}); \
         set KUBECONFIG, or run in a cluster with a service account token"
    )]
    NotFound {
        /// Why there is no kubeconfig.
        kubeconfig: String,
        /// Why it is not a pod.
        in_cluster: String,
    },
    /// kube makes no client of the configuration.
    #[error("cannot make a client for {server}: {reason}")]
    Client {
        /// The host of the API server.
        server: String,
        /// Why.
        reason: String,
    },
}

/// Finds the API server: by the kubeconfig if there is one, else as a pod of the cluster. Sends nothing yet.
///
/// # Errors
///
/// There is neither, or the kubeconfig cannot be used. A kubeconfig that is there but broken is an error also in a pod: whoever put it there meant it.
pub async fn connect(options: &ConnectOptions) -> Result<Connection, ConnectError> {
    let mut connection = match read(options.kubeconfig.as_deref().unwrap_or_default()) {
        Ok(kubeconfig) if options.context.is_some() || !is_empty(&kubeconfig) => {
            from_kubeconfig(kubeconfig, options).await
        }
        Ok(_) => in_cluster("it has no current context".into()),
        Err(error) if options.context.is_none() && is_missing(&error) => {
            in_cluster(kubeconfig_reason(&error))
        }
        Err(error) => Err(ConnectError::Kubeconfig {
            reason: kubeconfig_reason(&error),
        }),
    }?;
    // kube takes what a file or a kubeconfig says as it is.
    let namespace = &mut connection.config.default_namespace;
    *namespace = match namespace.trim() {
        "" => "default".to_owned(),
        namespace => namespace.to_owned(),
    };
    Ok(connection)
}

/// Reads and merges the files of a list. As with kubectl, those that do not exist are left out, unless none does.
fn read(list: &OsStr) -> Result<Kubeconfig, KubeconfigError> {
    let mut merged: Option<Kubeconfig> = None;
    let mut missing = None;
    for path in env::split_paths(list).filter(|path| !path.as_os_str().is_empty()) {
        match Kubeconfig::read_from(path) {
            Ok(file) => merged = Some(merged.unwrap_or_default().merge(file)?),
            Err(error) if is_missing(&error) => missing = Some(error),
            Err(error) => return Err(error),
        }
    }
    match (merged, missing) {
        (Some(merged), _) => Ok(merged),
        (None, Some(missing)) => Err(missing),
        (None, None) => Kubeconfig::read(),
    }
}

async fn from_kubeconfig(
    kubeconfig: Kubeconfig,
    options: &ConnectOptions,
) -> Result<Connection, ConnectError> {
    let context = options
        .context
        .clone()
        .or_else(|| kubeconfig.current_context.clone());
    let own_proxy = names_proxy(&kubeconfig, context.as_deref());
    let kube_options = KubeConfigOptions {
        context: context.clone(),
        ..KubeConfigOptions::default()
    };
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &kube_options)
        .await
        .map_err(|error| ConnectError::Kubeconfig {
            reason: kubeconfig_reason(&error),
        })?;
    // kubectl would guess a scheme; kube panics at the first request without one.
    if !matches!(config.cluster_url.scheme_str(), Some("https" | "http")) {
        return Err(ConnectError::Kubeconfig {
            reason: format!(
                "the server {:?} must begin with https:// or http://",
                config.cluster_url.host().unwrap_or_default()
            ),
        });
    }
    if !own_proxy && goes_direct(&config.cluster_url, options.no_proxy.as_deref()) {
        config.proxy_url = None;
    }
    Ok(Connection { config, context })
}

/// As a pod. A proxy is never used: the variables are for the world outside of the cluster.
fn in_cluster(kubeconfig: String) -> Result<Connection, ConnectError> {
    let config = Config::incluster().map_err(|error| ConnectError::NotFound {
        kubeconfig,
        in_cluster: match error {
            InClusterError::ReadEnvironmentVariable(_) => {
                "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set".into()
            }
            error => causes(&error),
        },
    })?;
    Ok(Connection {
        config,
        context: None,
    })
}

/// Whether the kubeconfig itself names a proxy for the context's cluster. That one is meant; one from the environment may not be.
fn names_proxy(kubeconfig: &Kubeconfig, context: Option<&str>) -> bool {
    let context = kubeconfig
        .contexts
        .iter()
        .find(|named| Some(named.name.as_str()) == context)
        .and_then(|named| named.context.as_ref());
    context.is_some_and(|context| {
        kubeconfig
            .clusters
            .iter()
            .filter(|named| named.name == context.cluster)
            .filter_map(|named| named.cluster.as_ref())
            .any(|cluster| {
                cluster
                    .proxy_url
                    .as_ref()
                    .is_some_and(|url| !url.is_empty())
            })
    })
}

/// Whether an API server is reached without the proxy that `HTTPS_PROXY` names. kube asks `NO_PROXY` about the proxy's own address, so it is done here.
/// As with kubectl (Go's `httpproxy`), the variable is about `https://` only, and this machine itself is always reached directly: local clusters
/// listen there.
fn goes_direct(server: &Uri, no_proxy: Option<&str>) -> bool {
    let host = server.host().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    server.scheme_str() != Some("https")
        || host == "localhost"
        || address
            .parse()
            .is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
        || Matcher::builder()
            .all("http://proxy.invalid")
            .no(no_proxy.unwrap_or_default())
            .build()
            .intercept(server)
            .is_none()
}

/// Whether it says nothing, as an empty file does.
fn is_empty(kubeconfig: &Kubeconfig) -> bool {
    kubeconfig
        .current_context
        .as_deref()
        .unwrap_or_default()
        .is_empty()
        && kubeconfig.contexts.is_empty()
}

/// Whether there is no kubeconfig at all.
fn is_missing(error: &KubeconfigError) -> bool {
    match error {
        KubeconfigError::FindPath => true,
        KubeconfigError::ReadConfig(error, _) => error.kind() == io::ErrorKind::NotFound,
        _ => false,
    }
}

/// What is wrong with a kubeconfig, without a word of its content.
fn kubeconfig_reason(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::ReadConfig(error, path) => {
            format!("cannot read {}: {error}", path.display())
        }
        // Its text shows the lines around the mistake, tokens and all.
        KubeconfigError::Parse(error) => match error.location() {
            Some(at) => format!(
                "not valid YAML at line {}, column {}",
                at.line(),
                at.column()
            ),
            None => "not valid YAML".into(),
        },
        KubeconfigError::LoadContext(context) => format!("there is no context {context:?}"),
        KubeconfigError::LoadClusterOfContext(cluster) => {
            format!("there is no cluster {cluster:?}, which the context names")
        }
        KubeconfigError::LoadCertificateAuthority(error) => {
            data_reason("certificate-authority", error)
        }
        KubeconfigError::LoadClientCertificate(error) => data_reason("client-certificate", error),
        KubeconfigError::LoadClientKey(error) => data_reason("client-key", error),
        KubeconfigError::ParseNoProxy(error) => {
            format!("{error} in NO_PROXY; it is a list with commas, without empty entries")
        }
        error => causes(error),
    }
}

/// What is wrong with a file that a kubeconfig names, or with the data that it holds in its place.
fn data_reason(field: &str, error: &LoadDataError) -> String {
    match error {
        LoadDataError::ReadFile(error, path) => {
            format!("cannot read {}, its {field}: {error}", path.display())
        }
        LoadDataError::DecodeBase64(_) => format!("its {field}-data is not base64"),
        LoadDataError::NoBase64DataOrFile => format!("its {field} is missing"),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use tokio::sync::mpsc;

    use super::*;
    use crate::cluster::{
        Clock, Kind as _, Pod, Tap, client,
        client::tests::{pods, serve},
        install_crypto_provider,
    };

    fn kubeconfig(server: &str, cluster: &str) -> Kubeconfig {
        Kubeconfig::from_yaml(&format!(
            r#"
            current-context: here
            contexts: [{{name: here, context: {{cluster: c, user: u}}}}]
            clusters: [{{name: c, cluster: {{server: "{server}", {cluster}}}}}]
            users: [{{name: u, user: {{token: hunter2}}}}]
            "#
        ))
        .unwrap()
    }

    #[tokio::test]
    async fn trap_5_the_proxy_of_a_kubeconfig_is_used() {
        install_crypto_provider();
        let (seen, mut requests) = mpsc::unbounded_channel();
        let proxy = serve(move |request| {
            seen.send(format!("{} {}", request.method(), request.uri()))
                .unwrap();
            StatusCode::BAD_GATEWAY
        })
        .await;
        let kubeconfig = kubeconfig(
            "http://api.example:6443",
            &format!("proxy-url: 'http://{proxy}'"),
        );
        let config = from_kubeconfig(kubeconfig, &ConnectOptions::default())
            .await
            .unwrap()
            .config;
        pods(&config).get("web").await.unwrap_err();
        assert_eq!(requests.recv().await.unwrap(), "CONNECT api.example:6443");
    }

    #[test]
    fn trap_5_no_proxy_is_about_the_api_server() {
        for (server, no_proxy, direct) in [
            ("https://api.example:6443", None, false),
            ("https://api.example:6443", Some("proxy.corp"), false),
            ("https://api.example:6443", Some("other,api.example"), true),
            ("https://api.example:6443", Some(".example"), true),
            ("https://api.example:6443", Some("*"), true),
            ("https://10.1.2.3:6443", Some("10.0.0.0/8"), true),
            ("https://11.1.2.3:6443", Some("10.0.0.0/8"), false),
            ("https://127.0.0.1:6443", None, true),
            ("https://[::1]:6443", None, true),
            ("https://localhost:6443", None, true),
            ("http://api.example:8080", None, true),
        ] {
            let server = server.parse().unwrap();
            assert_eq!(
                goes_direct(&server, no_proxy),
                direct,
                "{server} {no_proxy:?}"
            );
        }
    }

    #[tokio::test]
    async fn a_proxy_of_an_unknown_protocol_is_said_without_its_password() {
        install_crypto_provider();
        let kubeconfig = kubeconfig(
            "http://api.example",
            "proxy-url: 'ftp://user:hunter2@proxy'",
        );
        let config = from_kubeconfig(kubeconfig, &ConnectOptions::default())
            .await
            .unwrap()
            .config;
        let clock = Clock::starting_at("2026-11-30T12:00:00Z".parse().unwrap(), 1.0);
        let Err(error) = client(&config, &Tap::new("Pod", clock)) else {
            panic!("a client for ftp");
        };
        assert_eq!(
            error.to_string(),
            "cannot make a client for api.example: its proxy must be of http:// or https://, not ftp://"
        );
    }

    #[tokio::test]
    async fn a_credential_plugin_that_is_not_there_is_said() {
        install_crypto_provider();
        let kubeconfig = Kubeconfig::from_yaml(
            r#"
            current-context: here
            contexts: [{name: here, context: {cluster: c, user: u}}]
            clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
            users: [{name: u, user: {exec: {
                apiVersion: client.authentication.k8s.io/v1, command: no-such-plugin, interactiveMode: Never}}}]
            "#,
        );
        let options = ConnectOptions::default();
        let config = from_kubeconfig(kubeconfig.unwrap(), &options).await;
        let clock = Clock::starting_at("2026-11-30T12:00:00Z".parse().unwrap(), 1.0);
        let made = client(&config.unwrap().config, &Tap::new(Pod::KIND, clock));
        let error = made.err().unwrap().to_string();
        assert!(
            error.contains("the credential plugin of the kubeconfig does not start: "),
            "{error}"
        );
    }

    #[tokio::test]
    async fn a_context_that_is_not_there_is_named() {
        let options = ConnectOptions {
            context: Some("there".into()),
            ..ConnectOptions::default()
        };
        let error = from_kubeconfig(kubeconfig("http://api.example", ""), &options)
            .await
            .unwrap_err();
        assert!(
            error.to_string().contains(r#"there is no context "there""#),
            "{error}"
        );
    }

    #[test]
    fn a_mistake_in_a_kubeconfig_is_named_by_line_and_nothing_of_it_is_shown() {
        let text = "users:\n- name: u\n  user: {token: hunter2, token: ]}\n";
        let error = Kubeconfig::from_yaml(text).unwrap_err();
        let reason = kubeconfig_reason(&error);
        assert!(reason.starts_with("not valid YAML at line "), "{reason}");
        assert!(!reason.contains("hunter2"), "{reason}");
    }

    #[tokio::test]
    async fn what_a_cluster_of_a_kubeconfig_lacks_is_named() {
        for (server, cluster, reason) in [
            (
                "u:hunter2@127.0.0.1:6443",
                "",
                r#"the server "127.0.0.1" must begin with https:// or http://"#,
            ),
            (
                "ftp://127.0.0.1/",
                "",
                "must begin with https:// or http://",
            ),
            (
                "https://127.0.0.1",
                "certificate-authority: /no/such/ca.crt",
                "cannot read /no/such/ca.crt, its certificate-authority: No such file",
            ),
            (
                "https://127.0.0.1",
                "certificate-authority-data: hunter2!",
                "its certificate-authority-data is not base64",
            ),
        ] {
            let options = ConnectOptions::default();
            let config = from_kubeconfig(kubeconfig(server, cluster), &options).await;
            let error = config.unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn of_several_kubeconfigs_those_that_exist_are_merged() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let missing = folder.path().join("missing");
        let one = write("one", "current-context: a\ncontexts: [{name: a}]");
        let two = write("two", "current-context: b\ncontexts: [{name: b}]");
        let list = env::join_paths([&missing, &one, &two]).unwrap();
        let merged = read(&list).unwrap();
        assert_eq!(merged.current_context.as_deref(), Some("a"));
        assert_eq!(merged.contexts.len(), 2);

        assert!(is_missing(&read(missing.as_os_str()).unwrap_err()));
        let broken = write("broken", "contexts: [");
        let list = env::join_paths([one, broken]).unwrap();
        assert!(matches!(read(&list), Err(KubeconfigError::Parse(_))));
    }

    #[tokio::test]
    async fn the_namespace_is_the_contexts_and_the_context_is_told() {
        let folder = tempfile::tempdir().unwrap();
        for (namespace, expected) in [
            ("", "default"),
            ("namespace: ''", "default"),
            ("namespace: ops", "ops"),
        ] {
            let path = folder.path().join("config");
            let text = format!(
                r#"
                current-context: here
                contexts:
                - {{name: here, context: {{cluster: c, user: u, {namespace}}}}}
                - {{name: there, context: {{cluster: c, user: u, namespace: elsewhere}}}}
                clusters: [{{name: c, cluster: {{server: "http://127.0.0.1:1"}}}}]
                "#
            );
            std::fs::write(&path, text).unwrap();
            let mut options = ConnectOptions {
                kubeconfig: Some(path.into()),
                ..ConnectOptions::default()
            };
            let found = connect(&options).await.unwrap();
            assert_eq!(found.config.default_namespace, expected);
            assert_eq!(found.context.as_deref(), Some("here"));

            options.context = Some("there".into());
            let found = connect(&options).await.unwrap();
            assert_eq!(found.config.default_namespace, "elsewhere");
            assert_eq!(found.context.as_deref(), Some("there"));
        }
    }

    #[test]
    fn an_empty_kubeconfig_counts_as_none() {
        assert!(is_empty(&Kubeconfig::default()));
        assert!(!is_empty(&kubeconfig("http://api.example", "")));
    }
}
