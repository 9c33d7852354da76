//! How much an alert matters.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The severity of an alert: its impact, not its cause. The values are kubernetes-mixin's, so that routes written for it go on working.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// For the log and for dashboards.
    Info,
    /// For business hours.
    Warning,
    /// Wakes someone.
    Critical,
}

impl Severity {
    /// Every severity, from the least to the most.
    pub const ALL: [Self; 3] = [Self::Info, Self::Warning, Self::Critical];

    /// The value of the label `severity`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A word that is no severity.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0:?} is not a severity: use info, warning or critical")]
pub struct UnknownSeverity(pub String);

impl FromStr for Severity {
    type Err = UnknownSeverity;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|severity| severity.as_str() == word)
            .ok_or_else(|| UnknownSeverity(word.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn severities_are_ordered_by_impact_and_parse_what_they_print() {
        assert!(Severity::Critical > Severity::Warning && Severity::Warning > Severity::Info);
        for severity in Severity::ALL {
            assert_eq!(severity.to_string().parse(), Ok(severity));
        }
        assert!("fatal".parse::<Severity>().is_err());
    }
}
