//! What is shown of an installation: as a table, or as JSON.

use std::{
    collections::BTreeSet,
    fmt,
    io::{self, Write},
};

use jiff::Timestamp;
use serde::Serialize;

use super::look::{Seen, SeenLease};
use crate::{
    cli::table::{self, Cell, Style},
    coordinator,
    shard::ownership::{Epoch, HeldBy, Record, Shard},
    text,
    time::between,
};

/// How an installation is.
#[derive(Debug, Serialize)]
pub struct Status<'a> {
    namespace: &'a str,
    name: &'a str,
    /// The epoch of the record; none before the first generation has started.
    epoch: Option<Epoch>,
    active_total: Option<u32>,
    /// A hand-over, while there is one.
    hand_over: Option<HandOver>,
    /// Sorted by generation (the active one, the previous one, others), then by index.
    shards: Vec<Row>,
    #[serde(skip)]
    at: Timestamp,
}

/// How far a hand-over has come.
#[derive(Debug, Serialize)]
struct HandOver {
    previous_total: u32,
    /// Shards of the previous generation that are no longer served as such.
    acknowledged: usize,
    /// Shards of the active generation that have taken over all that is theirs.
    adopted: usize,
}

/// One shard.
#[derive(Debug, Serialize)]
struct Row {
    index: u32,
    total: u32,
    generation: Generation,
    served_by: ServedBy,
    /// What its Lease says as its holder, alive or not.
    holder: Option<String>,
    /// Since when it has held the Lease.
    since: Option<Timestamp>,
    /// When it last renewed it, by its own clock.
    renewed: Option<Timestamp>,
    /// What the shard remembers.
    state: Option<RowState>,
}

#[derive(Debug, Serialize)]
struct RowState {
    epoch: Epoch,
    written_at: Option<Timestamp>,
    alerts: usize,
}

// In the order in which they are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Generation {
    Active,
    Previous,
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum ServedBy {
    /// The replica of its index and total.
    Own,
    /// Another replica.
    Heir,
    Nobody,
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Active => "active",
            Self::Previous => "previous",
            Self::Other => "other",
        })
    }
}

impl fmt::Display for ServedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Own => "own",
            Self::Heir => "heir",
            Self::Nobody => "nobody",
        })
    }
}

impl<'a> Status<'a> {
    /// What was seen, put together: every shard of the active and of the previous generation, also those of which nothing is there, and what there is of others.
    pub fn new(names: &'a coordinator::Names, seen: &Seen) -> Self {
        let record = seen.record.as_ref();
        let generation = |shard: &Shard| match record {
            Some(record) if record.active == shard.total => Generation::Active,
            Some(record) if record.previous == Some(shard.total) => Generation::Previous,
            _ => Generation::Other,
        };
        let totals = record.map(|record| [Some(record.active), record.previous]);
        let expected = totals.into_iter().flatten().flatten().flat_map(Shard::all);
        let found = seen.leases.keys().chain(seen.states.keys()).copied();
        let shards: BTreeSet<_> = expected
            .chain(found)
            .map(|shard| (generation(&shard), shard))
            .collect();
        Self {
            namespace: &names.namespace,
            name: &names.name,
            epoch: record.map(|record| record.epoch),
            active_total: record.map(|record| record.active),
            hand_over: record.and_then(|record| HandOver::new(record, seen)),
            shards: shards
                .into_iter()
                .map(|(generation, shard)| Row::new(generation, shard, seen))
                .collect(),
            at: seen.at,
        }
    }

    /// Whether there is an active generation, and every shard of it is served.
    pub fn is_served(&self) -> bool {
        self.active_total.is_some() && self.count(ServedBy::Nobody) == 0
    }

    /// Shards of the active generation that are served in this way.
    fn count(&self, served_by: ServedBy) -> usize {
        self.shards
            .iter()
            .filter(|row| row.generation == Generation::Active && row.served_by == served_by)
            .count()
    }

    /// Writes it for people.
    ///
    /// # Errors
    ///
    /// The output cannot be written to.
    pub fn write_table(&self, out: &mut dyn Write, colour: bool) -> io::Result<()> {
        let installation = format!("{}/{}", self.namespace, self.name);
        let head = match (self.active_total, self.epoch) {
            (Some(total), Some(epoch)) => {
                let shards = text::count(total as usize, "shard");
                format!("{installation}: {shards}, epoch {epoch}; {}", self.change())
            }
            _ => format!(
                "{installation}: nothing has been served yet; ALERTKUBE_NAME and --namespace say where to look"
            ),
        };
        table::styled(out, colour, Style::Bold, &head)?;
        writeln!(out, "\n")?;
        if !self.shards.is_empty() {
            let head = [
                "SHARD",
                "GENERATION",
                "HOLDER",
                "SINCE",
                "SERVED BY",
                "STATE AGE",
                "ALERTS",
            ];
            let rows: Vec<_> = self.shards.iter().map(|row| row.cells(self.at)).collect();
            table::write(out, colour, head, &rows)?;
            writeln!(out)?;
        }
        if self.active_total.is_none() {
            return Ok(());
        }
        let [own, heir, nobody] =
            [ServedBy::Own, ServedBy::Heir, ServedBy::Nobody].map(|by| self.count(by));
        let style = match (heir, nobody) {
            (0, 0) => Style::Green,
            (_, 0) => Style::Yellow,
            _ => Style::Red,
        };
        let summary =
            format!("{own} served by their own replica, {heir} by an heir, {nobody} by nobody");
        table::styled(out, colour, style, &summary)?;
        writeln!(out)
    }

