//! The engine: observations and time go in, transitions come out.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, btree_map},
    hash::Hasher as _,
    sync::Arc,
    time::Duration,
};

use fnv::FnvHasher;
use jiff::Timestamp;

use super::{
    Alert, Notice, Severity, State, Transition,
    cause::{ends_with_success, reaches_beyond},
    census::Census,
    entry::{AlertKey, Entry, Member},
    looks::Looks,
    render::view,
    slices::Slices,
};
use crate::{
    cluster::{KindId, Object, Subject},
    rules::{self, Evaluation, Finding, Memo, Rule, Scope, Tuning},
    shard::{ShardKey, ownership::Shard},
    time::{after, before},
};

/// How often what is remembered of well objects is looked through for what is no longer needed.
const PRUNE_EVERY: Duration = Duration::from_secs(600);

/// The kind of the subject that is the cluster itself.
pub(super) const CLUSTER: &str = "Cluster";

/// How old a success may be to end anything: longer than any failure counts that it can end.
const SUCCESS_COUNTS: Duration = Duration::from_secs(25 * 3600);

/// The alerts of a cluster: which there are is a function of the objects as they are now, and of time. Pure: no I/O, no clock.
///
/// What is seen ([`Engine::observe`], [`Engine::gone`], ...) counts from the next [`Engine::advance`] on.
///
/// It is level-triggered. Feeding it the same object again, or all of them, changes nothing. It keeps what is broken and forgets what is fine.
#[derive(Debug)]
pub struct Engine {
    pub(super) cluster: String,
    pub(super) tuning: Tuning,
    /// By subject first.
    pub(super) alerts: BTreeMap<Arc<AlertKey>, Entry>,
    /// What is unhealthy, or remembered, by UID.
    pub(super) objects: HashMap<Box<str>, Known>,
    /// The objects of which something is remembered, by subject.
    pub(super) memos: BTreeMap<Arc<Subject>, BTreeSet<Box<str>>>,
    /// The subjects of which something new is to be remembered.
    touched: BTreeSet<Subject>,
    /// The alerts about which something new was seen. They are decided together when time passes, because an alert with thousands of members would
    /// else be decided anew with each of them.
    pub(super) unsettled: BTreeSet<Arc<AlertKey>>,
    /// The alerts that have begun or ceased to explain others, which are not looked at again yet.
    pub(super) stirred: BTreeSet<Arc<AlertKey>>,
    /// When which alert must be looked at again.
    pub(super) timers: BTreeSet<(Timestamp, Arc<AlertKey>)>,
    pub(super) sights: BTreeMap<KindId, Sight>,
    /// Only for as long as it may have to be told of an object that is remembered whether it is gone, or well.
    pub(super) roll: Option<Roll>,
    pub(super) census: Census,
    pub(super) unserved: BTreeSet<Shard>,
    pub(super) slices: Slices,
    looks: Looks,
    /// When subjects have last succeeded at what they do over and over, of late.
    pub(super) successes: HashMap<ShardKey, Timestamp>,
    notices: Vec<Notice>,
    /// Reused for every object, so that a healthy one costs no allocation.
    findings: Vec<Finding>,
    next_prune: Timestamp,
}

/// What the engine keeps of an object.
#[derive(Debug)]
pub(super) struct Known {
    pub kind: KindId,
    /// The list that last had it.
    pub list: u64,
    pub memo: Memo,
    /// The object as it was seen last, if there is a memo: when more is remembered of it, it has to be judged again.
    pub object: Option<Arc<Object>>,
    /// Its subject, if there is a memo.
    pub remembered: Option<Arc<Subject>>,
    /// The alerts that it is a member of.
    pub alerts: Vec<Arc<AlertKey>>,
}

impl Known {
    pub fn new(kind: KindId, list: u64) -> Self {
        Self {
            kind,
            list,
            memo: Memo::default(),
            object: None,
            remembered: None,
            alerts: Vec::new(),
        }
    }
}

