//! `alertkube rules`: which rules there are, and what each of them means.

use std::{
    io::{self, IsTerminal as _, Write},
    time::Duration,
};

use anyhow::bail;
use serde::Serialize;

use super::{
    Exit,
    config::ConfigArgs,
    table::{self, Cell, Style},
};
use crate::{
    alert::{Severity, causes_of, effects_of, urges},
    rules::{self, Help, QUIET, Rule, Setting, TO_DO, Threshold},
    settings::{
        self,
        file::{Changed, Config, show},
    },
    text,
};

/// Lists the rules: what they look at, when they fire, and how severe that is
///
/// They are the same for `run` and `scan`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    config: ConfigArgs,

    /// How to print it
    #[arg(short, long, value_enum, default_value_t = Output::Table, global = true)]
    output: Output,
}

#[derive(Debug, clap::Subcommand)]
#[expect(clippy::doc_markdown, reason = "it is the help")]
enum Command {
    /// Says when a rule fires, why it may stay quiet, which alerts it explains, and what to do
    Explain {
        /// The alert's name, such as KubePodCrashLooping
        #[arg(value_name = "ALERT")]
        name: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// For people
    Table,
    /// For programs: an object a rule
    Json,
}

/// A rule, as programs see it. Times are seconds.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Described {
    alert: &'static str,
    kind: &'static str,
    severity: Severity,
    for_seconds: u64,
    hold_seconds: u64,
    quorum: usize,
    condition: &'static str,
    explained_by: Vec<&'static str>,
}

impl From<&'static Rule> for Described {
    fn from(rule: &'static Rule) -> Self {
        Self {
            alert: rule.name,
            kind: rule.kind.as_str(),
            severity: rule.severity,
            for_seconds: rule.r#for.as_secs(),
            hold_seconds: rule.hold.as_secs(),
            quorum: rule.quorum,
            condition: rule.description,
            explained_by: causes_of(rule).map(|cause| cause.name).collect(),
        }
    }
}

/// A rule and how it is set, as programs see it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Set {
    #[serde(flatten)]
    described: Described,
    enabled: bool,
    /// What is changed: each with its value, the default, and where it is set.
    changed: Vec<Changed>,
    /// How many overrides it has for some of its alerts.
    overrides: usize,
}

impl Set {
    fn new(rule: &'static Rule, config: &Config) -> Self {
        let unset = Setting::default();
        let Setting {
            enabled,
            severity,
            r#for,
            thresholds: _,
        } = config.tuning.of(rule).unwrap_or(&unset);
        let mut described = Described::from(rule);
        described.severity = severity.unwrap_or(described.severity);
        described.for_seconds = r#for.map_or(described.for_seconds, |time| time.as_secs());
        Self {
            described,
            enabled: enabled.unwrap_or(rule.enabled),
            changed: config.changed(rule),
            overrides: config.tuning.overrides(rule).len(),
        }
    }
}

/// A rule and what there is to know of it, as programs see it. The texts are Markdown.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Explained {
    #[serde(flatten)]
    described: Described,
    explains: Vec<&'static str>,
    particulars: &'static str,
    quiet: &'static str,
    to_do: &'static str,
}

impl Explained {
    fn new(rule: &'static Rule) -> Self {
        let Help {
            particulars,
            quiet,
            to_do,
        } = Help::of(rule).unwrap_or_default();
        Self {
            described: Described::from(rule),
            explains: effects_of(rule).map(|effect| effect.name).collect(),
            particulars,
            quiet,
            to_do,
        }
    }
}

/// Runs the command.
///
/// # Errors
///
/// There is no rule of that name, or the output cannot be written to.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut out = io::stdout().lock();
    match (&args.command, args.output) {
        (Some(Command::Explain { name }), output) => {
            let Some(rule) = rules::all().find(|rule| rule.name == name) else {
                bail!("{}", unknown(name));
            };
            match output {
                Output::Table => explain(&mut out, rule)?,
                Output::Json => {
                    let explained = Explained::new(rule);
                    writeln!(out, "{}", serde_json::to_string_pretty(&explained)?)?;
                }
            }
        }
        (None, Output::Table) => {
            let colour = settings::colour(out.is_terminal());
            let config = args.config.read(settings::config_file().as_deref())?;
            list(&mut out, colour, &config)?;
        }
        (None, Output::Json) => {
            let config = args.config.read(settings::config_file().as_deref())?;
            let all: Vec<_> = rules::all().map(|rule| Set::new(rule, &config)).collect();
            writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
        }
    }
    Ok(Exit::Success)
}

