//! A shard that nobody serves is an alert itself: nobody else pages for that part of the cluster, and nobody else would say so.
//!
//! It is not found in an object, but in what this replica sees of the Leases. The rest of its way is that of every alert: the receivers' queues, the gate, the state. For
//! that it has to be about a subject whose key this replica has charge of; so the name of its subject ends in a number that is chosen for that. Whoever takes
//! charge of that key later finds in the state what was paged, and goes on with it: it must not be resolved by anybody who does not see the shard served.
//!
//! Two replicas can come to hold the same page, when the one that is to page changes while it stands. Both resolve it then, each when it sees the shard
//! served.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use tokio::time::Instant;

use crate::{
    alert::{Alert, Labels, Notice, Resolution, Severity, State, Transition},
    cluster::Subject,
    coordinator::shard_from,
    notify::Debt,
    rules::{SHARD_NOT_SERVED, runbook_url},
    shard::{
        ShardKey,
        ownership::{By, Covered, Shard, Timing},
    },
};

/// How much longer than a Lease lasts a shard may be without anybody before that is said: whoever can take it has tried by then. Also how old what was seen may
/// become before it has to be watched anew.
const MARGIN: Duration = Duration::from_secs(5);

/// The kind of the subject. Kubernetes has none of that name.
const KIND: &str = "Shard";

/// How many subjects are tried, to find one that this replica has charge of: even if that is one of a thousand shards only, all of these miss it once in
/// `e^65` times.
const SUBJECTS: u32 = 1 << 16;

/// The installation that the shards are of.
#[derive(Debug, Clone, Default)]
pub struct Installation {
    /// The label `cluster`; empty for none.
    pub cluster: String,
    /// Where its Leases are.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What there is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Read the Lease of this shard, not from a cache.
    Look(Shard),
    /// Page: nobody has served this shard since then.
    Page(Shard, Instant),
    /// The page of this identity is over.
    Resolve(Labels, Resolution),
}

/// What is seen now.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// Who serves what; nothing, if there is no record of what must be served.
    pub covered: Option<&'a [Covered]>,
    /// Whether this replica serves its own shard: then it reaches the API server, and is who it seems to be.
    pub serves_own: bool,
}

/// What is asked about one shard.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// Whether this replica is the one to see to it.
    pub is_heir: bool,
    /// When the last direct read of its Lease was sent.
    pub looked: Option<Instant>,
    /// How long its Lease lasts without a renewal, as its holder has said; zero if there is no Lease.
    pub lasts: Duration,
}

/// Watches over what is served, and remembers what was paged.
#[derive(Debug)]
pub struct Unserved {
    installation: Installation,
    lease_duration: Duration,
    /// Since when this replica has been watching, without having lost sight.
    watching: Option<Instant>,
    /// When it looked last.
    looked: Option<Instant>,
    /// The shards that nobody serves, for as long as that takes to be sure.
    shards: BTreeSet<Shard>,
    /// When a direct read was asked for.
    asked: BTreeMap<Shard, Instant>,
    /// What stands, by identity.
    pages: BTreeMap<Labels, Page>,
}

/// A page that receivers hold, or will.
#[derive(Debug)]
struct Page {
    shard: Shard,
    labels: Labels,
    annotations: Labels,
    starts_at: Timestamp,
    /// Usually one: the subjects under which it is remembered here.
    subjects: BTreeSet<Subject>,
}

impl Unserved {
    /// Has seen nothing yet.
    pub const fn new(installation: Installation, timing: &Timing) -> Self {
        Self {
            installation,
            lease_duration: timing.lease_duration(),
            watching: None,
            looked: None,
            shards: BTreeSet::new(),
            asked: BTreeMap::new(),
            pages: BTreeMap::new(),
        }
    }

    /// How many pages stand that this replica has charge of.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// The shards that nobody has served for longer than a Lease lasts, as of the last decision: whoever is to be told of something by way of one of them is not.
    /// Empty while that cannot be told.
    pub const fn shards(&self) -> &BTreeSet<Shard> {
        &self.shards
    }

