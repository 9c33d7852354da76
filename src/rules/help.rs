//! What people want to know of an alert beyond its numbers: why it may stay quiet, and what to do. One file an alert, in `help/`.
//!
//! `alertkube rules explain` prints it, and the runbooks (`docs/runbooks/`) are made of it.

use super::Rule;

/// An alert's help, by its name. The text is Markdown: what is particular to the alert, if anything, and then the sections [`QUIET`] and [`TO_DO`].
macro_rules! help {
    ($($name:ident)*) => {
        &[$((stringify!($name), include_str!(concat!("help/", stringify!($name), ".md")))),*]
    };
}

/// The help of every rule that looks at objects, in the order of their names.
const HELP: &[(&str, &str)] = help![
    KubeAggregatedAPIDown
    KubeContainerWaiting
    KubeCronJobMissed
    KubeCronJobNotSucceeding
    KubeDaemonSetDown
    KubeDaemonSetMisScheduled
    KubeDaemonSetNotScheduled
    KubeDaemonSetRolloutStuck
    KubeDeploymentDown
    KubeDeploymentGenerationMismatch
    KubeDeploymentPaused
    KubeDeploymentReplicaFailure
    KubeDeploymentReplicasMismatch
    KubeDeploymentRolloutStuck
    KubeHpaMaxedOut
    KubeHpaNotScaling
    KubeHpaReplicasMismatch
    KubeJobFailed
    KubeJobNotCompleted
    KubeJobNotStarted
    KubeNamespaceStuckTerminating
    KubeNodeCordoned
    KubeNodeNetworkUnavailable
    KubeNodeNotReady
    KubeNodePressure
    KubeNodeProblem
    KubeNodeReadinessFlapping
    KubeNodeUnreachable
    KubeNodesDown
    KubePdbNeverAllows
    KubePdbNotEnoughHealthyPods
    KubePdbSyncFailed
    KubePersistentVolumeClaimLost
    KubePersistentVolumeClaimPending
    KubePersistentVolumeClaimResizeFailing
    KubePersistentVolumeErrors
    KubePersistentVolumeUnhealthy
    KubePodConfigError
    KubePodCrashLooping
    KubePodEvicted
    KubePodImagePullFailing
    KubePodInitStuck
    KubePodNotReady
    KubePodOOMKilled
    KubePodPending
    KubePodRejected
    KubePodRestarting
    KubePodStuckTerminating
    KubeQuotaAlmostFull
    KubeQuotaExceeded
    KubeQuotaFullyUsed
    KubeReplicaSetReplicaFailure
    KubeReplicaSetReplicasMismatch
    KubeServiceNoEndpoints
    KubeStatefulSetDown
    KubeStatefulSetGenerationMismatch
    KubeStatefulSetReplicasMismatch
    KubeStatefulSetUpdateNotRolledOut
];

/// The heading of what keeps an alert quiet.
pub const QUIET: &str = "When it may stay quiet";

/// The heading of what to do about an alert.
pub const TO_DO: &str = "What to do";

/// What there is to know of a rule's alert.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Help {
    /// What is particular to when it fires and how severe it is; mostly empty.
    pub particulars: &'static str,
    /// What keeps it quiet: a list in Markdown.
    pub quiet: &'static str,
    /// What to do: steps in Markdown, and what not to do.
    pub to_do: &'static str,
}

impl Help {
    /// The help of a rule; nothing of one that looks at no object.
    pub fn of(rule: &Rule) -> Option<Self> {
        let found = HELP.binary_search_by_key(&rule.name, |&(name, _)| name);
        let &(_, text) = HELP.get(found.ok()?)?;
        let (particulars, rest) = text.split_once(&heading(QUIET))?;
        let (quiet, to_do) = rest.split_once(&heading(TO_DO))?;
        Some(Self {
            particulars: particulars.trim(),
            quiet: quiet.trim(),
            to_do: to_do.trim(),
        })
    }
}

