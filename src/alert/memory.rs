//! What outlives a process: the part of the engine that the cluster does not tell anew.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    Engine, Notice, Severity,
    engine::Known,
    entry::{AlertKey, Entry, Fired, Member},
};
use crate::{
    cluster::{KindId, Subject, WorkloadType},
    rules::{self, Memo},
    shard::ShardKey,
};

/// How many members of an alert are remembered at most. Those that still show the condition come back with the next list anyway.
const MEMBERS: usize = 1000;

/// What the engine knows about one subject and could not learn anew.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Alerts that fire, and pending ones that the cluster does not tell anew.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    alerts: Vec<AlertMemory>,
    /// What the rules remember of its objects, by UID.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    objects: BTreeMap<Box<str>, ObjectMemory>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AlertMemory {
    rule: Box<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    part: Option<(Box<str>, Box<str>)>,
    workload_type: WorkloadType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fired: Option<Fired>,
    /// The worst of what it explains: it has fired as bad as that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    raised: Option<Severity>,
    /// By UID.
    members: BTreeMap<Box<str>, Arc<Member>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ObjectMemory {
    kind: Box<str>,
    memo: Memo,
}

impl Memory {
    /// Whether there is nothing to remember.
    pub fn is_empty(&self) -> bool {
        self.alerts.is_empty() && self.objects.is_empty()
    }

    /// How many alerts are remembered.
    pub fn len(&self) -> usize {
        self.alerts.len()
    }

    /// How many objects are remembered, as members or with a memo: what its size grows with.
    pub fn objects(&self) -> usize {
        let members = self.alerts.iter().map(|alert| alert.members.len());
        members.sum::<usize>() + self.objects.len()
    }
}

impl AlertMemory {
    /// Whether a notice about the same subject is about this alert.
    fn is(&self, notice: &Notice) -> bool {
        let labels = &notice.alert.labels;
        let part = self.part.as_ref();
        *notice.alert.rule.name == *self.rule
            && part.is_none_or(|(label, value)| labels.get(label) == Some(value))
    }

    fn of(entry: &Entry) -> Option<Self> {
        let is_told_anew = || {
            !entry
                .members
                .values()
                .any(|member| member.is_only_remembered())
        };
        if entry.fired.is_none() && is_told_anew() {
            return None;
        }
        let part = entry.key.part.as_ref();
        let members = entry.members.iter().take(MEMBERS);
        Some(Self {
            rule: entry.key.rule.into(),
            part: part.map(|(label, value)| (label.as_ref().into(), value.clone())),
            workload_type: entry.workload_type,
            fired: entry.fired.clone(),
            raised: entry.raised.filter(|_| entry.fired.is_some()),
            members: members
                .map(|(uid, member)| (uid.clone(), member.clone()))
                .collect(),
        })
    }
}

impl Engine {
    /// What is to be remembered of a subject.
    pub fn memory(&self, subject: &Subject) -> Memory {
        let remembered = self.memos.get(subject).into_iter().flatten();
        let objects = remembered.filter_map(|uid| {
            let known = self.objects.get(uid)?;
            let memory = ObjectMemory {
                kind: known.kind.as_str().into(),
                memo: known.memo.clone(),
            };
            (!known.memo.is_empty()).then(|| (uid.clone(), memory))
        });
        Memory {
            alerts: self
                .about(subject.clone())
                .filter_map(AlertMemory::of)
                .collect(),
            objects: objects.collect(),
        }
    }

    /// The subjects of which something may be to remember.
    pub fn remembered(&self) -> impl Iterator<Item = &Subject> {
        let alerts = self.alerts.keys().map(|key| &key.subject);
        alerts.chain(self.memos.keys().map(|subject| &**subject))
    }

    /// Takes over what was remembered of a subject: by an earlier life of this program, or by the replica that served it before.
    ///
    /// What is seen now counts for more than what is remembered, and the earlier of two beginnings counts. An alert that had fired goes on, with the label set
    /// under which it did; if nothing shows its condition any more, it resolves at the next [`Engine::advance`], or when its hold is over. An alert of a rule that does not
    /// exist any more is left out; so is one that ended since it was
    /// remembered, as one of the notices in `ended` (about this subject) says.
    pub fn restore(
        &mut self,
        subject: &Subject,
        memory: &Memory,
        ended: &[&Notice],
        now: Timestamp,
    ) {
        for (uid, object) in &memory.objects {
            self.recall_object(uid, subject, object, now);
        }
        let is_over = |alert: &&AlertMemory| ended.iter().any(|notice| alert.is(notice));
        for alert in memory.alerts.iter().filter(|alert| !is_over(alert)) {
            self.recall_alert(subject, alert, now);
        }
    }

