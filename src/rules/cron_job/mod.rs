//! The rules on CronJobs. Here: what is asked of one; how schedules are read is in its own file.
//!
//! A run is known by `status.lastScheduleTime`: the time on the schedule of the newest one. It moves only when a Job was made.

mod schedule;

use std::time::Duration;

use jiff::{Timestamp, tz::TimeZone};

use self::schedule::Schedule;
use super::{DELETED, Evaluation, Finding, Memo, Rule, Since, Threshold, minutes, text::Line};
use crate::{
    alert::Severity,
    cluster::{CronJob, Kind, KindId, Meta},
    time::{after, before, between},
};

/// Every rule on CronJobs.
pub const RULES: &[&Rule] = &[&MISSED, &NOT_SUCCEEDING];

/// A run was not started.
static MISSED: Rule = Rule {
    name: "KubeCronJobMissed",
    kind: KindId::CronJob,
    severity: Severity::Warning,
    r#for: minutes(5),
    description: "A time on the schedule of a CronJob has passed, and no Job was made for it.",
    ..Rule::DEFAULTS
};

/// Its runs do not succeed.
static NOT_SUCCEEDING: Rule = Rule {
    name: "KubeCronJobNotSucceeding",
    kind: KindId::CronJob,
    severity: Severity::Warning,
    r#for: Duration::ZERO,
    description: "A CronJob has not had a success for at least 3 runs, and for at least an hour.",
    thresholds: &[&RUNS, &WITHOUT_SUCCESS, &LAST_CHANCE],
    ..Rule::DEFAULTS
};

static RUNS: Threshold =
    Threshold::count("runs", 3, "How many runs without a success are too many.");

/// Some run every minute.
static WITHOUT_SUCCESS: Threshold = Threshold::duration(
    "without_success",
    minutes(60),
    "How long a CronJob is without a success before that matters, however many runs it had.",
);

/// How long the run that is at it has to succeed: it may be the first after a time in which none could be started.
static LAST_CHANCE: Threshold = Threshold::duration(
    "last_chance",
    minutes(10),
    "How long a run that goes on has to succeed.",
);

/// Jobs that go so soon after their end may be gone before their CronJob is told of their success.
const SHORT_LIVED_SECONDS: i32 = 10;
/// How far clocks on the wall are ahead of UTC at most: in Kiritimati.
const EAST: Duration = minutes(14 * 60);
/// How far they are behind it at most: on Baker Island.
const WEST: Duration = minutes(12 * 60);

impl Kind for CronJob {
    const ID: KindId = KindId::CronJob;
    const GROUP: &'static str = "batch";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "CronJob";
    const PLURAL: &'static str = "cronjobs";
    const LABEL: Option<&'static str> = Some("cronjob");
    const IS_WORKLOAD: bool = true;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }

    fn succeeded_at(&self) -> Option<Timestamp> {
        self.status.last_successful_time
    }

    fn evaluate(&self, evaluation: &mut Evaluation<'_>) {
        if self.metadata.deletion_timestamp.is_some() {
            evaluation.quiet_all(RULES, DELETED);
            return;
        }
        let resumed = resumed(self, evaluation.memo, evaluation.now);
        if self.spec.suspend {
            evaluation.quiet_all(RULES, "it is suspended");
            return;
        }
        if let Some(plan) = Plan::of(self, resumed, evaluation) {
            missed(&plan, evaluation);
            not_succeeding(&plan, evaluation);
        }
    }
}

/// When it was first seen to run again after it was suspended, until there is a success since. What its schedule held for it until then was not to run, and no
/// field tells of that time.
fn resumed(cron_job: &CronJob, memo: &mut Memo, now: Timestamp) -> Option<Timestamp> {
    const WHAT: &str = "suspend";
    if cron_job.spec.suspend {
        memo.since(WHAT, "true", now);
        return None;
    }
    if memo.is_empty() {
        return None;
    }
    let resumed = memo.since(WHAT, "false", now);
    if cron_job.status.last_successful_time > Some(resumed) {
        memo.forget_value(WHAT);
    }
    Some(resumed)
}

/// A CronJob whose times can be told.
struct Plan<'a> {
    cron_job: &'a CronJob,
    schedule: Schedule,
    zone: TimeZone,
    /// Whether the schedule or the CronJob names its time zone. Else it is its controller's, which nobody tells: UTC, most often.
    zone_is_told: bool,
    /// Its last success; else when it was made, or when it was resumed if that is later.
    well: Timestamp,
}

