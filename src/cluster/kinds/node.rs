//! The trimmed Node: what the rules read of it, and nothing else. Images, addresses and capacities are never built.

use jiff::Timestamp;

use super::Condition;
use crate::cluster::{Meta, lenient::trimmed};

trimmed! {
    /// A Node.
    pub struct Node {
        /// `metadata`.
        pub metadata: Meta = "metadata",
        /// `spec`.
        pub spec: NodeSpec = "spec",
        /// `status`.
        pub status: NodeStatus = "status",
    }

    /// `spec` of a Node.
    pub struct NodeSpec {
        /// Whether it is cordoned: it takes no new pods.
        pub unschedulable: bool = "unschedulable",
        /// What keeps pods away from it.
        pub taints: Vec<Taint> = "taints",
    }

    /// A taint of a Node.
    pub struct Taint {
        /// Such as `node.kubernetes.io/unschedulable`.
        pub key: Box<str> = "key",
        /// When it was added. Only the node controller says so, and who evicts.
        pub time_added: Option<Timestamp> = "timeAdded",
    }

    /// `status` of a Node.
    pub struct NodeStatus {
        /// Conditions: those of the kubelet, and of whoever else looks after nodes.
        pub conditions: Vec<Condition> = "conditions",
        /// `nodeInfo.bootID`: another one after each boot.
        pub boot_id: Box<str>,
    }
    "nodeInfo" => |status, info: NodeInfo| { status.boot_id = info.boot_id; } <= {
        NodeInfo { boot_id: status.boot_id.clone() }
    }

    /// `nodeInfo` of a Node.
    struct NodeInfo {
        boot_id: Box<str> = "bootID",
    }
}
