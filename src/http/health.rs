//! Health: is the program alive, and does it see the cluster?

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::Metrics;
use crate::{cluster::KindId, text::one_line};

/// A kind that fails for longer is degraded: it no longer holds readiness back, because waiting for it would keep all others from paging.
const DEGRADED_AFTER: Duration = Duration::from_secs(60);

/// A controller whose loop has not gone round for this long is stuck. It goes round every few seconds, so this is many missed rounds, not a slow one.
const STUCK_AFTER: Duration = Duration::from_secs(60);

/// The health of the program, as its parts report it. Cheap to clone; all clones agree.
#[derive(Debug, Clone)]
pub struct Health(Arc<Mutex<State>>);

struct State {
    last_beat: Instant,
    kinds: BTreeMap<KindId, Kind>,
    /// What has to come before anything is watched, if something has.
    waits: Option<&'static str>,
    /// What else there is to ask.
    others: Vec<Box<dyn Fn() -> Vec<Check> + Send>>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("last_beat", &self.last_beat)
            .field("kinds", &self.kinds)
            .field("waits", &self.waits)
            .finish_non_exhaustive()
    }
}

/// Something else than a kind that readiness depends on, or that people want to know when they ask for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    /// It is well.
    Good(String),
    /// It is not, and the program is not ready.
    Bad(String),
    /// It is to be told.
    Note(String),
}

/// What is known of the watch of a kind.
#[derive(Debug, Default)]
struct Kind {
    synced: bool,
    failure: Option<Failure>,
}

#[derive(Debug)]
struct Failure {
    since: Instant,
    reason: String,
    /// Not served, or not allowed: no use waiting for it.
    unavailable: bool,
    /// Whether it was told to be degraded.
    told: bool,
}

/// The health of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KindHealth {
    /// Its first list is not complete yet. If attempts fail: for how long, and why.
    Listing(Option<(Duration, String)>),
    /// It is seen.
    Synced,
    /// It was seen, and has been failing for a short while.
    Failing(Duration, String),
    /// It cannot be seen: for how long, and why. Nobody is paged for what happens to it now.
    Degraded(Duration, String),
}

/// Whether the program is ready, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readiness {
    /// Whether it is.
    pub ready: bool,
    /// Each kind.
    pub kinds: Vec<(KindId, KindHealth)>,
    /// What else there is.
    pub others: Vec<Check>,
}

impl Health {
    /// The health of a program that watches these kinds, and has only begun.
    pub fn new(kinds: &[KindId]) -> Self {
        Self(Arc::new(Mutex::new(State {
            last_beat: Instant::now(),
            kinds: kinds.iter().map(|kind| (*kind, Kind::default())).collect(),
            waits: None,
            others: Vec::new(),
        })))
    }

    /// Asks for something else, too, whenever readiness is asked for.
    pub fn ask_also(&self, check: impl Fn() -> Vec<Check> + Send + 'static) {
        self.state().others.push(Box::new(check));
    }

    /// Says what is waited for before anything is watched: until [`Health::wait_over`], the program is not ready.
    pub fn wait_for(&self, what: &'static str) {
        self.state().waits = Some(what);
    }

    /// Says that nothing is waited for any more.
    pub fn wait_over(&self) {
        self.state().waits = None;
    }

    /// Says that the controller's loop goes round. To be called every few seconds, also when there is nothing to do.
    pub fn beat(&self) {
        self.state().last_beat = Instant::now();
    }

    /// Says that the list of a kind is complete, and its watch runs.
    pub fn synced(&self, kind: KindId) {
        let mut state = self.state();
        let kind = state.kinds.entry(kind).or_default();
        kind.synced = true;
        kind.failure = None;
    }

    /// Says that the watch of a kind is back. If its first list is still to come, it is.
    pub fn restored(&self, kind: KindId) {
        self.state().kinds.entry(kind).or_default().failure = None;
    }

    /// Says that a kind cannot be listed or watched. It counts from the first time, until [`Health::synced`]. Whether that is news: it did not
    /// fail, or for another reason.
    pub fn failing(&self, kind: KindId, reason: &str) -> bool {
        self.fail(kind, reason, false)
    }

