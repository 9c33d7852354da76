//! About when objects in a file were read from their cluster: the newest time that they tell.

use std::fmt;

use jiff::Timestamp;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};

/// What is not looked at, at any depth. `deletionTimestamp` lies in the future by the grace period; the others are what people and programs
/// want, or write for themselves, and may hold any time.
const SKIPPED: [&str; 7] = [
    "annotations",
    "binaryData",
    "data",
    "deletionTimestamp",
    "labels",
    "spec",
    "stringData",
];

/// The newest time in an object: of its metadata (also of its managed fields), its status, or what else is neither wanted nor free text.
/// None for kinds that are not Kubernetes' own: their status may tell of the future (a certificate's end).
pub(super) fn newest_time(api_version: &str, json: &str) -> Option<Timestamp> {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    if group.contains('.') && !group.ends_with(".k8s.io") {
        return None;
    }
    serde_json::from_str::<Newest>(json).ok()?.0
}

/// The newest time in any value. Nothing of the value is built.
struct Newest(Option<Timestamp>);

impl<'de> Deserialize<'de> for Newest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Find).map(Self)
    }
}

struct Find;

impl<'de> Visitor<'de> for Find {
    type Value = Option<Timestamp>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        // RFC 3339 and nothing else: the parser takes more, such as a time zone's name.
        let bytes = text.as_bytes();
        let likely = (20..=35).contains(&bytes.len()) && bytes[4] == b'-' && bytes[10] == b'T';
        Ok(if likely { text.parse().ok() } else { None })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut newest = None;
        while let Some(Newest(time)) = items.next_element()? {
            newest = newest.max(time);
        }
        Ok(newest)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let mut newest = None;
        while let Some(Key { skipped }) = fields.next_key()? {
            if skipped {
                fields.next_value::<IgnoredAny>()?;
            } else {
                newest = newest.max(fields.next_value::<Newest>()?.0);
            }
        }
        Ok(newest)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

/// A field's name, looked at and dropped.
struct Key {
    skipped: bool,
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Look;

        impl Visitor<'_> for Look {
            type Value = Key;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a field")
            }

            fn visit_str<E>(self, name: &str) -> Result<Key, E> {
                Ok(Key {
                    skipped: SKIPPED.contains(&name),
                })
            }
        }

        deserializer.deserialize_str(Look)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn newest(api_version: &str, json: &str) -> Option<String> {
        newest_time(api_version, json).map(|time| time.to_string())
    }

    #[test]
    fn the_newest_time_may_be_anywhere_that_is_observed() {
        let pod = r#"{
            "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [
                {"time": "2026-01-05T00:00:00Z", "fieldsV1": {"f:status": {}}},
                {"time": "2026-01-02T00:00:00Z"}
            ]},
            "status": {"startTime": null, "restarts": 3, "ready": true, "load": 0.5,
                "conditions": [{"lastTransitionTime": "2026-01-03T00:00:00Z"}]}
        }"#;
        assert_eq!(newest("v1", pod).as_deref(), Some("2026-01-05T00:00:00Z"));
        let event = r#"{"lastTimestamp": null, "eventTime": "2026-01-03T00:00:00.123456Z"}"#;
        assert_eq!(
            newest("events.k8s.io/v1", event).as_deref(),
            Some("2026-01-03T00:00:00.123456Z")
        );
    }

    #[test]
    fn times_that_may_lie_in_the_future_do_not_count() {
        let pod = r#"{
            "metadata": {
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "deletionTimestamp": "2026-01-01T01:00:00Z",
                "annotations": {"expires": "2030-01-01T00:00:00Z"},
                "labels": {"until": "2030-01-01T00:00:00Z"}
            },
            "spec": {"notBefore": "2030-01-01T00:00:00Z"},
            "data": {"end": "2030-01-01T00:00:00Z"}
        }"#;
        assert_eq!(newest("v1", pod).as_deref(), Some("2026-01-01T00:00:00Z"));
        let certificate = r#"{"status": {"notAfter": "2030-01-01T00:00:00Z"}}"#;
        assert_eq!(newest("cert-manager.io/v1", certificate), None);
    }

    #[test]
    fn what_only_looks_like_a_time_is_none() {
        for text in [
            "2026-13-01T00:00:00Z",
            "2026-01-01",
            "at 2026-01-01T00:00:00Z",
            "2026-01-01T00:00:00 or so",
            "äääääääääää",
        ] {
            assert_eq!(newest("v1", &format!(r#"{{"status": {text:?}}}"#)), None);
        }
    }
}
