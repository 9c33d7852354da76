//! What a failed call means for what was to be written.

use std::time::Duration;

use hyper_util::client::legacy;
use tokio::time::timeout;

use super::CALL_TIMEOUT;
use crate::{
    cluster::{Failure, find},
    shard::ownership::Answer,
    text::{one_line, shorten},
};

/// A call that failed. Worse ones are greater: what a write of many parts came to is what the worst of its calls came to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Failed {
    /// It certainly has no effect. Why, for people.
    Refused(String),
    /// It may have an effect, even later. Why, for people.
    Unknown(String),
    /// The object is of another version than expected, or there is none, or there is one.
    Conflict,
}

impl Failed {
    pub fn answer<A>(&self) -> Answer<A> {
        match self {
            Self::Refused(_) => Answer::Refused,
            Self::Unknown(_) => Answer::Unknown,
            Self::Conflict => Answer::Conflict,
        }
    }

    fn of(verb: &str, error: &kube::Error) -> Self {
        let text = || Failure::of_client(verb, "ConfigMap", error).message;
        let kube::Error::Api(status) = error else {
            // An answer that cannot be read is none that tells.
            return if was_never_sent(error) {
                Self::Refused(text())
            } else {
                Self::Unknown(text())
            };
        };
        match status.code {
            // Another version, or a name that is taken.
            409 => Self::Conflict,
            // What was to be replaced or deleted is gone. (To create an object, its namespace is needed.)
            404 if matches!(verb, "update" | "delete") => Self::Conflict,
            403 => Self::Refused(format!(
                "cannot {verb} ConfigMap: HTTP status 403: {}; allow list, create, update and delete of configmaps in its Role",
                shorten(&one_line(&status.message), 300)
            )),
            // Somebody gave up waiting for somebody else (a proxy for the API server, that for etcd), who may carry it out all the same.
            502 | 504 => Self::Unknown(text()),
            500 if status.message.starts_with("etcdserver:") => Self::Unknown(text()),
            _ => Self::Refused(text()),
        }
    }
}

/// Whether there was no connection to send it on.
fn was_never_sent(error: &kube::Error) -> bool {
    find::<legacy::Error>(error).is_some_and(legacy::Error::is_connect)
}

/// Makes a call, and waits for it no longer than is useful.
///
/// # Errors
///
/// It failed, or there is no answer in time.
pub(super) async fn call<T>(
    verb: &str,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, Failed> {
    const SECONDS: u64 = Duration::as_secs(&CALL_TIMEOUT);
    match timeout(CALL_TIMEOUT, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(Failed::of(verb, &error)),
        Err(_) => Err(Failed::Unknown(format!(
            "cannot {verb} ConfigMap: no answer within {SECONDS} s"
        ))),
    }
}
