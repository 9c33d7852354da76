//! A simulation: replicas whose pods are killed, paused, cut off, doubled, rescaled and rolled back, with watches that are late, requests that land
//! late or are not answered, and clocks that drift. Time is simulated, and a seed always gives the same history.

mod api;
mod listener;
mod pod;
mod world;

/// All that can go wrong: pods are killed, paused, or cut off from the API server; the set is rescaled; clocks drift; requests land late or
/// are not answered; a pod runs on beside its successor; a mistake is rolled back; the API server refuses.
pub const FAULTS: [&str; 9] = [
    "kill", "pause", "cut", "rescale", "drift", "delay", "twin", "wrong", "refuse",
];

/// What to simulate.
#[derive(Debug, Clone)]
pub struct Options {
    /// Of [`FAULTS`].
    pub faults: Vec<&'static str>,
    /// Whether orphans have heirs.
    pub takeover: bool,
    /// `podManagementPolicy: OrderedReady`.
    pub ordered: bool,
    /// How many keys.
    pub keys: usize,
    /// Whether to print what happens.
    pub verbose: bool,
}

impl Options {
    /// These faults.
    pub fn new(faults: &[&'static str]) -> Self {
        Self {
            faults: faults.to_vec(),
            takeover: true,
            ordered: false,
            keys: 24,
            verbose: false,
        }
    }
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Report {
    /// What did not hold, each with the time.
    pub failures: Vec<String>,
    /// Times in which a key had no owner although a replica was up and could reach the API server, in seconds.
    pub gaps: Vec<f64>,
    /// The longest of them.
    pub longest: f64,
    /// How often paging went on without a state.
    pub incomplete: u64,
    /// Attempts to send.
    pub sends: u64,
    /// Of those, of what was not written.
    pub unsaved: u64,
    /// Requests to the API server.
    pub requests: u64,
    /// Of those, writes of states.
    pub writes: u64,
}

/// Simulates one seed.
pub fn run(seed: u64, options: &Options) -> Report {
    world::World::new(seed, options.clone()).run()
}

/// Adds up seeds: the seeds that failed, and a line of figures.
pub fn summary(reports: &[(u64, Report)]) -> (Vec<String>, String) {
    let failed: Vec<_> = reports
        .iter()
        .filter(|(_, report)| !report.failures.is_empty())
        .map(|(seed, report)| {
            let failures = &report.failures;
            format!(
                "seed {seed}: {} failures, first {}",
                failures.len(),
                failures[0]
            )
        })
        .collect();
    let mut gaps: Vec<_> = reports
        .iter()
        .flat_map(|(_, report)| report.gaps.clone())
        .collect();
    gaps.sort_by(f64::total_cmp);
    let mut longest: Vec<_> = reports
        .iter()
        .map(|(seed, report)| (report.longest, *seed))
        .collect();
    longest.sort_by(|a, b| b.0.total_cmp(&a.0));
    let at = |percent: usize| {
        gaps.get(gaps.len() * percent / 100)
            .copied()
            .unwrap_or_default()
    };
    let sum = |of: fn(&Report) -> u64| reports.iter().map(|(_, report)| of(report)).sum::<u64>();
    let line = format!(
        "{} of {} seeds failed. Seconds without an owner: median {:.2}, 99 % {:.2}; a seed's longest: median {:.2}; longest (seconds, seed): {:.2?}. \
         {} sends ({} of what was not written), {} requests ({} writes of states), {} times without a state",
        failed.len(),
        reports.len(),
        at(50),
        at(99),
        longest
            .get(longest.len() / 2)
            .map_or(0.0, |longest| longest.0),
        &longest[..longest.len().min(5)],
        sum(|report| report.sends),
        sum(|report| report.unsaved),
        sum(|report| report.requests),
        sum(|report| report.writes),
        sum(|report| report.incomplete),
    );
    (failed, line)
}
