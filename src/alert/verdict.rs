//! What the rules make of one object, and what has become of that: for whoever asks why they were told, or were not.

use jiff::Timestamp;

use super::{
    Engine, Severity, State,
    cause::ends_with_success,
    entry::{Entry, Member},
};
use crate::{
    cluster::{Object, Subject},
    rules::{self, Evaluation, Finding, Quiet, Rule},
    shard::ShardKey,
};

/// What a rule makes of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The rule.
    pub rule: &'static Rule,
    /// What it makes of it.
    pub outcome: Outcome,
}

/// What has become of a rule's look at an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It has found something.
    Found(Membership),
    /// It has nothing to report.
    Quiet {
        /// Why, as the end of a sentence that begins with "because".
        because: String,
    },
    /// It is turned off.
    Off {
        /// What it would make of the object.
        because: String,
    },
}

/// An object's part in an alert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// What the alert is about.
    pub subject: Subject,
    /// Where the alert is in its life; of one that does not fire, whether this object makes it wait.
    pub state: State,
    /// The alert's severity.
    pub severity: Severity,
    /// The exact Kubernetes reason.
    pub reason: Box<str>,
    /// What is wrong with the object, in one line.
    pub summary: String,
    /// Since when it shows the condition.
    pub since: Timestamp,
    /// When the alert fired; else when this object lets it fire.
    pub fires_at: Timestamp,
    /// How many objects must show the condition before the alert fires.
    pub quorum: usize,
    /// How many do.
    pub standing: usize,
    /// The alerts that explain it.
    pub causes: Vec<Cause>,
}

/// An alert that explains another one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cause {
    /// Its rule's name.
    pub rule: &'static str,
    /// What it is about.
    pub subject: Subject,
    /// Where it is in its life.
    pub state: State,
}

impl Engine {
    /// What every rule of its kind makes of an object: at least one verdict a rule. The object is as it was [observed](Engine::observe) last, and
    /// [`Engine::advance`] has taken that over.
    pub fn verdicts(&self, object: &Object, now: Timestamp) -> Vec<Verdict> {
        let known = self.objects.get(&*object.meta().uid);
        let mut memo = known.map(|known| known.memo.clone()).unwrap_or_default();
        let (mut findings, mut quiet) = (Vec::new(), Vec::new());
        let evaluation = Evaluation::new(now, &mut memo, &mut findings)
            .tuned(&self.tuning)
            .of(object, &self.cluster);
        object.evaluate(&mut evaluation.explained(&mut quiet));
        let alerts = known.into_iter().flat_map(|known| &known.alerts);
        let alerts: Vec<&Entry> = alerts.filter_map(|key| self.alerts.get(key)).collect();
        let mut verdicts: Vec<Verdict> = Vec::new();
        for rule in rules::all().filter(|rule| rule.kind == object.kind()) {
            let of_rule = alerts.iter().filter(|entry| entry.rule == rule);
            let found = of_rule.filter_map(|entry| self.found(entry, object, now));
            let found = found.map(Outcome::Found);
            let dropped = findings.iter().filter(|finding| finding.rule == rule);
            let dropped = dropped.filter_map(|finding| self.dropped(object, finding));
            let quiet = quiet.iter().filter(|quiet| quiet.rule == rule).map(said);
            for outcome in found.chain(dropped).chain(quiet) {
                let verdict = Verdict { rule, outcome };
                // Of containers that are alike, one says it for all.
                if !verdicts.contains(&verdict) {
                    verdicts.push(verdict);
                }
            }
        }
        verdicts
    }

    /// The object's part in the alert, if it shows the condition, or the alert fires though it no longer does.
    fn found(&self, entry: &Entry, object: &Object, now: Timestamp) -> Option<Membership> {
        let uid = &*object.meta().uid;
        let member: &Member = entry.members.get(uid)?;
        let fired = entry.fired.as_ref();
        if fired.is_none() && !member.stands(now) {
            return None;
        }
        let state = if fired.is_some() {
            State::Firing
        } else if member.is_explained(now) && entry.is_due(member, now) {
            State::Inhibited
        } else {
            State::Pending
        };
        let mut causes: Vec<Cause> = self
            .causes(entry, uid, member)
            .map(|cause| Cause {
                rule: cause.entry.rule.name,
                subject: cause.entry.key.subject.clone(),
                state: cause.entry.state(now),
            })
            .collect();
        causes.sort();
        causes.dedup();
        let shown = entry.shown_face(now);
        Some(Membership {
            subject: entry.key.subject.clone(),
            state,
            severity: shown.map_or(member.face.severity, |face| face.severity),
            reason: member.face.reason.clone(),
            summary: member.summary.clone(),
            since: member.since,
            fires_at: fired.map_or_else(|| member.fires_at(), |fired| fired.fires_at),
            quorum: entry.quorum(member),
            standing: entry.standing(now).count(),
            causes,
        })
    }

    /// Why nothing comes of a finding, if so: what is known of other objects speaks against it.
    fn dropped(&self, object: &Object, finding: &Finding) -> Option<Outcome> {
        let because = |because: &str| {
            let because = because.to_owned();
            Some(Outcome::Quiet { because })
        };
        let uid = &*object.meta().uid;
        if (self.slices).may_serve(object, self.objects.contains_key(uid)) {
            return because("another slice of its Service has an endpoint that is ready");
        }
        let subject = object.subject().0;
        let success = self.successes.get(&ShardKey::of(&subject)).copied();
        if ends_with_success(finding.rule) && finding.began_by(success) {
            return because(&format!("{} has succeeded since", subject.title()));
        }
        None
    }
}

fn said(quiet: &Quiet) -> Outcome {
    let because = quiet.because.clone();
    if quiet.is_off {
        Outcome::Off { because }
    } else {
        Outcome::Quiet { because }
    }
}
