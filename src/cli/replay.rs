//! `alertkube replay`: what would have been paged for a history, and why.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{self, BufRead, BufReader, IsTerminal as _, Write},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use jiff::Timestamp;
use serde::Serialize;

use super::{
    Exit,
    config::ConfigArgs,
    files::{self, FileError},
    table::{self, Cell, Style},
};
use crate::{
    alert::{Alert, Notice, Resolution, Severity, State, Transition},
    cluster::{KindId, Object},
    history::{Part, Reader, Replay, Seen},
    settings::{self, Settings, file::Config},
    text,
};

/// Says what would have been paged for a history, when, and why
///
/// A history is what `record` has written, or dumps of a cluster (as `scan -f` reads them), each with the time at which it was made. It goes through the rules and
/// the engine of `run`, in its own time. It reads no cluster, and pages nobody.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct Args {
    /// The history; `-` is standard input
    #[arg(
        value_name = "FILE",
        required_unless_present = "snapshots",
        conflicts_with = "snapshots"
    )]
    file: Option<PathBuf>,

    /// A dump of all objects of some kinds, and when it was made (RFC 3339); repeated for each
    ///
    /// What a later dump does not have is gone by then.
    #[arg(long = "snapshot", value_name = "TIME=FILE", value_parser = snapshot)]
    snapshots: Vec<(Timestamp, PathBuf)>,

    /// Go on until this time (RFC 3339), as if nothing more had happened [default: the time of the last line]
    #[arg(long, value_name = "TIME", value_parser = super::scan::time)]
    until: Option<Timestamp>,

    #[command(flatten)]
    config: ConfigArgs,

    /// How to print the result
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

const AFTER_HELP: &str = "\
Examples:
  alertkube replay last-night.jsonl
  alertkube replay last-night.jsonl --config alertkube.yaml   what other settings would have done
  alertkube replay last-night.jsonl --until 2026-01-31T12:00:00Z -o json
  alertkube replay --snapshot 2026-01-31T02:00:00Z=before.json --snapshot 2026-01-31T02:10:00Z=after.json";

/// How the result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// For people
    Table,
    /// For programs: a line per transition, {"time", "transition", "alert"}
    Json,
}

/// What came of a history.
#[derive(Debug, Default)]
struct Timeline {
    notices: Vec<Notice>,
    /// What stands at the end.
    standing: Vec<Alert>,
    /// When that is.
    end: Option<Timestamp>,
    /// What must be known to judge it.
    notes: Vec<String>,
    errors: Vec<FileError>,
}

/// Replays, and prints.
///
/// # Errors
///
/// The history cannot be read, or the output cannot be written to.
pub fn run(args: &Args, settings: &Settings) -> anyhow::Result<Exit> {
    let mut config = args.config.read(settings.config.as_deref())?;
    config.cluster = settings.cluster.clone().or(config.cluster);
    let timeline = match &args.file {
        None => of_snapshots(&args.snapshots, &config, args.until)?,
        Some(file) if file == Path::new("-") => {
            of_history("standard input", io::stdin().lock(), &config, args.until)?
        }
        Some(file) => {
            let name = file.display().to_string();
            let open = File::open(file).with_context(|| format!("{name}: cannot be read"))?;
            of_history(&name, BufReader::new(open), &config, args.until)?
        }
    };
    let mut out = io::stdout().lock();
    match args.output {
        Output::Table => {
            let colour = settings::colour(out.is_terminal());
            write_table(&mut out, colour, &timeline)
        }
        Output::Json => write_json(&mut out, &timeline.notices),
    }
    .context("cannot write the result")?;
    for note in &timeline.notes {
        writeln!(io::stderr(), "note: {note}")?;
    }
    for error in &timeline.errors {
        writeln!(
            io::stderr(),
            "not read: {}",
            text::one_line(&error.to_string())
        )?;
    }
    Ok(if timeline.errors.is_empty() {
        Exit::Success
    } else {
        Exit::Failure
    })
}

