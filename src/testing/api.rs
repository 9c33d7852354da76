//! An API server that reads from a script: for tests in paused time, in which a real connection would be too slow for every time-out.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use kube::{Client, client::Body};
use tower::service_fn;

/// What a scripted API server was asked: paths with their queries.
#[derive(Debug, Clone, Default)]
pub struct Asked(Arc<Mutex<Vec<String>>>);

impl Asked {
    /// All so far.
    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// A client whose requests get these answers (status and body) one after the other, and the last one again and again. A status of 0 is no answer at all.
pub fn scripted(answers: &[(u16, &str)]) -> (Client, Asked) {
    let answers: Vec<(u16, String)> = answers
        .iter()
        .map(|&(status, body)| (status, body.to_owned()))
        .collect();
    let asked = Asked::default();
    let uris = asked.clone();
    let service = service_fn(move |request: Request<Body>| {
        let mut uris = uris.0.lock().unwrap();
        uris.push(request.uri().to_string());
        let (status, body) = answers[uris.len().min(answers.len()) - 1].clone();
        async move {
            if status == 0 {
                std::future::pending::<()>().await;
            }
            Response::builder()
                .status(status)
                .body(Full::new(Bytes::from(body)))
        }
    });
    (Client::new(service, "default"), asked)
}