/// Which objects there are.
#[derive(Debug, Default)]
pub(super) struct Roll {
    /// As hashes of their UIDs.
    there: HashSet<u64>,
    /// Since when they have been well of what, if they tell. Few do. One that is gone stays: it was well before.
    well: HashMap<(u64, &'static str), Timestamp>,
}

/// How well a kind is seen.
#[derive(Debug, Default)]
pub(super) struct Sight {
    /// The lists begun so far.
    pub list: u64,
    /// When the first list was complete.
    pub since: Option<Timestamp>,
    /// Whether the last of them is not complete yet.
    listing: bool,
    /// Whether what is seen is what there is: a list is complete, and the watch goes on. If not, nothing resolves.
    pub clear: bool,
}

impl Engine {
    /// An engine that knows nothing yet. `cluster` is the label of that name; empty for none.
    pub fn new(cluster: impl Into<String>) -> Self {
        Self {
            cluster: cluster.into(),
            tuning: Tuning::default(),
            alerts: BTreeMap::new(),
            objects: HashMap::new(),
            memos: BTreeMap::new(),
            touched: BTreeSet::new(),
            unsettled: BTreeSet::new(),
            stirred: BTreeSet::new(),
            timers: BTreeSet::new(),
            sights: BTreeMap::new(),
            roll: None,
            census: Census::default(),
            unserved: BTreeSet::new(),
            slices: Slices::default(),
            looks: Looks::default(),
            successes: HashMap::new(),
            notices: Vec::new(),
            findings: Vec::new(),
            next_prune: Timestamp::MIN,
        }
    }

    /// The same, with what is changed of the rules.
    #[must_use]
    pub fn tuned(mut self, tuning: Tuning) -> Self {
        self.tuning = tuning;
        self
    }

    /// The alerts of objects that are seen once, at `now`: what would page, and what is pending.
    pub fn scan(mut self, objects: impl IntoIterator<Item = Object>, now: Timestamp) -> Vec<Alert> {
        for object in objects {
            self.observe(&object, now);
        }
        self.advance(now);
        self.alerts(now)
    }

    // === what is seen ===

    /// Notes from now on which objects there are, and since when they have been well, for [`Engine::restore`]; or stops that, and forgets them. It is the only thing that
    /// is kept of healthy objects.
    pub fn call_roll(&mut self, on: bool) {
        self.roll = on.then(Roll::default);
    }

    /// A complete list of the kind begins. Until it is done, nothing of the kind resolves.
    pub fn list_started(&mut self, kind: KindId) {
        if kind == KindId::Node {
            self.census.list_started();
        }
        if kind == KindId::EndpointSlice {
            self.slices.list_started();
        }
        let sight = self.sights.entry(kind).or_default();
        sight.list += 1;
        sight.listing = true;
        sight.clear = false;
    }

    /// The list is complete: what it did not have is gone.
    pub fn list_done(&mut self, kind: KindId, now: Timestamp) {
        if kind == KindId::Node {
            self.census.list_done();
            self.recount();
        }
        let sight = self.sights.entry(kind).or_default();
        sight.listing = false;
        sight.clear = true;
        sight.since.get_or_insert(now);
        let list = sight.list;
        let missing: Vec<Box<str>> = self
            .objects
            .iter()
            .filter(|(_, known)| known.kind == kind && known.list != list)
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in missing {
            self.gone(&uid, now);
        }
        if kind == KindId::EndpointSlice {
            for slice in self.slices.list_done(now) {
                self.judge(&slice, list, now);
            }
        }
        self.looks.keep(kind, list);
        self.unsettle(kind);
    }

    /// The watch of the kind has failed. Until it is back, nothing of the kind resolves.
    pub fn blind(&mut self, kind: KindId) {
        self.sights.entry(kind).or_default().clear = false;
    }

    /// The watch of the kind goes on where it failed: nothing was missed. Says nothing while a list is incomplete.
    pub fn sighted(&mut self, kind: KindId) {
        let sight = self.sights.entry(kind).or_default();
        if !sight.listing && sight.list > 0 {
            sight.clear = true;
            self.unsettle(kind);
        }
    }