impl<'a> Plan<'a> {
    /// Nothing can be said of one that tells no time. The API server refuses zones and schedules that are unknown; where one has had a run, it is this program that
    /// knows less than Kubernetes.
    fn of(
        cron_job: &'a CronJob,
        resumed: Option<Timestamp>,
        evaluation: &mut Evaluation<'_>,
    ) -> Option<Self> {
        let status = &cron_job.status;
        let Some(created) = cron_job.metadata.creation_timestamp else {
            evaluation.quiet_all(RULES, "it does not tell when it was made");
            return None;
        };
        let mut cannot_run = |reason: &str, what: &str, text: &str| {
            if status.last_schedule_time.is_none() {
                let summary = format!("cannot run: its {what}: {}", Line(text));
                evaluation.push(Finding::new(&MISSED, reason, Since::At(created), summary));
            } else {
                evaluation.quiet(&MISSED, "its schedule is read by Kubernetes, but not here");
            }
            evaluation.quiet(&NOT_SUCCEEDING, "its times cannot be told");
        };
        let (zone, text) = schedule::split_zone(&cron_job.spec.schedule);
        let zone_name = zone.or(cron_job.spec.time_zone.as_deref());
        let zone = match zone_name.map(|name| (name, schedule::zone(name))) {
            None => TimeZone::UTC,
            Some((_, Some(zone))) => zone,
            Some((name, None)) => {
                cannot_run("UnknownTimeZone", "time zone is unknown", name);
                return None;
            }
        };
        let Some(schedule) = Schedule::parse(text) else {
            cannot_run("UnparseableSchedule", "schedule is none", text);
            return None;
        };
        Some(Self {
            cron_job,
            schedule,
            zone,
            zone_is_told: zone_name.is_some(),
            well: status
                .last_successful_time
                .unwrap_or(created)
                .max(created)
                .max(resumed.unwrap_or(created)),
        })
    }

    fn after(&self, time: Timestamp) -> Option<Timestamp> {
        let run = self.cron_job.status.last_schedule_time;
        let run = run.or(self.cron_job.metadata.creation_timestamp);
        self.schedule.after(time, &self.zone, run.unwrap_or(time))
    }

    /// Whether this is a time on the schedule.
    fn has(&self, time: Timestamp) -> bool {
        match self.schedule {
            Schedule::Every(_) => true,
            Schedule::Calendar(_) => self.after(before(time, Duration::from_secs(1))) == Some(time),
        }
    }

    /// Whether runs wait for those before them.
    fn forbids(&self) -> bool {
        &*self.cron_job.spec.concurrency_policy == "Forbid"
    }

    /// The next run that must be there once its time has come.
    fn due(&self) -> Option<Timestamp> {
        let Some(last) = self.cron_job.status.last_schedule_time else {
            return self.after(self.well);
        };
        let from = last.max(self.well);
        // Its controller is in another time zone, or had another schedule then: late enough for any.
        if !self.zone_is_told && !self.has(last) {
            return Some(after(self.after(after(from, EAST))?, WEST));
        }
        let due = self.after(from)?;
        // The last run has failed, and when is not told. What fell into it is not made up for if it would be late.
        let blocked = self.forbids()
            && self.cron_job.spec.starting_deadline_seconds.is_some()
            && self.well < last;
        if blocked { self.after(due) } else { Some(due) }
    }
}

fn missed(plan: &Plan<'_>, evaluation: &mut Evaluation<'_>) {
    let CronJob {
        metadata,
        spec,
        status,
    } = plan.cron_job;
    if plan.forbids() && status.active > 0 {
        evaluation.quiet(&MISSED, "the next run waits for the one that is at it");
        return;
    }
    let Some(due) = plan.due() else {
        evaluation.quiet(&MISSED, "its schedule has no further time");
        return;
    };
    if due > evaluation.now {
        evaluation.quiet(&MISSED, format_args!("the next run is due at {due}"));
        evaluation.look_again_at(due);
        return;
    }
    // With a new schedule, or without a suspension, it may be overdue from one moment to the next: the controller is about to start it then.
    let since = if metadata.generation > 1 {
        Since::FirstSeenAfter(due)
    } else {
        Since::At(due)
    };
    let schedule = Line(&spec.schedule);
    let summary = match status.last_schedule_time {
        Some(last) => format!("overdue since {due} (schedule: {schedule}); last run: {last}"),
        None => format!("overdue since {due} (schedule: {schedule}); it has never run"),
    };
    evaluation.push(Finding::new(&MISSED, "MissSchedule", since, summary));
}

