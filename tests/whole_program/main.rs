//! Whole-program tests: the real binary as a process, a real kube-apiserver with etcd, and a receiver that speaks the real protocol.
//!
//! One test binary, so that its tests share what is dear: the linking, and a control plane. A test that does something to its API server starts its own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "clippy's exemption for tests covers test functions only, not what they share"
)]

#[path = "../support/mod.rs"]
#[allow(
    dead_code,
    unused_imports,
    reason = "shared: each test target uses a part of it"
)]
mod support;

mod command_line;
mod coordinator;
mod delivery;
mod harness;
mod memory;
mod outages;
mod paging;
mod rights;
mod scale;
mod settings;
mod sharding;
