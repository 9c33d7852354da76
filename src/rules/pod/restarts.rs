//! Containers that end and come back: crash loops, steady restarts, OOM kills.

use std::{fmt, time::Duration};

use jiff::Timestamp;

use super::{
    WINDOW, after, before, between,
    container::{self, View},
    minutes, of_job,
    text::{self, Count, End, push},
    window_end,
};
use crate::{
    alert::Severity,
    cluster::{KindId, Pod, Terminated},
    rules::{Evaluation, Finding, Lasts, Rule, Since, Threshold},
    text::duration,
};

/// A container is in back-off after it ended again and again.
pub(super) static CRASH_LOOPING: Rule = Rule {
    name: "KubePodCrashLooping",
    kind: KindId::Pod,
    severity: Severity::Warning,
    r#for: minutes(3),
    // The kubelet forgets the back-off of a container that ran for twice the longest one, 10 minutes (client-go's `flowcontrol.Backoff`). With
    // less, a container that dies after 6 minutes would resolve and fire for ever.
    hold: minutes(10),
    description: "A container ends again and again, and waits in back-off between its runs.",
    ..Rule::DEFAULTS
};

/// Restarts so far apart that no back-off shows them.
pub(super) static RESTARTING: Rule = Rule {
    name: "KubePodRestarting",
    kind: KindId::Pod,
    severity: Severity::Warning,
    r#for: Duration::ZERO,
    thresholds: &[&RESTARTS, &WINDOW],
    description: "A container restarted at least 3 times within an hour, without a crash loop.",
    ..Rule::DEFAULTS
};

/// A container was killed for its memory.
pub(super) static OOM_KILLED: Rule = Rule {
    name: "KubePodOOMKilled",
    kind: KindId::Pod,
    severity: Severity::Warning,
    r#for: Duration::ZERO,
    thresholds: &[&WINDOW],
    description: "A container was killed within the last hour because it used more memory than it may.",
    ..Rule::DEFAULTS
};

/// How many restarts within [`WINDOW`] are too many.
static RESTARTS: Threshold = Threshold::count(
    "restarts",
    3,
    "How many restarts within the window are too many.",
);

/// How often a container may restart.
#[derive(Debug, Clone, Copy)]
struct Limit {
    /// So many restarts are too many, ...
    restarts: u32,
    /// ... within this time.
    window: Duration,
}

impl Limit {
    fn of(evaluation: &Evaluation<'_>) -> Self {
        Self {
            restarts: evaluation.number(&RESTARTING, &RESTARTS).max(1),
            window: evaluation.duration(&RESTARTING, &WINDOW),
        }
    }

    /// Without a memory of earlier restarts, a pod shows by this many restarts in all that they are its habit, ...
    const fn habit_restarts(self) -> u32 {
        self.restarts.saturating_mul(2)
    }

    /// ... if they are this close together on average, and so were the last one and the one before, and the last one and now.
    fn habit_interval(self) -> Duration {
        self.window / self.restarts
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} times within ", self.restarts)?;
        if self.window == minutes(60) {
            f.write_str("an hour")
        } else {
            f.write_str(&duration(self.window))
        }
    }
}

/// The kubelet's first back-off; it doubles up to 300 s (`MaxContainerBackOff` in `pkg/kubelet/kubelet.go`).
const FIRST_BACK_OFF: Duration = Duration::from_secs(10);

/// The reason of a container that the kubelet lost sight of (a node that rebooted). Its exit code 137 is made up.
const LOST_SIGHT: &str = "ContainerStatusUnknown";

/// Whether the container waits because its runs fail, so that `KubePodCrashLooping` is the alert for it.
pub(super) fn is_crash_looping(view: &View<'_>) -> bool {
    match view.waits_for() {
        Some("CrashLoopBackOff") => true,
        // These alternate with the back-off once there was a run.
        Some("RunContainerError" | "PostStartHookError") => view.last().is_some(),
        _ => false,
    }
}

/// Why restarts of a Job's pod are not its own alerts.
const OF_JOB: &str = "a Job runs the pod: its retries end in KubeJobFailed";