/// Replays what was recorded. The name of the cluster in `config` goes before the name that the recording tells.
fn of_history(
    file: &str,
    input: impl BufRead,
    config: &Config,
    until: Option<Timestamp>,
) -> anyhow::Result<Timeline> {
    let mut reader = Reader::new(file, input);
    let mut replay = None;
    let mut timeline = Timeline::default();
    let mut unwatched = 0_usize;
    while let Some((time, seen)) = reader.read()? {
        let replay = replay.get_or_insert_with(|| {
            let recorded = match &seen {
                Seen::Recording { cluster, .. } => cluster.as_str(),
                _ => "",
            };
            let cluster = config.cluster.as_deref().unwrap_or(recorded);
            Replay::new(cluster).tuned(config.tuning.clone())
        });
        unwatched += usize::from(matches!(seen, Seen::Unwatched));
        replay
            .see(time, &seen)
            .with_context(|| format!("{file}:{}", reader.line()))?;
        timeline.notices.extend(replay.take_notices());
        timeline.end = Some(time);
    }
    if reader.torn() {
        let line = reader.line();
        timeline.notes.push(format!(
            "{file}:{line}: the last line is not whole, and left out: the recording was cut off"
        ));
    }
    if unwatched > 0 {
        timeline.notes.push(format!(
            "{} of kinds without rules left out",
            text::count(unwatched, "line")
        ));
    }
    timeline.finish(replay, until)
}

/// Replays dumps. A kind that any of them has is taken to be whole in each.
fn of_snapshots(
    snapshots: &[(Timestamp, PathBuf)],
    config: &Config,
    until: Option<Timestamp>,
) -> anyhow::Result<Timeline> {
    let mut timeline = Timeline::default();
    let mut dumps: BTreeMap<Timestamp, Vec<Object>> = BTreeMap::new();
    for (time, file) in snapshots {
        let input = files::read(std::slice::from_ref(file));
        timeline.errors.extend(input.errors);
        dumps.entry(*time).or_default().extend(input.objects);
    }
    let kinds: BTreeSet<KindId> = dumps.values().flatten().map(Object::kind).collect();
    let cluster = config.cluster.as_deref().unwrap_or_default();
    let mut replay = Replay::new(cluster).tuned(config.tuning.clone());
    for (time, objects) in dumps {
        for &kind in &kinds {
            replay.see(time, &Seen::Snapshot(kind, Part::Begin))?;
        }
        for object in objects {
            replay.see(time, &Seen::Listed(object))?;
        }
        for &kind in &kinds {
            replay.see(time, &Seen::Snapshot(kind, Part::End))?;
        }
        timeline.end = Some(time);
    }
    timeline.finish(Some(replay), until)
}

impl Timeline {
    /// Lets the rest happen: until the time of what was seen last, or until another.
    fn finish(mut self, replay: Option<Replay>, until: Option<Timestamp>) -> anyhow::Result<Self> {
        let (Some(mut replay), Some(end)) = (replay, self.end) else {
            self.notes.push("the history is empty".to_owned());
            return Ok(self);
        };
        let end = until.unwrap_or(end);
        replay.finish(end).context("--until")?;
        self.end = Some(end);
        self.notices.extend(replay.take_notices());
        self.standing = replay.alerts();
        let waits: Vec<_> = replay.waits_for().map(KindId::as_str).collect();
        if !waits.is_empty() {
            self.notes.push(format!(
                "nothing was decided at the end, because these kinds were not listed yet: {}",
                waits.join(", ")
            ));
        }
        Ok(self)
    }
}

/// The transition in one word.
const fn word(transition: Transition) -> (&'static str, Option<Resolution>) {
    match transition {
        Transition::Fired => ("fire", None),
        Transition::Changed => ("change", None),
        Transition::Resolved(why) => ("resolve", Some(why)),
    }
}

