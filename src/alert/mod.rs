//! Alerts: their identity, their life, and the engine that decides both. Pure: objects and time go in, transitions come out.

mod cause;
mod census;
mod engine;
mod entry;
mod inhibition;
mod labels;
mod looks;
mod memory;
mod render;
mod severity;
mod slices;
mod verdict;
mod view;

pub use cause::{causes_of, effects_of, urges};
pub use engine::Engine;
pub use labels::{Fingerprint, Labels};
pub use memory::Memory;
pub use severity::{Severity, UnknownSeverity};
pub use verdict::{Cause, Membership, Outcome, Verdict};
pub use view::{Alert, Member, Notice, Resolution, State, Transition};

#[cfg(test)]
mod tests;
