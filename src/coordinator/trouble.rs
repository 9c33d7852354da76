//! What the API server does not let us do: what it means for what was to be changed, and, once and in plain words, for people.

use std::{collections::BTreeMap, fmt, sync::Mutex, time::Duration};

use hyper_util::client::legacy;
use kube::client::AuthError;
use tokio::time::timeout;

use super::locked;
use crate::{
    cluster::{Failure, find},
    shard::ownership::Answer,
    text::{one_line, shorten},
};

/// A resource in our namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Resource {
    Lease,
    ConfigMap,
}

/// What is done with it, in the words of Kubernetes' RBAC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    List,
    Watch,
    Create,
    Update,
    Delete,
}

impl Resource {
    const fn kind(self) -> &'static str {
        match self {
            Self::Lease => "Lease",
            Self::ConfigMap => "ConfigMap",
        }
    }

    const fn qualified(self) -> &'static str {
        match self {
            Self::Lease => "leases.coordination.k8s.io",
            Self::ConfigMap => "configmaps",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
        })
    }
}

/// Why a request did not succeed.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The API server, or the way to it, says why.
    Answer(Box<kube::Error>),
    /// No answer in time.
    Late(Duration),
    /// An answer without what has to be in it.
    Odd(&'static str),
}

impl Trouble {
    pub const NO_VERSION: Self = Self::Odd("the answer has no resourceVersion that is a number");

    /// The status that the API server answered with, if it did.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Answer(error) => match &**error {
                kube::Error::Api(status) => Some(status.code),
                _ => None,
            },
            Self::Late(_) | Self::Odd(_) => None,
        }
    }

    /// What it means for what was to be changed.
    pub fn lost(&self, verb: Verb) -> Lost {
        match self.status() {
            // Another version, or a name that is taken.
            Some(409) => Lost::Conflict,
            // What was to be replaced or deleted is gone. (To create an object, its namespace is needed.)
            Some(404) if matches!(verb, Verb::Update | Verb::Delete) => Lost::Conflict,
            _ if self.is_refusal() => Lost::Refused,
            _ => Lost::Unknown,
        }
    }

    /// Whether the request was certainly not carried out, and never will be.
    ///
    /// An answer of 5xx is no such certainty: the API server gives up waiting for etcd with 500 and 504 while the write may still go through, and what
    /// stands between may answer for it. The same goes for 408.
    fn is_refusal(&self) -> bool {
        match self {
            Self::Answer(error) => match &**error {
                kube::Error::Api(status) => (400..500).contains(&status.code) && status.code != 408,
                kube::Error::BuildRequest(_) => true,
                error => {
                    find::<AuthError>(error).is_some()
                        || find::<legacy::Error>(error).is_some_and(legacy::Error::is_connect)
                }
            },
            Self::Late(_) | Self::Odd(_) => false,
        }
    }

    pub fn text(&self, verb: Verb, resource: Resource, namespace: &str) -> String {
        let (kind, qualified) = (resource.kind(), resource.qualified());
        match self {
            Self::Answer(error) => match &**error {
                kube::Error::Api(status) if status.code == 403 => format!(
                    "not allowed to {verb} {qualified} in the namespace {namespace}: allow it in a Role of this namespace, for the service account of this pod \
                     ({})",
                    shorten(&one_line(&status.message), 300)
                ),
                // A namespace that is not there has empty lists, and takes nothing.
                kube::Error::Api(status) if status.code == 404 && matches!(verb, Verb::Create) => {
                    format!(
                        "cannot create {kind}: there is no namespace {namespace}: create it, or set ALERTKUBE_NAMESPACE to the one that is meant ({})",
                        shorten(&one_line(&status.message), 300)
                    )
                }
                error => Failure::of_client(&verb.to_string(), kind, error).message,
            },
            Self::Late(after) => {
                format!(
                    "cannot {verb} {kind}: no answer within {} s",
                    after.as_secs()
                )
            }
            Self::Odd(why) => format!("cannot {verb} {kind}: {why}"),
        }
    }

    /// Whether it belongs to how watches work: what to go on from is no longer known.
    fn is_ordinary(&self) -> bool {
        matches!(self, Self::Answer(error) if matches!(&**error, kube::Error::Api(status) if status.code == 410))
    }
}

impl From<kube::Error> for Trouble {
    fn from(error: kube::Error) -> Self {
        Self::Answer(Box::new(error))
    }
}

/// No answer is waited for any longer: half of what a holder has for its renewal by default.
pub(crate) const TIME_OUT: Duration = Duration::from_secs(5);

/// Waits for an answer, no longer than is useful.
///
/// # Errors
///
/// The request has failed, or there is no answer in time.
pub(crate) async fn in_time<T>(
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, Trouble> {
    match timeout(TIME_OUT, request).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Trouble::Late(TIME_OUT)),
    }
}

/// What a failure means for what was to be changed. Worse ones are greater: a change that takes several requests has failed as the worst of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lost {
    /// It certainly has no effect.
    Refused,
    /// It may have an effect, even later.
    Unknown,
    /// The object is of another version than expected, or there is none, or there is one.
    Conflict,
}

impl Lost {
    pub fn answer<A>(self) -> Answer<A> {
        match self {
            Self::Refused => Answer::Refused,
            Self::Unknown => Answer::Unknown,
            Self::Conflict => Answer::Conflict,
        }
    }
}

/// Says each failure once, and its end.
#[derive(Debug)]
pub(super) struct Troubles {
    namespace: String,
    said: Mutex<BTreeMap<(Resource, Verb), String>>,
}

impl Troubles {
    pub fn new(namespace: String) -> Self {
        Self {
            namespace,
            said: Mutex::default(),
        }
    }

    pub fn failed(&self, verb: Verb, resource: Resource, trouble: &Trouble) {
        let text = trouble.text(verb, resource, &self.namespace);
        if trouble.is_ordinary() {
            tracing::debug!("{text}");
            return;
        }
        let mut said = locked(&self.said);
        let old = said.insert((resource, verb), text.clone());
        drop(said);
        if old.as_ref() == Some(&text) {
            tracing::debug!("{text}");
        } else if trouble.status() == Some(403) {
            tracing::error!("{text}");
        } else {
            tracing::warn!("{text}");
        }
    }

    /// What does not work now: of all that, what matters most. Leases come first, and to write them comes last.
    pub fn now(&self) -> Option<String> {
        locked(&self.said).values().next().cloned()
    }

    pub fn worked(&self, verb: Verb, resource: Resource) {
        let mut said = locked(&self.said);
        let over = said.remove(&(resource, verb)).is_some();
        drop(said);
        if over {
            tracing::info!("it is possible again to {verb} {}", resource.kind());
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn a_namespace_that_is_not_there_is_said_to_be_missing() {
        let status = Status::failure("namespaces \"ops\" not found", "NotFound").with_code(404);
        let trouble = Trouble::from(kube::Error::Api(status.boxed()));
        assert_eq!(
            trouble.text(Verb::Create, Resource::Lease, "ops"),
            "cannot create Lease: there is no namespace ops: create it, or set ALERTKUBE_NAMESPACE to the one that is meant (namespaces \"ops\" not found)"
        );
    }
}
