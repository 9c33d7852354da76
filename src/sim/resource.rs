//! The resources that the cluster in memory serves. A new one is a line here.

/// A resource: how it is addressed, and in what its updates differ.
#[derive(Debug, PartialEq, Eq)]
pub struct Resource {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The version of the group.
    pub version: &'static str,
    /// Its name in URLs.
    pub plural: &'static str,
    /// The kind of its objects.
    pub kind: &'static str,
    /// Whether its objects live in a namespace.
    pub namespaced: bool,
    /// Whether `status` is a subresource (and `metadata.generation` counts the changes of the rest).
    pub status: bool,
    /// What a PUT means.
    pub put: Put,
}

/// What a PUT means. It never replaces another version than the one that it names.
#[derive(Debug, PartialEq, Eq)]
pub enum Put {
    /// Without a version it replaces whatever is there; what is not there is not found.
    Replace,
    /// It has to name a version, but creates what is not there, whatever version it names: so with Leases on the real server
    /// (`pkg/registry/coordination/lease/strategy.go`).
    ReplaceOrCreate,
}

/// Pods.
pub const PODS: Resource = Resource {
    group: "",
    version: "v1",
    plural: "pods",
    kind: "Pod",
    namespaced: true,
    status: true,
    put: Put::Replace,
};

/// `ConfigMap`s.
pub const CONFIG_MAPS: Resource = Resource {
    plural: "configmaps",
    kind: "ConfigMap",
    status: false,
    ..PODS
};

/// Leases.
pub const LEASES: Resource = Resource {
    group: "coordination.k8s.io",
    version: "v1",
    plural: "leases",
    kind: "Lease",
    namespaced: true,
    status: false,
    put: Put::ReplaceOrCreate,
};

/// `StatefulSet`s. Nothing runs them.
pub const STATEFUL_SETS: Resource = Resource {
    group: "apps",
    plural: "statefulsets",
    kind: "StatefulSet",
    ..PODS
};

/// Namespaces. Objects need none to exist.
pub const NAMESPACES: Resource = Resource {
    plural: "namespaces",
    kind: "Namespace",
    namespaced: false,
    ..PODS
};

/// Everything that is served.
pub const RESOURCES: &[Resource] = &[PODS, CONFIG_MAPS, LEASES, STATEFUL_SETS, NAMESPACES];

impl Resource {
    /// `v1`, or `group/version`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// `pods`, or `leases.coordination.k8s.io`: what the messages of the server say.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_owned()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }
}
