//! Labels that are only ever compared: whether a selector selects the pods of a workload.

use std::hash::Hasher as _;

use fnv::FnvHasher;
use serde::de::MapAccess;

use super::{
    kinds::Count,
    lenient::{Lenient, Malformed, Reader, trimmed},
};

/// Labels, as hashes: one allocation, and none of their text. Two sets of a namespace could be taken for each other by somebody who tries; nothing but whose alert
/// explains whose depends on that.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSet(Vec<u64>);

impl Lenient for LabelSet {
    fn from_object<'de, A: MapAccess<'de>>(
        mut object: A,
        malformed: &Malformed,
    ) -> Result<Option<Self>, A::Error> {
        let mut labels = Vec::with_capacity(object.size_hint().unwrap_or(4).min(16));
        while let Some(name) = object.next_key_seed(Reader::<Hash>::new(malformed))? {
            let value = object.next_value_seed(Reader::<Hash>::new(malformed))?;
            if let (Some(Hash(name)), Some(Hash(value))) = (name, value) {
                // Not symmetric: `a: b` is not `b: a`.
                labels.push(name.rotate_left(1) ^ value);
            }
        }
        Ok(Some(Self(labels)))
    }
}

/// The hash of a text.
#[derive(Default)]
struct Hash(u64);

impl Lenient for Hash {
    fn from_text(text: &str) -> Option<Self> {
        let mut hasher = FnvHasher::default();
        hasher.write(text.as_bytes());
        Some(Self(hasher.finish()))
    }
}

trimmed! {
    /// A label selector.
    #[derive(PartialEq, Eq)]
    pub struct Selector {
        /// `matchLabels`.
        labels: LabelSet = "matchLabels",
        /// How many `matchExpressions` there are.
        expressions: usize,
    }
    "matchExpressions" => |selector, expressions: Count| { selector.expressions = expressions.0; }
}

impl Selector {
    /// Whether it is known to select pods with these labels. Expressions are not read: whom they select is not known. One that is empty selects all, so that it
    /// tells nothing of any.
    pub fn selects(&self, labels: &LabelSet) -> bool {
        let Self {
            labels: LabelSet(wanted),
            expressions,
        } = self;
        *expressions == 0
            && !wanted.is_empty()
            && wanted.iter().all(|label| labels.0.contains(label))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn selects(selector: &Value, labels: &Value) -> bool {
        let selector: Selector = serde_json::from_value(selector.clone()).unwrap();
        let (labels, _) = super::super::lenient::read(labels).unwrap();
        selector.selects(&labels)
    }

    #[test]
    fn a_selector_wants_all_of_its_labels() {
        let labels = json!({"app": "web", "tier": "front", "pod-template-hash": "1"});
        for (selector, expected) in [
            (json!({"matchLabels": {"app": "web"}}), true),
            (
                json!({"matchLabels": {"tier": "front", "app": "web"}}),
                true,
            ),
            (json!({"matchLabels": {"app": "api"}}), false),
            (json!({"matchLabels": {"web": "app"}}), false),
            (json!({"matchLabels": {"app": "web", "zone": "a"}}), false),
            // What is not known explains nothing.
            (
                json!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]}),
                false,
            ),
            (json!({}), false),
        ] {
            assert_eq!(selects(&selector, &labels), expected, "{selector}");
        }
        assert!(!selects(
            &json!({"matchLabels": {"app": "web"}}),
            &json!({})
        ));
    }
}
