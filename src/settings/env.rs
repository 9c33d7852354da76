//! The environment as it is: which variables there are, and those that were meant to be.

use std::ffi::OsString;

use serde::Deserialize;

use super::{Problem, SettingsError};

/// What all variables of this program begin with.
const PREFIX: &str = "ALERTKUBE_";

/// A variable of the environment, as the help and the README explain it.
#[derive(Debug)]
pub struct Variable {
    /// Its full name.
    pub name: &'static str,
    /// What holds if it is not set.
    pub default: &'static str,
    /// What it is for, and what is valid.
    pub help: &'static str,
}

/// The variables as text, none of them understood yet.
///
/// `envy` alone would not do: its errors name no variable, it stops at the first one, ignores a variable that is misspelt, and panics on one
/// that is not UTF-8. So it only sorts text into fields here.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct RawEnv {
    pub shard_total: Option<String>,
    pub shard_index: Option<String>,
    pub name: Option<String>,
    pub namespace: Option<String>,
    pub pod_name: Option<String>,
    pub lease_duration: Option<String>,
    pub lease_renew_deadline: Option<String>,
    pub lease_retry_period: Option<String>,
    pub takeover: Option<String>,
    pub cluster: Option<String>,
    pub listen: Option<String>,
    pub webhook_url: Option<String>,
    pub config: Option<String>,
    pub log: Option<String>,
    pub log_format: Option<String>,
}

/// Every variable, in the order of the help.
pub const VARIABLES: &[Variable] = &[
    Variable {
        name: "ALERTKUBE_SHARD_TOTAL",
        default: "1",
        help: "how many replicas share the cluster; at most 1 means that one replica owns everything",
    },
    Variable {
        name: "ALERTKUBE_SHARD_INDEX",
        default: "",
        help: "which of them this one is: 0 to total - 1, or the name of a StatefulSet's pod; required if the total is above 1",
    },
    Variable {
        name: "ALERTKUBE_NAME",
        default: "alertkube",
        help: "the name of this installation, a DNS label: its Leases and states are named after it, and two installations in one namespace must differ in it",
    },
    Variable {
        name: "ALERTKUBE_NAMESPACE",
        default: "",
        help: "the namespace of Leases and states; else that of the kubeconfig context (or `default`), or in a pod the pod's",
    },
    Variable {
        name: "ALERTKUBE_POD_NAME",
        default: "",
        help: "the name of the pod that it runs in (`metadata.name` by the downward API): shown as the holder of Leases, and tells its StatefulSet",
    },
    Variable {
        name: "ALERTKUBE_LEASE_DURATION",
        default: "15s",
        help: "how long after its last renewal a Lease may be taken by another replica; whole seconds",
    },
    Variable {
        name: "ALERTKUBE_LEASE_RENEW_DEADLINE",
        default: "10s",
        help: "how long a replica goes on paging without having renewed its Lease; below 95 % of the duration",
    },
    Variable {
        name: "ALERTKUBE_LEASE_RETRY_PERIOD",
        default: "2s",
        help: "how often Leases are renewed and looked at; at most half of the deadline",
    },
    Variable {
        name: "ALERTKUBE_TAKEOVER",
        default: "true",
        help: "whether a replica takes over the shards of replicas that are gone: true or false",
    },
    Variable {
        name: "ALERTKUBE_CLUSTER",
        default: "",
        help: "the name of the cluster: the label `cluster` of every alert; else the name of the kubeconfig context, or in a pod the UID of the namespace kube-system",
    },
    Variable {
        name: "ALERTKUBE_WEBHOOK_URL",
        default: "",
        help: "where pages are sent to, in the format of Alertmanager's webhook; an http or https URL, kept secret",
    },
    Variable {
        name: "ALERTKUBE_LISTEN",
        default: "0.0.0.0:8080",
        help: "the address of /metrics, /livez and /readyz",
    },
    Variable {
        name: "ALERTKUBE_CONFIG",
        default: "",
        help: "the configuration file: how the rules are set; `--config` goes before it",
    },
    Variable {
        name: "ALERTKUBE_LOG",
        default: "info",
        help: "how much is logged, to standard error: error, warn, info, debug or trace",
    },
    Variable {
        name: "ALERTKUBE_LOG_FORMAT",
        default: "auto",
        help: "text, json, or auto: text on a terminal, JSON lines elsewhere",
    },
];