    fn recall_object(
        &mut self,
        uid: &str,
        subject: &Subject,
        memory: &ObjectMemory,
        now: Timestamp,
    ) {
        let Some(kind) = KindId::named(&memory.kind) else {
            return;
        };
        if self.is_gone(uid, kind) {
            return;
        }
        let known = self.know(uid, kind);
        let before = known.memo.clone();
        known.memo.merge(&memory.memo);
        let (news, list, object) = (known.memo != before, known.list, known.object.clone());
        self.note_memo(uid, Some(subject.clone()));
        if news && let Some(object) = object {
            // It was judged without what is remembered of it, and may not change for long.
            // A list that is under way has to bring it itself.
            self.look(&object, list, now);
        }
    }

    fn recall_alert(&mut self, subject: &Subject, alert: &AlertMemory, now: Timestamp) {
        let Some(rule) = rules::named(&alert.rule) else {
            return;
        };
        let sight = self.sights.entry(rule.kind).or_default();
        let sighted = sight.since.unwrap_or(now);
        let part = alert.part.as_ref();
        let key = Arc::new(AlertKey {
            subject: subject.clone(),
            rule: rule.name,
            part: part.map(|(label, value)| (Cow::Owned(label.to_string()), value.clone())),
        });
        let roll = self.roll.as_ref();
        let well_since = |uid| roll.and_then(|roll| roll.well_since(uid, rule));
        let seen: Vec<_> = alert
            .members
            .keys()
            .map(|uid| {
                let well_since = well_since(uid).map(|well| well.min(now));
                (self.is_gone(uid, rule.kind), well_since)
            })
            .collect();
        let entry = self
            .alerts
            .entry(Arc::clone(&key))
            .or_insert_with_key(|key| {
                let shard_key = ShardKey::of(subject);
                Entry::new(Arc::clone(key), rule, shard_key, alert.workload_type)
            });
        let key = Arc::clone(&entry.key);
        if let Some(fired) = &alert.fired {
            entry.fired = Some(fired.clone());
            entry.raised = entry.raised.max(alert.raised);
        }
        for ((uid, member), (gone, well_since)) in alert.members.iter().zip(seen) {
            if let Some(own) = entry.member_mut(uid) {
                own.remember(member);
            } else {
                let member = (**member)
                    .clone()
                    .recall(rule.hold, sighted, well_since, gone);
                entry.members.insert(uid.clone(), Arc::new(member));
            }
        }
        for uid in alert.members.keys() {
            let known = self.know(uid, rule.kind);
            if !known.alerts.contains(&key) {
                known.alerts.push(Arc::clone(&key));
            }
            self.explain(uid, now);
        }
        self.unsettled.insert(key);
    }

    /// What is known of an object, now that something is.
    fn know(&mut self, uid: &str, kind: KindId) -> &mut Known {
        let list = self.sights.entry(kind).or_default().list;
        let objects = &mut self.objects;
        objects
            .entry(uid.into())
            .or_insert_with(|| Known::new(kind, list))
    }

    /// Whether an object is known not to be there.
    fn is_gone(&self, uid: &str, kind: KindId) -> bool {
        let sees = self.sights.get(&kind).is_some_and(|sight| sight.clear);
        let roll = self.roll.as_ref().filter(|_| sees);
        roll.is_some_and(|roll| !roll.has(uid))
    }

    /// The alerts about a subject.
    pub(super) fn about(&self, subject: Subject) -> impl Iterator<Item = &Entry> {
        let first = AlertKey {
            subject,
            rule: "",
            part: None,
        };
        let from_it = self.alerts.range::<AlertKey, _>(&first..);
        from_it
            .take_while(move |(key, _)| key.subject == first.subject)
            .map(|(_, entry)| entry)
    }
}
