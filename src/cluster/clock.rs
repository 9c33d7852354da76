//! *Now*, as the API server sees it.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use crate::{
    faults,
    time::{after, between},
};

/// How far two good clocks may drift apart, in either direction: what NTP is allowed to slew.
const DRIFT: f64 = 500e-6;

/// What the server's clock may be set back by without our *now* going back: it stands still instead. Also the offset from which on it is said.
const STEP: SignedDuration = SignedDuration::from_secs(5);

/// How long answers must have contradicted what is known, and agreed with each other, until they are believed: longer than a watch is served and
/// noticed to be dead, so that every API server that still answers has had its say.
const BELIEVED_AFTER: Duration = Duration::from_secs(90);

/// The API server's time: the local monotonic clock, plus what the `Date` header of its answers shows. Cheap to clone; all clones agree.
#[derive(Debug, Clone)]
pub struct Clock(Arc<Mutex<Reading>>);

#[derive(Debug)]
struct Reading {
    /// A moment of the monotonic clock, ...
    origin: Instant,
    /// ... and the time at that moment, as far as this machine knows.
    base: Timestamp,
    /// Seconds that pass on this clock in one second: 1, but in a demo that runs faster.
    rate: f64,
    /// What the answers of the API server say; `None` for a clock that was set by hand and is not corrected.
    server: Option<Server>,
    /// The latest time that was shown.
    shown: Timestamp,
}

#[derive(Debug, Default)]
struct Server {
    /// The server's time less ours: the best guess.
    offset: SignedDuration,
    /// Where the offset must be.
    bounds: Option<Bounds>,
    /// What answers that contradict the bounds agree on, and since when there have been no others.
    rival: Option<(Bounds, Instant)>,
    /// The offset that was last logged.
    said: SignedDuration,
}

/// Where the offset must be, as of a moment.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    low: SignedDuration,
    high: SignedDuration,
    at: Instant,
}

impl Clock {
    /// A clock that starts from this machine's wall clock, and is corrected by what the API server answers.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one reading of the wall clock: a first guess until the API server has answered"
    )]
    pub fn system() -> Self {
        Self::guessed(faults::wall_clock(Timestamp::now()))
    }

    /// A clock that shows `base` now, and runs `rate` times as fast as the real one. No answer corrects it.
    pub fn starting_at(base: Timestamp, rate: f64) -> Self {
        Self::new(base, rate, None)
    }

    /// A clock that shows `base` until an answer of the API server shows better.
    pub(super) fn guessed(base: Timestamp) -> Self {
        Self::new(base, 1.0, Some(Server::default()))
    }

    fn new(base: Timestamp, rate: f64, server: Option<Server>) -> Self {
        Self(Arc::new(Mutex::new(Reading {
            origin: Instant::now(),
            base,
            rate,
            server,
            shown: Timestamp::MIN,
        })))
    }

    /// The time now. It does not go back, unless the server's clock was set back by more than 5 seconds.
    pub fn now(&self) -> Timestamp {
        let mut reading = self.lock();
        let time = reading.time_at(Instant::now());
        let back = reading.shown.duration_since(time);
        if back.is_negative() || back > STEP {
            reading.shown = time;
        }
        reading.shown
    }

    /// The moment of the local clock at which this one shows `time`; in the past if it is over. A correction of the clock moves it: one that
    /// sleeps until then should look again now and then.
    pub fn instant(&self, time: Timestamp) -> Instant {
        let reading = self.lock();
        let start = reading.time_at(reading.origin);
        let ahead = between(start, time);
        reading.origin
            + ahead
                .div_f64(reading.rate)
                .min(Duration::from_secs(365 * 24 * 3600))
    }

    /// The API server's time less that of this machine's wall clock (as it was at the start); zero for a clock that was set by hand.
    pub fn offset(&self) -> SignedDuration {
        self.lock()
            .server
            .as_ref()
            .map_or(SignedDuration::ZERO, |server| server.offset)
    }

    /// Learns from a `Date` header, in an answer that came at `received` to a request sent at `sent`.
    ///
    /// The header is cut to whole seconds. So at some moment between the two, the server's time was in `date..date + 1 s`: an interval for
    /// the offset. The intersection of all intervals, widened by what clocks may drift, is narrower than a second soon; its middle counts.
    ///
    /// An answer that contradicts the others moves nothing. It may come from another API server whose clock is wrong, or from something between here
    /// and there: *now* must not jump back and forth between them. Only if all answers of 90 s contradict what is known, and agree with each other,
    /// a clock was set, and they count.
    pub(super) fn observe(&self, date: Timestamp, sent: Instant, received: Instant) {
        let mut reading = self.lock();
        let (first, last) = (reading.local_at(sent), reading.local_at(received));
        let Some(server) = &mut reading.server else {
            return;
        };
        let second = SignedDuration::from_secs(1);
        let sample = Bounds {
            low: date.duration_since(last),
            high: date.duration_since(first).saturating_add(second),
            at: received,
        };
        server.learn(sample);
        let offset = server.offset;
        let news = (offset - server.said).abs() > STEP;
        if news {
            server.said = offset;
        }
        drop(reading);
        let offset_seconds = offset.as_secs_f64();
        if news && offset.abs() > STEP {
            tracing::warn!(
                offset_seconds,
                "this machine's clock differs from the API server's; the server's time is used, check NTP on both"
            );
        } else if news {
            tracing::info!(
                offset_seconds,
                "this machine's clock and the API server's agree again"
            );
        }
    }

    fn lock(&self) -> MutexGuard<'_, Reading> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reading {
    /// The uncorrected time at a moment.
    fn local_at(&self, moment: Instant) -> Timestamp {
        let passed = moment
            .saturating_duration_since(self.origin)
            .mul_f64(self.rate);
        after(self.base, passed)
    }

    /// The corrected time at a moment.
    fn time_at(&self, moment: Instant) -> Timestamp {
        let local = self.local_at(moment);
        match &self.server {
            Some(server) => local
                .saturating_add(server.offset)
                .unwrap_or(Timestamp::MAX),
            None => local,
        }
    }
}

