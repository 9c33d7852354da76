//! The client of the API server.

use std::time::Duration;

use http::{Request, Uri};
use kube::{
    Client, Config,
    client::{Body, ClientBuilder},
};
use tower::util::MapRequestLayer;

use super::{
    ConnectError, Tap,
    failure::{causes, credentials, find},
};

/// How long a connection may take. kube's 30 s is a long time to wait for an address that does not answer while another would.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Makes *ring* the provider of cryptography of the process. Whoever makes a TLS client first would panic without one. May be called again.
pub fn install_crypto_provider() {
    // An error says that one is installed already.
    _ = rustls::crypto::ring::default_provider().install_default();
}

/// The API server's address, fit to show: a kubeconfig may hold a user and a password in it.
pub fn server(config: &Config) -> String {
    let url = &config.cluster_url;
    let scheme = url.scheme_str().unwrap_or("https");
    let host = url.host().unwrap_or_default();
    let port = url
        .port()
        .map_or_else(String::new, |port| format!(":{port}"));
    let path = url.path().trim_end_matches('/');
    format!("{scheme}://{host}{port}{path}")
}

/// Makes a client for the objects of one kind. Each has its own: all users of a client share one queue, and a watch keeps a connection anyway.
///
/// # Errors
///
/// The configuration is of no use: certificates that cannot be read, a proxy of an unknown protocol, ...
pub fn client(config: &Config, tap: &Tap) -> Result<Client, ConnectError> {
    let mut config = config.clone();
    // Whoever asks waits, reports and tries again. In here it would be silent, and for minutes.
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    // No `read_timeout`: it would cut quiet watches. Whoever asks has a time-out.
    let server = config.cluster_url.host().unwrap_or_default().to_owned();
    let builder = ClientBuilder::try_from(config).map_err(|error| ConnectError::Client {
        server,
        reason: match error {
            // Its own text has the proxy's password.
            kube::Error::ProxyProtocolUnsupported { proxy_url }
            | kube::Error::ProxyProtocolDisabled { proxy_url, .. } => format!(
                "its proxy must be of http:// or https://, not {}://",
                proxy_url.scheme_str().unwrap_or_default()
            ),
            error => find(&error).map_or_else(|| causes(&error), credentials),
        },
    })?;
    let recent = MapRequestLayer::new(most_recent::<Body>);
    Ok(builder.with_layer(&recent).with_layer(tap).build())
}

/// Makes a streaming list a consistent read. kube asks for it at version 0, which means *any*: an API server that lags behind could answer with
/// a past in which what was just created does not exist yet, and so resolve what still stands. No version means *the most recent*, as client-go asks.
fn most_recent<B>(mut request: Request<B>) -> Request<B> {
    let uri = request.uri();
    let query = uri.query().unwrap_or_default();
    if !query
        .split('&')
        .any(|pair| pair == "sendInitialEvents=true")
    {
        return request;
    }
    let rest: Vec<&str> = query
        .split('&')
        .filter(|pair| *pair != "resourceVersion=0")
        .collect();
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = format!("{}?{}", uri.path(), rest.join("&")).parse().ok();
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
    request
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    };

    use axum::{Router, extract::Request, http::StatusCode};
    use kube::{Api, api::WatchParams};
    use tokio::{net::TcpListener, sync::mpsc};

    use super::*;
    use crate::cluster::{Clock, Kind as _, Pod, Wire};

    /// Serves what `answer` says, and returns the address.
    pub async fn serve<F>(answer: F) -> String
    where
        F: Fn(Request) -> StatusCode + Clone + Send + Sync + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(move |request: Request| {
            let status = answer(request);
            async move { status }
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        address.to_string()
    }

    pub fn pods(config: &Config) -> Api<Wire<Pod>> {
        let clock = Clock::starting_at("2026-11-30T12:00:00Z".parse().unwrap(), 1.0);
        Api::all(client(config, &Tap::new(Pod::KIND, clock)).unwrap())
    }

    #[tokio::test]
    async fn trap_23_both_http_clients_build_after_the_provider_is_installed() {
        install_crypto_provider();
        install_crypto_provider();
        let config = Config::new("https://127.0.0.1:1".parse().unwrap());
        pods(&config);
        crate::notify::http_client().unwrap();
    }

    #[tokio::test]
    async fn trap_3_a_503_is_not_retried_out_of_sight() {
        install_crypto_provider();
        let requests = Arc::new(AtomicU32::new(0));
        let counted = requests.clone();
        let server = serve(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            StatusCode::SERVICE_UNAVAILABLE
        })
        .await;
        let config = Config::new(format!("http://{server}").parse().unwrap());
        pods(&config).get("web").await.unwrap_err();
        assert_eq!(requests.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn a_streaming_list_is_a_consistent_read() {
        install_crypto_provider();
        let (seen, mut requests) = mpsc::unbounded_channel();
        let server = serve(move |request| {
            seen.send(request.uri().to_string()).unwrap();
            StatusCode::FORBIDDEN
        })
        .await;
        let config = Config::new(format!("http://{server}").parse().unwrap());
        let params = WatchParams::default();
        for (params, version, expected) in [
            (params.clone().initial_events(), "0", false),
            (params.clone().initial_events(), "7", true),
            (params, "0", true),
        ] {
            _ = pods(&config).watch(&params, version).await;
            let uri = requests.recv().await.unwrap();
            assert!(uri.contains("/api/v1/pods?"), "{uri}");
            assert_eq!(uri.contains("resourceVersion="), expected, "{uri}");
        }
    }

    #[test]
    fn an_address_is_shown_without_its_password() {
        for (url, shown) in [
            ("https://u:hunter2@10.0.0.1:6443/", "https://10.0.0.1:6443"),
            ("http://[::1]:80/a/b", "http://[::1]:80/a/b"),
            ("https://api.example", "https://api.example"),
        ] {
            assert_eq!(server(&Config::new(url.parse().unwrap())), shown);
        }
    }
}
