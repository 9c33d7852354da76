//! Why objects of a kind could not be read: for tables, and for people.

use std::{error::Error as StdError, fmt, iter, time::Duration};

use kube::{client::AuthError, core::Status};
use kube_runtime::watcher;
use tokio::time::timeout;

use super::tap::BodyError;
use crate::text::{one_line, shorten};

/// A failure of a list or a watch. Its text carries no secrets and no part of an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// For tables.
    pub reason: FailureReason,
    /// For people.
    pub message: String,
}

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident => $text:literal,)+) => {
        /// The closed set of reasons.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FailureReason {
            $($(#[doc = $doc])+ $name,)+
        }

        impl FailureReason {
            /// Every reason.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The reason as the value of a label.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }
        }
    };
}

reasons! {
    /// The API server does not allow it (403).
    Forbidden => "forbidden",
    /// The API server does not serve the kind (404), or not in this way (405).
    NotServed => "not_served",
    /// The API server does not know who asks (401), or the credentials could not be had.
    Unauthorized => "unauthorized",
    /// What was asked to go on from is no longer known (410): a fresh list follows.
    Expired => "expired",
    /// Too many requests (429).
    TooManyRequests => "too_many_requests",
    /// Any other refusal (4xx).
    Rejected => "rejected",
    /// The API server failed (5xx).
    ServerError => "server_error",
    /// No connection, or one that broke.
    Connection => "connection",
    /// An answer that is not what it should be.
    Decode => "decode",
    /// An answer larger than what is read.
    TooLarge => "too_large",
    /// No sign of life.
    Silent => "silent",
    /// A list that ended before it was complete.
    Incomplete => "incomplete",
    /// Watches that end as soon as they begin.
    ShortWatch => "short_watch",
}

impl fmt::Display for FailureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FailureReason {
    /// Whether only a person can help, so that trying again soon is of no use.
    pub const fn is_permanent(self) -> bool {
        matches!(self, Self::Forbidden | Self::NotServed)
    }
}

impl Failure {
    pub(crate) fn new(reason: FailureReason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }

    /// A failure of the watcher.
    pub(super) fn of_watcher(kind: &str, error: &watcher::Error) -> Self {
        match error {
            watcher::Error::InitialListFailed(error) => Self::of_client("list", kind, error),
            watcher::Error::WatchStartFailed(error) | watcher::Error::WatchFailed(error) => {
                Self::of_client("watch", kind, error)
            }
            watcher::Error::WatchError(status) => Self::of_status("watch", kind, status),
            watcher::Error::NoResourceVersion => Self::new(
                FailureReason::Decode,
                format!("cannot watch {kind}: the API server sent no resourceVersion"),
            ),
        }
    }

    /// A failure of a request. `verb` is what was tried.
    pub(crate) fn of_client(verb: &str, kind: &str, error: &kube::Error) -> Self {
        let what = format!("cannot {verb} {kind}");
        if let kube::Error::Api(status) = error {
            return Self::of_status(verb, kind, status);
        }
        if let Some(error) = find::<BodyError>(error) {
            let reason = match error {
                BodyError::TooLarge { .. } => FailureReason::TooLarge,
                BodyError::ShortWatch { .. } => FailureReason::ShortWatch,
            };
            return Self::new(reason, format!("{what}: {error}"));
        }
        if let Some(error) = find::<AuthError>(error) {
            return Self::new(
                FailureReason::Unauthorized,
                format!("{what}: {}", credentials(error)),
            );
        }
        if let Some(error) = find::<serde_json::Error>(error) {
            // Its own text would quote the value.
            let (line, column) = (error.line(), error.column());
            return Self::new(
                FailureReason::Decode,
                format!(
                    "{what}: the answer cannot be read ({:?} error at line {line}, column {column})",
                    error.classify()
                ),
            );
        }
        if let kube::Error::FromUtf8(_) = error {
            let message = format!("{what}: the answer is not UTF-8");
            return Self::new(FailureReason::Decode, message);
        }
        Self::new(
            FailureReason::Connection,
            format!("{what}: {}", causes(error)),
        )
    }

    /// A refusal by the API server.
    pub(super) fn of_status(verb: &str, kind: &str, status: &Status) -> Self {
        let what = format!("cannot {verb} {kind}");
        let reason = match status.code {
            // kube takes any JSON object that it cannot read otherwise for an (empty) status.
            0 if status.status.is_none() => {
                let message = format!("{what}: an event cannot be read");
                return Self::new(FailureReason::Decode, message);
            }
            401 => FailureReason::Unauthorized,
            403 => FailureReason::Forbidden,
            404 | 405 => FailureReason::NotServed,
            410 => FailureReason::Expired,
            429 => FailureReason::TooManyRequests,
            400..500 => FailureReason::Rejected,
            _ => FailureReason::ServerError,
        };
        let hint = match reason {
            FailureReason::Forbidden if matches!(verb, "list" | "watch") => {
                "; allow list and watch in its ClusterRole"
            }
            FailureReason::Unauthorized => "; its credentials are missing, wrong or expired",
            FailureReason::NotServed => "; this API server does not serve it",
            _ => "",
        };
        let text = clip(&status.message);
        let sep = if text.is_empty() { "" } else { ": " };
        Self::new(
            reason,
            format!("{what}: HTTP status {}{sep}{text}{hint}", status.code),
        )
    }
}

