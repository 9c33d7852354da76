//! Which Services have endpoints that serve: the EndpointSlices of one Service are several objects, of which one is enough.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hasher as _,
    sync::Arc,
};

use fnv::FnvHasher;
use jiff::Timestamp;

use super::engine::hash;
use crate::cluster::{EndpointSlice, Object};

/// The slices of a cluster: two numbers for each, and the slices as they are that have nothing that serves.
#[derive(Debug, Default)]
pub(super) struct Slices {
    /// By the hash of their UID.
    known: HashMap<u64, Slice>,
    /// How many slices of a Service have an endpoint that serves. Not there if none has.
    serving: HashMap<u64, u32>,
    /// Those that have none, by Service and UID.
    idle: BTreeMap<(u64, u64), Arc<Object>>,
    /// Since when a Service that has slices has had none that serves, if that was seen.
    lost: HashMap<u64, Timestamp>,
    list: u64,
    listing: bool,
}

#[derive(Debug)]
struct Slice {
    service: u64,
    serves: bool,
    /// The list that last had it.
    list: u64,
}

impl Slices {
    /// A list of all slices begins.
    pub const fn list_started(&mut self) {
        self.list += 1;
        self.listing = true;
    }

    /// It is complete: the others are gone. Returns all that have nothing that serves: they are to be judged, because only now all of their Services is known.
    pub fn list_done(&mut self, now: Timestamp) -> Vec<Arc<Object>> {
        self.listing = false;
        let list = self.list;
        let missing = self.known.iter().filter(|(_, slice)| slice.list != list);
        let missing: Vec<u64> = missing.map(|(uid, _)| *uid).collect();
        for uid in missing {
            self.gone(uid, now);
        }
        // Since when the others have had nothing that serves was not seen: no earlier than all of their slices tell.
        let mut changed: HashMap<u64, Timestamp> = HashMap::new();
        for (&(service, _), object) in &self.idle {
            if let Object::EndpointSlice(slice) = &**object
                && let Some(at) = slice.metadata.last_change
                && !self.serving.contains_key(&service)
            {
                let latest = changed.entry(service).or_insert(at);
                *latest = at.max(*latest);
            }
        }
        for (service, at) in changed {
            self.lost.entry(service).or_insert(at);
        }
        self.idle.values().map(Arc::clone).collect()
    }

    /// An object is there, which may be a slice. Returns the other slices of its Service that are to be judged anew.
    pub fn see(&mut self, object: &Object, now: Timestamp) -> Vec<Arc<Object>> {
        let Object::EndpointSlice(slice) = object else {
            return Vec::new();
        };
        let uid = hash(&slice.metadata.uid);
        let service = service(slice);
        let served = self.serving.contains_key(&service);
        let since = self.lost.get(&service).copied();
        self.remove(uid);
        let is_idle = !slice.endpoints.serve;
        if is_idle {
            self.idle.insert((service, uid), Arc::new(object.clone()));
        } else {
            *self.serving.entry(service).or_default() += 1;
        }
        let seen = Slice {
            service,
            serves: !is_idle,
            list: self.list,
        };
        self.known.insert(uid, seen);
        if self.serving.contains_key(&service) {
            self.lost.remove(&service);
        } else if served {
            let at = slice.metadata.last_change.unwrap_or(now).min(now);
            self.lost.insert(service, at);
        } else if let Some(at) = since {
            self.lost.insert(service, at);
        }
        self.others(service, uid, served)
    }

    /// An object is gone, which may be a slice. Returns the other slices of its Service that are to be judged anew.
    pub fn gone(&mut self, uid: u64, now: Timestamp) -> Vec<Arc<Object>> {
        let Some(Slice {
            service, serves, ..
        }) = self.remove(uid)
        else {
            return Vec::new();
        };
        if serves && !self.serving.contains_key(&service) && self.has_idle(service) {
            self.lost.insert(service, now);
        }
        self.others(service, uid, serves)
    }

    /// Since when nothing of the slice's Service serves, if it was seen to lose that.
    pub fn unserved_since(&self, object: &Object) -> Option<Timestamp> {
        match object {
            Object::EndpointSlice(slice) => self.lost.get(&service(slice)).copied(),
            _ => None,
        }
    }

    /// Whether the object is a slice of a Service of which a slice has an endpoint that serves; or may have, because not all are listed yet. Of one that is `known` to
    /// be without, that is not guessed: its clock goes on.
    pub fn may_serve(&self, object: &Object, known: bool) -> bool {
        match object {
            Object::EndpointSlice(slice) => {
                (self.listing && !known) || self.serving.contains_key(&service(slice))
            }
            _ => false,
        }
    }

    fn remove(&mut self, uid: u64) -> Option<Slice> {
        let slice = self.known.remove(&uid)?;
        if !slice.serves {
            self.idle.remove(&(slice.service, uid));
            if !self.has_idle(slice.service) {
                self.lost.remove(&slice.service);
            }
        } else if let Some(count) = self.serving.get_mut(&slice.service) {
            *count -= 1;
            if *count == 0 {
                self.serving.remove(&slice.service);
            }
        }
        Some(slice)
    }

    fn has_idle(&self, service: u64) -> bool {
        let mut idle = self.idle.range((service, 0)..=(service, u64::MAX));
        idle.next().is_some()
    }

    /// The idle slices of a Service but this one, if the Service is served no longer, or again. While a list comes in, all are judged at its end.
    fn others(&self, service: u64, uid: u64, served: bool) -> Vec<Arc<Object>> {
        if self.listing || self.serving.contains_key(&service) == served {
            return Vec::new();
        }
        let of_service = self.idle.range((service, 0)..=(service, u64::MAX));
        let others = of_service.filter(|((_, other), _)| *other != uid);
        others.map(|(_, object)| Arc::clone(object)).collect()
    }
}

/// The hash of a slice's Service. Names have no slash.
fn service(slice: &EndpointSlice) -> u64 {
    let mut hasher = FnvHasher::default();
    hasher.write(slice.metadata.namespace.as_bytes());
    hasher.write_u8(b'/');
    let name = slice.metadata.service_name.as_deref();
    hasher.write(name.unwrap_or_default().as_bytes());
    hasher.finish()
}