impl RawEnv {
    /// Reads the variables of this program out of an environment, and notes those that it does not know.
    ///
    /// # Errors
    ///
    /// Only if [`RawEnv`] and [`VARIABLES`] contradict each other, which a test excludes.
    pub(super) fn read(
        vars: impl IntoIterator<Item = (OsString, OsString)>,
        problems: &mut Vec<Problem>,
    ) -> Result<Self, SettingsError> {
        let mut known = Vec::new();
        for (name, value) in vars {
            let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else {
                continue;
            };
            #[cfg(feature = "faults")]
            if name.starts_with(crate::faults::PREFIX) {
                continue;
            }
            let value = value.to_str();
            if VARIABLES.iter().any(|variable| variable.name == name) {
                match value {
                    Some(value) => known.push((name.to_owned(), value.to_owned())),
                    None => problems.push(Problem::NotUtf8 {
                        variable: name.to_owned(),
                    }),
                }
            } else if !is_service_link(name, value.unwrap_or_default()) {
                problems.push(Problem::Unknown {
                    variable: name.to_owned(),
                    nearest: nearest(name),
                });
            }
        }
        envy::prefixed(PREFIX)
            .from_iter(known)
            .map_err(SettingsError::Environment)
    }
}

/// Whether Kubernetes sets the variable by itself: one of the service links that every pod gets, unless its spec has `enableServiceLinks: false`,
/// when a Service of its namespace is called `alertkube` (`ALERTKUBE_SERVICE_HOST`, `ALERTKUBE_SERVICE_PORT[_NAME]`, `ALERTKUBE_PORT`,
/// `ALERTKUBE_PORT_9090_TCP[_PROTO|_PORT|_ADDR]`) or begins so (`ALERTKUBE_METRICS_SERVICE_HOST`, ...). No setting may have such a name.
fn is_service_link(name: &str, value: &str) -> bool {
    // With the underscore that PREFIX ends in, the links of `alertkube` itself look like those of any other service.
    let Some(rest) = name.strip_prefix(PREFIX.trim_end_matches('_')) else {
        return false;
    };
    if rest.ends_with("_SERVICE_HOST")
        || rest.ends_with("_SERVICE_PORT")
        || rest.contains("_SERVICE_PORT_")
    {
        return true;
    }
    // The value tells it from somebody's guess at a setting (`ALERTKUBE_LISTEN_PORT=8080`).
    if rest.ends_with("_PORT") && value.contains("://") {
        return true;
    }
    // `_PORT_<number>_<protocol>`, and what may follow it.
    rest.match_indices("_PORT_").any(|(at, found)| {
        let mut parts = rest[at + found.len()..].splitn(3, '_');
        parts.next().is_some_and(|port| port.parse::<u16>().is_ok())
            && matches!(parts.next(), Some("TCP" | "UDP" | "SCTP"))
            && matches!(parts.next(), None | Some("PROTO" | "PORT" | "ADDR"))
    })
}

