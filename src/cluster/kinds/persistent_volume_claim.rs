//! The trimmed PersistentVolumeClaim.

use jiff::Timestamp;

use super::Condition;
use crate::cluster::{Meta, lenient::trimmed};

trimmed! {
    /// A PersistentVolumeClaim.
    pub struct PersistentVolumeClaim {
        /// `metadata`.
        pub metadata: Meta = "metadata",
        /// `spec`.
        pub spec: PersistentVolumeClaimSpec = "spec",
        /// `status`.
        pub status: PersistentVolumeClaimStatus = "status",
    }

    /// `spec` of a PersistentVolumeClaim.
    pub struct PersistentVolumeClaimSpec {
        /// The volume that it is bound to, or asks for; empty if it takes any.
        pub volume_name: Box<str> = "volumeName",
        /// What its volume is to be filled from. The API server copies the older `dataSource` to it.
        pub data_source: Option<DataSource> = "dataSourceRef",
    }

    /// `spec.dataSourceRef` of a PersistentVolumeClaim.
    pub struct DataSource {
        /// Such as `VolumeSnapshot`.
        pub kind: Box<str> = "kind",
        /// Its name.
        pub name: Box<str> = "name",
    }

    /// `status` of a PersistentVolumeClaim.
    pub struct PersistentVolumeClaimStatus {
        /// `Pending`, `Bound` or `Lost`.
        pub phase: Box<str> = "phase",
        /// Conditions.
        pub conditions: Vec<Condition> = "conditions",
        /// `allocatedResourceStatuses.storage`: how far a resize has come; empty if there is none.
        pub resize_status: Box<str>,
        /// `modifyVolumeStatus.status`: how far a change of the `VolumeAttributesClass` has come; empty if there is none.
        pub modify_status: Box<str>,
        /// What the storage driver says of the volume (alpha in Kubernetes 1.37: absent on most clusters).
        pub health: VolumeHealth = "healthStatus",
    }
    "allocatedResourceStatuses" => |status, resources: ResourceStatuses| { status.resize_status = resources.storage; } <= {
        ResourceStatuses { storage: status.resize_status.clone() }
    }
    "modifyVolumeStatus" => |status, modification: ModifyVolumeStatus| { status.modify_status = modification.status; } <= {
        ModifyVolumeStatus { status: status.modify_status.clone() }
    }

    /// `status.allocatedResourceStatuses` of a PersistentVolumeClaim.
    struct ResourceStatuses {
        storage: Box<str> = "storage",
    }

    /// `status.modifyVolumeStatus` of a PersistentVolumeClaim.
    struct ModifyVolumeStatus {
        status: Box<str> = "status",
    }

    /// `status.healthStatus` of a PersistentVolumeClaim.
    pub struct VolumeHealth {
        /// What is wrong; nothing if the volume is well.
        pub conditions: Vec<VolumeHealthCondition> = "healthConditions",
        /// Since when they are these.
        pub last_transition_time: Option<Timestamp> = "lastTransitionTime",
    }

    /// One of `status.healthStatus.healthConditions` of a PersistentVolumeClaim.
    pub struct VolumeHealthCondition {
        /// `DataLoss`, `Inaccessible` or `Degraded`.
        pub status: Box<str> = "status",
        /// The driver's word for it.
        pub reason: Box<str> = "reason",
        /// The driver's sentence.
        pub message: Box<str> = "message",
    }
}