/// Where this project's files are on the web, as `Cargo.toml` has it (`repository`); empty if that does not say. Tests have one of their own, so that what they
/// expect does not change with it.
const REPOSITORY: &str = if cfg!(test) {
    "https://git.example.com/alertkube"
} else {
    env!("CARGO_PKG_REPOSITORY")
};

/// The address of an alert's runbook, for the annotation `runbook_url`; empty if it is not known where this project's files are on the web, or the rule is none of this
/// version. `HEAD` is the newest state of the main branch, as GitHub, Gitea and others have it.
pub fn runbook_url(rule: &Rule) -> String {
    let known = super::named(rule.name).is_some();
    match REPOSITORY.trim_end_matches('/') {
        repository if known && !repository.is_empty() => {
            format!("{repository}/blob/HEAD/docs/runbooks/{}.md", rule.name)
        }
        _ => String::new(),
    }
}

fn heading(title: &str) -> String {
    format!("## {title}\n")
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;
    use crate::rules::all;

    /// The longest line that a terminal shows without wrapping it badly; a command may be longer, because it is to be copied.
    const WIDTH: usize = 100;

    #[test]
    fn every_rule_has_its_help_and_no_file_is_without_a_rule() {
        let rules: BTreeSet<&str> = all().map(|rule| rule.name).collect();
        let listed: Vec<&str> = HELP.iter().map(|&(name, _)| name).collect();
        let expected: Vec<&str> = rules.into_iter().collect();
        assert_eq!(listed, expected, "once each, in the order of the names");
        let files = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/rules/help"));
        let files: BTreeSet<String> = files
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        let expected: BTreeSet<String> = listed.iter().map(|name| format!("{name}.md")).collect();
        assert_eq!(files, expected);
    }

    #[test]
    fn every_help_has_its_parts() {
        for rule in all() {
            let name = rule.name;
            let help = Help::of(rule).unwrap_or_else(|| panic!("{name}: no help, or a section"));
            let Help {
                particulars,
                quiet,
                to_do,
            } = help;
            assert!(quiet.starts_with("- "), "{name}: no list of what is quiet");
            assert!(
                to_do.starts_with("1. "),
                "{name}: the steps are not in order"
            );
            assert!(to_do.contains("`kubectl "), "{name}: no command");
            assert!(to_do.contains("\nDo not "), "{name}: nothing not to do");
            for part in [particulars, quiet, to_do] {
                assert!(!part.contains("## "), "{name}: one heading too many");
                assert!(
                    part.is_empty() || part.ends_with(['.', '`']),
                    "{name}: ends in the middle of a sentence"
                );
                assert_eq!(part.matches('`').count() % 2, 0, "{name}: an open command");
                for line in part.lines() {
                    let text =
                        line.trim_start_matches(|c: char| c.is_ascii_digit() || ". ".contains(c));
                    let is_command = text.starts_with('`');
                    assert!(is_command || line.len() <= WIDTH, "{name}: {line}");
                }
            }
        }
    }

    #[test]
    fn every_alert_has_an_address_that_ends_in_its_runbook() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        for rule in all().chain([&crate::rules::SHARD_NOT_SERVED]) {
            let url = runbook_url(rule);
            let path = url.strip_prefix("https://git.example.com/alertkube/blob/HEAD/");
            assert!(root.join(path.unwrap()).is_file(), "{url}");
        }
        assert_eq!(runbook_url(&crate::rules::RETIRED), "");
    }

    #[test]
    fn alerts_that_a_help_names_exist() {
        for &(name, text) in HELP {
            for word in text.split(|c: char| !c.is_ascii_alphanumeric()) {
                let is_alert = word.starts_with("Kube") && word.len() > 4;
                // Conditions of nodes, for one.
                let is_other = ["Kubelet", "Kubernetes"]
                    .iter()
                    .any(|other| word.starts_with(other));
                assert!(
                    !is_alert || is_other || all().any(|rule| rule.name == word),
                    "{name}: {word}"
                );
            }
        }
    }
}
