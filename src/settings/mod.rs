//! The environment, validated: everything that is wrong with it is found at once, before anything starts.

mod choice;
mod env;
pub mod file;
mod logging;
mod terminal;
mod value;

pub use choice::NotOneOf;
pub use env::{VARIABLES, Variable};
pub use logging::{LogFormat, LogLevel, init as init_logging};
pub use terminal::{colour, config_file, kubeconfig, no_proxy};

use std::{ffi::OsString, fmt, net::SocketAddr, path::PathBuf, time::Duration};

use self::{
    env::RawEnv,
    value::{
        address, boolean, dns_label, dns_subdomain, duration, http_url, label_value, optional, word,
    },
};
use crate::{
    coordinator::MAX_TOTAL,
    notify::{SEND_TIMEOUT, Secret},
    shard::{
        ShardError, Sharder,
        ownership::{Timing, TimingError},
    },
};

/// What the program was told, validated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The part of the cluster that this replica acts on.
    pub sharder: Sharder,
    /// The name of the installation; a DNS label.
    pub name: String,
    /// The namespace of Leases and states, if it is said; a DNS label.
    pub namespace: Option<String>,
    /// The pod that this is, if it is said; the name of a pod.
    pub pod_name: Option<String>,
    /// How long Leases last. Every attempt to send fits into it.
    pub timing: Timing,
    /// Whether orphaned shards of others are taken over.
    pub takeover: bool,
    /// The label `cluster` of every alert, if it is said; not empty.
    pub cluster: Option<String>,
    /// The address of `/metrics`, `/livez` and `/readyz`.
    pub listen: SocketAddr,
    /// Where pages are sent to; a valid http or https URL.
    pub webhook_url: Option<Secret>,
    /// The configuration file, if there is one.
    pub config: Option<PathBuf>,
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
    /// Without Leases nothing keeps two replicas from paging for the same, or tells who is gone.
    #[error(
        "--ephemeral runs without Leases, and so only alone, but ALERTKUBE_SHARD_TOTAL is {total}: unset it (or set it to 1), or leave out --ephemeral"
    )]
    Ephemeral {
        /// How many replicas there are to be.
        total: u32,
    },
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
    /// Durations that do not work together.
    #[error(transparent)]
    Timing(#[from] TimingError),
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
            namespace,
            pod_name,
            lease_duration,
            lease_renew_deadline,
            lease_retry_period,
            takeover,
            cluster,
            listen,
            webhook_url,
            config,
            log,
            log_format,
        } = RawEnv::read(vars, &mut problems)?;

        let sharder = Sharder::parse(shard_total.as_deref(), shard_index.as_deref())
            .map_err(|error| problems.push(error.into()));
        if let Ok(sharder) = &sharder
            && sharder.total() > MAX_TOTAL
        {
            problems.push(Problem::Invalid {
                variable: "ALERTKUBE_SHARD_TOTAL",
                value: Shown(Some(sharder.total().to_string())),
                reason: format!(
                    "more than {MAX_TOTAL} replicas cannot keep an eye on each other; set it to the number of replicas"
                ),
            });
        }
        let mut check = Check(&mut problems);
        let name = check.value("ALERTKUBE_NAME", name, dns_label);
        let namespace = check.value("ALERTKUBE_NAMESPACE", namespace, optional(dns_label));
        let pod_name = check.value("ALERTKUBE_POD_NAME", pod_name, optional(dns_subdomain));
        let lease_duration = check.value(LEASE_DURATION, lease_duration, duration);
        let renew_deadline = check.value(
            "ALERTKUBE_LEASE_RENEW_DEADLINE",
            lease_renew_deadline,
            duration,
        );
        let retry_period =
            check.value("ALERTKUBE_LEASE_RETRY_PERIOD", lease_retry_period, duration);
        let takeover = check.value("ALERTKUBE_TAKEOVER", takeover, boolean);
        let cluster = check.value("ALERTKUBE_CLUSTER", cluster, optional(label_value));
        let listen = check.value("ALERTKUBE_LISTEN", listen, address);
        let webhook_url = check.secret("ALERTKUBE_WEBHOOK_URL", webhook_url, http_url);
        let log = check.value("ALERTKUBE_LOG", log, word);
        let log_format = check.value("ALERTKUBE_LOG_FORMAT", log_format, word);

        let timing = (|| check.timing(lease_duration?, renew_deadline?, retry_period?))();

        if let (Ok(sharder), Some(name), Some(namespace), Some(pod_name)) =
            (sharder, name, namespace, pod_name)
            && let (Some(timing), Some(takeover), Some(cluster)) = (timing, takeover, cluster)
            && let (Some(listen), Some(log), Some(log_format)) = (listen, log, log_format)
            && problems.is_empty()
        {
            return Ok(Self {
                sharder,
                name,
                namespace,
                pod_name,
                timing,
                takeover,
                cluster,
                listen,
                webhook_url,
                config: config.filter(|path| !path.is_empty()).map(PathBuf::from),
                log,
                log_format,
            });
        }
        Err(SettingsError::Invalid(problems))
    }
}

