//! alertkube watches a Kubernetes cluster and pages people about broken workloads.
//!
//! The library is what the program of the same name is made of; `ARCHITECTURE.md` is the map. The core is pure: [`shard`],
//! [`rules`] and [`alert`] are functions of what they are given, with the time as a parameter. I/O lives at the edge: [`cluster`],
//! [`coordinator`], [`state`], [`notify`] and [`http`].

pub mod alert;
pub mod app;
pub mod cli;
pub mod cluster;
pub mod controller;
pub mod coordinator;
pub mod custody;
mod faults;
pub mod history;
pub mod http;
pub mod membership;
pub mod notify;
pub mod policy;
pub mod rules;
pub mod settings;
pub mod shard;
pub mod sim;
pub mod state;
#[cfg(test)]
mod testing;
mod text;
mod time;
pub mod unserved;
