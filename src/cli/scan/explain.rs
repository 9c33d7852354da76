//! `alertkube scan --explain`: what every rule makes of one object, and why.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal as _, Write},
};

use anyhow::bail;
use jiff::Timestamp;
use serde::Serialize;

use super::{FileError, Found, Output, fires_in, in_order, style, write_as_of, write_errors};
use crate::{
    alert::{Alert, Cause, Engine, Membership, Outcome, Severity, State, Verdict},
    cli::table::{self, Cell, Style},
    cluster::{KindId, Object, ObjectRef, Subject},
    settings, text,
    time::between,
};

/// How many objects are named if the one that is asked about does not exist.
const NAMED_NEARBY: usize = 5;
/// How much alike names are that may be meant, from 0 to 1: as long names of pods are that begin alike (Jaro-Winkler), and as short ones are that are misspelt.
const ALIKE: f64 = 0.8;
const MISSPELT: f64 = 0.6;
/// A Service is no watched kind, but what its EndpointSlices show is about it.
const SERVICE: &str = "Service";
/// What kubectl takes for kinds, besides their names in singular and plural.
const SHORT: &[(&str, &str)] = &[
    ("cj", "CronJob"),
    ("deploy", "Deployment"),
    ("ds", "DaemonSet"),
    ("hpa", "HorizontalPodAutoscaler"),
    ("no", "Node"),
    ("ns", "Namespace"),
    ("pdb", "PodDisruptionBudget"),
    ("po", "Pod"),
    ("pv", "PersistentVolume"),
    ("pvc", "PersistentVolumeClaim"),
    ("quota", "ResourceQuota"),
    ("rs", "ReplicaSet"),
    ("services", SERVICE),
    ("sts", "StatefulSet"),
    ("svc", SERVICE),
];

/// Reads which object is asked about: `KIND/NAMESPACE/NAME`, or `KIND/NAME`.
///
/// # Errors
///
/// The text has another form, or no rule looks at objects of that kind.
pub(super) fn target(text: &str) -> Result<ObjectRef, String> {
    let parts: Vec<&str> = text.split('/').collect();
    let (word, namespace, name) = match parts[..] {
        [kind, namespace, name] => (kind, namespace, name),
        [kind, name] => (kind, "", name),
        _ => ("", "", ""),
    };
    if word.is_empty() || name.is_empty() {
        return Err(
            "write KIND/NAMESPACE/NAME (pod/shop/web-0), or KIND/NAME if its kind has no namespaces (node/node-1)"
                .to_owned(),
        );
    }
    let Some(kind) = kind(word) else {
        let kinds = kinds().collect::<Vec<_>>().join(", ");
        return Err(format!(
            "no rule looks at objects of the kind {word:?}, but at those of {kinds}"
        ));
    };
    Ok(ObjectRef {
        kind: kind.into(),
        namespace: namespace.into(),
        name: name.into(),
    })
}

fn kinds() -> impl Iterator<Item = &'static str> {
    let watched = KindId::ALL.iter().map(|kind| kind.as_str());
    watched.chain([SERVICE])
}

/// The kind, as Kubernetes spells it, that people call by this word.
fn kind(word: &str) -> Option<&'static str> {
    let is = |name: &str| name.eq_ignore_ascii_case(word);
    let plural = KindId::ALL.iter().find(|kind| is(kind.plural()));
    let short = SHORT.iter().find(|(short, _)| is(short));
    kinds()
        .find(|kind| is(kind))
        .or_else(|| plural.map(|kind| kind.as_str()))
        .or_else(|| short.map(|(_, kind)| *kind))
}

/// The names by which an object is asked about: its own, and that of the Service that it is of.
fn names(object: &Object) -> (ObjectRef, Option<ObjectRef>) {
    let service = (object.kind() == KindId::EndpointSlice).then(|| object.subject().0);
    let service = service.filter(|subject| *subject.kind == *SERVICE);
    let service = service.map(|subject| ObjectRef {
        kind: SERVICE.into(),
        namespace: subject.namespace,
        name: subject.name,
    });
    (object.object_ref(), service)
}

/// The search for an object among those that are read. Of the others, only the names of a few are kept.
#[derive(Debug)]
pub(super) struct Search {
    target: ObjectRef,
    /// One, but for the slices of a Service.
    found: Vec<Object>,
    /// What else may be meant, the likeliest first.
    nearby: Vec<(f64, ObjectRef)>,
}

impl Search {
    /// A search that has seen nothing yet.
    pub(super) fn of(target: &ObjectRef) -> Self {
        Self {
            target: target.clone(),
            found: Vec::new(),
            nearby: Vec::new(),
        }
    }

    /// What was found: each object as it was seen last.
    pub(super) fn found(&self) -> &[Object] {
        &self.found
    }

