//! What the program shows of itself over HTTP: metrics and health.

mod health;
mod metrics;
mod server;

pub use health::{Check, Health, KindHealth, Readiness};
pub use metrics::{Gauges, Metrics, Ownership, WatchEvent};
pub use server::serve;