    fn change(&self) -> String {
        let Some(HandOver {
            previous_total,
            acknowledged,
            adopted,
        }) = &self.hand_over
        else {
            return "no hand-over".to_owned();
        };
        format!(
            "hand-over from {}: {acknowledged} of {previous_total} acknowledged, {adopted} of {} adopted",
            text::count(*previous_total as usize, "shard"),
            self.active_total.unwrap_or_default()
        )
    }
}

impl HandOver {
    fn new(record: &Record, seen: &Seen) -> Option<Self> {
        let previous_total = record.previous?;
        let lease = |shard: &Shard| seen.leases.get(shard).map(|seen| &seen.lease);
        let acknowledged = Shard::all(previous_total)
            .filter(|shard| lease(shard).is_some_and(|lease| lease.acknowledged >= record.epoch));
        let adopted = Shard::all(record.active)
            .filter(|shard| lease(shard).is_some_and(|lease| lease.adopted == record.epoch));
        Some(Self {
            previous_total,
            acknowledged: acknowledged.count(),
            adopted: adopted.count(),
        })
    }
}

impl Row {
    fn new(generation: Generation, shard: Shard, seen: &Seen) -> Self {
        let held = seen
            .leases
            .get(&shard)
            .filter(|seen| seen.lease.held_by != HeldBy::Nobody);
        let state = seen.states.get(&shard).map(|summary| RowState {
            epoch: summary.epoch,
            written_at: summary.written_at,
            alerts: summary.alerts,
        });
        Self {
            index: shard.index,
            total: shard.total,
            generation,
            served_by: held.map_or(ServedBy::Nobody, |held| served_by(shard, held)),
            holder: held.map(|held| held.lease.held_by.to_string()),
            since: held.and_then(|held| held.acquired),
            renewed: held.and_then(|held| held.renewed),
            state,
        }
    }

    fn cells(&self, now: Timestamp) -> [Cell; 7] {
        let age = |time: Option<Timestamp>| {
            let age = time.map(|time| text::duration(between(time, now)));
            age.unwrap_or_else(|| "-".to_owned())
        };
        let style = match (self.served_by, self.generation) {
            (ServedBy::Own, _) => Style::Green,
            (ServedBy::Heir, _) => Style::Yellow,
            (ServedBy::Nobody, Generation::Active) => Style::Red,
            // It may be over with.
            (ServedBy::Nobody, Generation::Previous | Generation::Other) => Style::Dim,
        };
        let shard = Shard {
            total: self.total,
            index: self.index,
        };
        let state = self.state.as_ref();
        let alerts = state.map_or_else(|| "-".to_owned(), |state| state.alerts.to_string());
        [
            Cell::plain(shard.to_string()),
            Cell::plain(self.generation.to_string()),
            Cell::plain(self.holder_name()),
            Cell::plain(age(self.since)),
            Cell::new(self.served_by.to_string(), style),
            Cell::plain(age(state.and_then(|state| state.written_at))),
            Cell::number(&alerts),
        ]
    }

    /// The holder for people: the pod of a replica, which is in its name before the `_`.
    fn holder_name(&self) -> String {
        let Some(text) = &self.holder else {
            return "-".to_owned();
        };
        match HeldBy::read(text) {
            HeldBy::Replica(holder) => {
                let pod = holder
                    .uid
                    .rsplit_once('_')
                    .map_or(&*holder.uid, |(pod, _)| pod);
                let gone = match self.served_by {
                    ServedBy::Own | ServedBy::Heir => "",
                    ServedBy::Nobody => ", gone",
                };
                text::one_line(pod) + gone
            }
            HeldBy::Foreign(_) | HeldBy::Nobody => text::one_line(text) + ", no replica",
        }
    }
}

/// Who serves a shard whose Lease is held. A holder that is no replica serves nothing.
fn served_by(shard: Shard, held: &SeenLease) -> ServedBy {
    match held.lease.held_by.replica() {
        Some(holder) if held.alive && holder.owns(shard) => ServedBy::Own,
        Some(_) if held.alive => ServedBy::Heir,
        _ => ServedBy::Nobody,
    }
}
