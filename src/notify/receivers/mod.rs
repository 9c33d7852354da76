//! The receivers: one file each.

mod stdout;
mod webhook;

pub use stdout::{Stdout, Style};
pub use webhook::{InvalidUrl, Webhook};
