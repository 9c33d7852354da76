//! The files beside the histories: the mixin's rules, the reasons for differences, and the alerts that alertkube has not.

use std::{collections::BTreeMap, fs, path::PathBuf};

use alertkube::rules;
use jiff::SignedDuration;
use serde::{Deserialize, de::DeserializeOwned};

use crate::{Difference, folder};

/// An alert of the mixin.
pub struct Prometheus {
    /// Its name.
    pub name: String,
    /// After what time it fires: its `for`, or what its condition itself waits for.
    pub after: SignedDuration,
    /// Its severity.
    pub severity: String,
}

/// Alerts of the mixin that alertkube has not.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Others {
    /// Their names.
    pub alerts: Vec<String>,
    /// Why it has not.
    pub why: String,
}

/// Where the rules are, as a file of Prometheus.
pub fn rules_path() -> PathBuf {
    folder().join("rules.yaml")
}

/// The alerts that both have, in the order of their file.
pub fn rules() -> Vec<Prometheus> {
    #[derive(Deserialize)]
    struct File {
        groups: Vec<Group>,
    }
    #[derive(Deserialize)]
    struct Group {
        rules: Vec<Rule>,
    }
    #[derive(Deserialize)]
    struct Rule {
        alert: String,
        #[serde(default)]
        r#for: Option<String>,
        labels: BTreeMap<String, String>,
        #[serde(default)]
        annotations: BTreeMap<String, String>,
    }
    let file: File = read("rules.yaml");
    let rules = file.groups.into_iter().flat_map(|group| group.rules);
    let alerts = rules.map(|rule| {
        let name = rule.alert;
        assert!(rules::named(&name).is_some(), "alertkube has no {name}");
        let after = rule.annotations.get("after").or(rule.r#for.as_ref());
        Prometheus {
            after: after
                .map(|after| after.parse().unwrap())
                .unwrap_or_default(),
            severity: rule.labels["severity"].clone(),
            name,
        }
    });
    alerts.collect()
}

/// The alerts that alertkube has not.
pub fn others() -> Vec<Others> {
    let others: Vec<Others> = read("others.yaml");
    for name in others.iter().flat_map(|others| &others.alerts) {
        assert!(
            rules::named(name).is_none(),
            "alertkube has {name}: it belongs into rules.yaml, not into others.yaml"
        );
    }
    others
}

/// How alertkube differs, and why, by history and alert.
pub fn reasons() -> BTreeMap<(String, String), (Difference, String)> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Reason {
        alert: String,
        alertkube: Difference,
        histories: Vec<String>,
        why: String,
    }
    let mut all = BTreeMap::new();
    let reasons: Vec<Reason> = read("reasons.yaml");
    for reason in reasons {
        for history in reason.histories {
            let key = (history, reason.alert.clone());
            let before = all.insert(key.clone(), (reason.alertkube, reason.why.clone()));
            assert!(before.is_none(), "reasons.yaml has two reasons for {key:?}");
        }
    }
    all
}

fn read<T: DeserializeOwned>(name: &str) -> T {
    let text = fs::read_to_string(folder().join(name)).unwrap();
    serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}"))
}
