//! What a request is about: its path and its query.

use http::Method;
use serde::Deserialize;

use super::{ApiError, RESOURCES, Resource, Verb};

/// What a path is about.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target<'a> {
    pub(super) resource: &'static Resource,
    pub(super) namespace: Option<&'a str>,
    pub(super) name: Option<&'a str>,
    pub(super) status: bool,
}

impl<'a> Target<'a> {
    pub(super) fn parse(path: &'a str) -> Option<Self> {
        let mut parts = path.trim_matches('/').split('/');
        let group = match parts.next()? {
            "api" => "",
            "apis" => parts.next()?,
            _ => return None,
        };
        let version = parts.next()?;
        let (namespace, plural, name) = match parts.next()? {
            "namespaces" => match (parts.next(), parts.next()) {
                (Some(namespace), Some(plural)) => (Some(namespace), plural, parts.next()),
                // Namespaces themselves.
                (name, _) => (None, "namespaces", name),
            },
            plural => (None, plural, parts.next()),
        };
        let resource = RESOURCES
            .iter()
            .find(|r| r.group == group && r.version == version && r.plural == plural)?;
        let status = match parts.next() {
            None => false,
            Some("status") if resource.status => true,
            Some(_) => return None,
        };
        // A name without its namespace names nothing.
        let sound = parts.next().is_none()
            && (namespace.is_none() || resource.namespaced)
            && (name.is_none() || namespace.is_some() == resource.namespaced);
        sound.then_some(Self {
            resource,
            namespace,
            name,
            status,
        })
    }

    pub(super) fn verb(&self, method: &Method, query: &Query) -> Option<Verb> {
        Some(match (method, self.name) {
            (&Method::GET, Some(_)) => Verb::Get,
            (&Method::GET, None) if query.is_watch() => Verb::Watch,
            (&Method::GET, None) => Verb::List,
            (&Method::POST, None) => Verb::Create,
            (&Method::PUT, Some(_)) => Verb::Update,
            (&Method::PATCH, Some(_)) => Verb::Patch,
            (&Method::DELETE, Some(_)) => Verb::Delete,
            _ => return None,
        })
    }
}

/// The query of a request. Parameters that are not listed are ignored, as by the real server.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Query {
    pub(super) watch: Option<String>,
    pub(super) limit: Option<usize>,
    pub(super) r#continue: Option<String>,
    pub(super) resource_version: Option<String>,
    pub(super) resource_version_match: Option<String>,
    pub(super) label_selector: Option<String>,
    pub(super) field_selector: Option<String>,
    pub(super) allow_watch_bookmarks: Option<String>,
    pub(super) send_initial_events: Option<String>,
    pub(super) timeout_seconds: Option<u64>,
    pub(super) grace_period_seconds: Option<i64>,
}

impl Query {
    pub(super) fn is_watch(&self) -> bool {
        is_true(self.watch.as_ref())
    }

    /// `resourceVersion`; none if it is unset or 0, which mean "what you have" here, where nothing is ever behind.
    pub(super) fn version(&self) -> Result<Option<u64>, ApiError> {
        match self.resource_version.as_deref() {
            None | Some("" | "0") => Ok(None),
            Some(version) => version.parse().map(Some).map_err(|_| {
                ApiError::bad_request(format!(
                    "resourceVersion: Invalid value: \"{version}\": not a number"
                ))
            }),
        }
    }
}

pub(super) fn is_true(value: Option<&String>) -> bool {
    value.is_some_and(|value| value == "true" || value == "1")
}
