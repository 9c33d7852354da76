//! `alertkube demo`: the real controller, against a cluster in memory.

mod screen;
mod story;

use std::io::{self, IsTerminal as _};

use jiff::{SignedDuration, Timestamp};
use tokio::{task::JoinSet, time::sleep_until};
use tokio_util::sync::CancellationToken;

use self::{
    screen::{Screen, Tally},
    story::{Shop, story},
};
use super::Exit;
use crate::{
    app::{App, Options},
    cluster::Clock,
    settings,
    shard::Sharder,
    sim, text,
};

/// When the shop opens: 9 in the morning, so that the times on the screen are easy to read.
const OPENING: Timestamp = Timestamp::constant(1_767_344_400, 0);

/// Shows the product at work, without a cluster
///
/// A small shop runs on a cluster in memory. Things break and recover there, and the real controller watches and pages. It ends by itself.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How many replicas run side by side, each paging for its own part
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    shards: u32,

    /// How many times as fast as real time the demo's time runs
    #[arg(long, value_name = "FACTOR", default_value_t = 30.0, value_parser = speed)]
    speed: f64,
}

fn speed(text: &str) -> Result<f64, &'static str> {
    text.parse()
        .ok()
        .filter(|speed| (1.0..=600.0).contains(speed))
        .ok_or("give a number from 1 (real time) to 600")
}

/// Plays the demo.
///
/// # Errors
///
/// It cannot start, or nobody reads what it shows.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let colour = settings::colour(io::stdout().is_terminal());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(play(args, &Screen::new(io::stdout(), colour)))?;
    Ok(Exit::Success)
}

async fn play(args: &Args, screen: &Screen) -> anyhow::Result<()> {
    let clock = Clock::starting_at(OPENING, args.speed);
    let server = sim::Server::start(sim::Options::new(clock.clone())).await?;
    let shop = Shop::open(server.store().clone(), clock.now());
    introduce(args, screen, &shop)?;

    let (closing, tally) = (CancellationToken::new(), Tally::default());
    let mut replicas = JoinSet::new();
    for shard in 0..args.shards {
        let mut app = App::new(Options {
            config: server.kube_config(),
            clock: clock.clone(),
            sharder: Sharder::new(shard, args.shards)?,
            cluster: Some(String::new()),
            listener: None,
            receivers: vec!["stdout"],
            membership: None,
        })?;
        app.deliver_to(screen.receiver(shard, args.shards, &tally));
        replicas.spawn(app.run(closing.clone()));
    }

    let opened = clock.now();
    for scene in story() {
        let at = opened + SignedDuration::from_secs(scene.at);
        tokio::select! {
            () = sleep_until(clock.instant(at)) => {}
            Some(ended) = replicas.join_next() => return Ok(ended??),
        }
        if let Some(text) = scene.tell {
            screen.tell(at, text)?;
        }
        (scene.change)(&shop, at);
    }
    closing.cancel();
    while let Some(ended) = replicas.join_next().await {
        ended??;
    }
    server.stop().await;
    sum_up(args, screen, &tally)
}

fn introduce(args: &Args, screen: &Screen, shop: &Shop) -> anyhow::Result<()> {
    let replicas = match args.shards {
        1 => "one replica".to_owned(),
        shards => format!("{shards} replicas, each paging for its own part"),
    };
    screen.title("A shop on a cluster in memory, watched by alertkube")?;
    screen.line(&format!(
        "{} workloads, {} pods, {} nodes; {} times as fast as real time;",
        Shop::workloads(),
        shop.pods(),
        Shop::nodes(),
        args.speed,
    ))?;
    screen.line(&format!("{replicas}."))?;
    screen.line("")?;
    screen.remark("  ·  what happens in the cluster")?;
    screen.remark("  ●  a page: alert, workload, what is wrong, which pods, since when")?;
    screen.remark("  ✔  its end")?;
    screen.line("")?;
    Ok(())
}

fn sum_up(args: &Args, screen: &Screen, tally: &Tally) -> anyhow::Result<()> {
    let tally = tally.paged();
    let pages: u32 = tally.iter().map(|(_, paged)| paged.fired).sum();
    screen.line("")?;
    screen.title(&format!(
        "{} in all",
        text::count(usize::try_from(pages)?, "page")
    ))?;
    for ((subject, alert), paged) in &tally {
        let end = if paged.resolved < paged.fired {
            "still stands"
        } else {
            "resolved"
        };
        let owner = if args.shards > 1 {
            format!("shard {}, ", paged.shard)
        } else {
            String::new()
        };
        screen.line(&format!("  {subject:<30} {alert:<24} {owner}{end}"))?;
    }
    screen.line("")?;
    screen.remark("A rolling restart and a short unreadiness paged nobody.")?;
    screen.remark("An out-of-memory kill ends by itself an hour later.")?;
    screen
        .remark("Next: `alertkube scan` shows what is wrong in your cluster, `alertkube` pages.")?;
    Ok(())
}
