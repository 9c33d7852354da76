//! Simulates who owns what, for many seeds, or shows one:
//!
//!     cargo run --release --example ownership -- --seeds 500
//!     cargo run --release --example ownership -- --seed 17 --verbose
#![expect(clippy::disallowed_macros, reason = "a program to be looked at")]

use clap::Parser;

#[path = "../tests/ownership/simulation/mod.rs"]
mod simulation;

/// Simulates who owns what.
#[derive(Debug, Parser)]
struct Arguments {
    /// How many seeds.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// Only this seed.
    #[arg(long)]
    seed: Option<u64>,
    /// Which faults, with commas between.
    #[arg(long, value_delimiter = ',', value_parser = clap::builder::PossibleValuesParser::new(simulation::FAULTS), default_values_t = simulation::FAULTS.map(str::to_owned))]
    faults: Vec<String>,
    /// Orphans have no heir while no generation changes.
    #[arg(long)]
    no_takeover: bool,
    /// The pod management policy is `OrderedReady`.
    #[arg(long)]
    ordered: bool,
    /// Print what happens.
    #[arg(long)]
    verbose: bool,
}

fn main() -> std::process::ExitCode {
    let arguments = Arguments::parse();
    let faults: Vec<_> = simulation::FAULTS
        .into_iter()
        .filter(|fault| arguments.faults.iter().any(|wanted| wanted == fault))
        .collect();
    let options = simulation::Options {
        takeover: !arguments.no_takeover,
        ordered: arguments.ordered,
        verbose: arguments.verbose,
        ..simulation::Options::new(&faults)
    };
    let seeds = arguments
        .seed
        .map_or(0..arguments.seeds, |seed| seed..seed + 1);
    let reports: Vec<_> = seeds
        .map(|seed| (seed, simulation::run(seed, &options)))
        .collect();
    let (failed, line) = simulation::summary(&reports);
    for text in &failed {
        println!("{text}");
    }
    println!("{line}");
    std::process::ExitCode::from(u8::from(!failed.is_empty()))
}