pub(super) fn crash_looping(pod: &Pod, evaluation: &mut Evaluation<'_>) {
    if of_job(pod) {
        evaluation.quiet(&CRASH_LOOPING, OF_JOB);
        return;
    }
    for view in container::all(pod).filter(is_crash_looping) {
        let last = view.last();
        let back_off = text::back_off(view.waiting_message());
        // A back-off of b comes after others of at least 10 s + 20 s + ... = b - 10 s.
        let since = match (last.and_then(|last| last.finished_at), back_off) {
            (Some(finished), Some((_, back_off))) => {
                Since::FirstSeenOr(before(finished, back_off.saturating_sub(FIRST_BACK_OFF)))
            }
            _ => Since::FirstSeen,
        };
        let mut summary = format!("{} {} crash loops", view.role.as_str(), view.name());
        if let Some(last) = last {
            push(&mut summary, format_args!(": last {}", End(last)));
        }
        let restarts = Count(view.status.restart_count, "restart");
        push(&mut summary, format_args!(", {restarts}"));
        if let Some((written, _)) = back_off {
            push(&mut summary, format_args!(", back-off {written}"));
        }
        // The reason stays the same while the state alternates: a change of it would be a message each time.
        let mut finding = Finding::new(&CRASH_LOOPING, "CrashLoopBackOff", since, summary)
            .about("container", view.name());
        if pod.metadata.mirror {
            // Static pods are the control plane, or what a node cannot do without.
            finding.severity = Severity::Critical;
        }
        evaluation.push(finding);
    }
    let because = "no container waits in back-off after a run that ended";
    evaluation.quiet_rest(&[&CRASH_LOOPING], because);
}

/// Since when a container that crash looped has been running. One that has ended may be about to crash loop again, so it begins anew.
pub(super) fn well_since(pod: &Pod, container: Option<&str>) -> Option<Timestamp> {
    let views = || {
        container::all(pod)
            .filter(|view| container.is_none_or(|container| view.name() == container))
    };
    // What never restarted was never in a crash loop, and most pods never did.
    if container.is_none() && views().all(|view| view.status.restart_count <= 0) {
        return None;
    }
    let times = views().map(|view| {
        let state = &view.status.state;
        match (&state.running, &state.terminated) {
            (Some(running), _) => running.started_at,
            (None, Some(end)) => end.finished_at,
            (None, None) => None,
        }
    });
    times.reduce(|one, other| Some(one?.max(other?)))?
}

pub(super) fn restarting(pod: &Pod, evaluation: &mut Evaluation<'_>) {
    if of_job(pod) {
        evaluation.quiet(&RESTARTING, OF_JOB);
        return;
    }
    let limit = Limit::of(evaluation);
    for view in container::all(pod) {
        // While it waits, the last end belongs to a restart that is still to come (and a crash loop says it itself).
        if view.status.restart_count <= 0 || view.waits_for().is_some() {
            continue;
        }
        let Some((last, finished)) = view.last().and_then(|last| Some((last, last.finished_at?)))
        else {
            continue;
        };
        if &*last.reason == LOST_SIGHT {
            let because = format_args!(
                "the kubelet lost sight of container {}: it did not end by itself",
                view.name()
            );
            evaluation.quiet(&RESTARTING, because);
            continue;
        }
        if window_end(finished, limit.window, evaluation.now).is_none() {
            continue;
        }
        let count = i64::from(view.status.restart_count);
        let kept = usize::try_from(limit.restarts).unwrap_or(usize::MAX);
        evaluation.memo.mark(view.name(), finished, count);
        evaluation.memo.keep_newest(view.name(), kept);
        if view.is_done() {
            continue;
        }
        if came_from_back_off(&view, last, finished) {
            let because = format_args!(
                "container {} was in back-off before its run: KubePodCrashLooping speaks of it",
                view.name()
            );
            evaluation.quiet(&RESTARTING, because);
            continue;
        }
        // The restart that makes it too many. It counts by the number, so that restarts nobody saw count as well.
        let last_straw = evaluation
            .memo
            .marks(view.name())
            .rfind(|&(_, value)| value <= count - (i64::from(limit.restarts) - 1))
            .map(|(at, _)| after(at, limit.window));
        // Only without a memory of an earlier restart: what was counted is better known than what is guessed.
        let unknown = evaluation.memo.marks(view.name()).count() == 1;
        let until = last_straw.or_else(|| {
            unknown
                .then(|| habit(pod, &view, last, finished, limit, evaluation.now))
                .flatten()
        });
        let Some(until) = until else {
            let because = format_args!(
                "container {} is not known to have restarted {limit}, with {} in all",
                view.name(),
                Count(view.status.restart_count, "restart")
            );
            evaluation.quiet(&RESTARTING, because);
            continue;
        };
        let summary = format!(
            "{} {} keeps restarting: at least {limit}, {} in all, last {}",
            view.role.as_str(),
            view.name(),
            view.status.restart_count,
            End(last),
        );
        let mut finding = Finding::new(
            &RESTARTING,
            text::or(&last.reason, "Restarting"),
            Since::FirstSeen,
            summary,
        )
        .about("container", view.name());
        finding.lasts = Lasts::Until(until);
        evaluation.push(finding);
    }
    let because = "no container has restarted of late, and runs now";
    evaluation.quiet_rest(&[&RESTARTING], because);
}

