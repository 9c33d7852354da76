//! `alertkube run`: to be written by the lead.

use super::Exit;
use crate::settings::Settings;

/// Watches the cluster and pages (the default)
///
/// Connects to the cluster of the current kubeconfig context, or to the one that it runs in. Pages go to standard output, and to the webhook if
/// `ALERTKUBE_WEBHOOK_URL` is set. Everything else is logged to standard error.
#[derive(Debug, Default, clap::Args)]
pub struct Args {}

/// To be written.
pub fn run(_args: &Args, _settings: &Settings) -> anyhow::Result<Exit> {
    anyhow::bail!("`run` is not built yet")
}
