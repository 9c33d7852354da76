//! `alertkube scan`: what would page now, what is pending, and why; once.

mod explain;

use std::{
    cmp::Reverse,
    io::{self, IsTerminal as _, Write},
};

use anyhow::Context as _;
use jiff::Timestamp;
use serde::Serialize;

use self::explain::Search;
use super::{
    Exit,
    cluster::SourceArgs,
    config::ConfigArgs,
    files::{self, FileError, FileReason},
    table::{self, Cell, Style},
};
use crate::{
    alert::{Alert, Engine, Severity, State},
    cluster::{Object, ObjectRef},
    rules::Tuning,
    settings::{self, Settings},
    text,
    time::between,
};

/// Says once what is wrong now: in the cluster, or in objects that were saved from one
///
/// Without `--file` it reads the cluster of the current kubeconfig context (or the one that it runs in). With it, it reads no cluster, and
/// needs none: JSON or YAML, single objects, lists, several documents, JSON lines, or a folder of such files (`kubectl cluster-info dump
/// --output-directory`). The rules and the engine are those of `run`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct Args {
    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    config: ConfigArgs,

    /// How to print the result
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,

    /// Exit with 3 if an alert of this severity or a higher one fires (pending and inhibited ones do not count)
    #[arg(long, value_name = "SEVERITY", value_parser = severity_parser())]
    fail_on: Option<Severity>,

    /// Say of one object what every rule makes of it, and why: KIND/NAMESPACE/NAME, or KIND/NAME if its kind has no namespaces
    ///
    /// The kind as Kubernetes spells it, or as kubectl takes it (`deploy`, `pods`). Everything else is read as well: it may explain what is found.
    #[arg(long, value_name = "OBJECT", value_parser = explain::target, conflicts_with = "fail_on")]
    explain: Option<ObjectRef>,

    /// Judge the files as of this time (RFC 3339) [default: the newest time that the objects in them tell]
    #[arg(long, value_name = "TIME", requires = "files", value_parser = time)]
    at: Option<Timestamp>,
}

const AFTER_HELP: &str = "\
Examples:
  alertkube scan
  alertkube scan --fail-on critical
  alertkube scan --explain pod/shop/web-0
  kubectl get pods -A -o json | alertkube scan -f -
  alertkube scan -f dump/ --at 2026-01-31T12:00:00Z -o json

Exit codes:
  0  everything was read
  1  something could not be read; the rest was still scanned
  2  bad usage or settings
  3  everything was read, and an alert fires that --fail-on asks about";

/// How the result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// For people
    Table,
    /// For programs: {"alerts": [...], "errors": [...]}; with --explain, {"objects": [...], "errors": [...]}
    Json,
}

/// What a scan found.
#[derive(Debug)]
pub struct Found {
    /// The alerts, in any order.
    pub alerts: Vec<Alert>,
    /// What could not be read.
    pub errors: Vec<FileError>,
    /// How many objects were looked at.
    pub objects: usize,
    /// How many objects are of kinds that have no rules.
    pub unwatched: usize,
    /// The time as of which they were judged.
    pub at: Timestamp,
    /// Where that time is from.
    pub at_from: AtFrom,
}

/// Where the time is from as of which objects are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtFrom {
    /// It is now: the cluster is live.
    Now,
    /// `--at` says so.
    Given,
    /// It is the newest time in the files.
    Newest,
    /// There are no objects to judge.
    Nowhere,
}

/// Scans, prints, and says with the exit code what was found.
///
/// # Errors
///
/// The scan is not possible at all, or the output cannot be written to.
pub fn run(args: &Args, settings: &Settings) -> anyhow::Result<Exit> {
    let config = args.config.read(settings.config.as_deref())?;
    let cluster = settings.cluster.clone().or(config.cluster);
    let (search, engine, found) = look(args, cluster, config.tuning)?;
    let printed = match &search {
        None => print(args.output, &found),
        Some(search) => explain::print(args.output, search, &engine, &found)?,
    };
    match printed {
        // Whoever reads has read enough (`| head`). The exit code still says what was found.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        printed => printed.context("cannot write the result")?,
    }
    Ok(exit_of(&found, args.fail_on))
}

fn print(output: Output, found: &Found) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match output {
        Output::Table => {
            let colour = settings::colour(out.is_terminal());
            write_table(&mut out, colour, found)
        }
        Output::Json => {
            write_json(&mut out, found)?;
            match as_of(found) {
                Some(as_of) => writeln!(io::stderr(), "{as_of}"),
                None => Ok(()),
            }
        }
    }
}