    /// Looks at an object.
    pub(super) fn see(&mut self, object: &Object) {
        let (own, service) = names(object);
        if own == self.target || service.as_ref() == Some(&self.target) {
            let uid = &object.meta().uid;
            self.found.retain(|earlier| earlier.meta().uid != *uid);
            self.found.push(object.clone());
            return;
        }
        // Nobody knows slices by their names.
        let name = service.unwrap_or(own);
        if let Some(likeness) = self.likeness(&name)
            && !self.nearby.iter().any(|(_, known)| *known == name)
        {
            let at = |(other, _): &(f64, ObjectRef)| *other >= likeness;
            let place = self.nearby.partition_point(at);
            self.nearby.insert(place, (likeness, name));
            self.nearby.truncate(NAMED_NEARBY);
        }
    }

    /// How likely it is that another object is meant, if at all: it is called alike.
    fn likeness(&self, other: &ObjectRef) -> Option<f64> {
        let (one, other_name) = (&*self.target.name, &*other.name);
        let alike = strsim::jaro_winkler(one, other_name);
        let spelt = strsim::normalized_damerau_levenshtein(one, other_name);
        let begins = other_name.starts_with(one);
        let is_near = begins || alike >= ALIKE || spelt >= MISSPELT;
        is_near.then(|| {
            let bonus = |same: bool, weight: f64| if same { weight } else { 0.0 };
            let name = if begins { 1.0 } else { alike.max(spelt) };
            let kind = bonus(other.kind == self.target.kind, 0.4);
            name + kind + bonus(other.namespace == self.target.namespace, 0.2)
        })
    }

    /// What to say if it does not exist.
    fn not_found(&self, found: &Found) -> String {
        let mut said = format!(
            "there is no {} among {} that were read",
            title(&self.target),
            text::count(found.objects, "object")
        );
        // Writing to a String cannot fail.
        if !found.errors.is_empty() {
            let errors = text::count(found.errors.len(), "error");
            let _ = write!(said, ", with {errors}");
        }
        let nearby: Vec<String> = self.nearby.iter().map(|(_, name)| short(name)).collect();
        if !nearby.is_empty() {
            let _ = write!(said, "; did you mean {}?", nearby.join(", "));
        }
        text::one_line(&said)
    }
}

/// An object as people write it: `Pod shop/web-0`.
fn title(object: &ObjectRef) -> String {
    let ObjectRef {
        kind,
        namespace,
        name,
    } = object.clone();
    let kind = kind.into();
    let subject = Subject {
        kind,
        namespace,
        name,
    };
    subject.title()
}

/// An object as `--explain` takes it: `Pod/shop/web-0`, `Node/node-1`.
fn short(object: &ObjectRef) -> String {
    if object.namespace.is_empty() {
        format!("{}/{}", object.kind, object.name)
    } else {
        object.to_string()
    }
}

/// What is said of an object.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Explained<'a> {
    #[serde(flatten)]
    object: ObjectRef,
    /// What the alerts of its rules are about.
    subject: Subject,
    /// What each rule makes of it, those that fire first.
    rules: Vec<Row>,
    /// The alerts about the same subject that come from other objects alone.
    other_alerts: Vec<&'a Alert>,
}

impl<'a> Explained<'a> {
    fn new(object: &Object, engine: &Engine, found: &'a Found) -> Self {
        let subject = object.subject().0;
        let mut rules: Vec<Row> = engine
            .verdicts(object, found.at)
            .into_iter()
            .map(Row::from)
            .collect();
        rules.sort_by_key(|row| STATES.iter().position(|state| *state == row.state));
        let object = object.object_ref();
        let mut other_alerts = in_order(&found.alerts);
        other_alerts.retain(|alert| {
            let is_member = alert.members.iter().any(|member| member.object == object);
            alert.subject == subject && !is_member
        });
        Self {
            object,
            subject,
            rules,
            other_alerts,
        }
    }
}

/// What a rule makes of an object.
#[derive(Debug, Serialize)]
struct Row {
    alert: &'static str,
    state: &'static str,
    #[serde(flatten)]
    found: Option<Facts>,
    /// What is wrong, or why the rule reports nothing.
    because: String,
}

/// What is told only if the rule has found something.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Facts {
    #[serde(skip)]
    state: State,
    severity: Severity,
    reason: Box<str>,
    since: Timestamp,
    fires_at: Timestamp,
    /// How many objects must show it before it fires.
    quorum: usize,
    /// How many do.
    objects: usize,
    explained_by: Vec<By>,
}

/// An alert that explains another one.
#[derive(Debug, Serialize)]
struct By {
    alert: &'static str,
    subject: Subject,
    state: State,
}

/// The states in the order in which they matter.
const STATES: [&str; 6] = [
    State::Firing.as_str(),
    State::Pending.as_str(),
    State::Inhibited.as_str(),
    State::Resolved.as_str(),
    QUIET,
    OFF,
];
const QUIET: &str = "quiet";
const OFF: &str = "off";

impl From<Verdict> for Row {
    fn from(Verdict { rule, outcome }: Verdict) -> Self {
        let (state, found, because) = match outcome {
            Outcome::Off { because } => (OFF, None, because),
            Outcome::Quiet { because } => (QUIET, None, because),
            Outcome::Found(Membership {
                subject: _,
                state,
                severity,
                reason,
                summary,
                since,
                fires_at,
                quorum,
                standing: objects,
                causes,
            }) => {
                let by = |cause: Cause| By {
                    alert: cause.rule,
                    subject: cause.subject,
                    state: cause.state,
                };
                let facts = Facts {
                    state,
                    severity,
                    reason,
                    since,
                    fires_at,
                    quorum,
                    objects,
                    explained_by: causes.into_iter().map(by).collect(),
                };
                (state.as_str(), Some(facts), summary)
            }
        };
        Self {
            alert: rule.name,
            state,
            found,
            because,
        }
    }
}

