//! alertkube next to kubernetes-mixin: the same histories of objects, judged by both. Every difference has a reason, in `reasons.yaml`, and `docs/kubernetes-mixin.md` shows
//! them all.
//!
//! `INSTA_UPDATE=always` writes the page anew, as it does with snapshots.

mod history;
mod ksm;
mod page;
mod promtool;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use alertkube::{
    alert::Transition,
    history::{Replay, Seen},
    rules,
};
use jiff::SignedDuration;
use serde::Deserialize;

use history::{History, ORIGIN, Step};
use ksm::INTERVAL_SECONDS;

/// Up to so much later or earlier is the same: a scrape and an evaluation lie between.
const ALIKE_SECONDS: i64 = 60;

/// For some time, an alert fires. In seconds from the moment at which things go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Episode {
    /// When it fires.
    pub from: i64,
    /// When it is over; nothing if that is not in the history.
    pub until: Option<i64>,
}

/// An alert of the mixin.
pub struct Prometheus {
    /// Its name.
    pub name: String,
    /// After what time it fires: its `for`, or what its condition itself waits for.
    pub after: SignedDuration,
    /// Its severity.
    pub severity: String,
}

/// What both make of one history, as to one alert.
pub struct Outcome<'a> {
    /// The history.
    pub history: &'a History,
    /// The alert.
    pub alert: &'a str,
    /// When alertkube's fires.
    pub ours: Vec<Episode>,
    /// When the mixin's fires.
    pub theirs: Vec<Episode>,
    /// If alertkube's does not: the first one of its alerts that does, and when.
    pub instead: Option<(String, i64)>,
    /// Whether they differ.
    pub verdict: Verdict,
}

/// Whether the two differ.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They do not.
    Alike,
    /// They do, and why.
    Differs(Difference, String),
}

/// How alertkube differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Difference {
    /// It does not fire, the mixin does.
    Quiet,
    /// It fires, the mixin does not.
    Alone,
    /// It fires first.
    Earlier,
    /// The mixin fires first.
    Later,
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

/// Why they differ, in some histories.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reason {
    alert: String,
    alertkube: Difference,
    histories: Vec<String>,
    why: String,
}

