//! What is decided about alerts by their labels. Pure.

mod matcher;

pub use matcher::{Matcher, MatcherError, MatcherProblem, Matchers, Operator};
