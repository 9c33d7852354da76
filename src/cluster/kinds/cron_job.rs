//! The trimmed CronJob.

use jiff::Timestamp;

use super::pod::Count;
use crate::cluster::{Meta, lenient::trimmed};

trimmed! {
    /// A CronJob.
    pub struct CronJob {
        /// `metadata`.
        pub metadata: Meta = "metadata",
        /// `spec`.
        pub spec: CronJobSpec = "spec",
        /// `status`.
        pub status: CronJobStatus = "status",
    }

    /// `spec` of a CronJob.
    pub struct CronJobSpec {
        /// When it runs: five fields of cron, or a word that begins with `@`.
        pub schedule: Box<str> = "schedule",
        /// The time zone of the schedule, such as `Europe/Berlin`; that of its controller if unset.
        pub time_zone: Option<Box<str>> = "timeZone",
        /// Whether no run may start.
        pub suspend: bool = "suspend",
        /// `Allow` (also when empty), `Forbid` or `Replace`.
        pub concurrency_policy: Box<str> = "concurrencyPolicy",
        /// How late a run may start, in seconds; at any time if unset.
        pub starting_deadline_seconds: Option<i64> = "startingDeadlineSeconds",
        /// How long its Jobs stay after their end, in seconds; until its history is full if unset.
        pub ttl_seconds_after_finished: Option<i32>,
    }
    "jobTemplate" => |spec, template: JobTemplate| {
        spec.ttl_seconds_after_finished = template.spec.ttl_seconds_after_finished;
    } <= {
        let ttl_seconds_after_finished = spec.ttl_seconds_after_finished;
        JobTemplate { spec: JobTemplateSpec { ttl_seconds_after_finished } }
    }

    /// `jobTemplate` of a CronJob.
    struct JobTemplate {
        spec: JobTemplateSpec = "spec",
    }

    /// `jobTemplate.spec` of a CronJob.
    struct JobTemplateSpec {
        ttl_seconds_after_finished: Option<i32> = "ttlSecondsAfterFinished",
    }

    /// `status` of a CronJob.
    pub struct CronJobStatus {
        /// How many of its Jobs have not ended.
        pub active: usize,
        /// The time on the schedule of the run that was started last.
        pub last_schedule_time: Option<Timestamp> = "lastScheduleTime",
        /// When a run last ended well.
        pub last_successful_time: Option<Timestamp> = "lastSuccessfulTime",
    }
    "active" => |status, jobs: Count| { status.active = jobs.0; } <= { Count(status.active) }
}