fn write_table(out: &mut dyn Write, colour: bool, timeline: &Timeline) -> io::Result<()> {
    let rows: Vec<[Cell; 6]> = timeline.notices.iter().map(row).collect();
    if !rows.is_empty() {
        let head = ["TIME", "WHAT", "SEVERITY", "ALERT", "SUBJECT", "WHY"];
        table::write(out, colour, head, &rows)?;
        writeln!(out)?;
    }
    let Some(end) = timeline.end else {
        return writeln!(out, "nothing happened");
    };
    let mut standing: Vec<&Alert> = timeline.standing.iter().collect();
    standing.sort_by_key(|alert| (order(alert.state), alert.fires_at));
    let rows: Vec<[Cell; 6]> = standing.iter().map(|alert| standing_row(alert)).collect();
    if !rows.is_empty() {
        let head = ["AT THE END", "FIRES", "SEVERITY", "ALERT", "SUBJECT", "WHY"];
        table::write(out, colour, head, &rows)?;
        writeln!(out)?;
    }
    let fired = |notice: &&Notice| notice.transition == Transition::Fired;
    let ended = |notice: &&Notice| matches!(notice.transition, Transition::Resolved(_));
    let count = |state: State| standing.iter().filter(|alert| alert.state == state).count();
    writeln!(
        out,
        "{} fired, {} resolved; at {end}: {} firing, {} pending, {} inhibited",
        timeline.notices.iter().filter(fired).count(),
        timeline.notices.iter().filter(ended).count(),
        count(State::Firing),
        count(State::Pending),
        count(State::Inhibited),
    )
}

fn row(notice: &Notice) -> [Cell; 6] {
    let Notice {
        transition,
        alert,
        at,
    } = notice;
    let (word, resolution) = word(*transition);
    let (style, why) = match resolution {
        None => (style_of(alert.severity), alert.headline().to_owned()),
        Some(how) => {
            let how = match how {
                Resolution::Recovered => "recovered",
                Resolution::Deleted => "deleted",
            };
            let stood = text::duration(alert.duration(*at));
            (Style::Green, format!("{how} after {stood}"))
        }
    };
    [
        Cell::plain(at.to_string()),
        Cell::new(word.to_uppercase(), style),
        Cell::new(alert.severity.as_str(), style),
        Cell::plain(alert.rule.name),
        Cell::plain(text::one_line(&alert.subject.to_string())),
        Cell::plain(text::one_line(&why)),
    ]
}

fn standing_row(alert: &Alert) -> [Cell; 6] {
    let (style, fires) = match alert.state {
        State::Firing => (style_of(alert.severity), alert.fires_at.to_string()),
        State::Pending => (Style::Plain, alert.fires_at.to_string()),
        State::Inhibited | State::Resolved => (Style::Dim, "-".to_owned()),
    };
    [
        Cell::new(alert.state.as_str(), style),
        Cell::plain(fires),
        Cell::new(alert.severity.as_str(), style),
        Cell::plain(alert.rule.name),
        Cell::plain(text::one_line(&alert.subject.to_string())),
        Cell::plain(text::one_line(alert.headline())),
    ]
}

const fn order(state: State) -> u8 {
    match state {
        State::Firing => 0,
        State::Pending => 1,
        State::Inhibited => 2,
        State::Resolved => 3,
    }
}

const fn style_of(severity: Severity) -> Style {
    match severity {
        Severity::Critical => Style::Red,
        Severity::Warning => Style::Yellow,
        Severity::Info => Style::Cyan,
    }
}

/// A transition for programs, as `run` writes it to standard output.
#[derive(Serialize)]
struct Line<'a> {
    time: Timestamp,
    transition: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    resolution: Option<Resolution>,
    alert: &'a Alert,
}

fn write_json(out: &mut dyn Write, notices: &[Notice]) -> io::Result<()> {
    for Notice {
        transition,
        alert,
        at,
    } in notices
    {
        let (transition, resolution) = word(*transition);
        let line = Line {
            time: *at,
            transition,
            resolution,
            alert,
        };
        serde_json::to_writer(&mut *out, &line)?;
        writeln!(out)?;
    }
    Ok(())
}

/// `TIME=FILE`.
fn snapshot(text: &str) -> Result<(Timestamp, PathBuf), &'static str> {
    let (at, file) = text
        .split_once('=')
        .filter(|(_, file)| !file.is_empty())
        .ok_or("write it as TIME=FILE, such as 2026-01-31T12:00:00Z=dump.json")?;
    Ok((super::scan::time(at)?, file.into()))
}

#[cfg(test)]
mod tests;
