//! What differs between the two, as a page for people.

use std::{collections::BTreeMap, fmt::Write as _};

use alertkube::rules::{self, Rule};

use crate::{
    Difference, Outcome, Verdict,
    files::{Others, Prometheus},
    sides::Episode,
};

/// The page, as Markdown.
pub fn render(alerts: &[Prometheus], outcomes: &[Outcome<'_>], others: &[Others]) -> String {
    let mut page = String::from(INTRODUCTION);
    page.push_str("\n## The alerts\n\n");
    page.push_str("| alert | alertkube | kubernetes-mixin | alertkube is |\n|---|---|---|---|\n");
    for alert in alerts {
        let rows = || {
            outcomes
                .iter()
                .filter(|outcome| outcome.alert == alert.name)
        };
        let rule = rules::named(&alert.name).expect("checked by the test");
        writeln!(
            page,
            "| [{name}](#{anchor}) | {severity}, {ours} | {theirs_severity}, {theirs} | {differs} |",
            name = alert.name,
            anchor = alert.name.to_lowercase(),
            severity = rule.severity,
            ours = after(i64::try_from(rule.r#for.as_secs()).unwrap_or(i64::MAX)),
            theirs_severity = alert.severity,
            theirs = after(alert.after.as_secs()),
            differs = differs(rows()),
        )
        .expect("a string takes all");
    }
    for alert in alerts {
        let rule = rules::named(&alert.name).expect("checked by the test");
        section(&mut page, rule, outcomes);
    }
    page.push_str(
        "\n## What alertkube has not\n\n| alerts of kubernetes-mixin | why |\n|---|---|\n",
    );
    for others in others {
        let (names, why) = (others.alerts.join(", "), &others.why);
        writeln!(page, "| {names} | {why} |").expect("a string takes all");
    }
    page
}

const INTRODUCTION: &str = "\
# alertkube next to kubernetes-mixin

Many alerts of alertkube are also in [kubernetes-mixin](https://github.com/kubernetes-sigs/kubernetes-mixin), under the same names. This page says where the two differ, and why.

A test has written it. `tests/mixin/histories/` says what happens to some objects. The test shows that to alertkube; and it makes the series of kube-state-metrics of it, scraped
every 30 seconds, and lets Prometheus (`promtool test rules`) evaluate the mixin's conditions as often. Their facts are the mixin's, the expressions are the test's own
(`tests/mixin/rules.yaml`). Nothing is late in the test. In a cluster, scrapes and evaluations make the mixin's times up to a minute later.

Times count from the moment at which things go wrong. `5m – 20m` is an alert that fires after 5 minutes and is over after 20. Without the second time, it still fires
when the history ends. `–` is no alert. In parentheses is what alertkube sends instead. A difference of up to one minute counts as none.

`1 earlier, 2 quiet, of 5` is an alert with five histories: in one, alertkube fires earlier than the mixin; in two, it does not fire, and the mixin does; in the others, both fire
at the same time, or neither does. `alone` is where only alertkube fires.

Both can be configured; these are their defaults. alertkube has further alerts, which are in no mixin: the README lists all.
";

fn section(page: &mut String, rule: &Rule, outcomes: &[Outcome<'_>]) {
    write!(page, "\n### {}\n\n", rule.name).expect("a string takes all");
    page.push_str("| what happens | alertkube | kubernetes-mixin | why |\n|---|---|---|---|\n");
    for outcome in outcomes.iter().filter(|outcome| outcome.alert == rule.name) {
        let mut ours = episodes(&outcome.ours);
        if let Some((name, at)) = &outcome.instead {
            write!(ours, " ({name}, {})", duration(*at)).expect("a string takes all");
        }
        let why = match &outcome.verdict {
            Verdict::Alike => "",
            Verdict::Differs(_, why) | Verdict::Unexplained(why) => why,
        };
        let (sentence, theirs) = (&outcome.history.sentence, episodes(&outcome.theirs));
        writeln!(page, "| {sentence} | {ours} | {theirs} | {why} |").expect("a string takes all");
    }
}

fn episodes(episodes: &[Episode]) -> String {
    if episodes.is_empty() {
        return "–".to_owned();
    }
    let written = episodes.iter().map(|episode| {
        let until = episode.until.map(duration).unwrap_or_default();
        format!("{} – {until}", duration(episode.from))
            .trim_end()
            .to_owned()
    });
    written.collect::<Vec<_>>().join(", ")
}

fn after(seconds: i64) -> String {
    match seconds {
        0 => "at once".to_owned(),
        _ => format!("after {}", duration(seconds)),
    }
}

/// How often alertkube differs, and how: `1 earlier, 2 quiet, of 5`.
fn differs<'a>(rows: impl Iterator<Item = &'a Outcome<'a>>) -> String {
    let (mut count, mut counts) = (0, BTreeMap::new());
    for row in rows {
        count += 1;
        if let Verdict::Differs(difference, _) = &row.verdict {
            *counts.entry(difference).or_insert(0) += 1;
        }
    }
    let mut text = String::new();
    for (difference, count) in counts {
        let word = match difference {
            Difference::Earlier => "earlier",
            Difference::Later => "later",
            Difference::Alone => "alone",
            Difference::Quiet => "quiet",
        };
        write!(text, "{count} {word}, ").expect("a string takes all");
    }
    text + &format!("of {count}")
}

/// A time as people write it: `2m40s`.
pub fn duration(seconds: i64) -> String {
    let sign = if seconds < 0 { "-" } else { "" };
    let seconds = seconds.abs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let mut text = sign.to_owned();
    for (value, unit) in [(hours, "h"), (minutes, "m"), (seconds, "s")] {
        if value != 0 {
            write!(text, "{value}{unit}").expect("a string takes all");
        }
    }
    if text == sign { "0s".to_owned() } else { text }
}
