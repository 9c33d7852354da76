//! What the server refuses, as the `Status` object that it answers with.

use http::StatusCode;
use serde_json::{Value, json};

use super::Resource;

/// A refusal of the API server. Messages are those of the real one, so that code which reads them can be tested.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({}, {reason})", .code.as_u16())]
pub struct ApiError {
    /// The HTTP status.
    pub code: StatusCode,
    /// `reason` of the `Status`: one word, for programs.
    pub reason: &'static str,
    /// `message` of the `Status`.
    pub message: String,
    /// `details.retryAfterSeconds`, and the header `Retry-After`.
    pub retry_after_seconds: Option<u64>,
}

impl ApiError {
    /// A refusal with the reason that goes with the HTTP status (`metav1.StatusReason`).
    pub fn new(code: StatusCode, message: impl Into<String>) -> Self {
        let reason = match code.as_u16() {
            400 => "BadRequest",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "NotFound",
            405 => "MethodNotAllowed",
            409 => "Conflict",
            410 => "Expired",
            415 => "UnsupportedMediaType",
            422 => "Invalid",
            429 => "TooManyRequests",
            503 => "ServiceUnavailable",
            504 => "Timeout",
            _ => "InternalError",
        };
        Self {
            code,
            reason,
            message: message.into(),
            retry_after_seconds: None,
        }
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(super) fn invalid(resource: &Resource, name: &str, why: &str) -> Self {
        let Resource { kind, .. } = resource;
        Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            format!("{kind} \"{name}\" is invalid: {why}"),
        )
    }

    pub(super) fn not_found(resource: &Resource, name: &str) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            format!("{} \"{name}\" not found", resource.qualified()),
        )
    }

    pub(super) fn already_exists(resource: &Resource, name: &str) -> Self {
        Self {
            reason: "AlreadyExists",
            ..Self::new(
                StatusCode::CONFLICT,
                format!("{} \"{name}\" already exists", resource.qualified()),
            )
        }
    }

    pub(super) fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        Self::new(
            StatusCode::CONFLICT,
            format!(
                "Operation cannot be fulfilled on {} \"{name}\": {why}",
                resource.qualified()
            ),
        )
    }

    pub(super) fn too_old(version: u64, oldest: u64) -> Self {
        Self::new(
            StatusCode::GONE,
            format!("too old resource version: {version} ({oldest})"),
        )
    }

    /// The `Status` object.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "apiVersion": "v1",
            "kind": "Status",
            "metadata": {},
            "status": "Failure",
            "code": self.code.as_u16(),
            "reason": self.reason,
            "message": self.message,
        });
        if let Some(seconds) = self.retry_after_seconds {
            status["details"] = json!({"retryAfterSeconds": seconds});
        }
        status
    }
}
