//! Schedules as Kubernetes reads them: the dialect of cron that its controller uses (`ParseStandard` of github.com/robfig/cron/v3).
//!
//! Other dialects differ where it would raise false alarms. Here `*/2` is no `*` when it comes to the two fields of days, `5/15` goes on to the end, and a
//! time that a change of clocks leaves out does not come at all.

use std::{sync::LazyLock, time::Duration};

use jiff::{
    SignedDuration, Timestamp, ToSpan as _,
    civil::{Date, DateTime},
    tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase},
};

/// The zones that this program was built with: the same on every machine, and read from nowhere.
static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// How far the controller looks for the next time. Some schedules have none (`0 0 31 2 *`).
const HORIZON_YEARS: i64 = 5;

/// The time zone of this name, if it is known.
pub(super) fn zone(name: &str) -> Option<TimeZone> {
    ZONES.get(name).ok()
}

/// The time zone that a schedule names itself, and the rest of it. No longer supported, but not refused where it has been there before.
pub(super) fn split_zone(schedule: &str) -> (Option<&str>, &str) {
    ["CRON_TZ=", "TZ="]
        .iter()
        .find_map(|prefix| schedule.strip_prefix(prefix)?.split_once(' '))
        .map_or((None, schedule), |(zone, rest)| (Some(zone), rest))
}

/// A schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Schedule {
    /// So long after the run before.
    Every(Duration),
    /// At times of the calendar.
    Calendar(Calendar),
}

/// The times that fit five fields, each a set of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Calendar {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether one of the fields of days says "any", so that the other one decides. Else either suffices.
    any_day: bool,
}

impl Schedule {
    /// Reads a schedule without a time zone. `None` if it is none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let fields = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            text => text,
        };
        if let Some(every) = fields.strip_prefix("@every ") {
            let every: SignedDuration = every.parse().ok()?;
            let seconds = every.as_secs().max(1).try_into().ok()?;
            return Some(Self::Every(Duration::from_secs(seconds)));
        }
        let mut fields = fields.split_whitespace();
        let mut next = |field: &Field| field.parse(fields.next()?);
        let (minutes, _) = next(&MINUTE)?;
        let (hours, _) = next(&HOUR)?;
        let (days, any_of_month) = next(&DAY)?;
        let (months, _) = next(&MONTH)?;
        let (weekdays, any_of_week) = next(&WEEKDAY)?;
        fields.next().is_none().then_some(Self::Calendar(Calendar {
            minutes,
            hours,
            days,
            months,
            weekdays,
            any_day: any_of_month || any_of_week,
        }))
    }

    /// The first time after another, if there is one within [`HORIZON_YEARS`]. `run` is the time of some run: what comes every so often is counted from there.
    pub(super) fn after(
        &self,
        time: Timestamp,
        zone: &TimeZone,
        run: Timestamp,
    ) -> Option<Timestamp> {
        match self {
            Self::Every(every) => {
                let every = i64::try_from(every.as_secs()).ok()?;
                let since_run = time.as_second().saturating_sub(run.as_second());
                let next = since_run.div_euclid(every).saturating_add(1);
                let next = run.as_second().saturating_add(next.saturating_mul(every));
                Timestamp::from_second(next).ok()
            }
            Self::Calendar(calendar) => calendar.after(time, zone),
        }
    }
}

impl Calendar {
    fn after(&self, time: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let start = zone.to_datetime(time);
        let last = start.date().checked_add(HORIZON_YEARS.years()).ok()?;
        let mut date = start.date();
        // The first minute of the day that counts.
        let mut minute = minute_of_day(start) + 1;
        while date <= last {
            if !has(self.months, date.month()) {
                date = date.last_of_month().tomorrow().ok()?;
                minute = 0;
                continue;
            }
            if self.has_day(date) {
                while let Some((hour, found)) = self.time_of_day(minute) {
                    if let Some(found) = instant(zone, date.at(hour, found, 0, 0), time) {
                        return Some(found);
                    }
                    minute = minute_of_day(date.at(hour, found, 0, 0)) + 1;
                }
            }
            date = date.tomorrow().ok()?;
            minute = 0;
        }
        None
    }

    fn has_day(&self, date: Date) -> bool {
        let of_month = has(self.days, date.day());
        let of_week = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        if self.any_day {
            of_month && of_week
        } else {
            of_month || of_week
        }
    }

    /// The first hour and minute of a day, from this minute of the day on.
    fn time_of_day(&self, from: u32) -> Option<(i8, i8)> {
        let mut minute = from % 60;
        for hour in from / 60..24 {
            let minutes = self.minutes >> minute << minute;
            if self.hours >> hour & 1 == 1 && minutes != 0 {
                let found = i8::try_from(minutes.trailing_zeros()).ok()?;
                return Some((i8::try_from(hour).ok()?, found));
            }
            minute = 0;
        }
        None
    }
}