    /// Says that a kind is not served, or not allowed: it holds readiness back no longer. Whether that is news.
    pub fn unavailable(&self, kind: KindId, reason: &str) -> bool {
        self.fail(kind, reason, true)
    }

    fn fail(&self, kind: KindId, reason: &str, unavailable: bool) -> bool {
        let mut state = self.state();
        let kind = state.kinds.entry(kind).or_default();
        let reason = one_line(reason);
        let before = kind.failure.take();
        let is_news = before.as_ref().map(|before| &before.reason) != Some(&reason);
        kind.failure = Some(Failure {
            since: before
                .as_ref()
                .map_or_else(Instant::now, |before| before.since),
            reason,
            unavailable,
            told: unavailable || before.is_some_and(|before| before.told),
        });
        is_news
    }

    /// The kinds that have become degraded because they have been failing for too long, and why. Each is told once, until it is seen again.
    pub fn newly_degraded(&self) -> Vec<(KindId, String)> {
        let mut state = self.state();
        let degraded = state.kinds.iter_mut().filter_map(|(id, kind)| {
            let KindHealth::Degraded(_, reason) = kind.health() else {
                return None;
            };
            let failure = kind.failure.as_mut()?;
            (!std::mem::replace(&mut failure.told, true)).then_some((*id, reason))
        });
        degraded.collect()
    }

    /// Whether the controller's loop goes round; if not, for how long it has not.
    ///
    /// # Errors
    ///
    /// It is stuck.
    pub fn live(&self) -> Result<(), Duration> {
        let still = self.state().last_beat.elapsed();
        if still > STUCK_AFTER {
            Err(still)
        } else {
            Ok(())
        }
    }

    /// Whether every kind has been listed that can be, and at least one has: a program that sees nothing at all is not ready, whatever the reason.
    pub fn sees(&self) -> bool {
        self.state().sees()
    }

    /// Whether the program [sees](Health::sees) the cluster, and nothing else is wrong.
    pub fn readiness(&self) -> Readiness {
        let state = self.state();
        let waits = state.waits.map(|what| Check::Bad(what.to_owned()));
        let others = state.others.iter().flat_map(|ask| ask());
        let others: Vec<_> = waits.into_iter().chain(others).collect();
        let bad = others.iter().any(|check| matches!(check, Check::Bad(_)));
        Readiness {
            ready: state.sees() && !bad,
            kinds: state.healths().collect(),
            others,
        }
    }

    /// Shows the health of each kind as metrics, too.
    pub fn show_in(&self, metrics: &Metrics) {
        let health = self.clone();
        metrics.at_scrape(move |gauges| {
            for (kind, synced, degraded) in health.watches() {
                gauges.watch(kind, synced, degraded);
            }
        });
    }

