//! The trimmed APIService.

use super::Condition;
use crate::cluster::{Meta, lenient::trimmed};

trimmed! {
    /// An APIService.
    pub struct ApiService {
        /// `metadata`.
        pub metadata: Meta = "metadata",
        /// `spec`.
        pub spec: ApiServiceSpec = "spec",
        /// `status`.
        pub status: ApiServiceStatus = "status",
    }

    /// Which API it is.
    pub struct ApiServiceSpec {
        /// `spec.service`; none for an API that the API server serves itself.
        pub service: Option<ServiceReference> = "service",
    }

    /// The Service that serves it.
    pub struct ServiceReference {
        /// `namespace`.
        pub namespace: Box<str> = "namespace",
        /// `name`.
        pub name: Box<str> = "name",
    }

    /// Whether it is served.
    pub struct ApiServiceStatus {
        /// `status.conditions`.
        pub conditions: Vec<Condition> = "conditions",
    }
}