/// What to say of a name that no rule has.
fn unknown(name: &str) -> String {
    let likeness = |rule: &&Rule| {
        (1000.0 * strsim::jaro_winkler(&rule.name.to_lowercase(), &name.to_lowercase())).round()
    };
    let nearest = rules::all().max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
    let hint = nearest.map_or_else(String::new, |rule| format!(", is it {}?", rule.name));
    format!("there is no rule {name:?}{hint} `alertkube rules` lists them all")
}

/// How long the condition stands before the alert fires.
fn after(r#for: Duration) -> String {
    if r#for.is_zero() {
        "at once".to_owned()
    } else {
        text::duration(r#for)
    }
}

fn list(out: &mut dyn Write, colour: bool, config: &Config) -> io::Result<()> {
    let rows: Vec<_> = rules::all()
        .map(|rule| {
            let setting = config.tuning.of(rule);
            let severity = setting
                .and_then(|setting| setting.severity)
                .unwrap_or(rule.severity);
            let r#for = setting
                .and_then(|setting| setting.r#for)
                .unwrap_or(rule.r#for);
            let style = match severity {
                Severity::Critical => Style::Red,
                Severity::Warning => Style::Yellow,
                Severity::Info => Style::Cyan,
            };
            [
                Cell::plain(rule.name),
                Cell::plain(rule.kind.as_str()),
                Cell::new(severity.as_str(), style),
                Cell::plain(after(r#for)),
                Cell::plain(rule.description),
                Cell::plain(set_by(rule, config)),
            ]
        })
        .collect();
    table::write(
        out,
        colour,
        ["ALERT", "KIND", "SEVERITY", "FOR", "CONDITION", "SET"],
        &rows,
    )
}

/// What is changed of a rule, from what, and where; a dash if nothing is.
fn set_by(rule: &Rule, config: &Config) -> String {
    let mut parts: Vec<String> = config
        .changed(rule)
        .into_iter()
        .map(
            |Changed {
                 name,
                 value,
                 default,
                 origin,
             }| { format!("{name} {value} (default {default}) in {origin}") },
        )
        .collect();
    match config.tuning.overrides(rule).len() {
        0 => {}
        1 => parts.push("1 override".to_owned()),
        more => parts.push(format!("{more} overrides")),
    }
    if !rule.enabled && parts.is_empty() {
        return "off by default".to_owned();
    }
    if parts.is_empty() {
        "-".to_owned()
    } else {
        text::one_line(&parts.join("; "))
    }
}

/// What it means that other alerts explain one.
const STANDS_BACK: &str = "while one of these stands, it is shown as inhibited and pages nobody";
/// What it means that an alert explains others.
const SPEAKS: &str = "while it stands, these page nobody; when one of them comes due, it fires";
/// The same, where that is no reason for it to fire before its own time.
const SILENCES: &str = "while it stands, these page nobody; it fires in its own time";

fn explain(out: &mut dyn Write, rule: &'static Rule) -> io::Result<()> {
    writeln!(out, "{}: {}", rule.name, rule.description)?;
    writeln!(out)?;
    writeln!(out, "Looks at    {}", rule.kind.as_str())?;
    writeln!(out, "Severity    {}", severity(rule))?;
    writeln!(out, "Fires       {}", fires(rule))?;
    writeln!(out, "Resolves    {}", resolves(rule))?;
    for setting in thresholds(rule) {
        writeln!(out, "Set by      {setting}")?;
    }
    let help = Help::of(rule).unwrap_or_default();
    if !help.particulars.is_empty() {
        writeln!(out, "\n{}", help.particulars)?;
    }
    let mut alerts = |title: &str, means: &str, alerts: Vec<&'static Rule>| {
        if alerts.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        writeln!(out, "{title} ({means}):")?;
        alerts
            .iter()
            .try_for_each(|rule| writeln!(out, "  {}", rule.name))
    };
    alerts("Explained by", STANDS_BACK, causes_of(rule).collect())?;
    alerts(
        "Explains",
        SPEAKS,
        effects_of(rule)
            .filter(|effect| urges(effect, rule))
            .collect(),
    )?;
    alerts(
        "Explains",
        SILENCES,
        effects_of(rule)
            .filter(|effect| !urges(effect, rule))
            .collect(),
    )?;
    for (title, text) in [(QUIET, help.quiet), (TO_DO, help.to_do)] {
        if !text.is_empty() {
            writeln!(out, "\n{title}:\n{text}")?;
        }
    }
    Ok(())
}

/// How severe a rule's alert is.
fn severity(rule: &Rule) -> String {
    let severity = rule.severity.as_str();
    format!("{severity}, or that of what it explains, if that is worse")
}

/// When a rule's alert fires.
fn fires(rule: &Rule) -> String {
    let on = if rule.enabled {
        ""
    } else {
        "only if the configuration file turns it on; "
    };
    let after = if rule.r#for.is_zero() {
        after(rule.r#for)
    } else {
        let after = after(rule.r#for);
        format!("after {after}, counted from when it began, as far as the API tells")
    };
    let of = if rule.quorum > 1 {
        format!(", if at least {} objects show it", rule.quorum)
    } else {
        String::new()
    };
    format!("{on}{after}{of}")
}

/// What else a rule goes by, a line each.
fn thresholds(rule: &Rule) -> impl Iterator<Item = String> {
    rule.thresholds.iter().map(|threshold| {
        let Threshold {
            name,
            default,
            description,
        } = threshold;
        format!("{name}, {} by default: {description}", show(*default))
    })
}

/// When a rule's alert is over.
fn resolves(rule: &Rule) -> String {
    if rule.hold.is_zero() {
        "as soon as it is over".to_owned()
    } else {
        format!("when it has been over for {}", text::duration(rule.hold))
    }
}

#[cfg(test)]
mod runbooks;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_explained_with_its_place_in_the_cause_tree() {
        let mut out = Vec::new();
        let rule = rules::named("KubePodCrashLooping").unwrap();
        explain(&mut out, rule).unwrap();
        let text = String::from_utf8(out).unwrap();
        for part in [
            "after 3m",
            "over for 10m",
            "  KubePodOOMKilled\n",
            "  KubePodNotReady\n",
            "\nWhen it may stay quiet:\n- ",
            "\nWhat to do:\n1. ",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn what_else_a_rule_goes_by_is_explained() {
        let mut out = Vec::new();
        let rule = rules::named("KubeCronJobNotSucceeding").unwrap();
        explain(&mut out, rule).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.contains("\nSet by      runs, 3 by default: How many runs"),
            "{text}"
        );
    }

    #[test]
    fn programs_get_the_same_words() {
        let rule = rules::named("KubePodCrashLooping").unwrap();
        let json = serde_json::to_value(Explained::new(rule)).unwrap();
        let mut out = Vec::new();
        explain(&mut out, rule).unwrap();
        let text = String::from_utf8(out).unwrap();
        for field in ["particulars", "quiet", "toDo"] {
            let words = json[field].as_str().unwrap();
            assert!(!words.is_empty() && text.contains(words), "{field}");
        }
        assert_eq!(json["alert"], "KubePodCrashLooping");
        assert_eq!(json["explains"][0], "KubePodRestarting");
    }

    #[test]
    fn every_rule_is_listed() {
        let mut out = Vec::new();
        list(&mut out, false, &Config::default()).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), rules::all().count() + 1);
    }

    #[test]
    fn what_is_set_is_listed_with_its_default_and_its_place() {
        let text = "rules:\n  KubePodCrashLooping:\n    for: 5m\n    overrides:\n      - matchers: [namespace=dev]\n        severity: info\n";
        let config = Config::parse("a.yaml", text).unwrap();
        let rule = rules::named("KubePodCrashLooping").unwrap();
        assert_eq!(
            set_by(rule, &config),
            "for 5m (default 3m) in a.yaml:3; 1 override"
        );
        let json = serde_json::to_value(Set::new(rule, &config)).unwrap();
        assert_eq!(json["forSeconds"], 300);
        assert_eq!(json["changed"][0]["origin"], "a.yaml:3");
        let other = rules::named("KubeNodeNotReady").unwrap();
        assert_eq!(set_by(other, &config), "-");
    }

    #[test]
    fn a_misspelt_name_is_answered_with_the_nearest() {
        assert_eq!(
            unknown("kubepodcrashloping"),
            "there is no rule \"kubepodcrashloping\", is it KubePodCrashLooping? `alertkube rules` lists them all"
        );
    }
}
