//! Sharded for real: `manifests/sharded`, applied by kubectl to a real API server, made into pods by the real StatefulSet controller, run as processes of the real
//! program by a kubelet of the tests; and what happens to them in a cluster.
//!
//! The quick tests are part of `cargo test`. The long ones take an hour or two, one after the other, and print figures:
//!
//! ```text
//! cargo test --release --test sharded -- --ignored --nocapture
//! ```
//!
//! `SHARDED_SEED` chooses other moments and replicas, `SHARDED_KILLS` another number of kills at random moments.

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

mod bed;
mod harness;
mod oracle;
mod scenarios;
