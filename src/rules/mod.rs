//! Rules: what an object says about itself at a given time. One file a kind; pure; no memory but the [`Memo`] that is handed in.

#[cfg(test)]
mod cases;
mod finding;
mod memo;
mod pod;

pub use finding::{Finding, Lasts, Rule, Since};
pub use memo::Memo;

use jiff::Timestamp;

/// Every rule, kind by kind.
pub const RULES: &[&[&Rule]] = &[pod::RULES];

/// Every rule.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    RULES.iter().copied().flatten().copied()
}

/// The rule of this name.
pub fn named(name: &str) -> Option<&'static Rule> {
    all().find(|rule| rule.name == name)
}

/// One look at one object: the time, what is remembered of the object, and where the verdicts go.
#[derive(Debug)]
pub struct Evaluation<'a> {
    /// The API server's time.
    pub now: Timestamp,
    /// What earlier looks at this object left behind.
    pub memo: &'a mut Memo,
    /// The verdicts.
    pub findings: &'a mut Vec<Finding>,
}
