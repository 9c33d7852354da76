//! The environment, validated: everything that is wrong with it is found at once, before anything starts.

mod choice;
mod env;
mod logging;
mod terminal;

pub use choice::NotOneOf;
pub use env::{VARIABLES, Variable};
pub use logging::{LogFormat, LogLevel, init as init_logging};
pub use terminal::{colour, kubeconfig, no_proxy};

use std::{ffi::OsString, fmt, net::SocketAddr, str::FromStr};

use reqwest::Url;

use self::env::RawEnv;
use crate::{
    notify::Secret,
    shard::{ShardError, Sharder},
};

/// What the program was told, validated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The part of the cluster that this replica acts on.
    pub sharder: Sharder,
    /// The name of the installation; a DNS label.
    pub name: String,
    /// The label `cluster` of every alert; empty if there is none.
    pub cluster: String,
    /// The address of `/metrics`, `/livez` and `/readyz`.
    pub listen: SocketAddr,
    /// Where pages are sent to; a valid http or https URL.
    pub webhook_url: Option<Secret>,
    /// How much is logged.
    pub log: LogLevel,
    /// What a line of the log looks like.
    pub log_format: LogFormat,
}

/// Why there are no [`Settings`].
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// Values that cannot be used: all of them.
    #[error("{}", list(.0))]
    Invalid(Vec<Problem>),
    /// The environment cannot be read at all.
    #[error("cannot read the environment")]
    Environment(#[source] envy::Error),
}

/// One thing that is wrong with the environment.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// A value that is not valid.
    #[error("{variable}={value}: {reason}")]
    Invalid {
        /// The variable.
        variable: &'static str,
        /// Its value, if it may be shown.
        value: Shown,
        /// What would be valid.
        reason: String,
    },
    /// An index or a total that cannot be used.
    #[error(transparent)]
    Shard(#[from] ShardError),
    /// A variable that does not exist: most likely a misspelt one, so it must not be ignored. Its value is not shown, as it may be a secret.
    #[error("{variable}: there is no such setting{}", did_you_mean(*.nearest))]
    Unknown {
        /// The variable.
        variable: String,
        /// The one that was probably meant.
        nearest: Option<&'static str>,
    },
    /// A value that is no text.
    #[error("{variable}: its value is not UTF-8")]
    NotUtf8 {
        /// The variable.
        variable: String,
    },
}

/// A value in an error message, unless it is a secret.
#[derive(Debug, PartialEq, Eq)]
pub struct Shown(Option<String>);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => write!(f, "{value:?}"),
            None => f.write_str("<secret>"),
        }
    }
}

impl Settings {
    /// Reads the process's environment.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it, in one error.
    pub fn from_env() -> Result<Self, SettingsError> {
        Self::from_vars(std::env::vars_os())
    }

    /// Reads a given environment.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it, in one error.
    pub fn from_vars(
        vars: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, SettingsError> {
        let mut problems = Vec::new();
        // Without `..`: a new variable cannot be forgotten here.
        let RawEnv {
            shard_total,
            shard_index,
            name,
            cluster,
            listen,
            webhook_url,
            log,
            log_format,
        } = RawEnv::read(vars, &mut problems)?;

        let sharder = Sharder::parse(shard_total.as_deref(), shard_index.as_deref())
            .map_err(|error| problems.push(error.into()));
        let mut check = Check(&mut problems);
        let name = check.value("ALERTKUBE_NAME", name, dns_label);
        let cluster = check.value("ALERTKUBE_CLUSTER", cluster, label_value);
        let listen = check.value("ALERTKUBE_LISTEN", listen, address);
        let webhook_url = check.secret("ALERTKUBE_WEBHOOK_URL", webhook_url, http_url);
        let log = check.value("ALERTKUBE_LOG", log, word);
        let log_format = check.value("ALERTKUBE_LOG_FORMAT", log_format, word);

        if let (Ok(sharder), Some(name), Some(cluster), Some(listen), Some(log), Some(log_format)) =
            (sharder, name, cluster, listen, log, log_format)
            && problems.is_empty()
        {
            return Ok(Self {
                sharder,
                name,
                cluster,
                listen,
                webhook_url,
                log,
                log_format,
            });
        }
        Err(SettingsError::Invalid(problems))
    }
}

/// Checks value after value, and collects what is wrong with them.
struct Check<'a>(&'a mut Vec<Problem>);

