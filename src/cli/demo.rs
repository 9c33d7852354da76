//! `alertkube demo`: to be written by the lead.

use super::Exit;

/// Shows the product at work, without a cluster
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How many replicas run side by side, each paging for its own part
    #[arg(long, value_name = "N", default_value_t = 1)]
    shards: u32,

    /// How many times as fast as real time the demo's time runs
    #[arg(long, value_name = "FACTOR", default_value_t = 60.0)]
    speed: f64,
}

/// To be written.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    anyhow::bail!(
        "`demo` is not built yet ({} at {})",
        args.shards,
        args.speed
    )
}
