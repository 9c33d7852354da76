//! *Now*, as the API server sees it.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use tokio::time::Instant;

/// The API server's time: the local monotonic clock, plus what the `Date` header of its answers shows. Cheap to clone; all clones agree.
#[derive(Debug, Clone)]
pub struct Clock(Arc<Mutex<Reading>>);

#[derive(Debug)]
struct Reading {
    /// A moment of the monotonic clock, ...
    origin: Instant,
    /// ... and the time at that moment.
    base: Timestamp,
    /// Seconds that pass on this clock in one second: 1, but in a demo that runs faster.
    rate: f64,
}

impl Clock {
    /// A clock that shows `base` now, and runs `rate` times as fast as the real one.
    pub fn starting_at(base: Timestamp, rate: f64) -> Self {
        Self(Arc::new(Mutex::new(Reading {
            origin: Instant::now(),
            base,
            rate,
        })))
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        let reading = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = reading.origin.elapsed().mul_f64(reading.rate);
        reading
            .base
            .saturating_add(passed)
            .unwrap_or(Timestamp::MAX)
    }

    /// The moment of the local clock at which this one shows `time`; in the past if it is over.
    pub fn instant(&self, time: Timestamp) -> Instant {
        let reading = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ahead: Duration = time
            .duration_since(reading.base)
            .try_into()
            .unwrap_or_default();
        reading.origin
            + ahead
                .div_f64(reading.rate)
                .min(Duration::from_secs(365 * 24 * 3600))
    }
}
