//! Faults on demand, for the tests of the whole program: it ends at a chosen point as if it was killed there, or its wall clock is wrong.
//!
//! All of it is behind the feature `faults`, which only the tests have (`Cargo.toml`). Without it, passing a point is nothing, and the variables are refused as any
//! that is not known.
//!
//! - `ALERTKUBE_FAULT_CRASH_AT=<point>:<n>`: ends when the point is passed for the n-th time.
//! - `ALERTKUBE_FAULT_CLOCK=<duration>`: how much this machine's wall clock is ahead (`10m`, `-10m`).

use jiff::Timestamp;

/// What the variables begin with.
#[cfg(feature = "faults")]
pub const PREFIX: &str = "ALERTKUBE_FAULT_";

/// A step of persisting and sending, next to which a crash has consequences of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// A `ConfigMap` of a state is about to be written.
    WriteState,
    /// It was written.
    WroteState,
    /// A message is about to be sent to a receiver.
    Send,
    /// The receiver has answered, and nobody has noted it.
    Sent,
    /// What became of the attempt is noted, in memory.
    Noted,
    /// A Lease is about to be taken or renewed.
    HoldLease,
    /// A Lease is about to say that a new epoch is acknowledged.
    Acknowledge,
    /// A Lease is about to be freed.
    FreeLease,
    /// A Lease was written, whatever for.
    WroteLease,
    /// The record of the generation is about to be written.
    WriteRecord,
    /// It was written.
    WroteRecord,
    /// The Lease of a generation that is over is about to be deleted.
    DeleteLease,
    /// A `ConfigMap` of a state that is over is about to be deleted.
    DeleteState,
}

/// Says that the program is at this point.
#[cfg(not(feature = "faults"))]
pub const fn pass(_: Point) {}

/// Says that the program is at this point. It may go no further.
#[cfg(feature = "faults")]
pub fn pass(point: Point) {
    on_demand::pass(point);
}

/// What the wall clock shows.
#[cfg(not(feature = "faults"))]
pub const fn wall_clock(now: Timestamp) -> Timestamp {
    now
}

/// What the wall clock shows, if it is wrong.
#[cfg(feature = "faults")]
pub fn wall_clock(now: Timestamp) -> Timestamp {
    on_demand::wall_clock(now)
}

#[cfg(feature = "faults")]
mod on_demand {
    use std::{
        process::abort,
        sync::{
            LazyLock,
            atomic::{AtomicU32, Ordering},
        },
    };

    use jiff::{SignedDuration, Timestamp};

    use super::{PREFIX, Point};

    const POINTS: [(&str, Point); 13] = [
        ("write-state", Point::WriteState),
        ("wrote-state", Point::WroteState),
        ("send", Point::Send),
        ("sent", Point::Sent),
        ("noted", Point::Noted),
        ("hold-lease", Point::HoldLease),
        ("acknowledge", Point::Acknowledge),
        ("free-lease", Point::FreeLease),
        ("wrote-lease", Point::WroteLease),
        ("write-record", Point::WriteRecord),
        ("wrote-record", Point::WroteRecord),
        ("delete-lease", Point::DeleteLease),
        ("delete-state", Point::DeleteState),
    ];

    struct Crash {
        at: Point,
        /// How often the point is still to be passed.
        left: AtomicU32,
    }

    static CRASH: LazyLock<Option<Crash>> = LazyLock::new(|| read("CRASH_AT", parse));
    static CLOCK: LazyLock<Option<SignedDuration>> =
        LazyLock::new(|| read("CLOCK", |text| text.parse().ok()));

    pub(super) fn pass(point: Point) {
        let Some(crash) = CRASH.as_ref().filter(|crash| crash.at == point) else {
            return;
        };
        if crash.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            tracing::error!(?point, "crashes, as it was told to");
            // No destructor runs, and nothing is finished: as by SIGKILL.
            abort();
        }
    }

    pub(super) fn wall_clock(now: Timestamp) -> Timestamp {
        CLOCK.map_or(now, |ahead| now.saturating_add(ahead).unwrap_or(now))
    }

    fn parse(text: &str) -> Option<Crash> {
        let (point, count) = text.split_once(':')?;
        let (_, at) = POINTS.iter().find(|(name, _)| *name == point)?;
        let left = count.parse().ok().filter(|count| *count > 0)?;
        Some(Crash {
            at: *at,
            left: AtomicU32::new(left),
        })
    }

    /// A variable that cannot be understood ends the program: a test that wants a fault must not pass without it.
    fn read<T>(name: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let text = std::env::var_os(format!("{PREFIX}{name}"))?;
        let fault = text.to_str().and_then(parse);
        if fault.is_none() {
            tracing::error!("{PREFIX}{name} cannot be understood");
            abort();
        }
        fault
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_crash_has_a_point_and_a_count() {
            let crash = parse("sent:3").unwrap();
            assert_eq!((crash.at, crash.left.into_inner()), (Point::Sent, 3));
            for text in ["", "sent", "sent:", "sent:0", "sent:-1", "nowhere:1"] {
                assert!(parse(text).is_none(), "{text}");
            }
        }

        #[test]
        fn each_point_has_a_name_of_its_own() {
            for (at, (name, point)) in POINTS.iter().enumerate() {
                assert!(POINTS[..at].iter().all(|(other, _)| other != name));
                assert!(POINTS[..at].iter().all(|(_, other)| other != point));
            }
        }
    }
}