impl Server {
    /// Takes the bounds that an answer shows into account.
    fn learn(&mut self, sample: Bounds) {
        let agreed = match self.bounds {
            None => Some(sample),
            Some(bounds) => bounds.intersect(sample),
        };
        let believed = agreed.or_else(|| {
            let (rival, since) = self
                .rival
                .and_then(|(rival, since)| Some((rival.intersect(sample)?, since)))
                .unwrap_or((sample, sample.at));
            self.rival = Some((rival, since));
            (sample.at.saturating_duration_since(since) >= BELIEVED_AFTER).then_some(rival)
        });
        if let Some(bounds) = believed {
            self.bounds = Some(bounds);
            self.offset = bounds.middle();
            self.rival = None;
        }
    }
}

impl Bounds {
    /// What both allow, the older one widened by the drift since; `None` if they contradict each other.
    fn intersect(self, newer: Self) -> Option<Self> {
        let age = newer.at.saturating_duration_since(self.at);
        let drift = SignedDuration::try_from(age.mul_f64(DRIFT)).unwrap_or(SignedDuration::MAX);
        let low = newer.low.max(self.low.saturating_sub(drift));
        let high = newer.high.min(self.high.saturating_add(drift));
        (low <= high).then_some(Self { low, high, ..newer })
    }

