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
    /// Whether a PUT without `metadata.resourceVersion` replaces whatever is there.
    pub unconditional_update: bool,
    /// Whether a PUT creates what is not there.
    pub create_on_update: bool,
}

/// Pods.
pub const PODS: Resource = Resource {
    group: "",
    version: "v1",
    plural: "pods",
    kind: "Pod",
    namespaced: true,
    status: true,
    unconditional_update: true,
    create_on_update: false,
};

/// `ConfigMap`s.
pub const CONFIG_MAPS: Resource = Resource {
    plural: "configmaps",
    kind: "ConfigMap",
    status: false,
    ..PODS
};

/// Leases. Their updates must name a version, and a PUT of one that is gone creates it again, as on the real server
/// (`pkg/registry/coordination/lease/strategy.go`).
pub const LEASES: Resource = Resource {
    group: "coordination.k8s.io",
    version: "v1",
    plural: "leases",
    kind: "Lease",
    namespaced: true,
    status: false,
    unconditional_update: false,
    create_on_update: true,
};

/// Everything that is served.
pub const RESOURCES: &[Resource] = &[PODS, CONFIG_MAPS, LEASES];

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