/// The variable that was probably meant, if one is near enough to be more than a guess.
fn nearest(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_uppercase();
    VARIABLES
        .iter()
        .map(|variable| {
            let likeness = strsim::normalized_damerau_levenshtein(
                &name[PREFIX.len()..],
                &variable.name[PREFIX.len()..],
            );
            (likeness, variable.name)
        })
        .filter(|(likeness, _)| *likeness >= 0.5)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(vars: &[(&str, &str)]) -> (RawEnv, Vec<Problem>) {
        let mut problems = Vec::new();
        let vars = vars.iter().map(|(name, value)| (name.into(), value.into()));
        let raw = RawEnv::read(vars, &mut problems).unwrap();
        (raw, problems)
    }

    #[test]
    fn each_variable_has_its_field() {
        let all: Vec<_> = VARIABLES.iter().map(|v| (v.name, v.name)).collect();
        let (raw, problems) = read(&all);
        assert!(problems.is_empty());
        let value = |name: &str| Some(name.to_owned());
        assert_eq!(
            raw,
            RawEnv {
                shard_total: value("ALERTKUBE_SHARD_TOTAL"),
                shard_index: value("ALERTKUBE_SHARD_INDEX"),
                name: value("ALERTKUBE_NAME"),
                namespace: value("ALERTKUBE_NAMESPACE"),
                pod_name: value("ALERTKUBE_POD_NAME"),
                lease_duration: value("ALERTKUBE_LEASE_DURATION"),
                lease_renew_deadline: value("ALERTKUBE_LEASE_RENEW_DEADLINE"),
                lease_retry_period: value("ALERTKUBE_LEASE_RETRY_PERIOD"),
                takeover: value("ALERTKUBE_TAKEOVER"),
                cluster: value("ALERTKUBE_CLUSTER"),
                listen: value("ALERTKUBE_LISTEN"),
                webhook_url: value("ALERTKUBE_WEBHOOK_URL"),
                config: value("ALERTKUBE_CONFIG"),
                log: value("ALERTKUBE_LOG"),
                log_format: value("ALERTKUBE_LOG_FORMAT"),
            }
        );
    }

    #[test]
    fn service_links_are_not_misspelt_settings() {
        let (_, problems) = read(&[
            ("ALERTKUBE_SERVICE_HOST", "10.0.0.1"),
            ("ALERTKUBE_SERVICE_PORT", "9090"),
            ("ALERTKUBE_SERVICE_PORT_METRICS", "9090"),
            ("ALERTKUBE_PORT", "tcp://10.0.0.1:9090"),
            ("ALERTKUBE_PORT_9090_TCP", "tcp://10.0.0.1:9090"),
            ("ALERTKUBE_PORT_9090_TCP_PROTO", "tcp"),
            ("ALERTKUBE_PORT_9090_TCP_PORT", "9090"),
            ("ALERTKUBE_PORT_9090_TCP_ADDR", "10.0.0.1"),
            ("ALERTKUBE_METRICS_SERVICE_HOST", "10.0.0.2"),
            ("ALERTKUBE_METRICS_PORT_8080_TCP_ADDR", "10.0.0.2"),
        ]);
        assert!(problems.is_empty(), "{problems:?}");
    }

    #[test]
    fn no_setting_looks_like_a_service_link() {
        for variable in VARIABLES {
            let name = variable.name;
            assert!(!is_service_link(name, "tcp://10.0.0.1:80"), "{name}");
        }
    }

    #[test]
    fn a_misspelt_variable_is_not_ignored() {
        for (misspelt, meant) in [
            ("ALERTKUBE_SHARDS_TOTAL", Some("ALERTKUBE_SHARD_TOTAL")),
            ("ALERTKUBE_SHARD_IDX", Some("ALERTKUBE_SHARD_INDEX")),
            ("ALERTKUBE_WEBHOOKURL", Some("ALERTKUBE_WEBHOOK_URL")),
            ("ALERTKUBE_log", Some("ALERTKUBE_LOG")),
            ("ALERTKUBE_ALERTKUBE_LOG", None),
            ("ALERTKUBE_FRUIT", None),
            ("ALERTKUBE_", None),
            ("ALERTKUBE_PORT_9090_HTTP", None),
            ("ALERTKUBE_LISTEN_PORT", Some("ALERTKUBE_LISTEN")),
        ] {
            let (raw, problems) = read(&[(misspelt, "x")]);
            assert_eq!(raw, RawEnv::default(), "{misspelt}");
            let [Problem::Unknown { variable, nearest }] = &problems[..] else {
                panic!("{misspelt}: {problems:?}");
            };
            assert_eq!((variable.as_str(), *nearest), (misspelt, meant));
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_variable_that_is_not_utf8_is_named_if_ours_and_ignored_if_not() {
        use std::os::unix::ffi::OsStringExt as _;

        let broken = || OsString::from_vec(vec![0x66, 0xff]);
        let mut problems = Vec::new();
        let vars = [
            ("PATH".into(), broken()),
            (broken(), "x".into()),
            ("ALERTKUBE_NAME".into(), broken()),
        ];
        RawEnv::read(vars, &mut problems).unwrap();
        assert!(
            matches!(&problems[..], [Problem::NotUtf8 { variable }] if variable == "ALERTKUBE_NAME"),
            "{problems:?}"
        );
    }

    #[test]
    fn the_readme_has_every_variable_as_the_help_has_it() {
        let readme = include_str!("../../README.md");
        for Variable {
            name,
            default,
            help,
        } in VARIABLES
        {
            let default = match *default {
                "" => String::new(),
                default => format!("`{default}` "),
            };
            let row = format!("| `{name}` | {default}| {help} |");
            assert!(readme.contains(&row), "{row}");
        }
    }

    #[test]
    fn variables_of_others_are_left_alone() {
        let (raw, problems) = read(&[("LOG", "x"), ("ALERTKUBER_LOG", "x"), ("HOME", "/")]);
        assert_eq!(raw, RawEnv::default());
        assert!(problems.is_empty());
    }
}