/// Counts the runs that were due until the newest one was started, less those that have not ended. That nothing is started is the other rule's.
fn not_succeeding(plan: &Plan<'_>, evaluation: &mut Evaluation<'_>) {
    let CronJob { spec, status, .. } = plan.cron_job;
    let short_lived = spec
        .ttl_seconds_after_finished
        .is_some_and(|seconds| seconds < SHORT_LIVED_SECONDS);
    let Some(last) = status.last_schedule_time else {
        evaluation.quiet(&NOT_SUCCEEDING, "it has never run");
        return;
    };
    if short_lived {
        let because = "its Jobs are deleted so soon after their end that a success may go unseen";
        evaluation.quiet(&NOT_SUCCEEDING, because);
        return;
    }
    let runs = evaluation.number(&NOT_SUCCEEDING, &RUNS) as usize;
    let mut third = plan.well;
    let mut time = plan.well;
    for run in 1..=runs.saturating_add(status.active) {
        let Some(next) = plan.after(time).filter(|next| *next <= last) else {
            let because = format_args!("fewer than {runs} runs have ended since {}", plan.well);
            evaluation.quiet(&NOT_SUCCEEDING, because);
            return;
        };
        time = next;
        if run == runs {
            third = time;
        }
    }
    let summary = match status.last_successful_time {
        Some(success) => {
            format!(
                "at least {runs} runs were due without a success; the last one was at {success}"
            )
        }
        None => format!("at least {runs} runs were due without a success; it has never had one"),
    };
    let mut finding = Finding::new(&NOT_SUCCEEDING, "NoSuccess", Since::At(third), summary);
    let mut r#for = evaluation
        .duration(&NOT_SUCCEEDING, &WITHOUT_SUCCESS)
        .saturating_sub(between(plan.well, third));
    if status.active > 0 {
        finding.since = Since::FirstSeenAfter(third);
        r#for = r#for.max(evaluation.duration(&NOT_SUCCEEDING, &LAST_CHANCE));
    }
    evaluation.push(finding.after(r#for));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn look(memo: &mut Memo, at: &str, suspend: bool, success: &str) -> Vec<Finding> {
        let cron_job: CronJob = serde_json::from_value(json!({
            "metadata": {"creationTimestamp": "2026-11-01T00:00:00Z", "name": "report"},
            "spec": {"schedule": "0 3 * * *", "suspend": suspend, "timeZone": "Etc/UTC"},
            "status": {"lastScheduleTime": "2026-11-20T03:00:00Z", "lastSuccessfulTime": success},
        }))
        .unwrap();
        let mut findings = Vec::new();
        cron_job.evaluate(&mut Evaluation::new(
            at.parse().unwrap(),
            memo,
            &mut findings,
        ));
        findings
    }

    #[test]
    fn a_suspension_is_remembered_until_there_is_a_success_after_it() {
        let mut memo = Memo::default();
        let (before, after) = ("2026-11-20T03:04:00Z", "2026-11-22T09:00:00Z");
        assert_eq!(look(&mut memo, "2026-11-20T12:00:00Z", false, before), []);
        assert!(memo.is_empty(), "one that is well is not remembered");
        assert_eq!(look(&mut memo, "2026-11-21T02:00:00Z", true, before), []);
        assert!(!memo.is_empty());
        // The run of the 21st was held back.
        assert_eq!(look(&mut memo, "2026-11-22T02:00:00Z", false, before), []);
        assert_eq!(look(&mut memo, "2026-11-22T02:59:59Z", false, before), []);
        let due = look(&mut memo, "2026-11-22T03:00:00Z", false, before);
        let due: Vec<&str> = due.iter().map(|finding| finding.rule.name).collect();
        assert_eq!(due, [MISSED.name]);
        assert_eq!(look(&mut memo, "2026-11-22T09:00:01Z", false, after), []);
        assert!(memo.is_empty());
    }
}
