//! Standard output: for people on a terminal, for programs elsewhere.

use std::{
    fmt::Write as _,
    io::Write,
    sync::{Arc, Mutex},
};

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    alert::{Alert, Member, Resolution, Severity},
    notify::{Event, Late, Message, Receiver, Reference, SendError, Standing},
    text,
};

/// How many objects are named in the readable form.
const NAMED: usize = 3;

/// How long the summary may be in the readable form, in characters: a few lines of a terminal.
const SUMMARY_LEN: usize = 400;

/// How wide a line of the summary may be in the readable form, in characters: with the indent, the 80 columns of the usual terminal.
const SUMMARY_WIDTH: usize = 69;

const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const BLUE: &str = "\x1b[34m";
const RESET: &str = "\x1b[0m";

/// How messages are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// For people, with colour.
    Colour,
    /// For people, without colour.
    Plain,
    /// For programs: one JSON object a line.
    Json,
}

/// Writes each message to a stream.
///
/// Writing blocks, so it is done apart from the runtime's own threads: if nobody reads the other end of a pipe, nothing but this receiver waits.
pub struct Stdout {
    style: Style,
    stream: Arc<Mutex<Box<dyn Write + Send>>>,
}

impl std::fmt::Debug for Stdout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { style, stream: _ } = self;
        f.debug_struct("Stdout")
            .field("style", style)
            .finish_non_exhaustive()
    }
}

impl Stdout {
    /// Writes to this stream, in this style.
    pub fn new(style: Style, stream: impl Write + Send + 'static) -> Self {
        Self {
            style,
            stream: Arc::new(Mutex::new(Box::new(stream))),
        }
    }
}

impl Receiver for Stdout {
    fn name(&self) -> &'static str {
        "stdout"
    }

    fn late(&self) -> Late {
        match self.style {
            Style::Colour | Style::Plain => Late::OneMessage,
            Style::Json => Late::FireThenResolve,
        }
    }

    fn max_in_flight(&self) -> usize {
        1
    }

    async fn send(&self, message: &Message) -> Result<Option<Reference>, SendError> {
        let text = render(message, self.style)?;
        let stream = Arc::clone(&self.stream);
        let written = tokio::task::spawn_blocking(move || {
            // Held only by a write that was given up and still blocks.
            let Ok(mut stream) = stream.try_lock() else {
                return Err(std::io::ErrorKind::WouldBlock.into());
            };
            // In one piece, so that nothing comes between its lines.
            stream.write_all(text.as_bytes())?;
            stream.flush()
        });
        match written.await {
            Ok(written) => written
                .map(|()| None)
                .map_err(|error| SendError::write(&error)),
            Err(error) => Err(SendError::write(&std::io::Error::other(error))),
        }
    }
}

/// A message as text, with the newline at its end.
fn render(message: &Message, style: Style) -> Result<String, SendError> {
    match style {
        Style::Colour => Ok(readable(message, &Paint { colour: true })),
        Style::Plain => Ok(readable(message, &Paint { colour: false })),
        Style::Json => {
            let line = serde_json::to_string(&Line::of(message));
            line.map(|line| line + "\n")
                .map_err(|error| SendError::encode(&error))
        }
    }
}

/// Puts colour on text, or does not.
struct Paint {
    colour: bool,
}

impl Paint {
    fn with(&self, codes: &[&str], text: &str) -> String {
        if self.colour && !codes.is_empty() {
            format!("{}{text}{RESET}", codes.concat())
        } else {
            text.to_owned()
        }
    }
}