/// Prints what is said of what was found. The inner error is that of the output.
///
/// # Errors
///
/// The object that is asked about is not among those that were read.
pub(super) fn print(
    output: Output,
    search: &Search,
    engine: &Engine,
    found: &Found,
) -> anyhow::Result<io::Result<()>> {
    if search.found.is_empty() {
        write_errors(&mut io::stderr(), false, found)?;
        bail!("{}", search.not_found(found));
    }
    let objects = explained(search, engine, found);
    let mut out = io::stdout().lock();
    Ok(match output {
        Output::Table => {
            let colour = settings::colour(out.is_terminal());
            write_tables(&mut out, colour, &objects, found)
        }
        Output::Json => write_json(&mut out, &objects, &found.errors)
            .and_then(|()| write_as_of(&mut io::stderr(), false, found)),
    })
}

fn explained<'a>(search: &Search, engine: &Engine, found: &'a Found) -> Vec<Explained<'a>> {
    let objects = search.found.iter();
    objects
        .map(|object| Explained::new(object, engine, found))
        .collect()
}

fn write_json(
    out: &mut dyn Write,
    objects: &[Explained<'_>],
    errors: &[FileError],
) -> io::Result<()> {
    #[derive(Serialize)]
    struct Json<'a> {
        objects: &'a [Explained<'a>],
        errors: &'a [FileError],
    }

    serde_json::to_writer_pretty(&mut *out, &Json { objects, errors })?;
    writeln!(out)
}

const HEAD: [&str; 6] = ["ALERT", "STATE", "SEVERITY", "SINCE", "FIRES IN", "WHY"];

fn write_tables(
    out: &mut dyn Write,
    colour: bool,
    objects: &[Explained<'_>],
    found: &Found,
) -> io::Result<()> {
    for explained in objects {
        let (name, subject) = (title(&explained.object), explained.subject.title());
        table::styled(out, colour, Style::Bold, &text::one_line(&name))?;
        if subject != name {
            write!(out, ", of {}", text::one_line(&subject))?;
        }
        writeln!(out, "\n")?;
        let rows = explained.rules.iter();
        let rows: Vec<_> = rows.map(|row| row.cells(found.at)).collect();
        table::write(out, colour, HEAD, &rows)?;
        writeln!(out)?;
        if !explained.other_alerts.is_empty() {
            writeln!(out, "Other alerts about {}:\n", text::one_line(&subject))?;
            let rows = explained.other_alerts.iter();
            let rows: Vec<_> = rows.map(|alert| cells_of(alert, found.at)).collect();
            table::write(out, colour, HEAD, &rows)?;
            writeln!(out)?;
        }
    }
    write_errors(out, colour, found)?;
    write_as_of(out, colour, found)
}

impl Row {
    fn cells(&self, at: Timestamp) -> [Cell; 6] {
        let none = || Cell::new("-", Style::Dim);
        let Some(facts) = &self.found else {
            return [
                Cell::plain(self.alert),
                Cell::new(self.state, Style::Dim),
                none(),
                none(),
                none(),
                Cell::plain(text::one_line(&self.because)),
            ];
        };
        let too_few = facts.state == State::Pending && facts.objects < facts.quorum;
        let fires_in = if too_few {
            "-".to_owned()
        } else {
            fires_in(facts.state, facts.fires_at, at)
        };
        let mut why = self.because.clone();
        // Writing to a String cannot fail.
        if too_few {
            let Facts {
                quorum, objects, ..
            } = facts;
            let _ = write!(
                why,
                "; fires only once {quorum} objects show it, now {objects}"
            );
        }
        for (at, by) in facts.explained_by.iter().enumerate() {
            let before = if at == 0 { "; explained by" } else { " and" };
            let (subject, state) = (by.subject.title(), by.state.as_str());
            let _ = write!(why, "{before} {} of {subject} ({state})", by.alert);
        }
        let style = style(facts.state, facts.severity);
        [
            Cell::plain(self.alert),
            Cell::new(self.state, style),
            Cell::new(facts.severity.as_str(), style),
            Cell::plain(text::duration(between(facts.since, at))),
            Cell::plain(fires_in),
            Cell::plain(text::one_line(&why)),
        ]
    }
}

fn cells_of(alert: &Alert, at: Timestamp) -> [Cell; 6] {
    let style = style(alert.state, alert.severity);
    [
        Cell::plain(alert.rule.name),
        Cell::new(alert.state.as_str(), style),
        Cell::new(alert.severity.as_str(), style),
        Cell::plain(text::duration(between(alert.starts_at, at))),
        Cell::plain(fires_in(alert.state, alert.fires_at, at)),
        Cell::plain(text::one_line(alert.headline())),
    ]
}

#[cfg(test)]
mod tests;
