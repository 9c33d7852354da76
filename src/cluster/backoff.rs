//! How long to wait after a failure. Pure: the time and the randomness are given.

use std::time::Duration;

use tokio::time::Instant;

/// The shortest wait. Also what keeps a failure that comes at once from spinning.
const MIN: Duration = Duration::from_secs(1);

/// The longest wait. A page must not be late by minutes because an API server was; ten watches at this pace are no load.
const MAX: Duration = Duration::from_secs(15);

/// A wait that doubles with each failure, spread at random over its whole range, so that replicas and kinds that failed together come back
/// one by one.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
    /// When the last wait ends.
    last: Option<Instant>,
}

impl Backoff {
    /// The next wait: at random from 1 s to 2, 4, 8, and at last 15 s. What went well for twice the longest wait since the last one counts as healthy,
    /// and starts anew. `random` is in `0.0..1.0`.
    pub(crate) fn next(&mut self, now: Instant, random: f64) -> Duration {
        if self
            .last
            .is_some_and(|last| now.saturating_duration_since(last) > 2 * MAX)
        {
            self.failures = 0;
        }
        self.failures = (self.failures + 1).min(8);
        let ceiling = (MIN * (1 << self.failures)).min(MAX);
        let wait = MIN + ceiling.saturating_sub(MIN).mul_f64(random.clamp(0.0, 1.0));
        self.last = Some(now + wait);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_15_seconds_and_cover_their_whole_range() {
        let now = Instant::now();
        let (mut shortest, mut longest) = (Backoff::default(), Backoff::default());
        for ceiling in [2, 4, 8, 15, 15, 15] {
            assert_eq!(shortest.next(now, 0.0), MIN);
            assert_eq!(longest.next(now, 1.0), Duration::from_secs(ceiling));
        }
    }

    #[test]
    fn a_healthy_period_starts_anew() {
        let now = Instant::now();
        let mut backoff = Backoff::default();
        for _ in 0..20 {
            backoff.next(now, 1.0);
        }
        let soon = now + MAX + Duration::from_secs(30);
        assert_eq!(backoff.next(soon, 1.0), MAX);
        let later = soon + MAX + Duration::from_secs(31);
        assert_eq!(backoff.next(later, 1.0), 2 * MIN);
    }
}
