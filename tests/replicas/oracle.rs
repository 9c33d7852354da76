//! What must hold of every story.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use crate::receiver::Sent;

/// A condition that stands for so long, while its key has one owner and nothing fails, must have been told.
const DUE: Duration = Duration::from_secs(4);

/// A resolve may tell what was true so long ago: watches are late after their connection was cut, and what is on its way takes its time.
const LATE: Duration = Duration::from_secs(4);

/// What is delivered is noted durably within so long: whoever dies later repeats nothing.
const DURABLE: Duration = Duration::from_secs(3);

/// Something that may make a page come twice.
#[derive(Debug)]
pub struct Disturbance {
    pub what: &'static str,
    pub at: Instant,
}

/// Who owned a key, without a break.
#[derive(Debug, Clone, Copy)]
struct Reign {
    owner: Option<u32>,
    fine: bool,
    /// Whether there was a replica that could have been the owner.
    up: bool,
    from: Instant,
    until: Instant,
}

/// What has happened.
#[derive(Debug, Default)]
pub struct History {
    /// When each workload became what: broken, or not.
    pub truth: BTreeMap<String, Vec<(Instant, bool)>>,
    pub disturbances: Vec<Disturbance>,
    /// Whether the API server fails now.
    pub faulty: bool,
    reigns: BTreeMap<String, Vec<Reign>>,
}

/// What came of a story.
#[derive(Debug, Default)]
pub struct Report {
    pub wrong: Vec<String>,
    pub figures: String,
}

impl History {
    /// Takes down who owns a workload's key now, and whether nothing fails.
    pub fn owned(&mut self, workload: &str, owner: Option<u32>, fine: bool, up: bool) {
        let now = Instant::now();
        let reigns = self.reigns.entry(workload.to_owned()).or_default();
        match reigns.last_mut() {
            Some(last) if (last.owner, last.fine, last.up) == (owner, fine, up) => last.until = now,
            _ => reigns.push(Reign {
                owner,
                fine,
                up,
                from: now,
                until: now,
            }),
        }
    }

    /// The longest time without an owner, from the first one on, while there was a replica that could reach the API server.
    fn longest_gap(&self) -> Duration {
        let gaps = self.reigns.values().flat_map(|reigns| {
            let since = reigns.iter().skip_while(|reign| reign.owner.is_none());
            // A gap may be cut into several by what is fine.
            let mut gap = Duration::ZERO;
            since.map(move |reign| {
                let time = reign.until - reign.from;
                gap = if reign.owner.is_none() && reign.up {
                    gap + time
                } else {
                    Duration::ZERO
                };
                gap
            })
        });
        gaps.max().unwrap_or_default()
    }

    /// The times in which a workload was broken: from the moment in which it certainly was, to that in which it might not be any more.
    fn stretches(&self, workload: &str) -> Vec<(Instant, Option<Instant>)> {
        let mut stretches: Vec<(Instant, Option<Instant>)> = Vec::new();
        // In pairs: before and after the write.
        for pair in self.truth[workload].chunks(2) {
            let ((before, broken), (after, _)) = (pair[0], pair[1]);
            match (stretches.last_mut(), broken) {
                (Some((_, end @ None)), false) => *end = Some(before),
                (Some((_, None)), true) | (_, false) => {}
                (_, true) => stretches.push((after, None)),
            }
        }
        stretches
    }

    /// Whether a workload was well at some time from `from` to `until`.
    fn was_well(&self, workload: &str, from: Instant, until: Instant) -> bool {
        let turns = &self.truth[workload];
        let at_first = turns.iter().rev().find(|(at, _)| *at <= from);
        at_first.is_none_or(|(_, broken)| !broken)
            || turns
                .iter()
                .any(|(at, broken)| !broken && (from..=until).contains(at))
    }

    fn disturbed(&self, from: Instant, until: Instant) -> bool {
        let mut disturbances = self.disturbances.iter();
        disturbances.any(|disturbance| (from..=until).contains(&disturbance.at))
    }
}

