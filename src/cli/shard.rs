//! `alertkube shard`: who pages for what, and how evenly that spreads.

mod status;

use std::{
    collections::BTreeSet,
    io::{self, IsTerminal as _, Write},
};

use super::{
    Exit,
    cluster::SourceArgs,
    files,
    table::{self, Cell, Style},
};
use crate::{
    cluster::Subject,
    settings::{self, Settings},
    shard::{Balance, ShardKey, Sharder, moved},
    text,
};

/// Which replica pages for what
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Owner(OwnerArgs),
    Balance(BalanceArgs),
    Status(status::Args),
}

/// Says which shard pages for a subject
///
/// A subject is what an alert is about: a workload, not its pods.
#[derive(Debug, clap::Args)]
pub struct OwnerArgs {
    /// The subject: Kind/namespace/name, or Kind/name if its kind has no namespaces
    #[arg(value_name = "SUBJECT")]
    subject: Subject,

    /// How many shards there are, if not as many as the environment says
    #[arg(long, value_name = "N", value_parser = total_parser())]
    total: Option<u32>,
}

/// Shows how the subjects of a cluster spread over the shards, and what a change of the total would move
///
/// Without --file it reads the cluster.
#[derive(Debug, clap::Args)]
pub struct BalanceArgs {
    #[command(flatten)]
    source: SourceArgs,

    /// How many shards there are, if not as many as the environment says
    #[arg(long, value_name = "N", value_parser = total_parser())]
    total: Option<u32>,
}

/// More shards than any installation has, so that a slip of a finger does not print millions of lines.
fn total_parser() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=1000)
}

/// Runs the command.
///
/// # Errors
///
/// The cluster cannot be read, or the output cannot be written to.
pub fn run(command: &Command, settings: &Settings) -> anyhow::Result<Exit> {
    let mut out = io::stdout().lock();
    match command {
        Command::Status(args) => status::run(args, settings, &mut out),
        Command::Owner(args) => {
            let total = args.total.unwrap_or_else(|| settings.sharder.total());
            write_owner(&mut out, &args.subject, total)?;
            Ok(Exit::Success)
        }
        Command::Balance(args) => {
            let total = args.total.unwrap_or_else(|| settings.sharder.total());
            let mut subjects = BTreeSet::new();
            let errors = if args.source.files.is_empty() {
                let (_, errors) = args.source.cluster.open()?.read(|object, _| {
                    subjects.insert(object.subject().0);
                })?;
                errors
            } else {
                let input = files::read(&args.source.files);
                subjects.extend(input.objects.iter().map(|object| object.subject().0));
                input.errors
            };
            let keys: Vec<ShardKey> = subjects.iter().map(ShardKey::of).collect();
            for error in &errors {
                writeln!(
                    io::stderr(),
                    "not read: {}",
                    text::one_line(&error.to_string())
                )?;
            }
            let colour = settings::colour(out.is_terminal());
            write_balance(&mut out, colour, &keys, total)?;
            Ok(if errors.is_empty() {
                Exit::Success
            } else {
                Exit::Failure
            })
        }
    }
}

fn write_owner(out: &mut dyn Write, subject: &Subject, total: u32) -> io::Result<()> {
    let key = ShardKey::of(subject);
    let owner = Sharder::owner_of(key.as_str(), total);
    writeln!(out, "{subject} (key {key}): shard {owner} of {total}")
}

fn write_balance(
    out: &mut dyn Write,
    colour: bool,
    keys: &[ShardKey],
    total: u32,
) -> io::Result<()> {
    let balance = Balance::new(keys.iter().copied(), total);
    let rows: Vec<_> = balance
        .shards()
        .map(|(index, subjects)| {
            let share = percent(subjects, balance.subjects());
            [&index.to_string(), &subjects.to_string(), &share].map(Cell::number)
        })
        .collect();
    table::write(out, colour, ["SHARD", "SUBJECTS", "SHARE"], &rows)?;
    writeln!(out)?;
    let style = match balance.empty_shards() {
        0 => Style::Bold,
        _ => Style::Yellow,
    };
    let summary = format!(
        "{}, {:.2} max/mean, {}",
        text::count(balance.subjects(), "subject"),
        balance.max_to_mean(),
        text::count(balance.empty_shards(), "empty shard")
    );
    table::styled(out, colour, style, &summary)?;
    writeln!(out)?;
    for to in BTreeSet::from([total.saturating_add(1), total.saturating_mul(2)]) {
        let moved = moved(keys.iter().copied(), total, to);
        let share = percent(moved, balance.subjects());
        writeln!(
            out,
            "A change to {to} shards would move {} ({share}).",
            text::count(moved, "subject")
        )?;
    }
    Ok(())
}

fn percent(part: usize, whole: usize) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    format!("{:.1} %", 100.0 * part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_is_the_one_that_the_replicas_find() {
        let subject = "Deployment/shop/web".parse::<Subject>().unwrap();
        let mut out = Vec::new();
        write_owner(&mut out, &subject, 3).unwrap();
        let out = String::from_utf8(out).unwrap();
        let owner = (0..3)
            .find(|index| {
                let sharder = Sharder::new(*index, 3).unwrap();
                sharder.owns(ShardKey::of(&subject).as_str())
            })
            .unwrap();
        assert!(out.ends_with(&format!(": shard {owner} of 3\n")), "{out}");
    }

    #[test]
    fn balance_of_a_small_cluster() {
        let keys: Vec<ShardKey> = (0..100)
            .map(|n| {
                let subject = format!("Deployment/shop/web-{n}").parse::<Subject>();
                ShardKey::of(&subject.unwrap())
            })
            .collect();
        let mut out = Vec::new();
        write_balance(&mut out, false, &keys, 3).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
    }

    #[test]
    fn balance_of_nothing() {
        let mut out = Vec::new();
        write_balance(&mut out, false, &[], 1).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
    }
}