    /// What there is to do. To be asked every second or so.
    ///
    /// A page takes more than a view in which a Lease has expired: a replica that was cut off, or whose process was stopped, sees that of all. So this replica must have served
    /// its own shard for as long, and have read the Lease directly. A resolve takes more than a Lease that looks fresh, too: to who sees it for the first
    /// time it does whatever it says. It must have been renewed since.
    pub fn decide(
        &mut self,
        seen: Seen<'_>,
        about: impl Fn(Shard) -> About,
        now: Instant,
    ) -> Vec<Step> {
        let Seen {
            covered,
            serves_own,
        } = seen;
        let age = |since: Instant| now.saturating_duration_since(since);
        let goes_on = self.looked.replace(now).is_some_and(|at| age(at) <= MARGIN);
        let before = self.watching.filter(|_| goes_on);
        self.watching = serves_own.then(|| before.unwrap_or(now));
        self.shards.clear();
        let Some(covered) = covered else {
            return Vec::new();
        };

        let mut steps = Vec::new();
        for (identity, page) in &self.pages {
            let why = match covered.iter().find(|covered| covered.shard == page.shard) {
                // There is no such shard any more, or it is handed over.
                None => Some(Resolution::Deleted),
                Some(Covered { by: By::Nobody, .. }) => None,
                Some(Covered {
                    by: By::Own(_) | By::Heir(_),
                    since,
                    ..
                }) => {
                    let lasts = about(page.shard).lasts.max(self.lease_duration);
                    (age(*since) >= lasts).then_some(Resolution::Recovered)
                }
            };
            steps.extend(why.map(|why| Step::Resolve(identity.clone(), why)));
        }

        let mut due = BTreeSet::new();
        let unserved = covered.iter().filter(|covered| covered.by == By::Nobody);
        for &Covered { shard, since, .. } in unserved {
            let Some(watching) = self.watching else { break };
            let due_at = since.max(watching) + self.lease_duration + MARGIN;
            if due_at > now {
                continue;
            }
            let About {
                is_heir, looked, ..
            } = about(shard);
            due.insert(shard);
            if looked.is_some_and(|looked| looked >= due_at) {
                self.shards.insert(shard);
                if is_heir && !self.stands(shard) {
                    steps.push(Step::Page(shard, since));
                }
            } else if self.asked.get(&shard).is_none_or(|at| age(*at) >= MARGIN) {
                self.asked.insert(shard, now);
                steps.push(Step::Look(shard));
            }
        }
        self.asked.retain(|shard, _| due.contains(shard));
        steps
    }

    fn stands(&self, shard: Shard) -> bool {
        let identity = self.labels(shard);
        self.pages.contains_key(&identity)
    }

    /// The identity of a shard's alert.
    pub fn labels(&self, shard: Shard) -> Labels {
        let Installation {
            cluster,
            namespace,
            name,
        } = &self.installation;
        Labels::new()
            .with("alertname", SHARD_NOT_SERVED.name)
            .with("cluster", cluster.as_str())
            .with("namespace", namespace.as_str())
            .with("workload", name.as_str())
            .with("workload_type", "statefulset")
            .with("shard", shard.to_string())
    }

    fn annotations(&self, shard: Shard) -> Labels {
        let Shard { total, index } = shard;
        let Installation {
            cluster: _,
            namespace,
            name,
        } = &self.installation;
        let summary = format!(
            "Shard {namespace}/{name}-shard-{shard}: nobody serves it, so nobody is paged for its part of the cluster"
        );
        let description = format!(
            "No replica has held the Lease of shard {shard} for longer than a Lease lasts. Until one does, nobody is paged for about one in {total} workloads. Look for \
             the replica of index {index}: is its pod gone, not ready, or cut off from the API server (kubectl describe, and its log)? Why has no other taken over: \
             is ALERTKUBE_TAKEOVER false, or can the Lease not be written (the log of the others)? alertkube shard status shows who serves what."
        );
        Labels::new()
            .with("summary", summary)
            .with("description", description)
            .with("runbook_url", runbook_url(&SHARD_NOT_SERVED))
    }

    /// The subjects that a shard's alert can be about: one of them is to be taken that this replica has charge of.
    pub fn subjects(&self, shard: Shard) -> impl Iterator<Item = Subject> {
        let Installation {
            cluster: _,
            namespace,
            name,
        } = &self.installation;
        (0..SUBJECTS).map(move |number| Subject {
            kind: KIND.into(),
            namespace: namespace.as_str().into(),
            name: format!("{name}-shard-{shard}#{number}").into(),
        })
    }

