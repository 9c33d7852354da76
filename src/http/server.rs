//! The HTTP server.

use std::{io, sync::Arc};

use axum::{
    Router,
    extract::{RawQuery, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::net::TcpListener;
use tracing::error;

use super::{Health, Metrics};

/// What the answers are made from.
#[derive(Debug, Clone)]
struct Shown {
    metrics: Arc<Metrics>,
    health: Health,
}

/// Serves `/metrics`, `/livez` and `/readyz` (`/readyz?verbose`: a line a kind) until it is dropped.
///
/// # Errors
///
/// The listener failed.
pub async fn serve(listener: TcpListener, metrics: Arc<Metrics>, health: Health) -> io::Result<()> {
    let router = Router::new()
        .route("/metrics", get(show_metrics))
        .route("/livez", get(show_live))
        .route("/readyz", get(show_ready))
        .with_state(Shown { metrics, health });
    axum::serve(listener, router).await
}

async fn show_metrics(State(shown): State<Shown>) -> Response {
    match shown.metrics.render() {
        Ok(text) => {
            let format = "text/plain; version=0.0.4; charset=utf-8";
            ([(header::CONTENT_TYPE, format)], text).into_response()
        }
        Err(error) => {
            error!(%error, "cannot show the metrics");
            (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response()
        }
    }
}

async fn show_live(State(shown): State<Shown>) -> Response {
    match shown.health.live() {
        Ok(()) => "ok\n".into_response(),
        Err(still) => {
            let text = format!("the controller has stood still for {} s\n", still.as_secs());
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
    }
}

async fn show_ready(State(shown): State<Shown>, RawQuery(query): RawQuery) -> Response {
    let readiness = shown.health.readiness();
    let verbose = query.is_some_and(|query| {
        query
            .split('&')
            .any(|part| part.split('=').next() == Some("verbose"))
    });
    // Who is not ready has to say why, also to those who did not ask.
    let text = if verbose || !readiness.ready {
        readiness.to_string()
    } else {
        "ok\n".to_owned()
    };
    let status = if readiness.ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, text).into_response()
}

#[cfg(test)]
mod tests {
    use tokio_util::task::AbortOnDropHandle;

    use super::*;
    use crate::cluster::KindId;

    /// A running server.
    struct Running {
        address: std::net::SocketAddr,
        _server: AbortOnDropHandle<io::Result<()>>,
    }

    async fn start(health: Health) -> Running {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let metrics = Arc::new(Metrics::new(0, 1, &[], &["stdout"]).unwrap());
        let server = AbortOnDropHandle::new(tokio::spawn(serve(listener, metrics, health)));
        Running {
            address,
            _server: server,
        }
    }

    async fn fetch(running: &Running, path: &str) -> (u16, String, String) {
        let response = crate::notify::test_client()
            .get(format!("http://{}{path}", running.address))
            .send()
            .await
            .unwrap();
        let status = response.status().as_u16();
        let format = response.headers()["content-type"]
            .to_str()
            .unwrap()
            .to_owned();
        (status, format, response.text().await.unwrap())
    }

    #[tokio::test]
    async fn metrics_and_health_are_served() {
        let health = Health::new(&[KindId::Pod]);
        let running = start(health.clone()).await;

        let (status, format, text) = fetch(&running, "/metrics").await;
        assert_eq!(status, 200);
        assert_eq!(format, "text/plain; version=0.0.4; charset=utf-8");
        assert!(text.contains("\nalertkube_build_info{version="), "{text}");

        assert_eq!(fetch(&running, "/livez").await.0, 200);
        let (status, _, text) = fetch(&running, "/readyz").await;
        assert_eq!(
            (status, text.as_str()),
            (503, "[-]Pod listing\nnot ready\n")
        );
        health.synced(KindId::Pod);
        let (status, _, text) = fetch(&running, "/readyz").await;
        assert_eq!((status, text.as_str()), (200, "ok\n"));
        for query in ["verbose", "verbose=1", "a=b&verbose"] {
            let (status, _, text) = fetch(&running, &format!("/readyz?{query}")).await;
            assert_eq!((status, text.as_str()), (200, "[+]Pod synced\nready\n"));
        }
    }
}