/// Whether the container waited in back-off before its current run: then it is in a crash loop until it has run for 10 minutes, also
/// while it runs.
fn came_from_back_off(view: &View<'_>, last: &Terminated, finished: Timestamp) -> bool {
    let waited = view
        .started_at()
        .is_some_and(|started| between(finished, started) >= FIRST_BACK_OFF);
    // After a longer run there is no back-off: a pull took that long.
    let short = last
        .started_at
        .is_none_or(|started| between(started, finished) < CRASH_LOOPING.hold);
    waited && short
}

/// What a container that nobody watched so far tells by itself: until when it counts as one that keeps restarting.
fn habit(
    pod: &Pod,
    view: &View<'_>,
    last: &Terminated,
    finished: Timestamp,
    limit: Limit,
    now: Timestamp,
) -> Option<Timestamp> {
    let count = u32::try_from(view.status.restart_count).ok()?;
    let age = between(pod.metadata.creation_timestamp?, now);
    let last_but_one = last.started_at.unwrap_or(finished);
    let interval = limit.habit_interval();
    if count < limit.habit_restarts()
        || age / count > interval
        || between(last_but_one, finished) > interval
        || between(finished, now) > interval
    {
        return None;
    }
    // The last restart but one came right before the last run; those before it, an interval earlier each, at most. So many are within the
    // window until the first of them leaves it.
    let first = interval.saturating_mul(limit.restarts.saturating_sub(2));
    let until = after(last_but_one, limit.window.saturating_sub(first));
    (until > now).then_some(until)
}

pub(super) fn oom_killed(pod: &Pod, evaluation: &mut Evaluation<'_>) {
    let window = evaluation.duration(&OOM_KILLED, &WINDOW);
    for view in container::all(pod) {
        let current = view.status.state.terminated.as_ref();
        let Some((end, finished)) = [current, view.last()]
            .into_iter()
            .flatten()
            // Exit code 137 without the reason is a kill, but not for memory.
            .filter(|end| &*end.reason == "OOMKilled")
            .filter_map(|end| Some((end, end.finished_at?)))
            .max_by_key(|&(_, finished)| finished)
        else {
            continue;
        };
        let Some(until) = window_end(finished, window, evaluation.now) else {
            let because = format_args!(
                "container {} was killed for its memory at {finished}, which no longer counts",
                view.name()
            );
            evaluation.quiet(&OOM_KILLED, because);
            continue;
        };
        let summary = format!(
            "{} {} was killed for its memory: {}, {}",
            view.role.as_str(),
            view.name(),
            End(end),
            Count(view.status.restart_count, "restart"),
        );
        let mut finding = Finding::new(&OOM_KILLED, "OOMKilled", Since::At(finished), summary)
            .about("container", view.name());
        finding.lasts = Lasts::Until(until);
        evaluation.push(finding);
    }
    let because = "no container was killed for its memory in this run or the last";
    evaluation.quiet_rest(&[&OOM_KILLED], because);
}
