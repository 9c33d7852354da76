//! Labels that are only ever compared: whether a selector selects the pods of a workload.

use serde::{Serialize, Serializer, de::MapAccess};

use super::{
    kinds::Count,
    lenient::{Lenient, Malformed, Reader, trimmed},
    sparse::Sparse,
};

/// What stands between the name and the value of a label, and what ends it: no label has either.
const IS: char = '=';
const END: char = '\n';

/// Labels, in one piece, since every workload has some, and few are ever asked for theirs: `name=value`, a line each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSet(Box<str>);

impl LabelSet {
    fn lines(&self) -> impl Iterator<Item = &str> {
        self.0.split_terminator(END)
    }
}

impl Lenient for LabelSet {
    fn from_object<'de, A: MapAccess<'de>>(
        mut object: A,
        malformed: &Malformed,
    ) -> Result<Option<Self>, A::Error> {
        let mut labels = String::new();
        while let Some(name) = object.next_key_seed(Reader::<Box<str>>::new(malformed))? {
            let value = object.next_value_seed(Reader::<Box<str>>::new(malformed))?;
            if let (Some(name), Some(value)) = (name, value) {
                labels.push_str(&name);
                labels.push(IS);
                labels.push_str(&value);
                labels.push(END);
            }
        }
        Ok(Some(Self(labels.into())))
    }
}

impl Serialize for LabelSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.lines().filter_map(|line| line.split_once(IS)))
    }
}

impl Sparse for LabelSet {
    fn is_absent(&self) -> bool {
        self.0.is_empty()
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
    "matchExpressions" => |selector, expressions: Count| { selector.expressions = expressions.0; } <= {
        Count(selector.expressions)
    }
}

impl Selector {
    /// Whether it is known to select pods with these labels. Expressions are not read: whom they select is not known. One that is empty selects all, so that it
    /// tells nothing of any.
    pub fn selects(&self, labels: &LabelSet) -> bool {
        let Self {
            labels: wanted,
            expressions,
        } = self;
        *expressions == 0
            && !wanted.is_absent()
            && wanted
                .lines()
                .all(|line| labels.lines().any(|label| label == line))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn selects(selector: &Value, labels: &Value) -> bool {
        let selector: Selector = serde_json::from_value(selector.clone()).unwrap();
        let (labels, _) = super::super::lenient::read(labels).unwrap();
        let written = serde_json::to_value(&selector).unwrap();
        let read: Selector = serde_json::from_value(written).unwrap();
        assert_eq!(read, selector);
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
