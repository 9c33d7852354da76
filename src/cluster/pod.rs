//! The trimmed Pod: what the rules read of it, and nothing else. Environment, volumes and managed fields are never built.

use jiff::Timestamp;
use serde::Deserialize;

use super::Meta;

/// A Pod.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pod {
    /// `metadata`.
    pub metadata: Meta,
    /// `spec`.
    pub spec: PodSpec,
    /// `status`.
    pub status: PodStatus,
}

/// `spec` of a Pod.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// The node it runs on; empty until scheduled.
    pub node_name: Box<str>,
    /// Negative for placeholders that an autoscaler's users run.
    pub priority: Option<i32>,
    /// `Always` (also when empty), `OnFailure` or `Never`.
    pub restart_policy: Box<str>,
    /// How many scheduling gates hold it back.
    #[serde(skip)]
    pub scheduling_gates: usize,
    /// Init containers, native sidecars among them.
    pub init_containers: Vec<Container>,
    /// Main containers.
    pub containers: Vec<Container>,
}

/// A container of the spec.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Its name.
    pub name: Box<str>,
    /// The container's own restart policy; `Always` on an init container makes it a native sidecar.
    pub restart_policy: Option<Box<str>>,
    /// Rules that decide by exit code whether it restarts.
    pub restart_policy_rules: Vec<RestartRule>,
    /// The startup probe.
    pub startup_probe: Option<Probe>,
    /// The readiness probe.
    pub readiness_probe: Option<Probe>,
}

/// A rule of `restartPolicyRules`: what happens on which exit codes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RestartRule {
    /// `Restart` or `RestartAllContainers`.
    pub action: Box<str>,
    /// `exitCodes.operator`: `In` or `NotIn`.
    #[serde(skip)]
    pub operator: Box<str>,
    /// `exitCodes.values`.
    #[serde(skip)]
    pub values: Vec<i32>,
}

/// The times of a probe, in seconds.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Probe {
    /// Before the first probe.
    pub initial_delay_seconds: Option<i32>,
    /// Between probes; 10 if unset.
    pub period_seconds: Option<i32>,
    /// Failures in a row that count; 3 if unset.
    pub failure_threshold: Option<i32>,
}

/// `status` of a Pod.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub phase: Box<str>,
    /// Such as `Evicted`.
    pub reason: Box<str>,
    /// The reason, for people.
    pub message: Box<str>,
    /// When the kubelet took it (or refused it).
    pub start_time: Option<Timestamp>,
    /// The node that preemption makes room on.
    pub nominated_node_name: Box<str>,
    /// Conditions.
    pub conditions: Vec<Condition>,
    /// States of the main containers.
    pub container_statuses: Vec<ContainerStatus>,
    /// States of the init containers and native sidecars.
    pub init_container_statuses: Vec<ContainerStatus>,
}

/// A condition, of any kind of object.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// Such as `Ready`.
    pub r#type: Box<str>,
    /// `True`, `False` or `Unknown`.
    pub status: Box<str>,
    /// One word, for programs.
    pub reason: Box<str>,
    /// A sentence, for people.
    pub message: Box<str>,
    /// When `status` last changed (never when the reason does).
    pub last_transition_time: Option<Timestamp>,
}

/// The state of a container.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// Its name.
    pub name: Box<str>,
    /// How often it was restarted.
    pub restart_count: i32,
    /// Whether its readiness probe passes.
    pub ready: bool,
    /// Whether its startup probe has passed.
    pub started: Option<bool>,
    /// What it is doing.
    pub state: ContainerState,
    /// How its last run ended.
    pub last_state: ContainerState,
}

/// What a container is doing; at most one of the three is set, none means waiting.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerState {
    /// Not running yet, or again.
    pub waiting: Option<Waiting>,
    /// Running.
    pub running: Option<Running>,
    /// Ended.
    pub terminated: Option<Terminated>,
}

/// A container that is not running yet.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Waiting {
    /// Such as `CrashLoopBackOff`.
    pub reason: Box<str>,
    /// The reason, for people.
    pub message: Box<str>,
}

/// A container that runs.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Running {
    /// Since when.
    pub started_at: Option<Timestamp>,
}

/// A container that has ended.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Terminated {
    /// The exit code.
    pub exit_code: i32,
    /// The signal that ended it, if the runtime knows it.
    pub signal: Option<i32>,
    /// Such as `OOMKilled`, `Error`, `Completed`.
    pub reason: Box<str>,
    /// The last of its output, or the runtime's words.
    pub message: Box<str>,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
}