/// When it is this time in the zone; nothing if a change of clocks leaves it out. If it comes twice, the first one after `time`.
fn instant(zone: &TimeZone, datetime: DateTime, time: Timestamp) -> Option<Timestamp> {
    let ambiguous = zone.to_ambiguous_timestamp(datetime);
    match ambiguous.offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(datetime).ok(),
        AmbiguousOffset::Gap { .. } => None,
        AmbiguousOffset::Fold { before, after } => [before, after]
            .into_iter()
            .filter_map(|offset| offset.to_timestamp(datetime).ok())
            .find(|&found| found > time),
    }
}

fn minute_of_day(time: DateTime) -> u32 {
    u32::from(time.hour().unsigned_abs()) * 60 + u32::from(time.minute().unsigned_abs())
}

fn has(bits: u64, number: i8) -> bool {
    bits >> number.unsigned_abs() & 1 == 1
}

/// What a field may hold.
struct Field {
    min: u32,
    max: u32,
    /// Names for the numbers from `min` on.
    names: &'static [&'static str],
}

static MINUTE: Field = Field::numbers(0, 59);
static HOUR: Field = Field::numbers(0, 23);
static DAY: Field = Field::numbers(1, 31);
static MONTH: Field = Field {
    names: &[
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ],
    ..Field::numbers(1, 12)
};
static WEEKDAY: Field = Field {
    names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
    ..Field::numbers(0, 6)
};

impl Field {
    const fn numbers(min: u32, max: u32) -> Self {
        Self {
            min,
            max,
            names: &[],
        }
    }

    /// The numbers of a field as bits, and whether it says "any".
    fn parse(&self, text: &str) -> Option<(u64, bool)> {
        let mut bits = 0;
        let mut any = false;
        for item in text.split(',').filter(|item| !item.is_empty()) {
            let (item, is_any) = self.item(item)?;
            bits |= item;
            any |= is_any;
        }
        Some((bits, any))
    }

