//! The oracle: what is broken and when, what was paged and when, and whether that is as promised.
//!
//! A [`Flow`] breaks objects and mends them, and notes when; a receiver notes what it is told. Afterwards [`judge`] compares the two:
//!
//! - what was broken for longer than its key may have been without an owner was paged;
//! - what was paged was resolved once it was over, and never while it stood;
//! - nothing was told twice, but while something was going wrong, and then with the same key;
//! - nothing was told that was not so.

mod figures;
mod flow;
#[cfg(test)]
mod tests;

pub use figures::Figures;
pub use flow::Flow;

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

/// A time that is known to lie between two others: of a change, between asking the API server for it and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    pub earliest: Instant,
    pub latest: Instant,
}

/// Something that was broken for a while.
#[derive(Debug, Clone)]
pub struct Condition {
    /// The workload's name. It may be broken again, but only after it was told to be well.
    pub subject: String,
    pub broke: Moment,
    pub ended: Moment,
}

/// A firing or resolved alert that the receiver has accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    pub at: Instant,
    pub is_firing: bool,
    /// What the receiver tells alerts apart by: the labels.
    pub key: BTreeMap<String, String>,
}

/// While this was going on, things could be told twice, and late.
#[derive(Debug, Clone)]
pub struct Fault {
    pub what: String,
    pub from: Instant,
    pub until: Instant,
}

/// How long a key may be without an owner: from when an alert is due until it is paged.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// When nothing was going wrong.
    pub calm: Duration,
    /// When something was.
    pub faulty: Duration,
}

/// Everything that there is to judge.
#[derive(Debug, Default)]
pub struct History {
    pub conditions: Vec<Condition>,
    /// By subject, in the order in which they came.
    pub receipts: BTreeMap<String, Vec<Receipt>>,
    pub faults: Vec<Fault>,
}

impl History {
    /// Whether something was going wrong at some time of a span.
    fn is_faulty(&self, from: Instant, until: Instant) -> bool {
        self.faults
            .iter()
            .any(|fault| fault.from <= until && from <= fault.until)
    }
}

/// What is against the promise, a line each, and the figures.
pub fn judge(history: &History, bounds: Bounds) -> (Vec<String>, Figures) {
    let mut judge = Judge {
        history,
        bounds,
        wrong: Vec::new(),
        figures: Figures::default(),
    };
    let mut conditions = BTreeMap::<_, Vec<_>>::new();
    for condition in &history.conditions {
        let of_subject = conditions.entry(&condition.subject).or_default();
        of_subject.push(condition);
    }
    for (subject, receipts) in &history.receipts {
        if !conditions.contains_key(subject) {
            let wrong = format!("{subject}: was told of, and never broken: {receipts:?}");
            judge.wrong.push(wrong);
        }
    }
    for (subject, mut of_subject) in conditions {
        of_subject.sort_by_key(|condition| condition.broke.earliest);
        let receipts = history.receipts.get(subject).map_or(&[][..], Vec::as_slice);
        let mut from = 0;
        for (at, condition) in of_subject.iter().enumerate() {
            // What comes before the next one is about this one.
            let next = of_subject.get(at + 1);
            let until = next.map_or(receipts.len(), |next| {
                receipts.partition_point(|receipt| receipt.at < next.broke.earliest)
            });
            let earlier = receipts[..from].last();
            judge.condition(condition, &receipts[from..until], earlier);
            from = until;
        }
    }
    (judge.wrong, judge.figures)
}

struct Judge<'a> {
    history: &'a History,
    bounds: Bounds,
    wrong: Vec<String>,
    figures: Figures,
}