    fn middle(self) -> SignedDuration {
        self.low.saturating_add(self.high) / 2
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, sleep};

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    /// A server whose clock showed `base` at `origin`; its answers take no time.
    fn answer(clock: &Clock, base: Timestamp, origin: Instant) {
        let now = Instant::now();
        let time = base + (now - origin);
        let date = Timestamp::from_second(time.as_second()).unwrap();
        clock.observe(date, now, now);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wall_clock_10_minutes_off_shows_the_servers_time_after_the_first_answer() {
        let server = time("2026-11-30T12:00:00.3Z");
        for wall in ["2026-11-30T12:10:00Z", "2026-11-30T11:50:00Z"] {
            let clock = Clock::guessed(time(wall));
            assert_eq!(clock.now(), time(wall));
            answer(&clock, server, Instant::now());
            assert!(
                server.duration_since(clock.now()).abs() <= SignedDuration::from_millis(500),
                "{wall}: {}",
                clock.now()
            );
            assert_eq!(
                clock.offset().as_mins().abs(),
                10 - i64::from(wall > "2026-11-30T12:05")
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn answers_at_random_moments_narrow_it_down_to_a_fraction_of_a_second() {
        let (server, origin) = (time("2026-11-30T12:00:00.3Z"), Instant::now());
        let clock = Clock::guessed(time("2026-11-30T12:00:02Z"));
        for _ in 0..50 {
            advance(Duration::from_millis(1_370)).await;
            answer(&clock, server, origin);
        }
        let true_time = server + origin.elapsed();
        assert!(true_time.duration_since(clock.now()).abs() < SignedDuration::from_millis(100));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_answer_does_not_spoil_what_is_known() {
        let (server, origin) = (time("2026-11-30T12:00:00Z"), Instant::now());
        let clock = Clock::guessed(server);
        answer(&clock, server, origin);
        let offset = clock.offset();
        let sent = Instant::now();
        sleep(MINUTE).await;
        clock.observe(server, sent, Instant::now());
        assert!((clock.offset() - offset).abs() < SignedDuration::from_millis(500));
    }

    #[tokio::test(start_paused = true)]
    async fn now_never_goes_back_by_the_jitter_of_answers() {
        // Two API servers behind one address, two seconds apart.
        let (ahead, behind) = (time("2026-11-30T12:00:02Z"), time("2026-11-30T12:00:00Z"));
        let origin = Instant::now();
        let clock = Clock::guessed(behind);
        let mut last = clock.now();
        for at in 0..100 {
            advance(Duration::from_millis(130)).await;
            answer(&clock, if at % 2 == 0 { ahead } else { behind }, origin);
            let now = clock.now();
            assert!(now >= last, "{now} after {last}");
            last = now;
        }
        assert!((clock.now().duration_since(behind + origin.elapsed())).abs() < STEP);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_clock_that_was_set_is_followed_once_it_is_sure() {
        for minutes in [-30, 30] {
            let start = time("2026-11-30T12:00:00Z");
            let (clock, origin) = (Clock::guessed(start), Instant::now());
            answer(&clock, start, origin);
            let set = start + SignedDuration::from_mins(minutes);
            let off = || clock.now().duration_since(set + origin.elapsed()).abs();
            // A watch of one kind alone answers about once a minute.
            advance(MINUTE).await;
            answer(&clock, set, origin);
            advance(MINUTE).await;
            answer(&clock, set, origin);
            assert!(off() > SignedDuration::from_mins(29));
            advance(MINUTE).await;
            answer(&clock, set, origin);
            assert!(off() < SignedDuration::from_secs(1), "{}", clock.now());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn api_servers_whose_clocks_differ_do_not_make_now_jump() {
        // Three behind one address. The second is wrong, the third worse; which one answers is chance.
        let good = time("2026-11-30T12:00:00Z");
        let servers = [
            good,
            good + SignedDuration::from_secs(40),
            good - SignedDuration::from_mins(90),
        ];
        for seed in 0..20 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (clock, origin) = (Clock::guessed(good), Instant::now());
            answer(&clock, good, origin);
            // Twelve kinds, each watched anew about once a minute.
            for _ in 0..2_000 {
                let (before, pause) = (clock.now(), Duration::from_millis(random.u64(0..10_000)));
                advance(pause).await;
                answer(&clock, servers[random.usize(..servers.len())], origin);
                let went = clock.now().duration_since(before);
                let jump = went - SignedDuration::try_from(pause).unwrap();
                assert!(
                    jump.abs() < SignedDuration::from_secs(1),
                    "seed {seed}: {jump}"
                );
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_wrong_date_moves_nothing_even_after_a_long_silence() {
        let (good, origin) = (time("2026-11-30T12:00:00Z"), Instant::now());
        let clock = Clock::guessed(good);
        answer(&clock, good, origin);
        for _ in 0..10 {
            advance(10 * MINUTE).await;
            answer(&clock, time("1970-01-01T00:00:00Z"), Instant::now());
            let off = clock.now().duration_since(good + origin.elapsed());
            assert!(off.abs() < SignedDuration::from_secs(1), "{off}");
            advance(MINUTE).await;
            answer(&clock, good, origin);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn slow_drift_is_followed_without_a_contradiction() {
        // The server gains or loses 100 ppm; a day later the guess is still good, and it never jumped.
        let day = Duration::from_secs(24 * 3_600);
        for gains in [true, false] {
            let (server, origin) = (time("2026-11-30T12:00:00Z"), Instant::now());
            let clock = Clock::guessed(server);
            let drifted = || {
                let drift = SignedDuration::try_from(origin.elapsed().mul_f64(100e-6)).unwrap();
                if gains { drift } else { -drift }
            };
            let mut contradictions = 0;
            while origin.elapsed() < day {
                advance(MINUTE + Duration::from_millis(37)).await;
                answer(&clock, server + drifted(), origin);
                let rival = clock.lock().server.as_ref().unwrap().rival;
                contradictions += u32::from(rival.is_some());
            }
            assert_eq!(contradictions, 0, "gains: {gains}");
            assert!((clock.offset() - drifted()).abs() < SignedDuration::from_millis(500));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn instant_is_when_now_shows_the_time() {
        let clock = Clock::guessed(time("2026-11-30T12:10:00Z"));
        answer(&clock, time("2026-11-30T12:00:00.5Z"), Instant::now());
        let due = time("2026-11-30T12:05:00Z");
        tokio::time::sleep_until(clock.instant(due)).await;
        let late = clock.now().duration_since(due);
        assert!(
            !late.is_negative() && late < SignedDuration::from_millis(2),
            "{late}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_set_by_hand_runs_at_its_rate_and_takes_no_correction() {
        let clock = Clock::starting_at(time("2020-01-01T00:00:00Z"), 60.0);
        answer(&clock, time("2026-11-30T12:00:00Z"), Instant::now());
        advance(Duration::from_secs(1)).await;
        assert_eq!(clock.now(), time("2020-01-01T00:01:00Z"));
        assert_eq!(clock.offset(), SignedDuration::ZERO);
        assert_eq!(
            clock.instant(time("2020-01-01T00:02:00Z")),
            Instant::now() + Duration::from_secs(1)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_absurd_date_does_not_panic() {
        let clock = Clock::guessed(time("2026-11-30T12:00:00Z"));
        for date in [Timestamp::MAX, Timestamp::MIN] {
            clock.observe(date, Instant::now(), Instant::now());
            clock.now();
            clock.instant(Timestamp::MAX);
            clock.instant(Timestamp::MIN);
        }
    }
}