/// A message for people: what and how bad, what is wrong, the details. All that comes from the cluster is neutralised first.
fn readable(message: &Message, paint: &Paint) -> String {
    let Message {
        event,
        alert,
        at,
        transitions,
        stale,
        reference: _,
        minimal: _,
    } = message;
    let (colour, symbol, word) = match (event, alert.severity) {
        (Event::Resolved(_) | Event::FiredAndResolved(_), _) => (GREEN, "✔", "RESOLVED"),
        (Event::Fired | Event::Changed, Severity::Critical) => (RED, "●", "CRITICAL"),
        (Event::Fired | Event::Changed, Severity::Warning) => (YELLOW, "●", "WARNING"),
        (Event::Fired | Event::Changed, Severity::Info) => (BLUE, "●", "INFO"),
    };
    let head = paint.with(&[BOLD, colour], &format!("{symbol} {word:<8}"));
    let name = paint.with(&[BOLD], &text::one_line(alert.rule.name));
    let time = paint.with(&[DIM], &at.strftime("%H:%M:%S").to_string());
    let mut out = format!("{time} {head} {name}  {}\n", subject(alert));

    let told = match event {
        Event::Fired => None,
        Event::Changed => Some(changed(alert, stale)),
        Event::Resolved(why) => Some(resolved(*why, message)),
        Event::FiredAndResolved(why) => Some(format!(
            "fired and was over before this could be delivered: {}",
            resolved(*why, message)
        )),
    };
    if let Some(told) = told {
        line(&mut out, &told);
    }
    let summary = text::one_line(alert.headline());
    if !summary.is_empty() {
        let mut summary = text::shorten(&summary, SUMMARY_LEN);
        if !event.is_firing() {
            summary.insert_str(0, "was: ");
        }
        for part in text::wrap(&summary, SUMMARY_WIDTH) {
            let codes: &[&str] = if event.is_firing() { &[] } else { &[DIM] };
            line(&mut out, &paint.with(codes, &part));
        }
    }
    if event.is_firing() && !alert.members.is_empty() {
        line(&mut out, &paint.with(&[DIM], &objects(alert)));
    }
    line(&mut out, &paint.with(&[DIM], &details(message)));
    // Two are what "fired and was over" says already.
    let told_apart = matches!(event, Event::FiredAndResolved(_)) && *transitions == 2;
    if *transitions > 1 && !told_apart {
        let folded = format!("{transitions} changes since the last message about it");
        line(&mut out, &paint.with(&[DIM], &folded));
    }
    out
}

/// Adds an indented line.
fn line(out: &mut String, text: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "           {text}");
}

/// What the alert is about: `Deployment shop/web, container app`.
fn subject(alert: &Alert) -> String {
    let mut text = alert.subject.title();
    if let Some(container) = alert.labels.get("container") {
        text = format!("{text}, container {container}");
    }
    text::one_line(&text)
}

/// How it ended, and how long it had stood.
fn resolved(why: Resolution, message: &Message) -> String {
    let stood = text::duration(message.duration());
    match why {
        Resolution::Recovered => format!("recovered after {stood}"),
        Resolution::Deleted => format!("deleted after {stood}"),
    }
}

/// What has changed, as far as the receiver was told before.
fn changed(alert: &Alert, stale: &[Standing]) -> String {
    let before = stale.first().map(|old| {
        ["severity", "reason"]
            .into_iter()
            .filter_map(|name| {
                let value = old.labels.get(name)?;
                (alert.labels.get(name) != Some(value)).then(|| text::one_line(value))
            })
            .collect::<Vec<_>>()
            .join(", ")
    });
    match before {
        Some(before) if !before.is_empty() => format!("changed, was {before}"),
        _ => "changed".to_owned(),
    }
}

/// How many objects show it, and the first of them: `40 pods: web-1, web-2, web-3 and 37 more`.
fn objects(alert: &Alert) -> String {
    let members = &alert.members;
    let names: Vec<_> = members
        .iter()
        .take(NAMED)
        .map(|member| text::one_line(&member.object.name))
        .collect();
    let more = match members.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}: {}{more}", count(members), names.join(", "))
}

/// How many objects there are: `40 pods`.
fn count(members: &[Member]) -> String {
    let kind = members.first().map_or("", |member| &member.object.kind);
    text::count(members.len(), &text::one_line(&kind.to_lowercase()))
}

/// Reason, since when, cluster; at the end also how many objects showed it.
fn details(message: &Message) -> String {
    let alert = &message.alert;
    let mut parts = Vec::new();
    if !alert.reason.is_empty() {
        parts.push(text::one_line(&alert.reason));
    }
    let since = alert.starts_at.strftime("%Y-%m-%d %H:%M:%S UTC");
    if message.event.is_firing() {
        let stands = text::duration(message.duration());
        parts.push(format!("for {stands}, since {since}"));
    } else {
        if !alert.members.is_empty() {
            parts.push(count(&alert.members));
        }
        parts.push(format!("since {since}"));
    }
    if let Some(cluster) = alert.labels.get("cluster") {
        parts.push(format!("cluster {}", text::one_line(cluster)));
    }
    parts.join(" · ")
}

/// A message for programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    time: Timestamp,
    transition: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    resolution: Option<Resolution>,
    /// How many transitions the line stands for.
    transitions: u32,
    alert: &'a Alert,
}

impl<'a> Line<'a> {
    fn of(message: &'a Message) -> Self {
        let (transition, resolution) = match message.event {
            Event::Fired => ("fire", None),
            Event::Changed => ("change", None),
            Event::Resolved(why) | Event::FiredAndResolved(why) => ("resolve", Some(why)),
        };
        Self {
            time: message.at,
            transition,
            resolution,
            transitions: message.transitions,
            alert: &message.alert,
        }
    }
}

#[cfg(test)]
mod tests;
