//! Label sets: what an alert is called, and what makes it the same alert.

use std::{borrow::Cow, collections::BTreeMap, fmt, hash::Hasher as _, sync::Arc};

use fnv::FnvHasher;
use serde::{Deserialize, Serialize};

/// A sorted set of labels, as Prometheus and Alertmanager understand it. A clone shares it: what is remembered of an alert, and what its receivers
/// hold, mostly has the same.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Labels(Arc<BTreeMap<Cow<'static, str>, Box<str>>>);

impl Labels {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a label. An empty value removes it: to Prometheus an empty label and a missing one are the same.
    pub fn set(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Box<str>>) {
        let (name, value) = (name.into(), value.into());
        let labels = Arc::make_mut(&mut self.0);
        if value.is_empty() {
            labels.remove(&name);
        } else {
            labels.insert(name, value);
        }
    }

    /// The same as [`Labels::set`], for building a set in one expression.
    #[must_use]
    pub fn with(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Box<str>>) -> Self {
        self.set(name, value);
        self
    }

    /// The value of a label.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| &**value)
    }

    /// The labels by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), &**value))
    }

    /// The fingerprint that Alertmanager gives this label set: 64-bit FNV-1a over names and values, each followed by the byte 0xff, in order
    /// of the names (`model.LabelSet.Fingerprint` of `prometheus/common`).
    pub fn fingerprint(&self) -> Fingerprint {
        let mut hasher = FnvHasher::default();
        for (name, value) in self.iter() {
            hasher.write(name.as_bytes());
            hasher.write_u8(0xff);
            hasher.write(value.as_bytes());
            hasher.write_u8(0xff);
        }
        Fingerprint(hasher.finish())
    }
}

/// The fingerprint of a label set. It is for people and for APIs: no alert is ever looked up by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub u64);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fingerprint_is_alertmanagers() {
        // The empty set is FNV's offset basis, as in `prometheus/common`, `model/signature.go` (emptyLabelSignature).
        assert_eq!(Labels::new().fingerprint().to_string(), "cbf29ce484222325");
        // From `model/signature_test.go` there (TestLabelsToSignature).
        let labels = Labels::new()
            .with("name", "garland, briggs")
            .with("fear", "love is not enough");
        assert_eq!(labels.fingerprint().0, 5_799_056_148_416_392_346);
    }

    #[test]
    fn an_empty_value_is_no_label() {
        let labels = Labels::new().with("container", "app").with("container", "");
        assert_eq!(labels, Labels::new());
    }
}
