//! Why a message could not be delivered, and what follows from it.

use std::{error::Error as _, fmt, time::Duration};

use http::StatusCode;

use super::Secret;
use crate::text;

/// How much of a refusing answer is quoted, in characters.
const QUOTE_LEN: usize = 200;

/// Why a message could not be delivered.
///
/// Its text never holds a secret: whatever came from outside went through [`Secret::hide_in`] first, so no error of another crate is kept as a source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
pub struct SendError {
    /// What follows from it.
    pub verdict: Verdict,
    /// The reason, for metrics.
    pub reason: Reason,
    /// Whether the receiver may have taken the message all the same: it did not say no.
    pub may_have_arrived: bool,
    cause: Cause,
}

/// What follows from a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It may work later. If the receiver said when, nothing is sent to it until then.
    Retry {
        /// How long the receiver wants to be left alone, counted from its answer.
        after: Option<Duration>,
    },
    /// It fails until somebody changes something.
    Permanent,
    /// The receiver does not take this content: a smaller, plainer message may pass, else it is permanent.
    Content,
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Cause {
    #[error("no connection to the receiver: {0}")]
    Connection(String),
    #[error("the exchange with the receiver broke off: {0}")]
    Broken(String),
    #[error("no answer within {} s", .0.as_secs_f64())]
    Timeout(Duration),
    #[error("the receiver answered {status}{}", quote(.body))]
    Status { status: StatusCode, body: String },
    #[error(
        "the receiver answered {status}, a redirect: not followed, because a redirected POST becomes a GET; configure the address that it leads to"
    )]
    Redirect { status: StatusCode },
    #[error("cannot write: {0}")]
    Write(String),
    #[error("cannot encode the message: {0}")]
    Encode(String),
}

