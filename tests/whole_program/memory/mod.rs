//! Restarts, crashes and faults: what was told is remembered, what is owed is sent, and nobody but the owner pages.
//!
//! The long part takes 7 minutes, and prints its figures:
//!
//! ```text
//! cargo test --test whole_program -- --ignored --nocapture
//! ```

mod cluster_faults;
mod crashes;
mod damage;
mod history;
mod kills;
mod replicas;
mod rescale;
mod restarts;
mod rights;
mod unserved;

use std::time::Duration;

use crate::sharding;
use crate::support::{ALERTKUBE, ControlPlane, PATIENCE, Program, Webhook, eventually, fresh_name};

/// How long a Lease lasts, by default.
const LEASE: Duration = Duration::from_secs(15);

/// Processes of one installation: they share Leases and states.
#[derive(Debug)]
struct Installation<'a> {
    plane: &'a ControlPlane,
    user: &'static str,
    name: String,
}

impl<'a> Installation<'a> {
    fn new(plane: &'a ControlPlane) -> Self {
        Self::of_user(plane, ALERTKUBE)
    }

    fn of_user(plane: &'a ControlPlane, user: &'static str) -> Self {
        Self {
            plane,
            user,
            name: fresh_name(),
        }
    }

    /// Starts a process of the only shard, that pages to a webhook.
    fn start(&self, webhook: &Webhook) -> Program {
        self.start_with(webhook, &[])
    }

    fn start_with(&self, webhook: &Webhook, environment: &[(&str, &str)]) -> Program {
        let mut all = vec![("ALERTKUBE_NAME", self.name.as_str())];
        all.extend(environment);
        Program::run(self.plane, self.user, webhook, &all)
    }

    /// Starts a replica of one of several shards.
    fn start_shard(
        &self,
        webhook: &Webhook,
        index: u32,
        total: u32,
        environment: &[(&str, &str)],
    ) -> Program {
        let (index, total) = (index.to_string(), total.to_string());
        let mut all = vec![
            ("ALERTKUBE_SHARD_INDEX", index.as_str()),
            ("ALERTKUBE_SHARD_TOTAL", total.as_str()),
        ];
        all.extend(environment);
        self.start_with(webhook, &all)
    }
}

/// The name of a bare pod that one of two shards owns.
fn pod_of(index: usize, ns: &str, prefix: &str) -> String {
    let mut names = (0..100).map(|number| format!("{prefix}-{number}"));
    let is_owned = |name: &String| sharding::owner(&format!("Pod/{ns}/{name}"), 2) == index;
    names.find(is_owned).unwrap()
}

/// Waits until `/readyz` of a program says something, whatever its status.
async fn wait_until_it_says(program: &mut Program, text: &str) {
    eventually(
        format_args!("/readyz to say {text:?}"),
        PATIENCE,
        async || {
            program.assert_running();
            let (_, said) = program.get("/readyz?verbose").await?;
            said.contains(text).then_some(())
        },
    )
    .await;
}

/// Waits until a program has noted what it has delivered, and written down all that it remembers.
async fn wait_until_it_is_written(program: &Program) {
    const QUEUE: &str = r#"alertkube_notification_queue_length{receiver="webhook"}"#;
    eventually("everything to be noted", PATIENCE, async || {
        let length = program.metric(QUEUE).await?;
        (length == 0.0).then_some(())
    })
    .await;
    eventually("everything to be written", PATIENCE, async || {
        let age = program.metric("alertkube_state_unsaved_seconds").await?;
        (age == 0.0).then_some(())
    })
    .await;
}
