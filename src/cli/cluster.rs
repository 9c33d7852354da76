//! The cluster that a command is about.

use std::path::PathBuf;

use futures::StreamExt as _;
use jiff::Timestamp;
use kube::Client;
use tracing::warn;

use super::files::{FileError, FileReason};
use crate::{
    cluster::{
        self, Clock, ConnectError, ConnectOptions, Connection, KindId, Object, Tap, WatchOptions,
    },
    settings, text,
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
    pub async fn connect(&self) -> Result<Connection, ConnectError> {
        let options = ConnectOptions {
            context: self.context.clone(),
            kubeconfig: settings::kubeconfig(),
            no_proxy: settings::no_proxy(),
        };
        cluster::connect(&options).await
    }

    /// Finds the API server, for a command that reads it once.
    ///
    /// # Errors
    ///
    /// There is none to be found, or its configuration cannot be used.
    pub fn open(&self) -> anyhow::Result<OpenCluster> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let connection = runtime.block_on(self.connect())?;
        Ok(OpenCluster {
            runtime,
            connection,
            clock: Clock::system(),
        })
    }
}

/// The name of the cluster that a connection leads to, if it is known without asking: what the environment says, else the kubeconfig context.
pub fn known_name(told: Option<String>, connection: &Connection) -> Option<String> {
    told.or_else(|| connection.context.as_deref().map(text::one_line))
        .filter(|name| !name.is_empty())
}

/// A cluster that can be read.
#[derive(Debug)]
pub struct OpenCluster {
    runtime: tokio::runtime::Runtime,
    connection: Connection,
    clock: Clock,
}

impl OpenCluster {
    /// The label `cluster` of its alerts. If it cannot be read there is none, and that is said.
    ///
    /// # Errors
    ///
    /// The configuration of the cluster is of no use.
    pub fn name(&self, told: Option<String>) -> anyhow::Result<String> {
        if let Some(name) = known_name(told, &self.connection) {
            return Ok(name);
        }
        let uid = self.ask("Namespace", async |client| {
            cluster::cluster_uid(&client).await
        })?;
        Ok(uid.unwrap_or_else(|failure| {
            warn!(%failure, "alerts are shown without the label `cluster`: ALERTKUBE_CLUSTER sets it");
            String::new()
        }))
    }

    /// The namespace that is meant where none is said.
    pub fn namespace(&self) -> &str {
        &self.connection.config.default_namespace
    }

    /// The address of its API server.
    pub fn server(&self) -> String {
        cluster::server(&self.connection.config)
    }

    /// Its time.
    pub const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Asks the API server, about `what`.
    ///
    /// # Errors
    ///
    /// The configuration of the cluster is of no use.
    pub fn ask<T>(
        &self,
        what: &'static str,
        question: impl AsyncFnOnce(Client) -> T,
    ) -> Result<T, ConnectError> {
        self.runtime.block_on(async {
            let tap = Tap::new(what, self.clock.clone());
            let client = cluster::client(&self.connection.config, &tap)?;
            Ok(question(client).await)
        })
    }

    /// Reads every object of every watched kind once, with the API server's time at which each was read, and says what could not be read. Of
    /// the objects, only one page is held at a time.
    ///
    /// # Errors
    ///
    /// The configuration of the cluster is of no use.
    pub fn read(
        &self,
        mut see: impl FnMut(Object, Timestamp),
    ) -> anyhow::Result<(Timestamp, Vec<FileError>)> {
        let (config, clock) = (&self.connection.config, &self.clock);
        self.runtime.block_on(async {
            let mut errors = Vec::new();
            for &kind in KindId::ALL {
                let tap = Tap::new(kind.as_str(), clock.clone());
                let client = cluster::client(config, &tap)?;
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
                                server: cluster::server(config),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_goes_before_the_context() {
        let connection = |context: Option<&str>| Connection {
            config: kube::Config::new("http://127.0.0.1:1".parse().unwrap()),
            context: context.map(str::to_owned),
        };
        for (told, context, expected) in [
            (Some("prod"), Some("kind-prod"), Some("prod")),
            (None, Some("kind-prod"), Some("kind-prod")),
            (None, Some("a\nb"), Some("a b")),
            (None, Some(""), None),
            (None, None, None),
        ] {
            let name = known_name(told.map(str::to_owned), &connection(context));
            assert_eq!(name.as_deref(), expected, "{told:?} {context:?}");
        }
    }
}