    /// An object as it is now.
    pub fn observe(&mut self, object: &Object, now: Timestamp) {
        let list = self
            .sights
            .get(&object.kind())
            .map_or(0, |sight| sight.list);
        self.look(object, list, now);
    }

    /// An object as it was when the list of that number had it, or later.
    pub(super) fn look(&mut self, object: &Object, list: u64, now: Timestamp) {
        let uid = &*object.meta().uid;
        if let Some(roll) = &mut self.roll {
            roll.see(object);
        }
        if let Some(zone) = object.zone() {
            let meta = object.meta();
            if let Some(made) = meta.creation_timestamp {
                self.census.note_age(&meta.name, made, now);
            }
            if self.census.see(hash(uid), zone) {
                self.recount();
            }
        }
        if let Some(at) = object.succeeded_at()
            && at >= before(now, SUCCESS_COUNTS)
        {
            self.note_success(&object.subject().0, at, now);
        }
        let others = self.slices.see(object, now);
        self.judge(object, list, now);
        for slice in others {
            self.judge(&slice, list, now);
        }
    }

    /// Looks at an object with all that is known of the others.
    fn judge(&mut self, object: &Object, list: u64, now: Timestamp) {
        let uid = &*object.meta().uid;
        let mut memo = self
            .objects
            .get_mut(uid)
            .map(|known| std::mem::take(&mut known.memo))
            .unwrap_or_default();
        let mut findings = std::mem::take(&mut self.findings);
        let mut evaluation = Evaluation::new(now, &mut memo, &mut findings)
            .tuned(&self.tuning)
            .of(object, &self.cluster);
        object.evaluate(&mut evaluation);
        self.looks.set(object, list, evaluation.look_again());
        if !findings.is_empty()
            && self
                .slices
                .may_serve(object, self.objects.contains_key(uid))
        {
            findings.clear();
        }
        if let Some(since) = self.slices.unserved_since(object) {
            for finding in &mut findings {
                finding.since = finding.since.not_before(since);
            }
        }
        if self.objects.contains_key(uid) || !findings.is_empty() || !memo.is_empty() {
            self.update(object, memo, &mut findings, list, now);
        }
        self.findings = findings;
    }

    /// There are more nodes, or fewer: what was not many of them may be now.
    fn recount(&mut self) {
        let cluster = self.about(self.as_subject());
        let keys: Vec<_> = cluster.map(|entry| Arc::clone(&entry.key)).collect();
        self.unsettled.extend(keys);
    }

    /// The cluster, as what an alert is about.
    fn as_subject(&self) -> Subject {
        Subject::cluster_scoped(CLUSTER, &self.cluster)
    }

    /// What has failed before its subject succeeded is over.
    fn note_success(&mut self, subject: &Subject, at: Timestamp, now: Timestamp) {
        let key = ShardKey::of(subject);
        let known = self.successes.entry(key).or_insert(Timestamp::MIN);
        if *known >= at {
            return;
        }
        *known = at;
        let ends = |entry: &&Entry| ends_with_success(entry.rule);
        let over: Vec<Arc<AlertKey>> = self
            .about(subject.clone())
            .filter(ends)
            .map(|entry| Arc::clone(&entry.key))
            .collect();
        for key in over {
            if let Some(entry) = self.alerts.get_mut(&key) {
                entry.succeed(at, now);
            }
            self.unsettled.insert(key);
        }
    }

    /// The object is gone.
    pub fn gone(&mut self, uid: &str, now: Timestamp) {
        if let Some(roll) = &mut self.roll {
            roll.there.remove(&hash(uid));
        }
        if self.census.gone(hash(uid)) {
            self.recount();
        }
        for slice in self.slices.gone(hash(uid), now) {
            let sight = self.sights.get(&slice.kind());
            let list = sight.map_or(0, |sight| sight.list);
            self.judge(&slice, list, now);
        }
        self.looks.forget(uid);
        let Some(known) = self.objects.get_mut(uid) else {
            return;
        };
        known.memo = Memo::default();
        known.object = None;
        let alerts = known.alerts.clone();
        self.note_memo(uid, None);
        for key in &alerts {
            if let Some(entry) = self.alerts.get_mut(key) {
                let hold = entry.rule.hold;
                if let Some(member) = entry.member_mut(uid) {
                    member.depart(hold, now);
                }
            }
        }
        if alerts.is_empty() {
            self.objects.remove(uid);
        }
        self.unsettled.extend(alerts);
    }

