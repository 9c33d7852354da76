//! An alert's labels, and its words.

use std::fmt::Write as _;

use jiff::Timestamp;

use super::{
    Alert, Labels, Member as MemberView,
    engine::CLUSTER,
    entry::{AlertKey, Entry, Member},
};
use crate::{cluster::WorkloadType, rules::runbook_url};

/// How many nodes a summary names.
const NAMED_IN_SUMMARY: usize = 5;

/// How many members a description names, before "and n more".
const NAMED_MEMBERS: usize = 10;

/// The alert as others see it, with these members; `None` if it has nothing to show (every object of a pending alert is well again, and held).
pub(super) fn view(
    cluster: &str,
    entry: &Entry,
    members: &[&Member],
    now: Timestamp,
) -> Option<Alert> {
    let face = entry.shown_face(now)?;
    let since = entry.fired.as_ref().map(|fired| fired.starts_at);
    Some(Alert {
        rule: entry.rule,
        subject: entry.key.subject.clone(),
        shard_key: entry.shard_key,
        labels: labels(cluster, entry, members)
            .with("severity", face.severity.as_str())
            .with("reason", &*face.reason),
        annotations: annotations(entry, members),
        severity: face.severity,
        reason: face.reason,
        state: entry.state(now),
        starts_at: since.or_else(|| members.iter().map(|member| member.since).min())?,
        fires_at: entry.fires_at(now)?,
        ends_at: entry.is_over().then_some(now),
        members: members
            .iter()
            .map(|member| MemberView {
                object: member.object.clone(),
                node: member.node.clone(),
                since: member.since,
                reason: member.face.reason.clone(),
                summary: member.summary.clone(),
            })
            .collect(),
    })
}

/// The labels that are the alert's identity.
fn labels(cluster: &str, entry: &Entry, members: &[&Member]) -> Labels {
    let AlertKey {
        rule,
        subject,
        part,
    } = &*entry.key;
    let kind = entry.rule.kind;
    let mut labels = Labels::new()
        .with("alertname", *rule)
        .with("cluster", cluster)
        .with("namespace", &*subject.namespace);
    if kind.is_workload() {
        labels.set("workload", &*subject.name);
        labels.set("workload_type", entry.workload_type.as_label(subject));
    }
    // Not where the object is only a member: a Job of a CronJob is another one in each run.
    if let Some(label) = kind.label().filter(|_| *subject.kind == *kind.as_str()) {
        labels.set(label, &*subject.name);
    }
    match entry.workload_type {
        WorkloadType::Controller => {}
        WorkloadType::BarePod => labels.set("pod", &*subject.name),
        WorkloadType::StaticPod => {
            labels.set("pod", &*subject.name);
            // A static pod's name ends in its node's, so the node is the same for as long as the alert is.
            labels.set("node", members.first().map_or("", |member| &*member.node));
        }
    }
    if let Some((name, value)) = part {
        labels.set(name.clone(), &**value);
    }
    labels
}

/// The alert in words: `summary` in one line, `description` with the objects; and `runbook_url`, where it says what to do.
fn annotations(entry: &Entry, members: &[&Member]) -> Labels {
    let mut summary = entry.key.subject.title();
    // The worst object speaks for all; of the equally bad ones, the one that has been so for longest.
    let first = members.iter().min_by_key(|member| {
        (
            std::cmp::Reverse(member.face.severity),
            member.since,
            &member.object,
        )
    });
    if &*entry.key.subject.kind == CLUSTER {
        let names: Vec<_> = members
            .iter()
            .take(NAMED_IN_SUMMARY)
            .map(|member| &*member.object.name)
            .collect();
        let nodes = members.len();
        let _ = write!(
            summary,
            ": {nodes} nodes are not ready: {}",
            names.join(", ")
        );
        if let Some(more) = nodes.checked_sub(NAMED_IN_SUMMARY).filter(|more| *more > 0) {
            let _ = write!(summary, " and {more} more");
        }
    } else {
        if let Some(member) = first {
            let _ = write!(summary, ": {}", member.summary);
        }
        if members.len() > 1 {
            let _ = write!(summary, " (and {} more)", members.len() - 1);
        }
    }

    let mut description = entry.rule.description.to_owned();
    for member in members.iter().take(NAMED_MEMBERS) {
        let _ = write!(
            description,
            "\n- {} {}",
            member.object.kind, member.object.name
        );
        if !member.node.is_empty() {
            let _ = write!(description, " on {}", member.node);
        }
        let _ = write!(description, ": {}", member.summary);
    }
    if let Some(more) = members
        .len()
        .checked_sub(NAMED_MEMBERS)
        .filter(|more| *more > 0)
    {
        let _ = write!(description, "\n- and {more} more");
    }
    Labels::new()
        .with("summary", summary)
        .with("description", description)
        .with("runbook_url", runbook_url(entry.rule))
}