    fn watches(&self) -> Vec<(KindId, bool, bool)> {
        let state = self.state();
        let watches = state.kinds.iter().map(|(id, kind)| {
            let degraded = matches!(kind.health(), KindHealth::Degraded(..));
            (*id, kind.synced, degraded)
        });
        watches.collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn healths(&self) -> impl Iterator<Item = (KindId, KindHealth)> {
        self.kinds.iter().map(|(id, kind)| (*id, kind.health()))
    }

    fn sees(&self) -> bool {
        let waits = |(_, health)| matches!(health, KindHealth::Listing(_));
        self.kinds.values().any(|kind| kind.synced) && !self.healths().any(waits)
    }
}

impl Kind {
    fn health(&self) -> KindHealth {
        match &self.failure {
            None if self.synced => KindHealth::Synced,
            None => KindHealth::Listing(None),
            Some(failure) => {
                let (lasts, reason) = (failure.since.elapsed(), failure.reason.clone());
                if failure.unavailable || lasts >= DEGRADED_AFTER {
                    KindHealth::Degraded(lasts, reason)
                } else if self.synced {
                    KindHealth::Failing(lasts, reason)
                } else {
                    KindHealth::Listing(Some((lasts, reason)))
                }
            }
        }
    }
}

impl fmt::Display for Readiness {
    /// A line a kind, and for what else there is, and the verdict, in the manner of the API server's own `/readyz?verbose`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, health) in &self.kinds {
            let kind = kind.as_str();
            match health {
                KindHealth::Synced => writeln!(f, "[+]{kind} synced")?,
                KindHealth::Listing(None) => writeln!(f, "[-]{kind} listing")?,
                KindHealth::Listing(Some((lasts, reason))) => {
                    let seconds = lasts.as_secs();
                    writeln!(f, "[-]{kind} listing, failing for {seconds}s: {reason}")?;
                }
                KindHealth::Failing(lasts, reason) => {
                    let seconds = lasts.as_secs();
                    writeln!(f, "[+]{kind} synced, failing for {seconds}s: {reason}")?;
                }
                KindHealth::Degraded(lasts, reason) => {
                    let seconds = lasts.as_secs();
                    writeln!(f, "[!]{kind} degraded for {seconds}s: {reason}")?;
                }
            }
        }
        for check in &self.others {
            match check {
                Check::Good(text) => writeln!(f, "[+]{text}")?,
                Check::Bad(text) => writeln!(f, "[-]{text}")?,
                Check::Note(text) => writeln!(f, "   {text}")?,
            }
        }
        f.write_str(if self.ready { "ready\n" } else { "not ready\n" })
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const POD: KindId = KindId::Pod;

    #[tokio::test(start_paused = true)]
    async fn ready_when_the_first_list_is_complete_and_also_while_a_watch_fails_later() {
        let health = Health::new(&[KindId::Pod]);
        assert!(!health.readiness().ready);
        assert_eq!(
            health.readiness().to_string(),
            "[-]Pod listing\nnot ready\n"
        );

        health.failing(POD, "connection\nrefused");
        advance(Duration::from_secs(7)).await;
        assert_eq!(
            health.readiness().to_string(),
            "[-]Pod listing, failing for 7s: connection refused\nnot ready\n"
        );

        health.synced(POD);
        assert_eq!(health.readiness().to_string(), "[+]Pod synced\nready\n");

        assert!(health.failing(POD, "500"), "it is news");
        advance(Duration::from_secs(59)).await;
        // A second failure does not begin a new count.
        assert!(health.failing(POD, "503"));
        assert!(!health.failing(POD, "503"), "it is no news");
        assert_eq!(health.newly_degraded(), []);
        assert_eq!(
            health.readiness().to_string(),
            "[+]Pod synced, failing for 59s: 503\nready\n"
        );
        assert_eq!(health.watches(), [(POD, true, false)]);
        advance(Duration::from_secs(1)).await;
        assert_eq!(
            health.readiness().to_string(),
            "[!]Pod degraded for 60s: 503\nready\n"
        );
        assert_eq!(health.watches(), [(POD, true, true)]);
        assert_eq!(health.newly_degraded(), [(POD, "503".to_owned())]);
        health.failing(POD, "500");
        assert_eq!(health.newly_degraded(), [], "it is told once");
        health.restored(POD);
        assert!(health.unavailable(POD, "forbidden"));
        assert_eq!(health.newly_degraded(), [], "who said it said it loudly");
    }

    #[tokio::test(start_paused = true)]
    async fn who_sees_nothing_at_all_is_not_ready() {
        let health = Health::new(&[KindId::Pod]);
        health.unavailable(POD, "forbidden");
        assert_eq!(
            health.readiness().to_string(),
            "[!]Pod degraded for 0s: forbidden\nnot ready\n"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_stands_still_is_not_alive() {
        let health = Health::new(&[KindId::Pod]);
        advance(STUCK_AFTER).await;
        assert_eq!(health.live(), Ok(()));
        advance(Duration::from_secs(1)).await;
        assert_eq!(health.live(), Err(Duration::from_secs(61)));
        health.beat();
        assert_eq!(health.live(), Ok(()));
    }
}