/// What is wrong, and some figures.
pub fn judge(history: &History, sent: &[Sent]) -> Report {
    let mut wrong = Vec::new();
    let mut repeats = 0;
    for workload in history.truth.keys() {
        let sent: Vec<&Sent> = sent
            .iter()
            .filter(|sent| sent.workload == *workload)
            .collect();
        let start = history.truth[workload][0].0;
        let text = || {
            let sent = sent.iter().map(|sent| {
                let firing = if sent.firing() { "fires" } else { "is over" };
                format!(
                    "{:.3}: {firing}, by {}, arrived {}, clear {}",
                    (sent.at - start).as_secs_f64(),
                    sent.by,
                    sent.arrived,
                    sent.clear
                )
            });
            let truth = history.truth[workload]
                .iter()
                .map(|(at, broken)| format!("{:.3}: {broken}", (*at - start).as_secs_f64()));
            let reigns = history.reigns[workload].iter().map(|reign| {
                format!(
                    "{:.3}..{:.3}: {:?} fine {}",
                    (reign.from.saturating_duration_since(start)).as_secs_f64(),
                    (reign.until.saturating_duration_since(start)).as_secs_f64(),
                    reign.owner,
                    reign.fine
                )
            });
            let disturbances = history.disturbances.iter().map(|disturbance| {
                format!(
                    "{:.3}: {}",
                    (disturbance.at.saturating_duration_since(start)).as_secs_f64(),
                    disturbance.what
                )
            });
            format!(
                "sent {:#?}\nbroken {:?}\nowners {:#?}\ndisturbed {:?}",
                sent.collect::<Vec<_>>(),
                truth.collect::<Vec<_>>(),
                reigns.collect::<Vec<_>>(),
                disturbances.collect::<Vec<_>>()
            )
        };
        let problem = |what: &str, at: Instant| {
            format!(
                "{workload} at {:.3}: {what}\n{}",
                (at - start).as_secs_f64(),
                text()
            )
        };
        wrong.extend(two_owners(&sent).map(|at| problem("two replicas send at once", at)));
        wrong.extend(other_keys(&sent).map(|at| problem("another key", at)));
        wrong.extend(
            false_resolves(history, workload, &sent)
                .map(|at| problem("resolved while it stands", at)),
        );
        wrong.extend(
            false_pages(history, workload, &sent).map(|at| problem("paged while all was well", at)),
        );
        wrong.extend(
            missed(history, workload, &sent)
                .into_iter()
                .map(|at| problem("nobody was told", at)),
        );
        for (before, again) in repeated(&sent) {
            repeats += 1;
            if !before.clear {
                continue;
            }
            if !history.disturbed(before.at.checked_sub(LATE).unwrap(), before.at + DURABLE) {
                wrong.push(problem("told twice", again.at));
            }
        }
    }
    let figures = format!(
        "{} messages, {repeats} of them repeated, at most {:.1} s without an owner, {} disturbances",
        sent.len(),
        history.longest_gap().as_secs_f64(),
        history.disturbances.len()
    );
    Report { wrong, figures }
}

/// Attempts of different replicas about one workload never overlap.
fn two_owners(sent: &[&Sent]) -> impl Iterator<Item = Instant> {
    sent.iter().enumerate().filter_map(|(index, one)| {
        let overlaps = sent[..index]
            .iter()
            .any(|other| other.by != one.by && other.end.is_none_or(|end| end > one.at));
        overlaps.then_some(one.at)
    })
}

/// A workload has one alert, under one key.
fn other_keys(sent: &[&Sent]) -> impl Iterator<Item = Instant> {
    sent.windows(2)
        .filter(|pair| pair[0].key != pair[1].key)
        .map(|pair| pair[1].at)
}

/// What is said to be over was over at some time just before.
fn false_resolves(
    history: &History,
    workload: &str,
    sent: &[&Sent],
) -> impl Iterator<Item = Instant> {
    sent.iter()
        .filter(|sent| !sent.firing())
        .filter(|sent| !history.was_well(workload, sent.at.checked_sub(LATE).unwrap(), sent.at))
        .map(|sent| sent.at)
}

/// What is said to fire was broken since what was said before.
fn false_pages(history: &History, workload: &str, sent: &[&Sent]) -> impl Iterator<Item = Instant> {
    let stretches = history.stretches(workload);
    sent.iter().enumerate().filter_map(move |(index, one)| {
        if !one.firing() {
            return None;
        }
        let over = sent[..index]
            .iter()
            .rev()
            .find(|before| !before.firing() && before.clear);
        let since = over.map_or(history.truth[workload][0].0, |over| over.at - LATE);
        let stood = stretches.iter().any(|(from, until)| {
            *from <= one.at + LATE && until.is_none_or(|until| until >= since)
        });
        (!stood).then_some(one.at)
    })
}

/// The conditions that somebody should have been told of, and was not.
fn missed(history: &History, workload: &str, sent: &[&Sent]) -> Vec<Instant> {
    let arrived = || sent.iter().filter(|sent| sent.arrived);
    let reigns = &history.reigns[workload];
    let stretches = history.stretches(workload);
    let missed = stretches.iter().filter(|(from, until)| {
        let end = until.unwrap_or_else(|| reigns.last().unwrap().until);
        let due = reigns.iter().any(|reign| {
            reign.owner.is_some()
                && reign.fine
                && reign
                    .until
                    .min(end)
                    .saturating_duration_since(reign.from.max(*from))
                    >= DUE
        });
        let held = arrived()
            .rev()
            .find(|sent| sent.at <= end)
            .is_some_and(|sent| sent.firing());
        let told = arrived().any(|sent| sent.firing() && (*from..=end + LATE).contains(&sent.at));
        due && !held && !told
    });
    missed.map(|(from, _)| *from).collect()
}

/// Pages that were delivered already, with the ones before them.
fn repeated<'a>(sent: &'a [&Sent]) -> impl Iterator<Item = (&'a Sent, &'a Sent)> {
    let arrived: Vec<&Sent> = sent.iter().filter(|sent| sent.arrived).copied().collect();
    let pairs: Vec<_> = arrived
        .windows(2)
        .filter(|pair| pair[0].firing() == pair[1].firing())
        .map(|pair| (pair[0], pair[1]))
        .collect();
    pairs.into_iter()
}
