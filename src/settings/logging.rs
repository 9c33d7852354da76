//! The program's own log: to standard error, because standard output is where pages go.

use std::io::{self, IsTerminal as _};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::{Layer, filter::Targets, fmt, layer::SubscriberExt as _, registry};

use super::choice::choices;

choices! {
    /// How much is logged.
    pub enum LogLevel {
        /// What costs pages.
        Error = "error",
        /// What may come to cost pages.
        Warn = "warn",
        /// What an operator wants to know.
        Info = "info",
        /// What a developer wants to know.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
}

choices! {
    /// What a line of the log looks like.
    pub enum LogFormat {
        /// Text on a terminal, JSON elsewhere.
        Auto = "auto",
        /// For people.
        Text = "text",
        /// One JSON object a line.
        Json = "json",
    }
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
            LogLevel::Trace => Self::TRACE,
        }
    }
}

/// Starts the log. A second call changes nothing.
pub fn init(level: LogLevel, format: LogFormat) {
    let lines = fmt::layer().with_writer(io::stderr);
    let json = match format {
        LogFormat::Auto => !io::stderr().is_terminal(),
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    let lines = if json {
        lines.json().flatten_event(true).boxed()
    } else {
        lines.boxed()
    };
    let subscriber = registry().with(lines.with_filter(targets(level)));
    // Fails only if there is a log already, as in tests that share a process.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// What is logged: our own events by level. The libraries' are not for operators: whatever they find is an error of a call of ours, which
/// says it with its context. `kube_client` is shut up altogether, because it logs whole bodies.
fn targets(level: LogLevel) -> Targets {
    Targets::new()
        .with_default(level)
        .with_target("kube_client", LevelFilter::OFF)
        .with_targets(
            [
                "kube_runtime",
                "tower",
                "hyper",
                "hyper_util",
                "reqwest",
                "rustls",
            ]
            .map(|library| (library, LevelFilter::ERROR)),
        )
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn libraries_are_quiet_at_every_level() {
        let targets = targets(LogLevel::Trace);
        assert!(targets.would_enable("alertkube::cluster", &Level::TRACE));
        assert!(!targets.would_enable("kube_client::client", &Level::ERROR));
        for library in [
            "kube_runtime::watcher",
            "tower::buffer",
            "hyper_util::client",
        ] {
            assert!(targets.would_enable(library, &Level::ERROR), "{library}");
            assert!(!targets.would_enable(library, &Level::WARN), "{library}");
        }
    }

    #[test]
    fn the_level_is_the_least_that_is_logged() {
        let targets = targets(LogLevel::Warn);
        assert!(targets.would_enable("alertkube", &Level::WARN));
        assert!(!targets.would_enable("alertkube", &Level::INFO));
    }
}