impl Check<'_> {
    /// The value of a variable, else its default; `None` if it is not valid.
    fn value<T>(
        &mut self,
        variable: &'static str,
        raw: Option<String>,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let text = raw.unwrap_or_else(|| default_of(variable).to_owned());
        self.parsed(variable, parse(text.trim()), || Shown(Some(text.clone())))
    }

    /// The value of a variable that must not be seen; `None` if there is none, or it is not valid.
    fn secret(
        &mut self,
        variable: &'static str,
        raw: Option<String>,
        parse: impl Fn(&str) -> Result<Secret, String>,
    ) -> Option<Secret> {
        // Trimmed, because a Secret that was made from a file ends in a line break.
        let parsed = parse(raw?.trim());
        self.parsed(variable, parsed, || Shown(None))
    }

    fn parsed<T>(
        &mut self,
        variable: &'static str,
        parsed: Result<T, String>,
        value: impl Fn() -> Shown,
    ) -> Option<T> {
        parsed
            .map_err(|reason| {
                self.0.push(Problem::Invalid {
                    variable,
                    value: value(),
                    reason,
                });
            })
            .ok()
    }
}

/// The default of a variable, as the help says it.
fn default_of(name: &str) -> &'static str {
    VARIABLES
        .iter()
        .find(|variable| variable.name == name)
        .map_or("", |variable| variable.default)
}

/// A DNS label (RFC 1123), as Kubernetes wants it: it becomes part of names and the value of a label.
fn dns_label(text: &str) -> Result<String, String> {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let valid = (1..=63).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-');
    if valid {
        Ok(text.to_owned())
    } else {
        Err(
            "must be 1 to 63 lower-case letters, digits or '-', and neither begin nor end with '-'"
                .to_owned(),
        )
    }
}

/// The value of an alert's label: any text on one line.
fn label_value(text: &str) -> Result<String, String> {
    if text.contains(char::is_control) {
        Err("must be on one line, without control characters".to_owned())
    } else {
        Ok(text.to_owned())
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "must be an IP address and a port, such as 0.0.0.0:8080 or [::]:8080".into())
}

/// An http or https URL. The reason never quotes it.
fn http_url(text: &str) -> Result<Secret, String> {
    const VALID: &str = "must be an http or https URL, such as https://example.com/path";
    if text.contains(|c: char| c.is_control() || c == ' ') {
        // The parser would drop some of them without a word.
        return Err(format!("{VALID}, without white space"));
    }
    let url = Url::parse(text).map_err(|error| format!("{VALID} ({error})"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(VALID.to_owned());
    }
    Ok(Secret::new(text))
}

fn word<T: FromStr<Err = NotOneOf>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: NotOneOf| error.to_string())
}