/// Reads everything, and finds what is asked about.
fn look(
    args: &Args,
    cluster: Option<String>,
    tuning: Tuning,
) -> anyhow::Result<(Option<Search>, Engine, Found)> {
    let mut search = args.explain.as_ref().map(Search::of);
    let mut see = |object: &Object| {
        if let Some(search) = &mut search {
            search.see(object);
        }
    };
    let (mut engine, mut found) = if args.source.files.is_empty() {
        live(args, cluster, tuning, &mut see)?
    } else {
        let cluster = cluster.unwrap_or_default();
        saved(args, &cluster, tuning, &mut see)
    };
    for object in search.iter().flat_map(Search::found) {
        // As of the same time as everything else.
        engine.observe(object, found.at);
    }
    engine.advance(found.at);
    found.alerts = engine.alerts(found.at);
    Ok((search, engine, found))
}

/// Reads the cluster. No alerts are decided yet.
fn live(
    args: &Args,
    name: Option<String>,
    tuning: Tuning,
    see: &mut dyn FnMut(&Object),
) -> anyhow::Result<(Engine, Found)> {
    let cluster = args.source.cluster.open()?;
    let mut engine = Engine::new(cluster.name(name)?).tuned(tuning);
    let mut objects = 0;
    let (at, errors) = cluster.read(|object, now| {
        see(&object);
        engine.observe(&object, now);
        objects += 1;
    })?;
    let found = Found {
        alerts: Vec::new(),
        errors,
        objects,
        unwatched: 0,
        at,
        at_from: AtFrom::Now,
    };
    Ok((engine, found))
}

/// Reads files. No alerts are decided yet.
fn saved(
    args: &Args,
    cluster: &str,
    tuning: Tuning,
    see: &mut dyn FnMut(&Object),
) -> (Engine, Found) {
    let mut input = files::read(&args.source.files);
    let (at, at_from) = match (args.at, input.newest) {
        (Some(at), _) => (at, AtFrom::Given),
        (None, Some(newest)) => (newest, AtFrom::Newest),
        (None, None) => (Timestamp::UNIX_EPOCH, AtFrom::Nowhere),
    };
    if at_from == AtFrom::Nowhere && !input.objects.is_empty() {
        // They cannot be judged, and that must not look as if they were well.
        input.objects.clear();
        input.errors.push(FileError::of_no_file(FileReason::NoTime));
    }
    let mut engine = Engine::new(cluster).tuned(tuning);
    for object in &input.objects {
        see(object);
        engine.observe(object, at);
    }
    let found = Found {
        alerts: Vec::new(),
        objects: input.objects.len(),
        errors: input.errors,
        unwatched: input.unwatched,
        at,
        at_from,
    };
    (engine, found)
}

/// An incomplete scan is a failure, whatever it found: what was not read may be worse.
fn exit_of(found: &Found, fail_on: Option<Severity>) -> Exit {
    let asked_about = |alert: &Alert| {
        alert.state == State::Firing && fail_on.is_some_and(|least| alert.severity >= least)
    };
    if !found.errors.is_empty() {
        Exit::Failure
    } else if found.alerts.iter().any(asked_about) {
        Exit::Found
    } else {
        Exit::Success
    }
}

/// The alerts in the order in which they matter: firing ones first, the most severe first, then those that fire soonest.
fn in_order(alerts: &[Alert]) -> Vec<&Alert> {
    let mut alerts: Vec<&Alert> = alerts.iter().collect();
    alerts.sort_by_cached_key(|alert| {
        let state = match alert.state {
            State::Firing => 0,
            State::Pending => 1,
            State::Inhibited => 2,
            State::Resolved => 3,
        };
        (
            state,
            Reverse(alert.severity),
            alert.fires_at,
            alert.subject.clone(),
            alert.labels.clone(),
        )
    });
    alerts
}

fn write_table(out: &mut dyn Write, colour: bool, found: &Found) -> io::Result<()> {
    let rows: Vec<[Cell; 8]> = in_order(&found.alerts)
        .into_iter()
        .map(|alert| row(alert, found.at))
        .collect();
    if !rows.is_empty() {
        let head = [
            "SUBJECT", "ALERT", "SEVERITY", "STATE", "SINCE", "FIRES IN", "MEMBERS", "WHY",
        ];
        table::write(out, colour, head, &rows)?;
        writeln!(out)?;
    }
    write_errors(out, colour, found)?;
    write_summary(out, colour, found)
}