    /// Takes note of a page, and makes it: one notice for each of the subjects under which it is remembered.
    pub fn page(
        &mut self,
        shard: Shard,
        subjects: BTreeSet<Subject>,
        starts_at: Timestamp,
        now: Timestamp,
    ) -> Vec<Notice> {
        let identity = self.labels(shard);
        let labels = identity.clone();
        let page = Page {
            shard,
            labels: labels.with("severity", SHARD_NOT_SERVED.severity.as_str()),
            annotations: self.annotations(shard),
            starts_at,
            subjects,
        };
        let notices = page.notices(Transition::Fired, now);
        self.pages.insert(identity, page);
        notices
    }

    /// Takes over the pages that stand among what is remembered of a subject.
    pub fn restore<'a>(&mut self, subject: &Subject, debts: impl IntoIterator<Item = &'a Debt>) {
        for debt in debts {
            let label = |name| debt.identity.get(name).unwrap_or_default();
            let shard = shard_from(label("shard"));
            let Some(shard) = shard.filter(|_| label("alertname") == SHARD_NOT_SERVED.name) else {
                continue;
            };
            let owed = debt.owed.as_ref().map(|owed| &owed.notice.alert);
            let standing = debt.standing.as_ref().or_else(|| debt.doubtful.first());
            let told = standing.map(|told| (&told.labels, &told.annotations, told.starts_at));
            let told = told
                .or_else(|| owed.map(|alert| (&alert.labels, &alert.annotations, alert.starts_at)));
            let Some((labels, annotations, starts_at)) = told.filter(|_| stands(debt)) else {
                continue;
            };
            let identity = debt.identity.clone();
            let page = self.pages.entry(identity).or_insert_with(|| Page {
                shard,
                labels: labels.clone(),
                annotations: annotations.clone(),
                starts_at,
                subjects: BTreeSet::new(),
            });
            page.subjects.insert(subject.clone());
        }
    }

    /// Forgets a page, and makes its resolve: one notice for each subject under which it is remembered, for the receivers that hold it under that.
    pub fn resolve(&mut self, identity: &Labels, why: Resolution, now: Timestamp) -> Vec<Notice> {
        let page = self.pages.remove(identity);
        page.map(|page| page.notices(Transition::Resolved(why), now))
            .unwrap_or_default()
    }

    /// Forgets the pages that another replica has charge of.
    pub fn forget(&mut self, theirs: impl Fn(&ShardKey) -> bool) {
        self.pages.retain(|_, page| {
            page.subjects
                .retain(|subject| !theirs(&ShardKey::of(subject)));
            !page.subjects.is_empty()
        });
    }
}

/// Whether a receiver holds this as firing, or will, and is not about to be told that it is over.
pub fn stands(debt: &Debt) -> bool {
    let is_over = debt
        .owed
        .as_ref()
        .is_some_and(|owed| matches!(owed.notice.transition, Transition::Resolved(_)));
    !is_over
}

impl Page {
    fn notices(&self, transition: Transition, now: Timestamp) -> Vec<Notice> {
        let subjects = self.subjects.iter();
        subjects
            .map(|subject| self.notice(subject, transition, now))
            .collect()
    }

    fn notice(&self, subject: &Subject, transition: Transition, now: Timestamp) -> Notice {
        let is_over = matches!(transition, Transition::Resolved(_));
        let label = |name| self.labels.get(name).unwrap_or_default();
        let alert = Alert {
            rule: &SHARD_NOT_SERVED,
            subject: subject.clone(),
            shard_key: ShardKey::of(subject),
            labels: self.labels.clone(),
            annotations: self.annotations.clone(),
            severity: label("severity").parse().unwrap_or(Severity::Critical),
            reason: label("reason").into(),
            state: if is_over {
                State::Resolved
            } else {
                State::Firing
            },
            starts_at: self.starts_at,
            fires_at: now,
            ends_at: is_over.then_some(now),
            members: Vec::new(),
        };
        Notice {
            transition,
            alert,
            at: now,
        }
    }
}

#[cfg(test)]
mod tests;