    /// Keeps the index of what is remembered: of this object nothing, or something about this subject.
    pub(super) fn note_memo(&mut self, uid: &str, subject: Option<Subject>) {
        let Some(known) = self.objects.get_mut(uid) else {
            return;
        };
        let subject = subject.map(Arc::new);
        let before = std::mem::replace(&mut known.remembered, subject.clone());
        if before != subject
            && let Some(before) = before
        {
            if let Some(uids) = self.memos.get_mut(&before) {
                uids.remove(uid);
                if uids.is_empty() {
                    self.memos.remove(&before);
                }
            }
            self.touched.insert((*before).clone());
        }
        if let Some(subject) = subject {
            self.touched.insert((*subject).clone());
            self.memos.entry(subject).or_default().insert(uid.into());
        }
    }

    /// Takes over what a look at an unhealthy, or formerly unhealthy, object has shown.
    fn update(
        &mut self,
        object: &Object,
        memo: Memo,
        findings: &mut Vec<Finding>,
        list: u64,
        now: Timestamp,
    ) {
        let (kind, meta) = (object.kind(), object.meta());
        let known = self
            .objects
            .entry(meta.uid.clone())
            .or_insert_with(|| Known::new(kind, list));
        known.list = list;
        let remembers = !(memo.is_empty() && known.remembered.is_none());
        known.object = (!memo.is_empty()).then(|| Arc::new(object.clone()));
        known.memo = memo;
        let before = known.alerts.len();
        let mut shown = Vec::with_capacity(findings.len());
        if !findings.is_empty() {
            let (own, workload_type) = object.subject();
            let shard_key = ShardKey::of(&own);
            let success = self.successes.get(&shard_key).copied();
            for finding in findings.drain(..) {
                if ends_with_success(finding.rule) && finding.began_by(success) {
                    continue;
                }
                let part = finding.part.clone();
                let (subject, shard_key) = match finding.scope {
                    Scope::Subject => (own.clone(), shard_key),
                    Scope::Cluster => {
                        let cluster = Subject::cluster_scoped(CLUSTER, &self.cluster);
                        let shard_key = ShardKey::of(&cluster);
                        (cluster, shard_key)
                    }
                };
                let key = Arc::new(AlertKey {
                    subject,
                    rule: finding.rule.name,
                    part: part.map(|(label, value)| (label.into(), value)),
                });
                let entry = self.alerts.entry(key).or_insert_with_key(|key| {
                    Entry::new(Arc::clone(key), finding.rule, shard_key, workload_type)
                });
                if !known.alerts.contains(&entry.key) {
                    known.alerts.push(Arc::clone(&entry.key));
                }
                shown.push(Arc::clone(&entry.key));
                match entry.members.entry(meta.uid.clone()) {
                    btree_map::Entry::Occupied(mut member) => {
                        let member = Arc::make_mut(member.get_mut());
                        member.place(object);
                        member.show(finding, now);
                    }
                    btree_map::Entry::Vacant(place) => {
                        place.insert(Arc::new(Member::new(object, finding, now)));
                    }
                }
            }
        }
        for key in known.alerts[..before]
            .iter()
            .filter(|key| !shown.contains(key))
        {
            let Some(entry) = self.alerts.get_mut(key) else {
                continue;
            };
            let rule = entry.rule;
            if let Some(member) = entry.member_mut(&meta.uid) {
                if meta.deletion_timestamp.is_some() {
                    member.depart(rule.hold, now);
                } else {
                    let part = key.part.as_ref().map(|(_, value)| &**value);
                    member.hide(rule.hold, object.well_since(rule, part), now);
                }
            }
        }
        let alerts = known.alerts.clone();
        let remembered = !known.memo.is_empty();
        if remembers {
            self.note_memo(&meta.uid, remembered.then(|| object.subject().0));
        }
        if alerts.is_empty() && !remembered {
            self.objects.remove(&meta.uid);
        }
        self.explain(&meta.uid, now);
        self.unsettled.extend(alerts);
    }

