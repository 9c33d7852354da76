//! Which objects a list or a watch asks for.

use super::{ApiError, store::Object};

/// A namespace, a label selector (`a=b`, `a!=b`, `a`, `!a`) and a field selector (`metadata.name`, `metadata.namespace`).
#[derive(Debug, Default)]
pub(super) struct Selector {
    namespace: Option<Box<str>>,
    name: Option<Box<str>>,
    labels: Vec<Requirement>,
}

#[derive(Debug)]
enum Requirement {
    Is(Box<str>, Box<str>),
    IsNot(Box<str>, Box<str>),
    Has(Box<str>),
    HasNot(Box<str>),
}

impl Selector {
    pub(super) fn new(
        namespace: Option<&str>,
        labels: Option<&str>,
        fields: Option<&str>,
    ) -> Result<Self, ApiError> {
        let mut selector = Self {
            namespace: namespace.map(Into::into),
            ..Self::default()
        };
        for term in terms(labels) {
            let requirement = if let Some((key, value)) = term.split_once("!=") {
                Requirement::IsNot(key.trim().into(), value.trim().into())
            } else if let Some((key, value)) = term.split_once('=') {
                let value = value.strip_prefix('=').unwrap_or(value);
                Requirement::Is(key.trim().into(), value.trim().into())
            } else if let Some(key) = term.strip_prefix('!') {
                Requirement::HasNot(key.trim().into())
            } else if term.contains([' ', '(', '<', '>']) {
                return Err(ApiError::bad_request(format!(
                    "label selector \"{term}\" is not one of a=b, a!=b, a, !a"
                )));
            } else {
                Requirement::Has(term.into())
            };
            selector.labels.push(requirement);
        }
        for term in terms(fields) {
            match term.split_once('=') {
                Some(("metadata.name", name)) => selector.name = Some(name.into()),
                Some(("metadata.namespace", namespace)) => {
                    selector.namespace = Some(namespace.into());
                }
                _ => {
                    return Err(ApiError::bad_request(format!(
                        "field selector \"{term}\" is not supported: only metadata.name= and metadata.namespace= are"
                    )));
                }
            }
        }
        Ok(selector)
    }

    pub(super) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Whether no object of this namespace, or of a later one, can match.
    pub(super) fn is_past(&self, namespace: &str) -> bool {
        self.namespace().is_some_and(|wanted| wanted < namespace)
    }

    pub(super) fn matches(&self, object: &Object) -> bool {
        let label = |key: &str| {
            object
                .labels
                .iter()
                .find(|(name, _)| **name == *key)
                .map(|(_, value)| &**value)
        };
        self.namespace
            .as_ref()
            .is_none_or(|wanted| *wanted == object.namespace)
            && self
                .name
                .as_ref()
                .is_none_or(|wanted| *wanted == object.name)
            && self.labels.iter().all(|requirement| match requirement {
                Requirement::Is(key, value) => label(key) == Some(value),
                Requirement::IsNot(key, value) => label(key) != Some(value),
                Requirement::Has(key) => label(key).is_some(),
                Requirement::HasNot(key) => label(key).is_none(),
            })
    }
}

fn terms(selector: Option<&str>) -> impl Iterator<Item = &str> {
    selector
        .unwrap_or_default()
        .split(',')
        .map(str::trim)
        .filter(|term| !term.is_empty())
}