/// The start of a text from outside, on one line: a proxy may answer with a whole page.
pub(super) fn clip(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    shorten(&one_line(&words.join(" ")), 300)
}

/// The first error of a type among an error and its causes.
pub(crate) fn find<'a, E: StdError + 'static>(
    error: &'a (dyn StdError + 'static),
) -> Option<&'a E> {
    chain(error).find_map(<dyn StdError>::downcast_ref)
}

fn chain<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    let mut next = Some(error);
    let links = iter::from_fn(move || {
        let error = next?;
        next = error.source();
        Some(error)
    });
    // An error could name itself as its cause; no real chain is this long.
    links.take(16)
}

/// An error and its causes in one line, each said once.
pub(super) fn causes(error: &(dyn StdError + 'static)) -> String {
    let texts: Vec<String> = chain(error).map(ToString::to_string).collect();
    let own = texts.iter().enumerate().filter(|&(at, text)| {
        // kube's errors repeat their cause.
        texts
            .get(at + 1)
            .is_none_or(|cause| !text.contains(cause.as_str()))
    });
    clip(
        &own.map(|(_, text)| text.as_str())
            .collect::<Vec<_>>()
            .join(": "),
    )
}

/// What kept the credentials away. The texts of some of kube's errors hold the output of credential plugins and their environment: secrets.
pub(super) fn credentials(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecStart(error) => {
            format!("the credential plugin of the kubeconfig does not start: {error}")
        }
        AuthError::AuthExecRun { out, .. } => format!(
            "the credential plugin of the kubeconfig failed with {}; run it by hand to see why",
            out.status
        ),
        AuthError::ReadTokenFile(error, path) => {
            format!("cannot read the token file {}: {error}", path.display())
        }
        AuthError::MissingCommand => {
            "the credential plugin of the kubeconfig has no command".into()
        }
        _ => "the credentials of the kubeconfig cannot be used".into(),
    }
}

/// Waits for the answer to a `get` of `what`, for at most so long.
pub(super) async fn get<T>(
    what: &str,
    within: Duration,
    answer: impl Future<Output = kube::Result<T>>,
) -> Result<T, Failure> {
    timeout(within, answer)
        .await
        .map_err(|_| {
            let message = format!("cannot get {what}: no answer within {} s", within.as_secs());
            Failure::new(FailureReason::Silent, message)
        })?
        .map_err(|error| Failure::of_client("get", what, &error))
}

#[cfg(test)]
mod tests {
    use std::process::{ExitStatus, Output};

    use super::*;

    #[test]
    fn every_status_has_its_reason() {
        for (code, reason) in [
            (400, "rejected"),
            (401, "unauthorized"),
            (403, "forbidden"),
            (404, "not_served"),
            (405, "not_served"),
            (410, "expired"),
            (422, "rejected"),
            (429, "too_many_requests"),
            (500, "server_error"),
            (503, "server_error"),
        ] {
            let status = Status::failure("because", "Reason").with_code(code);
            let failure = Failure::of_status("list", "Pod", &status);
            assert_eq!(failure.reason.as_str(), reason, "{code}");
            assert!(
                failure
                    .message
                    .starts_with(&format!("cannot list Pod: HTTP status {code}: because")),
                "{failure}"
            );
        }
    }

    #[test]
    fn an_event_that_kube_takes_for_an_empty_status_is_malformed() {
        let failure = Failure::of_status("watch", "Pod", &Status::default());
        assert_eq!(failure.reason, FailureReason::Decode);
    }

    #[test]
    fn no_part_of_an_object_and_no_output_of_a_plugin_is_in_the_text() {
        let serde = serde_json::from_str::<u32>("\"hunter2\"").unwrap_err();
        assert!(serde.to_string().contains("hunter2"));
        let plugin = AuthError::AuthExecRun {
            cmd: "TOKEN=hunter2 plugin".into(),
            out: Box::new(Output {
                status: ExitStatus::default(),
                stdout: b"hunter2".into(),
                stderr: b"hunter2".into(),
            }),
        };
        for error in [kube::Error::SerdeError(serde), kube::Error::Auth(plugin)] {
            let failure = Failure::of_client("list", "Pod", &error);
            assert!(!failure.message.contains("hunter2"), "{failure}");
        }
    }

    #[test]
    fn causes_are_said_once() {
        let io = std::io::Error::other("connection refused");
        let error = kube::Error::Service(Box::new(io));
        assert_eq!(causes(&error), "connection refused");
    }

    #[test]
    fn a_page_of_a_proxy_is_cut() {
        let status = Status::failure(&"<p>\n no\x1b[2J </p>".repeat(1000), "").with_code(502);
        let failure = Failure::of_status("list", "Pod", &status);
        assert!(failure.message.len() < 500);
        assert!(!failure.message.contains(char::is_control));
    }
}