    // === time ===

    /// Lets time pass: everything that comes due until `now` happens.
    pub fn advance(&mut self, now: Timestamp) {
        let sights = &self.sights;
        let due = self.looks.take_due(now, |kind| is_clear(sights, kind));
        for look in due {
            self.look(&look.object, look.list, now);
        }
        self.note_causes(now);
        loop {
            while let Some(key) = self.next_to_settle(now) {
                self.settle(&key, now);
            }
            if self.stirred.is_empty() {
                break;
            }
            self.explain_beyond(now);
        }
        if now >= self.next_prune {
            self.next_prune = after(now, PRUNE_EVERY);
            self.prune(now);
        }
    }

    fn prune(&mut self, now: Timestamp) {
        let mut forgotten = Vec::new();
        for (uid, known) in &mut self.objects {
            known.memo.prune(now);
            if known.memo.is_empty() && known.remembered.is_some() {
                known.object = None;
                forgotten.push(uid.clone());
            }
        }
        for uid in forgotten {
            self.note_memo(&uid, None);
        }
        self.objects
            .retain(|_, known| !(known.alerts.is_empty() && known.memo.is_empty()));
        self.successes
            .retain(|_, at| *at >= before(now, SUCCESS_COUNTS));
    }

    /// When something happens by itself next, once [`Engine::advance`] has taken over all that was seen.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let look = self.looks.next(|kind| is_clear(&self.sights, kind));
        let timer = self.timers.first().map(|(time, _)| *time);
        timer.into_iter().chain(look).min()
    }

    /// The subjects of which something else may be [remembered](Engine::memory) than at the last call.
    pub fn take_touched(&mut self) -> BTreeSet<Subject> {
        std::mem::take(&mut self.touched)
    }

