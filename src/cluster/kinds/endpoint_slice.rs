//! The trimmed EndpointSlice.

use std::iter;

use serde::{
    Serialize, Serializer,
    de::{IgnoredAny, SeqAccess},
};

use crate::cluster::{
    Meta,
    lenient::{Lenient, Malformed, Reader, trimmed},
    sparse::Sparse,
};

trimmed! {
    /// An EndpointSlice: some of a Service's endpoints, or all.
    pub struct EndpointSlice {
        /// `metadata`.
        pub metadata: Meta = "metadata",
        /// `endpoints`.
        pub endpoints: Endpoints = "endpoints",
    }

    /// One of `endpoints`.
    struct Endpoint {
        conditions: EndpointConditions = "conditions",
        target: Target = "targetRef",
    }

    /// `conditions` of an endpoint.
    struct EndpointConditions {
        ready: Option<bool> = "ready",
        serving: Option<bool> = "serving",
    }

    /// `targetRef` of an endpoint.
    struct Target {
        kind: Box<str> = "kind",
        uid: Box<str> = "uid",
    }
}

impl EndpointConditions {
    /// Whether it takes traffic. `ready` that is missing means that it does. A pod that is terminating is never ready, and serves for as long as it still can.
    fn serve(&self) -> bool {
        self.ready.unwrap_or(true) || self.serving == Some(true)
    }
}

/// What the rules read of the endpoints of a slice: with one that serves, nothing of the others.
#[derive(Debug, Clone, Default)]
pub struct Endpoints {
    /// Whether any of them takes traffic.
    pub serve: bool,
    /// How many there are; if one serves, how many came before it.
    pub idle: usize,
    /// The UIDs of the pods behind them; none if one serves.
    pub pods: Vec<Box<str>>,
}

impl Lenient for Endpoints {
    fn from_list<'de, A: SeqAccess<'de>>(
        mut list: A,
        malformed: &Malformed,
    ) -> Result<Option<Self>, A::Error> {
        let mut endpoints = Self::default();
        while let Some(endpoint) = list.next_element_seed(Reader::<Endpoint>::new(malformed))? {
            // One that cannot be read may serve.
            let Some(Endpoint { conditions, target }) = endpoint else {
                endpoints.serve = true;
                break;
            };
            if conditions.serve() {
                endpoints.serve = true;
                break;
            }
            endpoints.idle += 1;
            if &*target.kind == "Pod" && !target.uid.is_empty() {
                endpoints.pods.push(target.uid);
            }
        }
        if endpoints.serve {
            endpoints.pods = Vec::new();
            while list.next_element::<IgnoredAny>()?.is_some() {}
        }
        Ok(Some(endpoints))
    }
}

/// As many endpoints as were counted: those whose pods are known first, and the one that serves last.
impl Serialize for Endpoints {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mk_endpoint = |ready, uid: Option<&str>| Endpoint {
            conditions: EndpointConditions {
                ready: Some(ready),
                serving: None,
            },
            target: uid.map_or_else(Target::default, |uid| Target {
                kind: "Pod".into(),
                uid: uid.into(),
            }),
        };
        let pods = self.pods.iter().map(|uid| Some(&**uid));
        let idle = pods.chain(iter::repeat(None)).take(self.idle);
        let serving = self.serve.then(|| mk_endpoint(true, None));
        let idle = idle.map(|uid| mk_endpoint(false, uid));
        serializer.collect_seq(idle.chain(serving))
    }
}

impl Sparse for Endpoints {
    fn is_absent(&self) -> bool {
        !self.serve && self.idle == 0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_endpoint_that_serves_is_enough() {
        let pod = |name: &str| json!({"kind": "Pod", "name": name, "uid": name});
        let ready = json!({"conditions": {"ready": true}, "targetRef": pod("ready")});
        let leaving = json!({"conditions": {"ready": false, "serving": true, "terminating": true}});
        let silent = json!({"addresses": ["10.0.0.1"]});
        let idle = json!({"conditions": {"ready": false}, "targetRef": pod("idle")});
        let left = json!({
            "conditions": {"ready": false, "serving": false, "terminating": true},
            "targetRef": pod("left"),
        });
        for (endpoints, serve, pods) in [
            (json!(null), false, &[][..]),
            (json!([]), false, &[]),
            (json!([idle, left]), false, &["idle", "left"]),
            (json!([idle, ready, left]), true, &[]),
            (json!([left, leaving]), true, &[]),
            (json!([idle, silent]), true, &[]),
            (json!([idle, 7, left]), true, &[]),
        ] {
            let slice: EndpointSlice =
                serde_json::from_value(json!({"endpoints": endpoints})).unwrap();
            assert_eq!(slice.endpoints.serve, serve, "{endpoints}");
            let found: Vec<&str> = slice.endpoints.pods.iter().map(|uid| &**uid).collect();
            assert_eq!(found, pods, "{endpoints}");
        }
    }
}
