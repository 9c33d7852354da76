//! Times and durations that cannot overflow: an object may hold any time, and bad input must not panic.

use std::time::Duration;

use jiff::Timestamp;

/// The time so long after another, or the end of time.
pub fn after(time: Timestamp, duration: Duration) -> Timestamp {
    time.saturating_add(duration).unwrap_or(Timestamp::MAX)
}

/// The time so long before another, or the beginning of time.
pub fn before(time: Timestamp, duration: Duration) -> Timestamp {
    time.saturating_sub(duration).unwrap_or(Timestamp::MIN)
}

/// How long it is from one time to the other; zero if they are the other way round.
pub fn between(from: Timestamp, to: Timestamp) -> Duration {
    to.duration_since(from).try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_at_the_ends_of_time_stay_there() {
        let long = Duration::from_secs(3600);
        assert_eq!(after(Timestamp::MAX, long), Timestamp::MAX);
        assert_eq!(before(Timestamp::MIN, long), Timestamp::MIN);
        assert_eq!(between(Timestamp::MAX, Timestamp::MIN), Duration::ZERO);
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(between(before(now, long), after(now, long)), 2 * long);
    }
}
