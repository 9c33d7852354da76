//! Who owns what, in simulated time. The long run is `cargo run --release --example ownership -- --seeds 500`; it also replays a seed.

mod simulation;

use simulation::{FAULTS, Options, run, summary};

/// How many seeds each test tries; about a second each.
const SEEDS: u64 = 2;

fn try_seeds(first: u64, options: &Options) -> Vec<(u64, simulation::Report)> {
    let seeds = first..first + SEEDS;
    let reports: Vec<_> = seeds.map(|seed| (seed, run(seed, options))).collect();
    let (failed, figures) = summary(&reports);
    assert!(failed.is_empty(), "{}\n{figures}", failed.join("\n"));
    reports
}

#[test]
fn whatever_happens_a_key_has_one_owner_who_knows_and_all_comes_to_rest() {
    try_seeds(0, &Options::new(&FAULTS));
}

#[test]
fn also_without_takeover_and_in_order() {
    let mut options = Options::new(&FAULTS);
    options.takeover = false;
    try_seeds(100, &options);
    options.ordered = true;
    try_seeds(200, &options);
}

#[test]
fn without_faults_nobody_is_without_an_owner_for_long() {
    // A first start, and what a rollout costs: a send in flight may take 10 s, and is waited for.
    for (_, report) in try_seeds(300, &Options::new(&["rescale"])) {
        assert!(report.longest <= 25.0, "{}", report.longest);
        assert_eq!(report.incomplete, 0);
        assert!(report.sends > 100, "{}", report.sends);
    }
}

#[test]
fn a_kill_costs_a_lease_and_a_little() {
    for (_, report) in try_seeds(400, &Options::new(&["kill"])) {
        // Two at once may cost two.
        assert!(report.longest <= 40.0, "{}", report.longest);
        assert_eq!(report.incomplete, 0);
    }
}

#[test]
fn a_seed_gives_the_same_history() {
    let options = Options::new(&FAULTS);
    let [first, second] = [0, 0].map(|seed| run(seed, &options));
    assert_eq!(first.gaps, second.gaps);
    assert_eq!(
        (first.sends, first.requests),
        (second.sends, second.requests)
    );
}
