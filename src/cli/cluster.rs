//! The cluster that a command is about.

use std::path::PathBuf;

use futures::StreamExt as _;
use jiff::Timestamp;

use super::files::{FileError, FileReason};
use crate::{
    cluster::{self, Clock, ConnectError, ConnectOptions, KindId, Object, Tap, WatchOptions},
    settings,
};

/// Which cluster.
#[derive(Debug, Default, clap::Args)]
pub struct ClusterArgs {
    /// The kubeconfig context to use, if not its current one
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// Where a command reads objects from: a cluster, or files.
#[derive(Debug, clap::Args)]
pub struct SourceArgs {
    /// The cluster, if there are no files.
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Read objects from a file, a folder or standard input (`-`); may be repeated
    #[arg(
        short,
        long = "file",
        visible_alias = "filename",
        value_name = "FILE",
        conflicts_with = "context"
    )]
    pub files: Vec<PathBuf>,
}

impl ClusterArgs {
    /// Finds the API server.
    ///
    /// # Errors
    ///
    /// There is none to be found, or its configuration cannot be used.
    pub async fn connect(&self) -> Result<kube::Config, ConnectError> {
        let options = ConnectOptions {
            context: self.context.clone(),
            kubeconfig: settings::kubeconfig(),
            no_proxy: settings::no_proxy(),
        };
        cluster::connect(&options).await
    }

    /// Reads every object of every watched kind once, with the API server's time at which each was read, and says what could not be read. Of
    /// the objects, only one page is held at a time.
    ///
    /// # Errors
    ///
    /// There is no cluster to be read.
    pub fn read(
        &self,
        mut see: impl FnMut(Object, Timestamp),
    ) -> anyhow::Result<(Timestamp, Vec<FileError>)> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let config = self.connect().await?;
            let clock = Clock::system();
            let mut errors = Vec::new();
            for &kind in KindId::ALL {
                let tap = Tap::new(kind.as_str(), clock.clone());
                let client = cluster::client(&config, &tap)?;
                let mut objects = kind.list(client, &WatchOptions::default());
                while let Some(object) = objects.next().await {
                    match object {
                        Ok((object, malformed)) => {
                            if malformed > 0 {
                                errors.push(FileError::of_no_file(FileReason::Malformed {
                                    object: object.object_ref().to_string(),
                                    count: malformed,
                                }));
                            }
                            see(object, clock.now());
                        }
                        Err(failure) => {
                            errors.push(FileError::of_no_file(FileReason::Cluster {
                                server: cluster::server(&config),
                                failure,
                            }));
                        }
                    }
                }
            }
            Ok((clock.now(), errors))
        })
    }
}