    /// One item of a field: a number, a range or "any", and how many steps it goes on at a time.
    fn item(&self, text: &str) -> Option<(u64, bool)> {
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (
                range,
                Some(step.parse::<u32>().ok().filter(|step| *step > 0)?),
            ),
            None => (text, None),
        };
        // What "any" is a range to does not matter.
        let any = matches!(range.split('-').next(), Some("*" | "?"));
        let (start, end) = match range.split_once('-') {
            _ if any => (self.min, self.max),
            Some((start, end)) => (self.number(start)?, self.number(end)?),
            None => {
                let start = self.number(range)?;
                (start, if step.is_some() { self.max } else { start })
            }
        };
        if start < self.min || start > end || end > self.max {
            return None;
        }
        let step = step.unwrap_or(1);
        let bits = (start..=end)
            .step_by(usize::try_from(step).ok()?)
            .fold(0, |bits, number| bits | 1 << number);
        Some((bits, any && step == 1))
    }

    fn number(&self, text: &str) -> Option<u32> {
        match (self.min..)
            .zip(self.names)
            .find(|(_, name)| name.eq_ignore_ascii_case(text))
        {
            Some((number, _)) => Some(number),
            None => text.parse().ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(schedule: &str, zone_name: &str, from: &str, count: usize) -> Vec<String> {
        let schedule = Schedule::parse(schedule).unwrap();
        let zone = zone(zone_name).unwrap();
        let mut time: Timestamp = from.parse().unwrap();
        let mut times = Vec::new();
        for _ in 0..count {
            let Some(next) = schedule.after(time, &zone, time) else {
                break;
            };
            time = next;
            times.push(next.to_string());
        }
        times
    }

    /// A schedule, its time zone, a time, and the next three, if there are any. They are those of github.com/robfig/cron/v3 v3.0.1, which was asked for each line.
    const TIMES: &str = "
        * * * * * | UTC | 2026-11-20T10:00:30Z | 2026-11-20T10:01:00Z 2026-11-20T10:02:00Z 2026-11-20T10:03:00Z
        */15 * * * * | UTC | 2026-11-20T10:00:00Z | 2026-11-20T10:15:00Z 2026-11-20T10:30:00Z 2026-11-20T10:45:00Z
        5/15 * * * * | UTC | 2026-11-20T10:00:00Z | 2026-11-20T10:05:00Z 2026-11-20T10:20:00Z 2026-11-20T10:35:00Z
        0,30 8-17/3 * * MON-FRI | UTC | 2026-11-20T17:00:00Z | 2026-11-20T17:30:00Z 2026-11-23T08:00:00Z 2026-11-23T08:30:00Z
        30 6-16/4 * * 1-5 | UTC | 2026-11-20T10:00:00Z | 2026-11-20T10:30:00Z 2026-11-20T14:30:00Z 2026-11-23T06:30:00Z
        0 0 13 * FRI | UTC | 2026-11-01T00:00:00Z | 2026-11-06T00:00:00Z 2026-11-13T00:00:00Z 2026-11-20T00:00:00Z
        0 0 */10 * 1 | UTC | 2026-11-01T00:00:00Z | 2026-11-02T00:00:00Z 2026-11-09T00:00:00Z 2026-11-11T00:00:00Z
        0 0 */1 * 1 | UTC | 2026-11-01T00:00:00Z | 2026-11-02T00:00:00Z 2026-11-09T00:00:00Z 2026-11-16T00:00:00Z
        0 0 1 * */2 | UTC | 2026-11-01T00:00:00Z | 2026-11-03T00:00:00Z 2026-11-05T00:00:00Z 2026-11-07T00:00:00Z
        0 0 ? * sun | UTC | 2026-11-01T00:00:00Z | 2026-11-08T00:00:00Z 2026-11-15T00:00:00Z 2026-11-22T00:00:00Z
        0 0 1,15 JAN,jul ? | UTC | 2026-11-01T00:00:00Z | 2027-01-01T00:00:00Z 2027-01-15T00:00:00Z 2027-07-01T00:00:00Z
        0 0 29 2 * | UTC | 2026-11-01T00:00:00Z | 2028-02-29T00:00:00Z 2032-02-29T00:00:00Z 2036-02-29T00:00:00Z
        0 0 31 2 * | UTC | 2026-11-01T00:00:00Z |
        0 0 31 * * | UTC | 2026-11-01T00:00:00Z | 2026-12-31T00:00:00Z 2027-01-31T00:00:00Z 2027-03-31T00:00:00Z
        59 23 31 12 * | UTC | 2026-12-31T23:59:00Z | 2027-12-31T23:59:00Z 2028-12-31T23:59:00Z 2029-12-31T23:59:00Z
        @hourly | UTC | 2026-11-20T10:59:59Z | 2026-11-20T11:00:00Z 2026-11-20T12:00:00Z 2026-11-20T13:00:00Z
        @daily | Asia/Kathmandu | 2026-11-20T10:00:00Z | 2026-11-20T18:15:00Z 2026-11-21T18:15:00Z 2026-11-22T18:15:00Z
        @midnight | UTC | 2026-11-20T00:00:00Z | 2026-11-21T00:00:00Z 2026-11-22T00:00:00Z 2026-11-23T00:00:00Z
        @weekly | UTC | 2026-11-20T00:00:00Z | 2026-11-22T00:00:00Z 2026-11-29T00:00:00Z 2026-12-06T00:00:00Z
        @monthly | America/New_York | 2026-11-20T00:00:00Z | 2026-12-01T05:00:00Z 2027-01-01T05:00:00Z 2027-02-01T05:00:00Z
        @yearly | UTC | 2026-11-20T00:00:00Z | 2027-01-01T00:00:00Z 2028-01-01T00:00:00Z 2029-01-01T00:00:00Z
        @annually | Pacific/Kiritimati | 2026-11-20T00:00:00Z | 2026-12-31T10:00:00Z 2027-12-31T10:00:00Z 2028-12-31T10:00:00Z
        @every 1h30m | UTC | 2026-11-20T10:00:00Z | 2026-11-20T11:30:00Z 2026-11-20T13:00:00Z 2026-11-20T14:30:00Z
        @every 90s | UTC | 2026-11-20T10:00:00Z | 2026-11-20T10:01:30Z 2026-11-20T10:03:00Z 2026-11-20T10:04:30Z
        @every 10ms | UTC | 2026-11-20T10:00:00Z | 2026-11-20T10:00:01Z 2026-11-20T10:00:02Z 2026-11-20T10:00:03Z
        0 3 * * * | Europe/Berlin | 2026-03-28T00:00:00Z | 2026-03-28T02:00:00Z 2026-03-29T01:00:00Z 2026-03-30T01:00:00Z
        30 2 * * * | Europe/Berlin | 2026-03-28T00:00:00Z | 2026-03-28T01:30:00Z 2026-03-30T00:30:00Z 2026-03-31T00:30:00Z
        0 * * * * | Europe/Berlin | 2026-03-29T00:30:00Z | 2026-03-29T01:00:00Z 2026-03-29T02:00:00Z 2026-03-29T03:00:00Z
        */20 2 * * * | America/New_York | 2026-03-07T08:00:00Z | 2026-03-09T06:00:00Z 2026-03-09T06:20:00Z 2026-03-09T06:40:00Z
        0 0 * * * | America/Santiago | 2026-09-04T12:00:00Z | 2026-09-05T04:00:00Z 2026-09-07T03:00:00Z 2026-09-08T03:00:00Z
        15 4 * * * | Europe/London | 2026-10-24T12:00:00Z | 2026-10-25T04:15:00Z 2026-10-26T04:15:00Z 2026-10-27T04:15:00Z
        , * * * * | UTC | 2026-11-20T00:00:00Z |
        1,,3 * * * * | UTC | 2026-11-20T00:00:00Z | 2026-11-20T00:01:00Z 2026-11-20T00:03:00Z 2026-11-20T01:01:00Z
        *-5 * * * * | UTC | 2026-11-20T00:00:00Z | 2026-11-20T00:01:00Z 2026-11-20T00:02:00Z 2026-11-20T00:03:00Z
        +5 * * * * | UTC | 2026-11-20T00:00:00Z | 2026-11-20T00:05:00Z 2026-11-20T01:05:00Z 2026-11-20T02:05:00Z
        @hourly  | UTC | 2026-11-20T00:00:00Z | 2026-11-20T01:00:00Z 2026-11-20T02:00:00Z 2026-11-20T03:00:00Z
        0 */100 * * * | UTC | 2026-11-20T00:00:00Z | 2026-11-21T00:00:00Z 2026-11-22T00:00:00Z 2026-11-23T00:00:00Z
    ";

    #[test]
    fn the_times_are_those_of_kubernetes() {
        for line in TIMES.trim().lines() {
            let columns: Vec<&str> = line.split('|').map(str::trim).collect();
            let [schedule, zone, from, expected] = columns[..] else {
                panic!("not four columns: {line}");
            };
            let times = times(schedule, zone, from, 3).join(" ");
            assert_eq!(times, expected, "{line}");
        }
    }

    #[test]
    fn what_kubernetes_refuses_is_no_schedule() {
        for text in [
            "0 0 * * 7",
            "0 0 * * MON-SUN",
            "0 24 * * *",
            "60 * * * *",
            "*/0 * * * *",
            "* * * *",
            "* * * * * *",
            "0 0 L * *",
            "0 0 * FEBRUARY *",
            "@reboot",
            "@every soon",
            "1-2-3 * * * *",
            "1/2/3 * * * *",
            "",
        ] {
            assert_eq!(Schedule::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_time_that_comes_twice_is_found_once_and_never_before_the_time_asked_for() {
        let night = "2026-10-24T12:00:00Z";
        assert_eq!(
            times("30 2 * * *", "Europe/Berlin", night, 2),
            ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]
        );
        // Asked within the second pass, it stays in it.
        assert_eq!(
            times("*/20 * * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", 2),
            ["2026-10-25T01:20:00Z", "2026-10-25T01:40:00Z"]
        );
    }

    #[test]
    fn a_schedule_may_name_its_zone() {
        assert_eq!(split_zone("0 3 * * *"), (None, "0 3 * * *"));
        for text in ["TZ=Asia/Tokyo 0 3 * * *", "CRON_TZ=Asia/Tokyo 0 3 * * *"] {
            assert_eq!(split_zone(text), (Some("Asia/Tokyo"), "0 3 * * *"));
        }
        assert!(zone("Asia/Tokyo").is_some());
        assert!(zone("Mars/Olympus").is_none());
    }

    #[test]
    fn every_so_often_counts_from_a_run() {
        let every = Schedule::parse("@every 2h").unwrap();
        let after = |time: &str| {
            let (time, run) = (
                time.parse().unwrap(),
                "2026-11-20T10:13:12Z".parse().unwrap(),
            );
            let next = every.after(time, &TimeZone::UTC, run).unwrap();
            next.to_string()
        };
        assert_eq!(after("2026-11-20T10:13:12Z"), "2026-11-20T12:13:12Z");
        assert_eq!(after("2026-11-20T15:00:00Z"), "2026-11-20T16:13:12Z");
        assert_eq!(after("2026-11-20T05:00:00Z"), "2026-11-20T06:13:12Z");
    }

    #[test]
    fn the_ends_of_time_are_no_trouble() {
        for text in ["* * * * *", "@every 1h", "@every 2562047h"] {
            let schedule = Schedule::parse(text).unwrap();
            for (time, run) in [
                (Timestamp::MAX, Timestamp::MAX),
                (Timestamp::MAX, Timestamp::MIN),
            ] {
                assert_eq!(schedule.after(time, &TimeZone::UTC, run), None, "{text}");
            }
            let first = schedule.after(Timestamp::MIN, &TimeZone::UTC, Timestamp::MIN);
            assert!(first.is_some(), "{text}");
        }
    }
}