fn write_errors(out: &mut dyn Write, colour: bool, found: &Found) -> io::Result<()> {
    for error in &found.errors {
        table::styled(out, colour, Style::Red, "not read: ")?;
        writeln!(out, "{}", text::one_line(&error.to_string()))?;
    }
    Ok(())
}

fn write_as_of(out: &mut dyn Write, colour: bool, found: &Found) -> io::Result<()> {
    let Some(as_of) = as_of(found) else {
        return Ok(());
    };
    table::styled(out, colour, Style::Dim, &as_of)?;
    writeln!(out)
}

/// How an alert stands out.
const fn style(state: State, severity: Severity) -> Style {
    match (state, severity) {
        (State::Firing, Severity::Critical) => Style::Red,
        (State::Firing, Severity::Warning) => Style::Yellow,
        (State::Firing, Severity::Info) => Style::Cyan,
        (State::Pending, _) => Style::Plain,
        (State::Inhibited | State::Resolved, _) => Style::Dim,
    }
}

fn fires_in(state: State, fires_at: Timestamp, at: Timestamp) -> String {
    match state {
        State::Pending => text::duration(between(at, fires_at)),
        State::Firing => "now".to_owned(),
        State::Inhibited | State::Resolved => "-".to_owned(),
    }
}

fn row(alert: &Alert, at: Timestamp) -> [Cell; 8] {
    let style = style(alert.state, alert.severity);
    let summary = alert.annotations.get("summary").unwrap_or_default();
    [
        Cell::plain(text::one_line(&alert.subject.to_string())),
        Cell::plain(alert.rule.name),
        Cell::new(alert.severity.as_str(), style),
        Cell::new(alert.state.as_str(), style),
        Cell::plain(text::duration(between(alert.starts_at, at))),
        Cell::plain(fires_in(alert.state, alert.fires_at, at)),
        Cell::number(&alert.members.len()),
        Cell::plain(text::one_line(summary)),
    ]
}

fn write_summary(out: &mut dyn Write, colour: bool, found: &Found) -> io::Result<()> {
    let count = |state: State| found.alerts.iter().filter(|a| a.state == state).count();
    let (firing, pending) = (count(State::Firing), count(State::Pending));
    let style = if firing > 0 { Style::Red } else { Style::Green };
    table::styled(out, colour, style, &format!("{firing} firing"))?;
    write!(out, ", {pending} pending")?;
    if count(State::Inhibited) > 0 {
        write!(out, ", {} inhibited", count(State::Inhibited))?;
    }
    write!(out, " in {}", text::count(found.objects, "object"))?;
    if found.unwatched > 0 {
        write!(
            out,
            " ({} of kinds without rules left out)",
            found.unwatched
        )?;
    }
    if !found.errors.is_empty() {
        write!(out, ", {}", text::count(found.errors.len(), "error"))?;
    }
    writeln!(out)?;
    write_as_of(out, colour, found)
}

/// The time as of which objects were judged, unless it goes without saying.
fn as_of(found: &Found) -> Option<String> {
    match found.at_from {
        AtFrom::Now | AtFrom::Nowhere => None,
        AtFrom::Given => Some(format!("As of {} (--at).", found.at)),
        AtFrom::Newest => Some(format!(
            "As of {}, the newest time that the objects tell; --at sets another.",
            found.at
        )),
    }
}

#[derive(Debug, Serialize)]
struct Json<'a> {
    alerts: Vec<&'a Alert>,
    errors: &'a [FileError],
}

fn write_json(out: &mut dyn Write, found: &Found) -> io::Result<()> {
    let json = Json {
        alerts: in_order(&found.alerts),
        errors: &found.errors,
    };
    serde_json::to_writer_pretty(&mut *out, &json)?;
    writeln!(out)
}

/// A time, with an error that says how to write one.
pub(super) fn time(text: &str) -> Result<Timestamp, &'static str> {
    text.parse()
        .map_err(|_| "write it as in RFC 3339, such as 2026-01-31T12:00:00Z")
}

/// Severities, with the valid ones in the help and in errors.
fn severity_parser() -> impl clap::builder::TypedValueParser<Value = Severity> {
    use clap::builder::TypedValueParser as _;

    clap::builder::PossibleValuesParser::new(Severity::ALL.map(Severity::as_str))
        .try_map(|word| word.parse::<Severity>())
}

#[cfg(test)]
mod tests;
