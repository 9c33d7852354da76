//! A healthy object of each kind, as the API server sends it. A new kind is a file here, named as Kubernetes spells the kind.

use std::{fs, path::Path};

use alertkube::{
    cluster::{KindId, Object},
    sim::pods::mk_pod,
};
use jiff::Timestamp;
use serde_json::Value;

/// A time at which they are healthy.
pub const NOW: Timestamp = Timestamp::constant(1_790_000_000, 0);

/// The healthy object of the kind.
pub struct Healthy {
    api_version: String,
    kind: KindId,
    /// It as it comes over the wire.
    pub json: String,
}

impl Healthy {
    /// Reads the file of the kind. A Pod is built.
    pub fn of(kind: KindId) -> Self {
        let object = if kind == KindId::Pod {
            mk_pod("shop", "web-7d9c5b8f6-x2x4q").build()
        } else {
            let file = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("tests/healthy")
                .join(format!("{}.json", kind.as_str()));
            let text = fs::read_to_string(&file);
            let text = text.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            serde_json::from_str(&text).unwrap()
        };
        Self {
            api_version: object["apiVersion"].as_str().unwrap().to_owned(),
            kind,
            json: Value::to_string(&object),
        }
    }

    /// Decodes it, as the watch does.
    pub fn decode(&self) -> Object {
        let mut deserializer = serde_json::Deserializer::from_str(&self.json);
        let decoded =
            Object::decode(&self.api_version, self.kind.as_str(), &mut deserializer).unwrap();
        let (object, malformed) = decoded.unwrap();
        assert_eq!(malformed, 0, "{}", self.kind.as_str());
        object
    }
}