impl Judge<'_> {
    /// `earlier` is what was told last before it began.
    fn condition(
        &mut self,
        condition: &Condition,
        mut receipts: &[Receipt],
        earlier: Option<&Receipt>,
    ) {
        // The resolve of the time before comes once more, from whoever could not know that it had been told: before this time's page, it takes nothing from anybody.
        while let [first, rest @ ..] = receipts
            && let Some(earlier) = earlier
            && !first.is_firing
            && first.key == earlier.key
            && self.history.is_faulty(earlier.at, first.at)
        {
            self.figures.duplicate_resolves += 1;
            receipts = rest;
        }
        self.figures.conditions += 1;
        let firing: Vec<_> = receipts
            .iter()
            .filter(|receipt| receipt.is_firing)
            .collect();
        let resolved: Vec<_> = receipts
            .iter()
            .filter(|receipt| !receipt.is_firing)
            .collect();
        match firing.first() {
            Some(first) => self.was_paged(condition, first),
            None => self.was_not_paged(condition, &resolved),
        }
        for early in resolved
            .iter()
            .filter(|receipt| receipt.at < condition.ended.earliest)
        {
            self.says(condition, early.at, "resolved while it stood");
        }
        if let Some(first) = resolved.first() {
            let delay = first.at.saturating_duration_since(condition.ended.latest);
            self.figures.to_resolve.push(delay);
        } else if !firing.is_empty() {
            self.says(condition, condition.ended.latest, "never resolved");
        }
        for late in &firing {
            let after = late.at.saturating_duration_since(condition.ended.latest);
            if after > self.bound(condition.ended.earliest, late.at) {
                self.says(condition, late.at, "paged when it was long over");
            }
        }
        // In the end the receiver must know how it is.
        if let Some(last) = receipts.last().filter(|last| last.is_firing)
            && !resolved.is_empty()
        {
            self.says(condition, last.at, "paged again after it was resolved");
        }
        self.figures.duplicate_pages += firing.len().saturating_sub(1);
        self.figures.duplicate_resolves += resolved.len().saturating_sub(1);
        for again in firing.iter().skip(1).chain(resolved.iter().skip(1)) {
            // What was told twice was told by somebody who could not know that it had been told: because of a fault since the condition began.
            if !self.history.is_faulty(condition.broke.earliest, again.at) {
                self.says(
                    condition,
                    again.at,
                    "told twice, with no fault to excuse it",
                );
            }
        }
        if let Some(other) = receipts
            .iter()
            .find(|receipt| receipt.key != receipts[0].key)
        {
            self.says(condition, other.at, "told by another key");
        }
    }

    /// How long a key may have been without an owner in a span.
    fn bound(&self, from: Instant, until: Instant) -> Duration {
        if self.history.is_faulty(from, until) {
            self.bounds.faulty
        } else {
            self.bounds.calm
        }
    }

    fn was_paged(&mut self, condition: &Condition, first: &Receipt) {
        let delay = first.at.saturating_duration_since(condition.broke.latest);
        let since = condition.broke.earliest;
        if self.history.is_faulty(since, first.at) {
            self.figures.to_page_faulty.push(delay);
        } else {
            self.figures.to_page_calm.push(delay);
        }
        if delay > self.bound(since, first.at) {
            let text = format!("paged only after {delay:.1?}");
            self.says(condition, first.at, &text);
        }
    }

    fn was_not_paged(&mut self, condition: &Condition, resolved: &[&Receipt]) {
        let lasted = condition
            .ended
            .earliest
            .saturating_duration_since(condition.broke.latest);
        if lasted > self.bound(condition.broke.earliest, condition.ended.latest) {
            let text = format!("never paged, in {lasted:.1?}");
            self.says(condition, condition.ended.earliest, &text);
        } else {
            self.figures.over_before_page += 1;
        }
        if let Some(first) = resolved.first() {
            self.says(condition, first.at, "resolved without a page");
        }
    }

    fn says(&mut self, condition: &Condition, at: Instant, what: &str) {
        let Condition {
            subject,
            broke,
            ended,
        } = condition;
        let since = |instant: Instant| match instant.checked_duration_since(broke.earliest) {
            Some(after) => format!("{:.1} s", after.as_secs_f64()),
            None => "before".to_owned(),
        };
        let receipts = self.history.receipts.get(subject);
        let told: Vec<_> = receipts
            .into_iter()
            .flatten()
            .map(|receipt| {
                let what = if receipt.is_firing {
                    "firing"
                } else {
                    "resolved"
                };
                format!("{what} at {}", since(receipt.at))
            })
            .collect();
        let faults: Vec<_> = self
            .history
            .faults
            .iter()
            .filter(|fault| fault.from <= at && broke.earliest <= fault.until)
            .map(|fault| fault.what.as_str())
            .collect();
        self.wrong.push(format!(
            "{subject}: {what} (at {}; since it broke: over at {}, told {told:?}; faults {faults:?})",
            since(at),
            since(ended.earliest),
        ));
    }
}
