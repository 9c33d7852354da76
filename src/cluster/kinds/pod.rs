//! The trimmed Pod: what the rules read of it, and nothing else. Environment, volumes and managed fields are never built.

use std::{collections::BTreeMap, iter};

use jiff::Timestamp;
use serde::{
    Serialize, Serializer,
    de::{IgnoredAny, SeqAccess},
};

use super::Condition;
use crate::cluster::{
    Meta,
    lenient::{Lenient, Malformed, trimmed},
    sparse::Sparse,
};

trimmed! {
    /// A Pod.
    pub struct Pod {
        /// `metadata`.
        pub metadata: Meta = "metadata",
        /// `spec`.
        pub spec: PodSpec = "spec",
        /// `status`.
        pub status: PodStatus = "status",
    }

    /// `spec` of a Pod.
    pub struct PodSpec {
        /// The node it runs on; empty until scheduled.
        pub node_name: Box<str> = "nodeName",
        /// Negative for placeholders that an autoscaler's users run.
        pub priority: Option<i32> = "priority",
        /// `Always` (also when empty), `OnFailure` or `Never`.
        pub restart_policy: Box<str> = "restartPolicy",
        /// How many scheduling gates hold it back.
        pub scheduling_gates: usize,
        /// Init containers, native sidecars among them.
        pub init_containers: Vec<Container> = "initContainers",
        /// Main containers.
        pub containers: Vec<Container> = "containers",
        /// The claims that its volumes are made of, by name.
        pub claims: Vec<Box<str>>,
    }
    "schedulingGates" => |spec, gates: Count| { spec.scheduling_gates = gates.0; } <= { Count(spec.scheduling_gates) }
    "volumes" => |spec, volumes: Vec<Volume>| {
        let claims = volumes.into_iter().map(|volume| volume.claim.name);
        spec.claims = claims.filter(|name| !name.is_empty()).collect();
    } <= {
        let claims = spec.claims.iter().cloned();
        claims.map(|name| Volume { claim: ClaimSource { name } }).collect()
    }

    /// A volume.
    struct Volume {
        claim: ClaimSource = "persistentVolumeClaim",
    }

    /// The source of a volume that is a claim.
    struct ClaimSource {
        name: Box<str> = "claimName",
    }

    /// A container of the spec.
    pub struct Container {
        /// Its name.
        pub name: Box<str> = "name",
        /// The container's own restart policy; `Always` on an init container makes it a native sidecar.
        pub restart_policy: Option<Box<str>> = "restartPolicy",
        /// Rules that decide by exit code whether it restarts.
        pub restart_policy_rules: Vec<RestartRule> = "restartPolicyRules",
        /// The startup probe.
        pub startup_probe: Option<Probe> = "startupProbe",
        /// The readiness probe.
        pub readiness_probe: Option<Probe> = "readinessProbe",
    }

    /// A rule of `restartPolicyRules`: what happens on which exit codes.
    pub struct RestartRule {
        /// `Restart` or `RestartAllContainers`.
        pub action: Box<str> = "action",
        /// `exitCodes.operator`: `In` or `NotIn`.
        pub operator: Box<str>,
        /// `exitCodes.values`.
        pub values: Vec<i32>,
    }
    "exitCodes" => |rule, codes: ExitCodes| {
        rule.operator = codes.operator;
        rule.values = codes.values;
    } <= {
        ExitCodes { operator: rule.operator.clone(), values: rule.values.clone() }
    }

    /// `exitCodes` of a rule of `restartPolicyRules`.
    struct ExitCodes {
        operator: Box<str> = "operator",
        values: Vec<i32> = "values",
    }

    /// The times of a probe, in seconds.
    #[derive(Copy)]
    pub struct Probe {
        /// Before the first probe.
        pub initial_delay_seconds: Option<i32> = "initialDelaySeconds",
        /// Between probes; 10 if unset.
        pub period_seconds: Option<i32> = "periodSeconds",
        /// Failures in a row that count; 3 if unset.
        pub failure_threshold: Option<i32> = "failureThreshold",
    }

    /// `status` of a Pod.
    pub struct PodStatus {
        /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
        pub phase: Box<str> = "phase",
        /// Such as `Evicted`.
        pub reason: Box<str> = "reason",
        /// The reason, for people.
        pub message: Box<str> = "message",
        /// When the kubelet took it (or refused it).
        pub start_time: Option<Timestamp> = "startTime",
        /// The node that preemption makes room on.
        pub nominated_node_name: Box<str> = "nominatedNodeName",
        /// Conditions.
        pub conditions: Vec<Condition> = "conditions",
        /// States of the main containers.
        pub container_statuses: Vec<ContainerStatus> = "containerStatuses",
        /// States of the init containers and native sidecars.
        pub init_container_statuses: Vec<ContainerStatus> = "initContainerStatuses",
    }

    /// The state of a container.
    pub struct ContainerStatus {
        /// Its name.
        pub name: Box<str> = "name",
        /// How often it was restarted.
        pub restart_count: i32 = "restartCount",
        /// Whether its readiness probe passes.
        pub ready: bool = "ready",
        /// Whether its startup probe has passed.
        pub started: Option<bool> = "started",
        /// What it is doing.
        pub state: ContainerState = "state",
        /// How its last run ended.
        pub last_state: ContainerState = "lastState",
    }

    /// What a container is doing; at most one of the three is set, none means waiting.
    pub struct ContainerState {
        /// Not running yet, or again.
        pub waiting: Option<Waiting> = "waiting",
        /// Running.
        pub running: Option<Running> = "running",
        /// Ended.
        pub terminated: Option<Terminated> = "terminated",
    }

    /// A container that is not running yet.
    pub struct Waiting {
        /// Such as `CrashLoopBackOff`.
        pub reason: Box<str> = "reason",
        /// The reason, for people.
        pub message: Box<str> = "message",
    }

    /// A container that runs.
    pub struct Running {
        /// Since when.
        pub started_at: Option<Timestamp> = "startedAt",
    }

    /// A container that has ended.
    pub struct Terminated {
        /// The exit code.
        pub exit_code: i32 = "exitCode",
        /// The signal that ended it, if the runtime knows it.
        pub signal: Option<i32> = "signal",
        /// Such as `OOMKilled`, `Error`, `Completed`.
        pub reason: Box<str> = "reason",
        /// The last of its output, or the runtime's words.
        pub message: Box<str> = "message",
        /// When it began.
        pub started_at: Option<Timestamp> = "startedAt",
        /// When it ended.
        pub finished_at: Option<Timestamp> = "finishedAt",
    }
}

/// How many items a list has, whatever they are.
#[derive(Debug, Clone, Default)]
pub struct Count(pub usize);

impl Lenient for Count {
    fn from_list<'de, A: SeqAccess<'de>>(
        mut list: A,
        _malformed: &Malformed,
    ) -> Result<Option<Self>, A::Error> {
        let mut count = 0;
        while list.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
        }
        Ok(Some(Self(count)))
    }
}

/// So many items that say nothing.
impl Serialize for Count {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(iter::repeat_n(BTreeMap::<&str, &str>::new(), self.0))
    }
}

impl Sparse for Count {
    fn is_absent(&self) -> bool {
        self.0 == 0
    }
}

#[cfg(test)]
mod tests;
