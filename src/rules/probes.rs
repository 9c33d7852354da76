//! How long a container may take to become ready, by its own probes.

use std::time::Duration;

use crate::cluster::{Container, PodTemplate, Probe};

/// How much time its probes give the container to become ready: while it starts up, and after.
pub(super) fn allowance(container: &Container, starting: bool) -> Duration {
    match (&container.startup_probe, &container.readiness_probe) {
        (Some(probe), _) if starting => {
            let tries = seconds(probe.failure_threshold, 3) * seconds(probe.period_seconds, 10);
            Duration::from_secs(initial_delay(probe) + tries)
        }
        (_, Some(probe)) => Duration::from_secs(initial_delay(probe)),
        _ => Duration::ZERO,
    }
}

/// How much time the probes of a workload's new pod give it: those of its slowest container.
pub(super) fn startup_allowance(template: &PodTemplate) -> Duration {
    let spec = &template.spec;
    let sidecars = spec
        .init_containers
        .iter()
        .filter(|container| container.restart_policy.as_deref() == Some("Always"));
    sidecars
        .chain(&spec.containers)
        .map(|container| allowance(container, true))
        .max()
        .unwrap_or_default()
}

fn initial_delay(probe: &Probe) -> u64 {
    seconds(probe.initial_delay_seconds, 0)
}

/// A number of a probe, or Kubernetes' default for it. At most 2^31: no product of two overflows.
fn seconds(value: Option<i32>, default: u64) -> u64 {
    value
        .filter(|value| *value > 0)
        .and_then(|value| u64::try_from(value).ok())
        .unwrap_or(default)
}

/// `minReadySeconds` of a workload.
pub(super) fn min_ready(min_ready_seconds: i32) -> Duration {
    Duration::from_secs(seconds(Some(min_ready_seconds), 0))
}
