//! The trimmed ResourceQuota.

use serde::{Serialize, Serializer, de::MapAccess};

use crate::cluster::{
    Meta,
    lenient::{Lenient, Malformed, Reader, trimmed},
    sparse::Sparse,
};

trimmed! {
    /// A ResourceQuota.
    pub struct ResourceQuota {
        /// `metadata`.
        pub metadata: Meta = "metadata",
        /// `status`.
        pub status: ResourceQuotaStatus = "status",
    }

    /// `status` of a ResourceQuota.
    pub struct ResourceQuotaStatus {
        /// How much there may be of each resource.
        pub hard: Quantities = "hard",
        /// How much there is.
        pub used: Quantities = "used",
    }
}

/// Resources by name, each with its quantity as the API server writes it: `("requests.memory", "64Gi")`.
#[derive(Debug, Clone, Default)]
pub struct Quantities(Vec<(Box<str>, Box<str>)>);

impl Quantities {
    /// Every resource, with its quantity.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, quantity)| (&**name, &**quantity))
    }

    /// The quantity of a resource.
    pub fn get(&self, resource: &str) -> Option<&str> {
        self.iter()
            .find(|(name, _)| *name == resource)
            .map(|(_, quantity)| quantity)
    }
}

impl Lenient for Quantities {
    fn from_object<'de, A: MapAccess<'de>>(
        mut object: A,
        malformed: &Malformed,
    ) -> Result<Option<Self>, A::Error> {
        let mut quantities = Vec::new();
        while let Some(name) = object.next_key_seed(Reader::<Box<str>>::new(malformed))? {
            let quantity = object.next_value_seed(Reader::<Box<str>>::new(malformed))?;
            quantities.extend(name.zip(quantity));
        }
        Ok(Some(Self(quantities)))
    }
}

impl Serialize for Quantities {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl Sparse for Quantities {
    fn is_absent(&self) -> bool {
        self.0.is_empty()
    }
}