#[test]
fn every_difference_to_kubernetes_mixin_has_its_reason_and_is_on_the_page() {
    let rules_file = folder().join("rules.yaml");
    let alerts = read_rules(&rules_file);
    let histories = history::all(&folder().join("histories"));
    let firing = promtool::firing(&histories, &rules_file);
    let mut reasons = read_reasons();
    let others = read_others();
    let mut faults = Vec::new();
    for (history, name) in histories
        .iter()
        .flat_map(|h| h.about.iter().map(move |name| (h, name)))
    {
        if alerts.iter().all(|alert| alert.name != *name) {
            faults.push(format!(
                "{}: is about {name}, which rules.yaml has not",
                history.name
            ));
        }
    }
    let mut outcomes = Vec::new();
    for alert in &alerts {
        for history in &histories {
            let key = (history.name.clone(), alert.name.clone());
            let theirs = theirs(history, firing.get(&key));
            let mut ours = ours(history);
            let own = ours.remove(&alert.name).unwrap_or_default();
            let is_about = history.about.contains(&alert.name);
            if own.is_empty() && theirs.is_empty() && !is_about {
                continue;
            }
            let found = difference(&own, &theirs);
            let reason = reasons.remove(&key);
            let verdict = match (found, reason) {
                (None, None) => Verdict::Alike,
                (Some(found), Some((expected, why))) if found == expected => {
                    Verdict::Differs(found, why)
                }
                (found, reason) => {
                    let (found, reason) =
                        (found.map(Difference::as_str), reason.map(|r| r.0.as_str()));
                    faults.push(format!(
                        "{} {}: alertkube {own:?}, the mixin {theirs:?}: that is {}, and reasons.yaml has {}; others: {ours:?}",
                        key.1,
                        key.0,
                        found.unwrap_or("no difference"),
                        reason.unwrap_or("nothing")
                    ));
                    Verdict::Alike
                }
            };
            let first = |(name, episodes): (String, Vec<Episode>)| (name, episodes[0].from);
            let others = ours.into_iter().map(first).min_by_key(|(_, at)| *at);
            outcomes.push(Outcome {
                history,
                alert: &alert.name,
                instead: others.filter(|_| own.is_empty()),
                ours: own,
                theirs,
                verdict,
            });
        }
    }
    for (history, alert) in reasons.keys() {
        faults.push(format!(
            "{alert} {history}: reasons.yaml has a reason, but there is nothing to compare"
        ));
    }
    for alert in &alerts {
        let rows = || {
            outcomes
                .iter()
                .filter(|outcome| outcome.alert == alert.name)
        };
        if !rows().any(|row| !row.ours.is_empty() && !row.theirs.is_empty()) {
            faults.push(format!("{}: no history in which both fire", alert.name));
        }
        if rows().all(|row| row.verdict == Verdict::Alike) {
            faults.push(format!("{}: no history in which they differ", alert.name));
        }
        if !rows().any(|row| row.ours.is_empty() && row.history.about.contains(&alert.name)) {
            faults.push(format!(
                "{}: no history about it in which alertkube is quiet",
                alert.name
            ));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
    assert_page(&page::render(&alerts, &outcomes, &others));
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mixin")
}

fn read_rules(path: &Path) -> Vec<Prometheus> {
    #[derive(Deserialize)]
    struct File {
        groups: Vec<Group>,
    }
    #[derive(Deserialize)]
    struct Group {
        rules: Vec<Written>,
    }
    #[derive(Deserialize)]
    struct Written {
        alert: String,
        #[serde(default)]
        r#for: Option<String>,
        labels: BTreeMap<String, String>,
        #[serde(default)]
        annotations: BTreeMap<String, String>,
    }
    let file: File = serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let rules = file.groups.into_iter().flat_map(|group| group.rules);
    let alerts = rules.map(|rule| {
        assert!(
            rules::named(&rule.alert).is_some(),
            "alertkube has no {}",
            rule.alert
        );
        let after = rule.annotations.get("after").or(rule.r#for.as_ref());
        Prometheus {
            after: after
                .map(|after| after.parse().unwrap())
                .unwrap_or_default(),
            severity: rule.labels["severity"].clone(),
            name: rule.alert,
        }
    });
    alerts.collect()
}

fn read_others() -> Vec<Others> {
    let text = fs::read_to_string(folder().join("others.yaml")).unwrap();
    let others: Vec<Others> = serde_saphyr::from_str(&text).unwrap();
    for name in others.iter().flat_map(|others| &others.alerts) {
        assert!(
            rules::named(name).is_none(),
            "alertkube has {name}: it belongs into rules.yaml, not into others.yaml"
        );
    }
    others
}

/// By history and alert.
fn read_reasons() -> BTreeMap<(String, String), (Difference, String)> {
    let text = fs::read_to_string(folder().join("reasons.yaml")).unwrap();
    let reasons: Vec<Reason> = serde_saphyr::from_str(&text).unwrap();
    let mut all = BTreeMap::new();
    for reason in reasons {
        for history in reason.histories {
            let key = (history, reason.alert.clone());
            let value = (reason.alertkube, reason.why.trim().to_owned());
            let before = all.insert(key.clone(), value);
            assert!(before.is_none(), "reasons.yaml has two reasons for {key:?}");
        }
    }
    all
}

/// When alertkube's alerts fire, by name.
fn ours(history: &History) -> BTreeMap<String, Vec<Episode>> {
    let mut replay = Replay::new("");
    for (at, step) in &history.steps {
        let seen = match step {
            Step::Seen(object) => Seen::Applied(history::decode(object)),
            Step::Gone(object) => Seen::Deleted(history::decode(object)),
        };
        replay.see(*at, &seen).unwrap();
    }
    replay.finish(history.ends).unwrap();
    let mut episodes: BTreeMap<String, Vec<Episode>> = BTreeMap::new();
    // Several alerts of a name are one here: the mixin has one for each pod.
    let mut standing: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for notice in replay.take_notices() {
        let name = notice.alert.rule.name.to_owned();
        let key = notice.alert.dedup_key();
        let at = notice.at.as_second() - ORIGIN.as_second();
        let standing = standing.entry(name.clone()).or_default();
        match notice.transition {
            Transition::Fired => {
                if standing.is_empty() {
                    let episode = Episode {
                        from: at,
                        until: None,
                    };
                    episodes.entry(name).or_default().push(episode);
                }
                standing.insert(key);
            }
            Transition::Resolved(_) => {
                standing.remove(&key);
                if standing.is_empty() {
                    episodes.get_mut(&name).unwrap().last_mut().unwrap().until = Some(at);
                }
            }
            Transition::Changed => {}
        }
    }
    episodes
}

/// When the mixin's alert fires, which it does at these scrapes.
fn theirs(history: &History, firing: Option<&Vec<usize>>) -> Vec<Episode> {
    let time = |scrape: usize| {
        ksm::first_scrape(history) + i64::try_from(scrape).unwrap() * INTERVAL_SECONDS
    };
    let scrapes = firing.map(Vec::as_slice).unwrap_or_default();
    let runs = scrapes.chunk_by(|one, other| one + 1 == *other);
    let last = ksm::scrapes(history) - 1;
    runs.map(|run| Episode {
        from: time(run[0]),
        until: run
            .last()
            .filter(|end| **end < last)
            .map(|end| time(end + 1)),
    })
    .collect()
}

/// Only the first time that each fires is compared: how long it lasts is on the page.
fn difference(ours: &[Episode], theirs: &[Episode]) -> Option<Difference> {
    match (ours.first(), theirs.first()) {
        (None, None) => None,
        (None, Some(_)) => Some(Difference::Quiet),
        (Some(_), None) => Some(Difference::Alone),
        (Some(ours), Some(theirs)) => match ours.from - theirs.from {
            later if later > ALIKE_SECONDS => Some(Difference::Later),
            later if later < -ALIKE_SECONDS => Some(Difference::Earlier),
            _ => None,
        },
    }
}

fn assert_page(page: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/kubernetes-mixin.md");
    if std::env::var("INSTA_UPDATE").is_ok_and(|value| value == "always") {
        fs::write(&path, page).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "{} is not what the test finds: `INSTA_UPDATE=always cargo test --test mixin` writes it anew",
        path.display()
    );
}
