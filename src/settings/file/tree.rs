//! YAML as it is written: values with their places, none of them understood yet.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_saphyr::Spanned;

use super::Place;

/// A value, and where it is.
#[derive(Debug)]
pub(super) struct Node {
    pub at: Place,
    pub is: What,
}

/// A value.
#[derive(Debug)]
pub(super) enum What {
    Nothing,
    Boolean(bool),
    Whole(i64),
    /// One that no setting takes.
    OtherNumber,
    Text(String),
    List(Vec<Node>),
    /// In the order of the file, with repeated keys.
    Map(Vec<(Key, Node)>),
}

impl What {
    /// What it is, for messages.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Boolean(_) => "true or false",
            Self::Whole(_) | Self::OtherNumber => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Map(_) => "a map of keys and values",
        }
    }
}

/// A key, and where it is.
#[derive(Debug)]
pub(super) struct Key {
    pub at: Place,
    pub name: String,
}

/// What is wrong with the YAML itself: it cannot be read further.
#[derive(Debug)]
pub(super) struct Broken {
    pub at: Option<Place>,
    pub reason: String,
}

/// Reads a document.
pub(super) fn read(text: &str) -> Result<Node, Broken> {
    let options = serde_saphyr::options! {
        with_snippet: false,
        // They are found here, with all else that is wrong.
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::PassThrough,
    };
    if text
        .lines()
        .all(|line| line.trim_start().starts_with('#') || line.trim().is_empty())
    {
        return Ok(Node {
            at: Place::default(),
            is: What::Nothing,
        });
    }
    serde_saphyr::from_str_with_options::<Spanned<What>>(text, options)
        .map(Node::from)
        .map_err(|error| {
            let text = error.without_snippet().to_string();
            // Its own text ends in the place.
            let reason = text
                .split_once(" at line ")
                .map_or(text.as_str(), |(reason, _)| reason);
            Broken {
                at: error.location().map(Place::from),
                reason: reason.trim_end_matches(':').to_owned(),
            }
        })
}

impl From<serde_saphyr::Location> for Place {
    fn from(location: serde_saphyr::Location) -> Self {
        let number = |number: u64| usize::try_from(number).unwrap_or(1).max(1);
        Self {
            line: number(location.line()),
            column: number(location.column()),
        }
    }
}

impl From<Spanned<What>> for Node {
    fn from(spanned: Spanned<What>) -> Self {
        Self {
            at: spanned.referenced.into(),
            is: spanned.value,
        }
    }
}

impl<'de> Deserialize<'de> for What {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AsWritten)
    }
}

struct AsWritten;

impl<'de> Visitor<'de> for AsWritten {
    type Value = What;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<What, E> {
        Ok(What::Nothing)
    }

    fn visit_none<E>(self) -> Result<What, E> {
        Ok(What::Nothing)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<What, D::Error> {
        What::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<What, E> {
        Ok(What::Boolean(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<What, E> {
        Ok(What::Whole(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<What, E> {
        Ok(i64::try_from(value).map_or(What::OtherNumber, What::Whole))
    }

    fn visit_i128<E>(self, _: i128) -> Result<What, E> {
        Ok(What::OtherNumber)
    }

    fn visit_u128<E>(self, _: u128) -> Result<What, E> {
        Ok(What::OtherNumber)
    }

    fn visit_f64<E>(self, _: f64) -> Result<What, E> {
        Ok(What::OtherNumber)
    }

    fn visit_str<E>(self, value: &str) -> Result<What, E> {
        Ok(What::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<What, E> {
        Ok(What::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<What, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = list.next_element::<Spanned<What>>()? {
            nodes.push(node.into());
        }
        Ok(What::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<What, A::Error> {
        let mut nodes = Vec::new();
        while let Some((key, node)) = map.next_entry::<Spanned<String>, Spanned<What>>()? {
            let key = Key {
                at: key.referenced.into(),
                name: key.value,
            };
            nodes.push((key, node.into()));
        }
        Ok(What::Map(nodes))
    }
}
