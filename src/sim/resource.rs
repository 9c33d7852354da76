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
pub const RESOURCES: &[Resource] = &[
    PODS,
    CONFIG_MAPS,
    LEASES,
    STATEFUL_SETS,
    NAMESPACES,
    like_pods("apps", "deployments", "Deployment"),
    like_pods("apps", "daemonsets", "DaemonSet"),
    like_pods("apps", "replicasets", "ReplicaSet"),
    like_pods("batch", "jobs", "Job"),
    like_pods("batch", "cronjobs", "CronJob"),
    like_pods("policy", "poddisruptionbudgets", "PodDisruptionBudget"),
    like_pods("", "persistentvolumeclaims", "PersistentVolumeClaim"),
    like_pods("", "resourcequotas", "ResourceQuota"),
    Resource {
        version: "v2",
        ..like_pods(
            "autoscaling",
            "horizontalpodautoscalers",
            "HorizontalPodAutoscaler",
        )
    },
    Resource {
        namespaced: false,
        ..like_pods("", "nodes", "Node")
    },
    Resource {
        namespaced: false,
        ..like_pods("", "persistentvolumes", "PersistentVolume")
    },
    Resource {
        namespaced: false,
        ..like_pods("apiregistration.k8s.io", "apiservices", "APIService")
    },
    Resource {
        status: false,
        ..like_pods("discovery.k8s.io", "endpointslices", "EndpointSlice")
    },
];

/// A resource that differs from pods in its names only. Nothing runs its objects.
const fn like_pods(group: &'static str, plural: &'static str, kind: &'static str) -> Resource {
    Resource {
        group,
        plural,
        kind,
        ..PODS
    }
}

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
