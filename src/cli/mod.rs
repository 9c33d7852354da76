//! The command line: one file a command, each thin.

mod cluster;
mod config;
mod demo;
mod exit;
mod files;
mod record;
mod replay;
mod rules;
mod run;
mod scan;
mod shard;
mod table;

pub use exit::Exit;

use std::{fmt::Write as _, process::ExitCode};

use clap::{Parser, Subcommand};

use crate::settings::{self, Settings};

/// Runs the program. The exit code is its result.
pub fn main() -> ExitCode {
    // Both HTTP clients use it; without it the first of them panics.
    crate::cluster::install_crypto_provider();
    Cli::parse()
        .execute()
        .unwrap_or_else(|error| exit::report(&error))
        .into()
}

/// Watches a Kubernetes cluster and pages people about broken workloads
///
/// alertkube reads the cluster's own objects, and needs no Prometheus. It pages once per workload and cause, however many pods show it, and
/// says when it is over. With no command it runs.
#[derive(Debug, Parser)]
#[command(name = "alertkube", version, after_help = "See --help for examples, the environment and exit codes.", after_long_help = after_long_help())]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    Scan(scan::Args),
    Record(record::Args),
    Replay(replay::Args),
    Demo(demo::Args),
    Rules(rules::Args),
    #[command(subcommand)]
    Config(config::Command),
    #[command(subcommand)]
    Shard(shard::Command),
}

impl Cli {
    fn execute(self) -> anyhow::Result<Exit> {
        let command = self
            .command
            .unwrap_or_else(|| Command::Run(run::Args::default()));
        if let Command::Demo(args) = &command {
            // It shows what the product does by default, so the environment is not asked.
            return demo::run(args);
        }
        if let Command::Rules(args) = &command {
            return rules::run(args);
        }
        if let Command::Config(command) = &command {
            return config::run(command);
        }
        let settings = Settings::from_env()?;
        settings::init_logging(settings.log, settings.log_format);
        match command {
            Command::Run(args) => run::run(&args, settings),
            Command::Scan(args) => scan::run(&args, &settings),
            Command::Record(args) => record::run(&args, settings),
            Command::Replay(args) => replay::run(&args, &settings),
            Command::Demo(args) => demo::run(&args),
            Command::Rules(args) => rules::run(&args),
            Command::Config(command) => config::run(&command),
            Command::Shard(command) => shard::run(&command, &settings),
        }
    }
}

fn after_long_help() -> String {
    let mut text = "\
Examples:
  alertkube demo                        see it at work, without a cluster
  alertkube scan                        what is wrong in the cluster now
  alertkube rules                       what it looks for
  alertkube                             watch the cluster, and page to standard output
  ALERTKUBE_WEBHOOK_URL=https://example.com/hook alertkube run

Environment:
"
    .to_owned();
    for variable in settings::VARIABLES {
        let settings::Variable {
            name,
            default,
            help,
        } = variable;
        // Writing to a String cannot fail.
        let _ = match *default {
            "" => writeln!(text, "  {name}\n      {help}"),
            default => writeln!(text, "  {name} [default: {default}]\n      {help}"),
        };
    }
    text.push_str(
        "
Exit codes:
  0  success
  1  failure; for `scan`: something could not be read
  2  bad usage or settings; nothing was tried
  3  `scan` found what --fail-on asks about",
    );
    text
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn help(path: &[&str]) -> String {
        let mut command = Cli::command().term_width(100);
        command.build();
        let mut command = &mut command;
        for name in path {
            command = command.find_subcommand_mut(name).unwrap();
        }
        command.render_long_help().to_string()
    }

    fn error(args: &[&str]) -> String {
        let args = ["alertkube"].iter().chain(args);
        Cli::try_parse_from(args).unwrap_err().to_string()
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_of_the_program() {
        insta::assert_snapshot!(help(&[]));
    }

    #[test]
    fn help_of_the_commands() {
        for path in [
            &["run"][..],
            &["scan"],
            &["record"],
            &["replay"],
            &["demo"],
            &["rules"],
            &["rules", "explain"],
            &["config", "check"],
            &["config", "show"],
            &["shard", "owner"],
            &["shard", "balance"],
            &["shard", "status"],
        ] {
            insta::assert_snapshot!(format!("help_of_{}", path.join("_")), help(path));
        }
    }

    #[test]
    fn misspelt_usage_is_explained() {
        let errors = [
            error(&["scna"]),
            error(&["scan", "--fail-om", "critical"]),
            error(&["scan", "--fail-on", "fatal"]),
            error(&["scan", "-f", "x", "--at", "yesterday"]),
            error(&["scan", "--at", "2026-01-01T00:00:00Z"]),
            error(&["scan", "-f", "x", "--context", "y"]),
            error(&["shard", "owner", "web"]),
        ];
        insta::assert_snapshot!(errors.join("----\n"));
    }

    #[test]
    fn the_readme_has_every_rule() {
        let readme = include_str!("../../README.md");
        for rule in crate::rules::all() {
            let row = format!("| `{}` | {} |", rule.name, rule.description);
            assert!(readme.contains(&row), "{row}");
        }
    }
}
