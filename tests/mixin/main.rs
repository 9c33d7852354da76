//! alertkube next to kubernetes-mixin: the same histories of objects, judged by both. Every difference has a reason, in `reasons.yaml`, and `docs/kubernetes-mixin.md` shows
//! them all.
//!
//! `INSTA_UPDATE=always` writes the page anew, as it does with snapshots.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail"
)]

mod files;
mod history;
mod ksm;
mod page;
mod promtool;
mod sides;

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use files::Prometheus;
use history::History;
use sides::Episode;

/// Up to so much later or earlier is the same: a scrape and an evaluation lie between.
const ALIKE_SECONDS: i64 = 60;

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
    /// They do, or do not, against what `reasons.yaml` says.
    Unexplained(String),
}

/// How alertkube differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Difference {
    /// It fires first.
    Earlier,
    /// The mixin fires first.
    Later,
    /// It fires, the mixin does not.
    Alone,
    /// It does not fire, the mixin does.
    Quiet,
}

#[test]
fn every_difference_to_kubernetes_mixin_has_its_reason_and_is_on_the_page() {
    let alerts = files::rules();
    let others = files::others();
    let histories = history::all(&folder().join("histories"));
    let (outcomes, mut faults) = compare(&alerts, &histories);
    faults.extend(untold(&alerts, &histories, &outcomes));
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
    assert_page(&page::render(&alerts, &outcomes, &others));
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mixin")
}

/// What comes of each history, and where that is against `reasons.yaml`.
fn compare<'a>(
    alerts: &'a [Prometheus],
    histories: &'a [History],
) -> (Vec<Outcome<'a>>, Vec<String>) {
    let firing = promtool::firing(histories, &files::rules_path());
    let ours: Vec<_> = histories.iter().map(sides::ours).collect();
    let mut reasons = files::reasons();
    let mut outcomes = Vec::new();
    for alert in alerts {
        for (history, all) in histories.iter().zip(&ours) {
            let key = (history.name.clone(), alert.name.clone());
            let theirs = sides::theirs(history, firing.get(&key));
            let ours = all.get(&alert.name).cloned().unwrap_or_default();
            if ours.is_empty() && theirs.is_empty() && !history.about.contains(&alert.name) {
                continue;
            }
            let instead = all
                .iter()
                .map(|(name, episodes)| (name.clone(), episodes[0].from))
                .min_by_key(|(_, from)| *from)
                .filter(|_| ours.is_empty());
            outcomes.push(Outcome {
                history,
                alert: &alert.name,
                verdict: judge(difference(&ours, &theirs), reasons.remove(&key)),
                ours,
                theirs,
                instead,
            });
        }
    }
    let mut faults = Vec::new();
    for outcome in &outcomes {
        if let Verdict::Unexplained(why) = &outcome.verdict {
            let (alert, history) = (outcome.alert, &outcome.history.name);
            let (ours, theirs) = (&outcome.ours, &outcome.theirs);
            faults.push(format!(
                "{alert}, {history}: {why}; alertkube {ours:?}, the mixin {theirs:?}, instead {:?}",
                outcome.instead
            ));
        }
    }
    for (history, alert) in reasons.keys() {
        faults.push(format!(
            "{alert}, {history}: reasons.yaml has a reason, and there is nothing to compare"
        ));
    }
    (outcomes, faults)
}

fn judge(found: Option<Difference>, reason: Option<(Difference, String)>) -> Verdict {
    match (found, reason) {
        (None, None) => Verdict::Alike,
        (Some(found), Some((expected, why))) if found == expected => Verdict::Differs(found, why),
        (found, reason) => {
            let expected = reason.map(|(expected, _)| expected);
            Verdict::Unexplained(format!("found {found:?}, reasons.yaml has {expected:?}"))
        }
    }
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

/// Which alerts the histories do not tell enough of.
fn untold(alerts: &[Prometheus], histories: &[History], outcomes: &[Outcome<'_>]) -> Vec<String> {
    let mut untold = Vec::new();
    for history in histories {
        for name in &history.about {
            if alerts.iter().all(|alert| alert.name != *name) {
                let history = &history.name;
                untold.push(format!(
                    "{history} is about {name}, which rules.yaml has not"
                ));
            }
        }
    }
    let mut rows: BTreeMap<&str, Vec<&Outcome<'_>>> = BTreeMap::new();
    for outcome in outcomes {
        rows.entry(outcome.alert).or_default().push(outcome);
    }
    for Prometheus { name, .. } in alerts {
        let rows = rows.get(&**name).map(Vec::as_slice).unwrap_or_default();
        let both_fire = |row: &&Outcome<'_>| !row.ours.is_empty() && !row.theirs.is_empty();
        let quiet = |row: &&Outcome<'_>| row.ours.is_empty() && row.history.about.contains(name);
        if !rows.iter().any(both_fire) {
            untold.push(format!("{name}: no history in which both fire"));
        }
        if rows.iter().all(|row| row.verdict == Verdict::Alike) {
            untold.push(format!("{name}: no history in which they differ"));
        }
        if !rows.iter().any(quiet) {
            untold.push(format!(
                "{name}: no history about it in which alertkube is quiet"
            ));
        }
    }
    untold
}

fn assert_page(page: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/kubernetes-mixin.md");
    if env::var_os("INSTA_UPDATE").is_some_and(|value| value == "always") {
        fs::write(&path, page).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "{} is not what the test finds: `INSTA_UPDATE=always cargo test --test mixin` writes it anew",
        path.display()
    );
}