/// How long a Lease lasts.
const LEASE_DURATION: &str = "ALERTKUBE_LEASE_DURATION";

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

    /// Durations that work together, and leave time for an attempt to send, at any moment between two renewals: a page that could leave only right after one, or
    /// never, would be late, or only be owed.
    fn timing(&mut self, lease: Duration, deadline: Duration, retry: Duration) -> Option<Timing> {
        let timing = Timing::new(lease, deadline, retry)
            .map_err(|error| self.0.push(error.into()))
            .ok()?;
        if timing.safe_for() >= SEND_TIMEOUT.saturating_add(retry) {
            return Some(timing);
        }
        self.0.push(Problem::Invalid {
            variable: LEASE_DURATION,
            value: Shown(Some(format!("{lease:?}"))),
            reason: format!(
                "too short to page: an attempt may take {SEND_TIMEOUT:?}, begins up to {retry:?} (ALERTKUBE_LEASE_RETRY_PERIOD) after a renewal, and must end within \
                 {:?} of it, which is the duration less a margin for clocks that drift; make it longer, or renew more often",
                timing.safe_for()
            ),
        });
        None
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
    nearest.map_or_else(
        || "; alertkube --help lists all of them".to_owned(),
        |name| format!("; did you mean {name}?"),
    )
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
                namespace: None,
                pod_name: None,
                timing: Timing::default(),
                takeover: true,
                cluster: None,
                listen: ([0, 0, 0, 0], 8080).into(),
                webhook_url: None,
                config: None,
                log: LogLevel::Info,
                log_format: LogFormat::Auto,
            })
        );
    }

    #[test]
    fn what_is_set_is_used() {
        let settings = settings(&[
            ("ALERTKUBE_NAME", "pager-2"),
            ("ALERTKUBE_NAMESPACE", "ops"),
            ("ALERTKUBE_POD_NAME", "alertkube.eu-0"),
            ("ALERTKUBE_LEASE_DURATION", "1m"),
            ("ALERTKUBE_LEASE_RENEW_DEADLINE", "40s"),
            ("ALERTKUBE_LEASE_RETRY_PERIOD", "2500 ms"),
            ("ALERTKUBE_TAKEOVER", "false"),
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
        assert_eq!(settings.namespace.as_deref(), Some("ops"));
        assert_eq!(settings.pod_name.as_deref(), Some("alertkube.eu-0"));
        let ms = Duration::from_millis;
        assert_eq!(
            Ok(settings.timing),
            Timing::new(ms(60_000), ms(40_000), ms(2_500))
        );
        assert!(!settings.takeover);
        assert_eq!(settings.cluster.as_deref(), Some("Prod (EU)"));
        assert_eq!(settings.listen.to_string(), "[::1]:0");
        assert_eq!(
            settings.webhook_url.unwrap().expose(),
            "https://user:pw@example.com/hook?x=1"
        );
        assert_eq!(settings.log, LogLevel::Debug);
        assert_eq!(settings.log_format, LogFormat::Json);
    }

    #[test]
    fn what_resembles_no_setting_leads_to_the_help() {
        let error = settings(&[("ALERTKUBE_FRUIT", "apple")]).unwrap_err();
        assert!(
            error.ends_with(
                "ALERTKUBE_FRUIT: there is no such setting; alertkube --help lists all of them"
            ),
            "{error}"
        );
    }

    #[test]
    fn an_empty_url_is_said_to_be_empty() {
        let error = settings(&[("ALERTKUBE_WEBHOOK_URL", "\n")]).unwrap_err();
        assert!(
            error.ends_with("ALERTKUBE_WEBHOOK_URL=<secret>: is empty: set it to an http or https URL, or unset it"),
            "{error}"
        );
    }

    #[test]
    fn all_problems_are_told_at_once() {
        let error = settings(&[
            ("ALERTKUBE_NAME", "Alert_Kube"),
            ("ALERTKUBE_NAMESPACE", "a.b"),
            ("ALERTKUBE_POD_NAME", "alertkube_0"),
            ("ALERTKUBE_LEASE_RETRY_PERIOD", "2"),
            ("ALERTKUBE_TAKEOVER", "yes"),
            ("ALERTKUBE_LISTEN", "8080"),
            ("ALERTKUBE_WEBHOOK_URL", "ftp://hooks.example.com/hunter2"),
            ("ALERTKUBE_LOG", "verbose"),
            ("ALERTKUBE_LOG_FORMAT", ""),
            ("ALERTKUBE_WEBHOOK", "https://hooks.example.com/hunter2"),
        ])
        .unwrap_err();
        insta::assert_snapshot!(error, @r#"
        the environment is not valid, for 10 reasons:
          ALERTKUBE_WEBHOOK: there is no such setting; did you mean ALERTKUBE_WEBHOOK_URL?
          ALERTKUBE_NAME="Alert_Kube": must be 1 to 63 lower-case letters, digits or '-', and neither begin nor end with '-'
          ALERTKUBE_NAMESPACE="a.b": must be 1 to 63 lower-case letters, digits or '-', and neither begin nor end with '-'
          ALERTKUBE_POD_NAME="alertkube_0": must be the name of a pod: lower-case letters, digits, '-' and '.', 253 of them at most
          ALERTKUBE_LEASE_RETRY_PERIOD="2": must be a duration with its unit, such as 15s or 1m30s
          ALERTKUBE_TAKEOVER="yes": must be true or false
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
    fn what_is_empty_is_found_out_later() {
        let empty = settings(&[
            ("ALERTKUBE_NAMESPACE", ""),
            ("ALERTKUBE_POD_NAME", ""),
            ("ALERTKUBE_CLUSTER", " "),
        ]);
        assert_eq!(empty, settings(&[]));
    }

    #[test]
    fn durations_that_do_not_work_together_are_refused_by_name() {
        let error = |duration, deadline, retry| {
            settings(&[
                ("ALERTKUBE_LEASE_DURATION", duration),
                ("ALERTKUBE_LEASE_RENEW_DEADLINE", deadline),
                ("ALERTKUBE_LEASE_RETRY_PERIOD", retry),
            ])
            .unwrap_err()
        };
        insta::assert_snapshot!(
            [error("15s", "15s", "2s"), error("15s", "3s", "2s"), error("10s", "8s", "2s")].join("\n"),
            @r#"
        the environment is not valid:
          ALERTKUBE_LEASE_RENEW_DEADLINE is 15s: set it below 14.25s, which is ALERTKUBE_LEASE_DURATION (15s) less 5 % for clocks that drift
        the environment is not valid:
          ALERTKUBE_LEASE_RETRY_PERIOD is 2s: set it above 0 s, and to at most 1.5s, half of ALERTKUBE_LEASE_RENEW_DEADLINE
        the environment is not valid:
          ALERTKUBE_LEASE_DURATION="10s": too short to page: an attempt may take 10s, begins up to 2s (ALERTKUBE_LEASE_RETRY_PERIOD) after a renewal, and must end within 9.5s of it, which is the duration less a margin for clocks that drift; make it longer, or renew more often
        "#
        );
        // Of a duration that cannot be read, nothing follows.
        assert!(error("15", "20s", "2s").contains("not valid:\n  ALERTKUBE_LEASE_DURATION=\"15\""));
    }

    #[test]
    fn an_attempt_to_send_fits_between_two_renewals_of_the_shortest_lease() {
        let lease = |duration, retry| {
            settings(&[
                ("ALERTKUBE_LEASE_DURATION", duration),
                ("ALERTKUBE_LEASE_RENEW_DEADLINE", "8s"),
                ("ALERTKUBE_LEASE_RETRY_PERIOD", retry),
            ])
        };
        lease("12s", "2s").unwrap_err();
        lease("13s", "3s").unwrap_err();
        let timing = lease("13s", "2s").unwrap().timing;
        let renewed = tokio::time::Instant::now();
        assert!(timing.may_start(renewed, renewed + timing.retry_period(), SEND_TIMEOUT));
    }
}
