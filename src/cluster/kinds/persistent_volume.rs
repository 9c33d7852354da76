//! The trimmed PersistentVolume.

use jiff::Timestamp;

use crate::cluster::{Meta, lenient::trimmed};

trimmed! {
    /// A PersistentVolume.
    pub struct PersistentVolume {
        /// `metadata`.
        pub metadata: Meta = "metadata",
        /// `spec`.
        pub spec: PersistentVolumeSpec = "spec",
        /// `status`.
        pub status: PersistentVolumeStatus = "status",
    }

    /// `spec` of a PersistentVolume.
    pub struct PersistentVolumeSpec {
        /// What happens to it when its claim is gone: `Retain`, `Delete` or `Recycle`.
        pub reclaim_policy: Box<str> = "persistentVolumeReclaimPolicy",
        /// The claim that it is, or was, bound to.
        pub claim: Option<ClaimReference> = "claimRef",
    }

    /// `spec.claimRef` of a PersistentVolume.
    pub struct ClaimReference {
        /// The claim's namespace.
        pub namespace: Box<str> = "namespace",
        /// The claim's name.
        pub name: Box<str> = "name",
    }

    /// `status` of a PersistentVolume.
    pub struct PersistentVolumeStatus {
        /// `Pending`, `Available`, `Bound`, `Released` or `Failed`.
        pub phase: Box<str> = "phase",
        /// One word for a failure; mostly empty.
        pub reason: Box<str> = "reason",
        /// Why it is in this phase, for people.
        pub message: Box<str> = "message",
        /// Since when it is in this phase.
        pub last_phase_transition_time: Option<Timestamp> = "lastPhaseTransitionTime",
    }
}