    /// What has happened since the last call, in order.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    fn unsettle(&mut self, kind: KindId) {
        let of_kind = self.alerts.values().filter(|entry| entry.rule.kind == kind);
        self.unsettled
            .extend(of_kind.map(|entry| Arc::clone(&entry.key)));
    }

    fn next_to_settle(&mut self, now: Timestamp) -> Option<Arc<AlertKey>> {
        self.unsettled.pop_first().or_else(|| {
            let (_, key) = self.timers.first().filter(|(time, _)| *time <= now)?;
            Some(Arc::clone(key))
        })
    }

    /// Decides what becomes of the alert at `now`. Those that it explained may be to decide then.
    fn settle(&mut self, key: &Arc<AlertKey>, now: Timestamp) {
        self.look_at_pods(key, now);
        // What that has changed is decided now.
        self.unsettled.remove(key);
        let Some(entry) = self.alerts.get_mut(key) else {
            return;
        };
        self.touched.insert(key.subject.clone());
        if let Some(deadline) = entry.deadline.take() {
            self.timers.remove(&(deadline, Arc::clone(key)));
        }
        // Of what has not fired, nothing is told when it ends; and a clock must not go on because nobody could see.
        let clear = entry.fired.is_none() || is_clear(&self.sights, entry.rule.kind);
        let over: Vec<Box<str>> = entry
            .members
            .iter()
            .filter(|(_, member)| clear && member.ends_at.is_some_and(|end| end <= now))
            .map(|(uid, _)| uid.clone())
            .collect();
        let left: Vec<Arc<Member>> = over
            .iter()
            .filter_map(|uid| entry.members.remove(uid))
            .collect();
        self.census.count(entry, now);
        let last = left.iter().max_by_key(|member| member.ends_at);
        let transition = entry.decide(last.is_some_and(|member| member.gone), now);
        if let Some(transition) = transition {
            let members = if entry.is_over() {
                left.iter().map(|member| &**member).collect()
            } else {
                entry.shown()
            };
            let alert = view(&self.cluster, entry, &members, now);
            self.notices.extend(alert.map(|alert| Notice {
                transition,
                alert,
                at: now,
            }));
        }
        if entry.is_over() {
            if entry.stood.1 && reaches_beyond(entry.rule) {
                self.stirred.insert(Arc::clone(key));
            }
            self.alerts.remove(key);
        } else if let Some(deadline) = entry.next_deadline(now) {
            entry.deadline = Some(deadline);
            self.timers.insert((deadline, Arc::clone(key)));
        }
        for uid in over {
            self.leave(&uid, key, now);
        }
        self.note_cause(key, now);
        self.urge(key, now);
    }

    /// The object is no longer a member of the alert, which may have explained others of its alerts.
    fn leave(&mut self, uid: &str, key: &AlertKey, now: Timestamp) {
        let Some(known) = self.objects.get_mut(uid) else {
            return;
        };
        known.alerts.retain(|alert| **alert != *key);
        if known.alerts.is_empty() && known.memo.is_empty() {
            self.objects.remove(uid);
            return;
        }
        self.unsettled.extend(known.alerts.iter().cloned());
        self.explain(uid, now);
    }

    // === what others see ===

    /// The alerts that stand now, pending ones too, in order of their rule and subject.
    pub fn alerts(&self, now: Timestamp) -> Vec<Alert> {
        let mut entries: Vec<&Entry> = self.alerts.values().collect();
        entries.sort_by_key(|entry| entry.rule.name);
        entries
            .into_iter()
            .filter_map(|entry| view(&self.cluster, entry, &entry.shown(), now))
            .collect()
    }

    /// The alerts that fire now, as if they had just fired.
    pub fn firing(&self, now: Timestamp) -> impl Iterator<Item = Notice> {
        let firing = self.alerts.values().filter(|entry| entry.fired.is_some());
        firing.filter_map(move |entry| {
            Some(Notice {
                transition: Transition::Fired,
                alert: view(&self.cluster, entry, &entry.shown(), now)?,
                at: now,
            })
        })
    }

    /// How many alerts are in which state, with which severity.
    pub fn counts(&self, now: Timestamp) -> BTreeMap<(State, Severity), usize> {
        let mut counts = BTreeMap::new();
        for entry in self.alerts.values() {
            if let Some(face) = entry.shown_face(now) {
                *counts.entry((entry.state(now), face.severity)).or_default() += 1;
            }
        }
        counts
    }

    /// How many objects each rule finds something wrong with.
    pub fn findings(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for entry in self.alerts.values() {
            *counts.entry(entry.rule.name).or_default() += entry.shown_count();
        }
        counts
    }

    /// The subjects that have alerts, by shard key.
    pub fn subjects(&self) -> BTreeSet<ShardKey> {
        self.alerts.values().map(|entry| entry.shard_key).collect()
    }

    /// How many objects are kept: those that are unhealthy, and those of which something is remembered.
    pub fn kept_objects(&self) -> usize {
        self.objects.len()
    }
}

impl Roll {
    fn see(&mut self, object: &Object) {
        let uid = hash(&object.meta().uid);
        self.there.insert(uid);
        for rule in rules::all().filter(|rule| rule.kind == object.kind()) {
            match object.well_since(rule, None) {
                Some(since) => self.well.insert((uid, rule.name), since),
                None => self.well.remove(&(uid, rule.name)),
            };
        }
    }

    /// Whether an object is there.
    pub fn has(&self, uid: &str) -> bool {
        self.there.contains(&hash(uid))
    }

    /// Since when an object has been well, as far as it tells.
    pub fn well_since(&self, uid: &str, rule: &Rule) -> Option<Timestamp> {
        self.well.get(&(hash(uid), rule.name)).copied()
    }
}

/// Whether what is seen of the kind is what there is.
fn is_clear(sights: &BTreeMap<KindId, Sight>, kind: KindId) -> bool {
    sights.get(&kind).is_some_and(|sight| sight.clear)
}

/// The hash of an object's UID.
pub(super) fn hash(uid: &str) -> u64 {
    let mut hasher = FnvHasher::default();
    hasher.write(uid.as_bytes());
    hasher.finish()
}