fn list(problems: &[Problem]) -> String {
    use fmt::Write as _;

    let mut text = match problems.len() {
        1 => "the environment is not valid:".to_owned(),
        n => format!("the environment is not valid, for {n} reasons:"),
    };
    for problem in problems {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n  {problem}");
    }
    text
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean {name}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(vars: &[(&str, &str)]) -> Result<Settings, String> {
        Settings::from_vars(vars.iter().map(|(name, value)| (name.into(), value.into())))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_set_is_valid() {
        assert_eq!(
            settings(&[]),
            Ok(Settings {
                sharder: Sharder::default(),
                name: "alertkube".to_owned(),
                cluster: String::new(),
                listen: ([0, 0, 0, 0], 8080).into(),
                webhook_url: None,
                log: LogLevel::Info,
                log_format: LogFormat::Auto,
            })
        );
    }

    #[test]
    fn what_is_set_is_used() {
        let settings = settings(&[
            ("ALERTKUBE_NAME", "pager-2"),
            ("ALERTKUBE_CLUSTER", " Prod (EU) "),
            ("ALERTKUBE_LISTEN", "[::1]:0"),
            (
                "ALERTKUBE_WEBHOOK_URL",
                "https://user:pw@example.com/hook?x=1\n",
            ),
            ("ALERTKUBE_LOG", "debug"),
            ("ALERTKUBE_LOG_FORMAT", "json"),
        ])
        .unwrap();
        assert_eq!(settings.name, "pager-2");
        assert_eq!(settings.cluster, "Prod (EU)");
        assert_eq!(settings.listen.to_string(), "[::1]:0");
        assert_eq!(
            settings.webhook_url.unwrap().expose(),
            "https://user:pw@example.com/hook?x=1"
        );
        assert_eq!(settings.log, LogLevel::Debug);
        assert_eq!(settings.log_format, LogFormat::Json);
    }

    #[test]
    fn all_problems_are_told_at_once() {
        let error = settings(&[
            ("ALERTKUBE_NAME", "Alert_Kube"),
            ("ALERTKUBE_LISTEN", "8080"),
            ("ALERTKUBE_WEBHOOK_URL", "ftp://hooks.example.com/hunter2"),
            ("ALERTKUBE_LOG", "verbose"),
            ("ALERTKUBE_LOG_FORMAT", ""),
            ("ALERTKUBE_WEBHOOK", "https://hooks.example.com/hunter2"),
        ])
        .unwrap_err();
        insta::assert_snapshot!(error, @r#"
        the environment is not valid, for 6 reasons:
          ALERTKUBE_WEBHOOK: there is no such setting; did you mean ALERTKUBE_WEBHOOK_URL?
          ALERTKUBE_NAME="Alert_Kube": must be 1 to 63 lower-case letters, digits or '-', and neither begin nor end with '-'
          ALERTKUBE_LISTEN="8080": must be an IP address and a port, such as 0.0.0.0:8080 or [::]:8080
          ALERTKUBE_WEBHOOK_URL=<secret>: must be an http or https URL, such as https://example.com/path
          ALERTKUBE_LOG="verbose": must be one of error, warn, info, debug, trace
          ALERTKUBE_LOG_FORMAT="": must be one of auto, text, json
        "#);
    }

    #[test]
    fn an_index_that_is_out_of_range_is_a_problem_like_the_others() {
        let error = settings(&[
            ("ALERTKUBE_SHARD_TOTAL", "3"),
            ("ALERTKUBE_SHARD_INDEX", "3"),
            ("ALERTKUBE_LOG", "loud"),
        ])
        .unwrap_err();
        assert!(error.contains("ALERTKUBE_SHARD_INDEX"), "{error}");
        assert!(error.contains("ALERTKUBE_LOG=\"loud\""), "{error}");
    }

    #[test]
    fn a_bad_secret_is_not_quoted() {
        for url in [
            "",
            "hunter2",
            "//hunter2/x",
            "https://",
            "https://hunter2:hunter2/x",
            "https://hunter2 hunter2/",
            "https://hunter2\nhunter2/",
            "mailto:hunter2@example.com",
        ] {
            let error = settings(&[("ALERTKUBE_WEBHOOK_URL", url)]).unwrap_err();
            assert!(
                error.contains("ALERTKUBE_WEBHOOK_URL=<secret>: "),
                "{error}"
            );
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn settings_can_be_logged_without_their_secrets() {
        let url = "https://hooks.example.com/hunter2";
        let settings = settings(&[("ALERTKUBE_WEBHOOK_URL", url)]).unwrap();
        assert!(!format!("{settings:?}").contains("hunter2"));
    }

    #[test]
    fn a_name_must_be_a_dns_label() {
        for name in ["", "-a", "a-", "A", "a.b", "a_b", "ä", &"a".repeat(64)] {
            assert!(dns_label(name).is_err(), "{name}");
        }
        for name in ["a", "0", "a-b", &"a".repeat(63)] {
            assert_eq!(dns_label(name).as_deref(), Ok(name));
        }
    }
}