/// The reason of a failure, spelled as Alertmanager does in `alertmanager_notifications_failed_total`. A closed set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names say it, and as_str has the spelling")]
pub enum Reason {
    ClientError,
    ServerError,
    AuthError,
    RateLimited,
    ContextCanceled,
    ContextDeadlineExceeded,
    TemplateError,
    FileReadError,
    ConfigError,
    EncodingError,
    RequestError,
    MissingContext,
    Other,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Self; 13] = [
        Self::ClientError,
        Self::ServerError,
        Self::AuthError,
        Self::RateLimited,
        Self::ContextCanceled,
        Self::ContextDeadlineExceeded,
        Self::TemplateError,
        Self::FileReadError,
        Self::ConfigError,
        Self::EncodingError,
        Self::RequestError,
        Self::MissingContext,
        Self::Other,
    ];

    /// The value of the label `reason`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ClientError => "clientError",
            Self::ServerError => "serverError",
            Self::AuthError => "authError",
            Self::RateLimited => "rateLimited",
            Self::ContextCanceled => "contextCanceled",
            Self::ContextDeadlineExceeded => "contextDeadlineExceeded",
            Self::TemplateError => "templateError",
            Self::FileReadError => "fileReadError",
            Self::ConfigError => "configError",
            Self::EncodingError => "encodingError",
            Self::RequestError => "requestError",
            Self::MissingContext => "missingContext",
            Self::Other => "other",
        }
    }

    /// The reason behind an HTTP status that is no success.
    pub fn of_status(status: StatusCode) -> Self {
        match status.as_u16() {
            401 | 403 => Self::AuthError,
            429 => Self::RateLimited,
            400..=499 => Self::ClientError,
            500..=599 => Self::ServerError,
            _ => Self::Other,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl SendError {
    /// No answer within the time for one attempt.
    pub fn timeout(limit: Duration) -> Self {
        Self {
            verdict: Verdict::Retry { after: None },
            reason: Reason::ContextDeadlineExceeded,
            may_have_arrived: true,
            cause: Cause::Timeout(limit),
        }
    }

    /// The HTTP client failed before there was an answer.
    pub fn request(error: reqwest::Error, secret: &Secret) -> Self {
        let error = error.without_url();
        let refused = error.is_connect();
        let (verdict, reason) = if error.is_builder() {
            (Verdict::Permanent, Reason::ConfigError)
        } else if error.is_timeout() {
            (
                Verdict::Retry { after: None },
                Reason::ContextDeadlineExceeded,
            )
        } else {
            (Verdict::Retry { after: None }, Reason::RequestError)
        };
        let mut detail = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            detail = format!("{detail}: {cause}");
            source = cause.source();
        }
        let detail = text::one_line(&secret.hide_in(&detail));
        Self {
            verdict,
            reason,
            may_have_arrived: !refused && verdict != Verdict::Permanent,
            cause: if refused {
                Cause::Connection(detail)
            } else {
                Cause::Broken(detail)
            },
        }
    }

    /// The receiver answered with a status that is no success, by the rules common to HTTP receivers: 408, 425, 429 and 5xx may work later; 400, 413
    /// and 422 may be due to the content; a redirect and any other status are permanent.
    pub fn status(
        status: StatusCode,
        after: Option<Duration>,
        body: &str,
        secret: &Secret,
    ) -> Self {
        let verdict = match status.as_u16() {
            408 | 425 | 429 | 500..=599 => Verdict::Retry { after },
            400 | 413 | 422 => Verdict::Content,
            _ => Verdict::Permanent,
        };
        Self {
            verdict,
            reason: Reason::of_status(status),
            // A server or a proxy that fails half-way may have passed the message on before.
            may_have_arrived: status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT,
            cause: if status.is_redirection() {
                Cause::Redirect { status }
            } else {
                Cause::Status {
                    status,
                    body: text::shorten(&text::one_line(&secret.hide_in(body)), QUOTE_LEN),
                }
            },
        }
    }

    /// A write failed. What was written before is unknown. A pipe whose reader is gone stays broken.
    pub fn write(error: &std::io::Error) -> Self {
        let broken = error.kind() == std::io::ErrorKind::BrokenPipe;
        Self {
            verdict: if broken {
                Verdict::Permanent
            } else {
                Verdict::Retry { after: None }
            },
            reason: Reason::RequestError,
            may_have_arrived: !broken,
            cause: Cause::Write(text::one_line(&error.to_string())),
        }
    }

    /// The message could not be encoded.
    pub fn encode(error: &serde_json::Error) -> Self {
        Self {
            verdict: Verdict::Content,
            reason: Reason::EncodingError,
            may_have_arrived: false,
            cause: Cause::Encode(error.to_string()),
        }
    }
}

/// The end of an answer's line: what it says beyond its status, if anything.
fn quote(body: &str) -> String {
    if body.is_empty() {
        String::new()
    } else {
        format!(": {body}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_its_verdict() {
        let retry = Verdict::Retry { after: None };
        for (status, verdict, reason) in [
            (300, Verdict::Permanent, "other"),
            (301, Verdict::Permanent, "other"),
            (307, Verdict::Permanent, "other"),
            (400, Verdict::Content, "clientError"),
            (401, Verdict::Permanent, "authError"),
            (403, Verdict::Permanent, "authError"),
            (404, Verdict::Permanent, "clientError"),
            (405, Verdict::Permanent, "clientError"),
            (408, retry, "clientError"),
            (410, Verdict::Permanent, "clientError"),
            (413, Verdict::Content, "clientError"),
            (422, Verdict::Content, "clientError"),
            (425, retry, "clientError"),
            (429, retry, "rateLimited"),
            (500, retry, "serverError"),
            (502, retry, "serverError"),
            (503, retry, "serverError"),
            (504, retry, "serverError"),
            (599, retry, "serverError"),
        ] {
            let error = SendError::status(
                StatusCode::from_u16(status).unwrap(),
                None,
                "",
                &Secret::new("http://receiver/"),
            );
            assert_eq!(error.verdict, verdict, "{status}");
            assert_eq!(error.reason.as_str(), reason, "{status}");
        }
    }

    #[test]
    fn an_answer_is_quoted_short_harmless_and_without_the_secret() {
        let secret = Secret::new("http://receiver/services/abcdef123456");
        let body = format!("no hook abcdef123456\n\x1b[2J{}", "x".repeat(1000));
        let error = SendError::status(StatusCode::NOT_FOUND, None, &body, &secret).to_string();
        assert!(
            error.starts_with("the receiver answered 404 Not Found: no hook <secret>"),
            "{error}"
        );
        assert!(
            error.chars().count() < 260 && error.ends_with('…'),
            "{error}"
        );
        assert!(!error.contains(char::is_control), "{error:?}");
    }
}
