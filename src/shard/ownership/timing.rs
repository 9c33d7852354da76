//! How long a Lease lasts, and what follows from it.

use std::time::Duration;

use tokio::time::Instant;

/// How much faster another replica's clock may run than one's own, in percent. Clocks that are disciplined stay within 0.05 %; virtual machines that
/// are short of processor time have been seen beyond that.
const DRIFT_PERCENT: u32 = 5;
/// How long a state may fail to be read or written before paging goes on without it.
const GIVE_UP: Duration = Duration::from_secs(30);

/// Durations that have been validated against each other. The defaults are those of Kubernetes' own controllers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    lease_duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
}

/// Durations that cannot work together.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TimingError {
    /// A Lease carries its duration as a 32-bit number of seconds.
    #[error(
        "ALERTKUBE_LEASE_DURATION is {0:?}: set it to a whole number of seconds, from 1 s to 2147483647 s"
    )]
    LeaseDuration(Duration),
    /// The holder must stop before another may start, by any clock.
    #[error(
        "ALERTKUBE_LEASE_RENEW_DEADLINE is {deadline:?}: set it below {most:?}, which is ALERTKUBE_LEASE_DURATION ({duration:?}) less {DRIFT_PERCENT} % for clocks that drift"
    )]
    RenewDeadline {
        /// The deadline.
        deadline: Duration,
        /// The lease duration.
        duration: Duration,
        /// What it must stay below.
        most: Duration,
    },
    /// Two attempts to renew must fit into the deadline, or one failure costs the Lease.
    #[error(
        "ALERTKUBE_LEASE_RETRY_PERIOD is {retry:?}: set it above 0 s, and to at most {most:?}, half of ALERTKUBE_LEASE_RENEW_DEADLINE"
    )]
    RetryPeriod {
        /// The period.
        retry: Duration,
        /// The most that it may be.
        most: Duration,
    },
}

impl Default for Timing {
    /// 15 s, 10 s and 2 s.
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

impl Timing {
    /// How long a Lease lasts that is not renewed, how long its holder goes on without a renewal, and how often it renews.
    ///
    /// # Errors
    ///
    /// They do not work together: see [`TimingError`].
    pub fn new(
        lease_duration: Duration,
        renew_deadline: Duration,
        retry_period: Duration,
    ) -> Result<Self, TimingError> {
        let timing = Self {
            lease_duration,
            renew_deadline,
            retry_period,
        };
        let seconds = lease_duration.as_secs();
        if lease_duration.subsec_nanos() != 0 || i32::try_from(seconds).is_err() || seconds == 0 {
            return Err(TimingError::LeaseDuration(lease_duration));
        }
        let most = timing.safe_for();
        if renew_deadline >= most {
            return Err(TimingError::RenewDeadline {
                deadline: renew_deadline,
                duration: lease_duration,
                most,
            });
        }
        let most = renew_deadline / 2;
        if retry_period.is_zero() || retry_period > most {
            return Err(TimingError::RetryPeriod {
                retry: retry_period,
                most,
            });
        }
        Ok(timing)
    }

    /// How long after its last renewal a Lease may be taken; written on each Lease, for others to go by.
    pub const fn lease_duration(&self) -> Duration {
        self.lease_duration
    }

    /// How often to look, and to renew.
    pub const fn retry_period(&self) -> Duration {
        self.retry_period
    }

    /// How long a state may fail to be read or written before paging goes on without it.
    pub const fn give_up_after(&self) -> Duration {
        GIVE_UP
    }

    /// How long after a renewal was sent nobody can have taken the Lease, by the holder's clock: nothing that takes longer may ever start.
    pub fn safe_for(&self) -> Duration {
        self.lease_duration * (100 - DRIFT_PERCENT) / 100
    }

    /// Rule 5: whether something that ends within `within` may start, for a holder whose last good renewal was sent at `renewed`.
    ///
    /// Two bounds. A holder that could not renew for the deadline has lost touch, and leaves the rest of the Lease as a margin. And what starts
    /// must be over before another may take the Lease, who counts from when it saw the renewal: later than it was sent, with a clock that may be faster.
    pub fn may_start(&self, renewed: Instant, now: Instant, within: Duration) -> bool {
        let age = now.saturating_duration_since(renewed);
        age < self.renew_deadline && age.saturating_add(within) <= self.safe_for()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_send_must_end_before_the_lease_can_be_taken() {
        let (timing, renewed) = (Timing::default(), Instant::now());
        let ms = Duration::from_millis;
        for (age, within, expected) in [
            (ms(0), s(0), true),
            // The deadline is what counts for short ones, ...
            (ms(9_999), s(3), true),
            (ms(10_000), s(3), false),
            (ms(10_000), s(0), false),
            // ... and the end of the Lease, less 5 %, for long ones.
            (ms(4_250), s(10), true),
            (ms(4_251), s(10), false),
            (ms(0), ms(14_250), true),
            (ms(0), ms(14_251), false),
            (ms(0), Duration::MAX, false),
        ] {
            assert_eq!(
                timing.may_start(renewed, renewed + age, within),
                expected,
                "{within:?} at an age of {age:?}"
            );
        }
    }

    #[test]
    fn durations_that_do_not_work_together_are_refused() {
        assert_eq!(Timing::new(s(15), s(10), s(2)), Ok(Timing::default()));
        let error = |duration, deadline, retry| {
            Timing::new(duration, deadline, retry)
                .unwrap_err()
                .to_string()
        };
        insta::assert_snapshot!(
            [
                error(s(0), s(10), s(2)),
                error(Duration::from_millis(15_500), s(10), s(2)),
                error(s(1 << 31), s(10), s(2)),
                error(s(15), Duration::from_millis(14_250), s(2)),
                error(s(15), s(10), s(6)),
                error(s(15), s(10), s(0)),
            ]
            .join("\n"),
            @r"
        ALERTKUBE_LEASE_DURATION is 0ns: set it to a whole number of seconds, from 1 s to 2147483647 s
        ALERTKUBE_LEASE_DURATION is 15.5s: set it to a whole number of seconds, from 1 s to 2147483647 s
        ALERTKUBE_LEASE_DURATION is 2147483648s: set it to a whole number of seconds, from 1 s to 2147483647 s
        ALERTKUBE_LEASE_RENEW_DEADLINE is 14.25s: set it below 14.25s, which is ALERTKUBE_LEASE_DURATION (15s) less 5 % for clocks that drift
        ALERTKUBE_LEASE_RETRY_PERIOD is 6s: set it above 0 s, and to at most 5s, half of ALERTKUBE_LEASE_RENEW_DEADLINE
        ALERTKUBE_LEASE_RETRY_PERIOD is 0ns: set it above 0 s, and to at most 5s, half of ALERTKUBE_LEASE_RENEW_DEADLINE
        "
        );
    }
}
