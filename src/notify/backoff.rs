//! When to try again.

use std::time::Duration;

/// The ceiling of the first wait.
const FIRST: Duration = Duration::from_secs(1);

/// The ceiling of every wait: how late a page may be after its receiver is back. It is also the time between two attempts that nothing but a change
/// of the configuration, here or there, can make succeed.
pub const MAX: Duration = Duration::from_secs(5 * 60);

/// No wait is shorter: a message that fails lets all others pass first.
const MIN: Duration = Duration::from_millis(50);

/// Random waits between attempts: full jitter under a ceiling that doubles, so that what failed together is not tried again together.
#[derive(Debug)]
pub struct Backoff {
    random: fastrand::Rng,
}

impl Backoff {
    /// Waits that depend on this seed only.
    pub fn seeded(seed: u64) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// How long to wait after this many failures in a row (from 1).
    pub fn wait(&mut self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(16);
        let ceiling = FIRST.saturating_mul(1 << doublings).min(MAX);
        ceiling.mul_f64(self.random.f64()).max(MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_their_limit_and_differ() {
        let mut backoff = Backoff::seeded(1);
        let mut mean = |failures| {
            let waits: Vec<_> = (0..1000).map(|_| backoff.wait(failures)).collect();
            assert!(waits.iter().all(|wait| (MIN..=MAX).contains(wait)));
            waits.iter().sum::<Duration>().as_secs_f64() / 1000.0
        };
        assert!((0.4..0.6).contains(&mean(1)));
        assert!((0.8..1.2).contains(&mean(2)));
        assert!((7.0..9.0).contains(&mean(5)));
        assert!((130.0..170.0).contains(&mean(10)));
        assert!((130.0..170.0).contains(&mean(u32::MAX)));
    }
}
