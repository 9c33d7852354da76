//! One alert in the engine's memory: its members, and the decision what becomes of it.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Resolution, Severity, State, Transition, cause::is_cause, engine::CLUSTER};
use crate::{
    cluster::{LabelSet, Object, ObjectRef, ScaleTarget, Selector, Subject, WorkloadType},
    rules::{Finding, Lasts, Rule, Since},
    shard::ShardKey,
    time::after,
};

/// How long an alert outlives its last object at most. A replacement that shows the same condition continues it.
const DELETED_HOLD: Duration = Duration::from_secs(120);

/// What makes an alert the same alert: its rule, its subject, and the part of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct AlertKey {
    /// What it is about. First, so that the alerts of a subject are neighbours in every ordered collection.
    pub subject: Subject,
    /// The rule's name.
    pub rule: &'static str,
    /// A label and its value: `("container", "app")`.
    pub part: Option<(Cow<'static, str>, Box<str>)>,
}

/// An alert.
#[derive(Debug)]
pub(super) struct Entry {
    pub key: Arc<AlertKey>,
    pub rule: &'static Rule,
    pub shard_key: ShardKey,
    pub workload_type: WorkloadType,
    /// By the object's UID. They are shared with what is remembered.
    pub members: BTreeMap<Box<str>, Arc<Member>>,
    /// Set while it fires.
    pub fired: Option<Fired>,
    /// When it must be looked at again, as the engine's timers know it.
    pub deadline: Option<Timestamp>,
    /// Whether it stood at the last look, so that it explains others; and whether it did if what is held counts, too.
    pub stood: (bool, bool),
    /// Since when something that it explains is due: it fires with the first of its members that stands.
    pub urged: Option<Timestamp>,
    /// How many members it takes, if the engine has counted what there is of their kind; else they say it themselves.
    pub quorum: Option<usize>,
    /// The worst of what it explains, or has explained since it began.
    pub raised: Option<Severity>,
    /// What all its causes were last urged with, if it is inhibited.
    pub urging: Option<(Severity, Timestamp)>,
    /// Until when none of its causes is made to fire, although it is due.
    pub patient_until: Option<Timestamp>,
    /// The members whose causes may be others since then.
    pub looked_at: BTreeSet<Box<str>>,
}

/// What was decided when an alert fired. It does not move while the alert stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Fired {
    pub starts_at: Timestamp,
    pub fires_at: Timestamp,
    pub face: Face,
    /// Since when no member shows this face; `None` while one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub face_lost: Option<Timestamp>,
    /// Since when fewer show the condition than it takes, of an alert about the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quorum_lost: Option<Timestamp>,
}

/// What an alert shows of its members: the worst of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Face {
    pub severity: Severity,
    pub reason: Box<str>,
}

/// One object's part in an alert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Member {
    pub object: ObjectRef,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub node: Box<str>,
    pub face: Face,
    pub summary: String,
    /// Where `for` starts.
    pub since: Timestamp,
    pub r#for: Duration,
    pub quorum: usize,
    /// Whether the last look at the object showed the condition.
    pub seen: bool,
    /// Whether the object is gone, or going.
    pub gone: bool,
    /// The claims that the object needs. They come with it, and are not remembered.
    #[serde(skip)]
    pub claims: Box<[Box<str>]>,
    /// What ties the object to others, if anything does. It comes with it, too.
    #[serde(skip)]
    pub ties: Option<Box<Ties>>,
    /// Whether another alert explains it. That follows from the others, and is not remembered.
    #[serde(skip)]
    pub explained: Explained,
    /// Until when it is not told although that has ended.
    #[serde(skip)]
    pub patient_until: Option<Timestamp>,
    /// When it leaves the alert; `None` while the condition stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<Timestamp>,
    lasts: Lasts,
    first_seen: Timestamp,
    /// What the newest finding said of its start.
    told: Since,
    /// The start of an earlier stretch of the condition, if the gap since then was shorter than the rule's hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kept_since: Option<Timestamp>,
}

/// Whether another alert explains a member.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Explained {
    /// None does.
    #[default]
    No,
    /// One about the same object, or one that is held.
    Yes,
    /// One about another object that shows its condition now.
    ByAnother,
}

/// What ties an object to others by way of pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ties {
    /// What the object scales.
    pub target: Option<ScaleTarget>,
    /// The pods that it is about.
    pub selector: Option<Selector>,
    /// The labels of the pods that are made from it.
    pub pod_labels: Option<LabelSet>,
    /// The UIDs of the pods that it leads to.
    pub pods: Box<[Box<str>]>,
}

impl Ties {
    fn of(object: &Object) -> Option<Box<Self>> {
        let ties = Self {
            target: object.target().cloned(),
            selector: object.selector().cloned(),
            pod_labels: object.pod_labels().cloned(),
            pods: object.pods().into(),
        };
        let is_tied = ties.target.is_some()
            || ties.selector.is_some()
            || ties.pod_labels.is_some()
            || !ties.pods.is_empty();
        is_tied.then(|| Box::new(ties))
    }
}

impl Member {
    /// What its object scales.
    pub fn target(&self) -> Option<&ScaleTarget> {
        self.ties.as_ref()?.target.as_ref()
    }

    /// The pods that its object is about.
    pub fn selector(&self) -> Option<&Selector> {
        self.ties.as_ref()?.selector.as_ref()
    }

    /// The UIDs of the pods that its object leads to.
    pub fn pods(&self) -> &[Box<str>] {
        self.ties.as_ref().map_or(&[], |ties| &ties.pods)
    }

    /// A member from its first finding.
    pub fn new(object: &Object, finding: Finding, now: Timestamp) -> Self {
        let mut member = Self {
            object: object.object_ref(),
            node: object.node().into(),
            face: Face {
                severity: finding.severity,
                reason: "".into(),
            },
            summary: String::new(),
            since: now,
            r#for: finding.r#for(),
            quorum: finding.quorum,
            seen: true,
            gone: false,
            claims: object.claims().into(),
            ties: Ties::of(object),
            explained: Explained::No,
            patient_until: None,
            ends_at: None,
            lasts: finding.lasts,
            first_seen: now,
            told: finding.since,
            kept_since: None,
        };
        member.show(finding, now);
        member
    }

    /// What the object depends on may have become known only now: where it runs, and what of.
    pub fn place(&mut self, object: &Object) {
        if *self.node != *object.node() {
            self.node = object.node().into();
        }
        if *self.claims != *object.claims() {
            self.claims = object.claims().into();
        }
        self.ties = Ties::of(object);
    }

    /// The object shows the condition.
    pub fn show(&mut self, finding: Finding, now: Timestamp) {
        if !self.seen && !self.is_event() {
            // Back within the hold: the condition goes on, and so does its clock.
            self.kept_since = Some(self.since);
        }
        let first_seen = self.first_seen;
        let since = match finding.since {
            Since::At(at) => at,
            Since::FirstSeen => first_seen,
            Since::FirstSeenOr(at) => at.min(first_seen),
            Since::FirstSeenAfter(at) => at.max(first_seen),
        };
        let earlier = match finding.since {
            // A crash loop's start is told anew with every crash, and less precisely: the earliest counts.
            Since::FirstSeenOr(_) => Some(self.since),
            // The same again changes nothing, not even a time in the future, which counts as the time of the first look.
            told if told == self.told => Some(self.since),
            // However long before the gap it began: not before that time.
            Since::FirstSeenAfter(at) => self.kept_since.map(|kept| kept.max(at)),
            Since::At(_) | Since::FirstSeen => self.kept_since,
        };
        self.told = finding.since;
        self.since = earlier.map_or(since, |earlier| since.min(earlier)).min(now);
        self.ends_at = match finding.lasts {
            Lasts::WhileSeen => None,
            Lasts::Until(at) | Lasts::UntilEvenIfGone(at) => Some(at),
        };
        self.r#for = finding.r#for();
        self.face = Face {
            severity: finding.severity,
            reason: finding.reason,
        };
        self.summary = finding.summary;
        self.quorum = finding.quorum;
        self.lasts = finding.lasts;
        self.seen = true;
        self.gone = false;
    }

    /// The object no longer shows the condition; `well_since` is when that began, if the object tells.
    pub fn hide(&mut self, hold: Duration, well_since: Option<Timestamp>, now: Timestamp) {
        if !self.is_event() && (self.seen || well_since.is_some()) {
            self.ends_at = Some(after(well_since.unwrap_or(now).min(now), hold));
        }
        self.seen = false;
    }

    /// The condition is over, whatever the object shows by then.
    pub fn end(&mut self, hold: Duration, now: Timestamp) {
        let end = after(now, hold);
        self.ends_at = Some(self.ends_at.map_or(end, |earlier| earlier.min(end)));
        self.seen = false;
    }

    /// The object is gone, or going: it leaves the alert, unless it is an event that is counted.
    pub fn depart(&mut self, hold: Duration, now: Timestamp) {
        if !self.gone && !matches!(self.lasts, Lasts::UntilEvenIfGone(_)) {
            self.end(hold.min(DELETED_HOLD), now);
        }
        self.seen = false;
        self.gone = true;
    }

    /// Takes over what an earlier life of this program, or another replica, knows of the same object: who has seen it first is right.
    pub fn remember(&mut self, earlier: &Self) {
        self.first_seen = self.first_seen.min(earlier.first_seen);
        let since = match self.told {
            // The same stretch: it may have begun with an earlier one, after a short gap.
            Since::At(_) if self.told == earlier.told => {
                self.kept_since = self.kept_since.or(earlier.kept_since);
                earlier.since
            }
            Since::At(_) => return,
            Since::FirstSeen => self.first_seen,
            Since::FirstSeenOr(at) => at.min(self.first_seen).min(earlier.since),
            Since::FirstSeenAfter(at) => at.max(self.first_seen),
        };
        self.since = self.since.min(since);
    }

    /// What is known of an object by memory alone, in a cluster of which all is seen since `sighted`: then it has not shown the condition since. Its hold counts
    /// from `well_since`, if the object tells, and else from `sighted`. One that is remembered is over earlier, unless the object tells that it was well again only
    /// since some time within it: then it had failed once more, and goes on. An event of before that stands as it did, unless its object is gone.
    pub fn recall(
        mut self,
        hold: Duration,
        sighted: Timestamp,
        well_since: Option<Timestamp>,
        gone: bool,
    ) -> Self {
        self.seen = false;
        let end = if self.is_event() {
            // Of a later one, more would be known.
            (self.since >= sighted).then_some(sighted)
        } else {
            let failed_again = |end| well_since.is_some_and(|well| well < end);
            if !self.gone && self.ends_at.is_some_and(failed_again) {
                self.ends_at = None;
            }
            Some(after(well_since.unwrap_or(sighted), hold))
        };
        self.ends_at = self.ends_at.into_iter().chain(end).min();
        if gone {
            self.depart(hold, sighted);
        }
        self
    }

    /// Whether the cluster may not tell all of it anew: when the condition began, or an event that outlives its object.
    pub const fn is_only_remembered(&self) -> bool {
        !matches!(self.told, Since::At(_))
            || self.kept_since.is_some()
            || matches!(self.lasts, Lasts::UntilEvenIfGone(_))
    }

    /// When it is due.
    pub fn fires_at(&self) -> Timestamp {
        after(self.since, self.r#for)
    }

    /// Whether it explains others. What is gone is held, too: its replacement may show the same in a moment.
    pub const fn explains(&self, while_held: bool) -> bool {
        let is_counted = matches!(self.lasts, Lasts::UntilEvenIfGone(_));
        (self.seen && !self.gone) || (while_held && !(self.gone && is_counted))
    }

    fn is_event(&self) -> bool {
        !matches!(self.lasts, Lasts::WhileSeen)
    }

    /// Whether something explains it, or did until a moment ago.
    pub fn is_explained(&self, now: Timestamp) -> bool {
        self.explained != Explained::No || self.patient_until.is_some_and(|until| until > now)
    }

    /// Whether it shows the condition, so that it can make the alert fire. One that is held only keeps an alert alive that fires already.
    pub fn stands(&self, now: Timestamp) -> bool {
        match self.lasts {
            Lasts::WhileSeen => self.seen,
            Lasts::Until(end) => !self.gone && end > now,
            Lasts::UntilEvenIfGone(end) => end > now,
        }
    }

    /// Whether it is shown as one of the alert's members.
    fn is_shown(&self) -> bool {
        !self.gone || matches!(self.lasts, Lasts::UntilEvenIfGone(_))
    }
}

impl Entry {
    /// An alert without any members yet.
    pub fn new(
        key: Arc<AlertKey>,
        rule: &'static Rule,
        shard_key: ShardKey,
        workload_type: WorkloadType,
    ) -> Self {
        // Before the count, no number is enough.
        let quorum = (&*key.subject.kind == CLUSTER).then_some(usize::MAX);
        Self {
            key,
            rule,
            shard_key,
            quorum,
            workload_type,
            members: BTreeMap::new(),
            fired: None,
            deadline: None,
            stood: (false, false),
            urged: None,
            raised: None,
            urging: None,
            patient_until: None,
            looked_at: BTreeSet::new(),
        }
    }

    /// One of its members, to change it.
    pub fn member_mut(&mut self, uid: &str) -> Option<&mut Member> {
        self.members.get_mut(uid).map(Arc::make_mut)
    }

    /// Whether nothing of it is left.
    pub fn is_over(&self) -> bool {
        self.members.is_empty()
    }

    /// It takes so many members now.
    pub fn set_quorum(&mut self, quorum: usize, now: Timestamp) {
        self.quorum = Some(quorum);
        let is_quorate = self.count_is_quorate();
        if let Some(fired) = &mut self.fired {
            fired.quorum_lost = (!is_quorate).then(|| fired.quorum_lost.unwrap_or(now));
        }
    }

    /// Its subject has succeeded: what began before is over.
    pub fn succeed(&mut self, at: Timestamp, now: Timestamp) {
        let hold = self.rule.hold;
        let failed = self
            .members
            .values_mut()
            .filter(|member| member.since <= at);
        for member in failed {
            Arc::make_mut(member).end(hold, now);
        }
    }

    /// Notes whether it stands. Whether that is news.
    pub fn note_standing(&mut self) -> bool {
        let stands = (self.explains(false), self.explains(true));
        if !stands.0 && self.fired.is_none() {
            self.urged = None;
        }
        std::mem::replace(&mut self.stood, stands) != stands
    }

    /// Whether it explains others. What is held does so only if it has fired: else nobody would be told of either.
    pub fn explains(&self, while_held: bool) -> bool {
        let while_held = while_held && self.fired.is_some();
        let mut members = self.members.values();
        let is_cause = |member: &Member| {
            member.explains(while_held) && is_cause(self.rule, &member.face.reason)
        };
        members.any(|member| is_cause(member)) && self.is_quorate()
    }

    /// Whether it fires, or would if the time of its members had come: one rejected pod explains nothing.
    pub fn is_quorate(&self) -> bool {
        // For nearly all rules, one is enough: asked for each of thousands of members, they must not be counted.
        self.fired.is_some() || self.rule.quorum <= 1 || self.count_is_quorate()
    }

    /// Whether as many show the condition as it takes.
    fn count_is_quorate(&self) -> bool {
        self.is_quorum(|| {
            let members = self.members.values().map(|member| &**member);
            members.filter(|member| member.seen)
        })
    }

    /// Whether the pods that it is about are selected: those that are made from one of its members.
    pub fn is_selected(&self, selector: &Selector) -> bool {
        let ties = self
            .members
            .values()
            .filter_map(|member| member.ties.as_ref());
        let mut labels = ties.filter_map(|ties| ties.pod_labels.as_ref());
        labels.any(|labels| selector.selects(labels))
    }

    /// Whether it tells of this member. When many nodes were down at once and few are left, the next one that goes down is a fault of its own.
    pub fn tells_of(&self, member: &Member) -> bool {
        let lost = self.fired.as_ref().and_then(|fired| fired.quorum_lost);
        lost.is_none_or(|lost| member.since <= lost)
    }

    /// What its causes are urged with: its severity, and since when it is due. `None` while it is not inhibited.
    pub fn urging(&self, now: Timestamp) -> Option<(Severity, Timestamp)> {
        if self.fired.is_some() || !self.is_inhibited(now) {
            return None;
        }
        Some((self.shown_face(now)?.severity, self.fires_at(now)?))
    }

    /// Something of this severity that it explains is due since then. Whether that is news.
    pub fn urge(&mut self, severity: Severity, due: Timestamp) -> bool {
        let before = (self.urged, self.raised);
        self.urged = Some(self.urged.map_or(due, |urged| urged.min(due)));
        self.raised = self.raised.max(Some(severity));
        (self.urged, self.raised) != before
    }

    /// Decides what becomes of the alert at `now`. Members whose time is over must have left before; `left_by_deletion` says whether
    /// the last of them was gone.
    pub fn decide(&mut self, left_by_deletion: bool, now: Timestamp) -> Option<Transition> {
        let Some(mut fired) = self.fired.take() else {
            self.fired = self.fire(now);
            return self.fired.is_some().then_some(Transition::Fired);
        };
        if self.is_over() {
            self.fired = Some(fired);
            return Some(Transition::Resolved(if left_by_deletion {
                Resolution::Deleted
            } else {
                Resolution::Recovered
            }));
        }
        let change = self.new_face(&mut fired, now);
        self.fired = Some(fired);
        change.then_some(Transition::Changed)
    }

    /// What it needs to fire, if it has it.
    fn fire(&self, now: Timestamp) -> Option<Fired> {
        let due: Vec<&Member> = self.due(now).collect();
        let quorum = due.iter().map(|member| self.quorum(member)).min()?.max(1);
        let urged = self.urged.unwrap_or(Timestamp::MAX);
        let times = due
            .iter()
            .map(|member| member.fires_at().min(urged.max(member.since)));
        let mut times: Vec<Timestamp> = times.collect();
        times.sort_unstable();
        Some(Fired {
            starts_at: due.iter().map(|member| member.since).min()?,
            fires_at: *times.get(quorum - 1)?,
            face: self.face(now)?,
            face_lost: None,
            quorum_lost: None,
        })
    }

    /// Takes over a new face if the old one is outdone, or is gone for as long as the condition itself would have to be. So an alert
    /// whose objects alternate between two reasons (an image that cannot be pulled) does not change with every one.
    fn new_face(&self, fired: &mut Fired, now: Timestamp) -> bool {
        let Some(face) = self.face(now) else {
            return false; // All members are held: they still show their last face.
        };
        if face.severity <= fired.face.severity {
            if self
                .standing(now)
                .any(|member| self.shows(&member.face, &fired.face))
            {
                fired.face_lost = None;
                return false;
            }
            if now < after(*fired.face_lost.get_or_insert(now), self.rule.hold) {
                return false;
            }
        }
        fired.face_lost = None;
        fired.face = face;
        true
    }

    /// The worst standing member's face; of the equally bad ones, the one that has stood longest.
    fn face(&self, now: Timestamp) -> Option<Face> {
        self.standing(now)
            .min_by_key(|member| (std::cmp::Reverse(member.face.severity), member.since))
            .map(|member| self.raise(&member.face))
    }

    /// A face, at least as bad as what the alert explains.
    fn raise(&self, face: &Face) -> Face {
        Face {
            severity: self.raised_severity(face),
            reason: face.reason.clone(),
        }
    }

    /// Whether a member's face is this one, once it is [raised](Self::raise).
    fn shows(&self, of_member: &Face, face: &Face) -> bool {
        of_member.reason == face.reason && self.raised_severity(of_member) == face.severity
    }

    fn raised_severity(&self, face: &Face) -> Severity {
        self.raised
            .map_or(face.severity, |raised| face.severity.max(raised))
    }

    /// The members that show the condition.
    pub fn standing(&self, now: Timestamp) -> impl Iterator<Item = &Member> {
        self.members
            .values()
            .map(|member| &**member)
            .filter(move |member| member.stands(now))
    }

    /// The members that count for firing.
    fn due(&self, now: Timestamp) -> impl Iterator<Item = &Member> {
        self.standing(now)
            .filter(move |member| !member.is_explained(now) && self.is_due(member, now))
    }

    /// Whether a member counts for firing if nothing explains it.
    pub fn is_due(&self, member: &Member, now: Timestamp) -> bool {
        member.fires_at() <= now || self.urged.is_some()
    }

    /// How many members there are to show.
    pub fn shown_count(&self) -> usize {
        let shown = self.members.values().filter(|member| member.is_shown());
        shown.count()
    }

    /// The members to show, in order of their objects.
    pub fn shown(&self) -> Vec<&Member> {
        let mut members: Vec<&Member> = self
            .members
            .values()
            .map(|member| &**member)
            .filter(|member| member.is_shown())
            .collect();
        members.sort_unstable_by(|a, b| a.object.cmp(&b.object));
        members
    }

    /// What it shows of its members; `None` if it neither fires nor has a member that shows the condition.
    pub fn shown_face(&self, now: Timestamp) -> Option<Face> {
        match &self.fired {
            Some(fired) => Some(fired.face.clone()),
            None => self.face(now),
        }
    }

    /// Where it is in its life.
    pub fn state(&self, now: Timestamp) -> State {
        if self.fired.is_some() {
            if self.is_over() {
                State::Resolved
            } else {
                State::Firing
            }
        } else if self.is_inhibited(now) {
            State::Inhibited
        } else {
            State::Pending
        }
    }

    /// Whether it would fire if nothing explained it. Not asked of one that fires.
    pub fn is_inhibited(&self, now: Timestamp) -> bool {
        self.is_quorum(|| self.standing(now).filter(|member| self.is_due(member, now)))
    }

    /// How many it takes, as this member has it.
    pub fn quorum(&self, member: &Member) -> usize {
        self.quorum.unwrap_or(member.quorum)
    }

    /// Whether these members are as many as it takes.
    fn is_quorum<'a, M: Iterator<Item = &'a Member>>(&self, members: impl Fn() -> M) -> bool {
        members()
            .map(|member| self.quorum(member))
            .min()
            .is_some_and(|quorum| members().count() >= quorum)
    }

    /// When it fires if nothing changes: when as many members are due as it takes.
    pub fn fires_at(&self, now: Timestamp) -> Option<Timestamp> {
        if let Some(fired) = &self.fired {
            return Some(fired.fires_at);
        }
        let mut times: Vec<(Timestamp, usize)> = self
            .standing(now)
            .map(|member| (member.fires_at(), self.quorum(member)))
            .collect();
        times.sort_unstable();
        let mut quorum = usize::MAX;
        times.iter().enumerate().find_map(|(at, &(time, needed))| {
            quorum = quorum.min(needed);
            (at + 1 >= quorum).then_some(time)
        })
    }

    /// The next time after `now` at which something may happen by itself.
    pub fn next_deadline(&self, now: Timestamp) -> Option<Timestamp> {
        let dues = self
            .standing(now)
            .filter(|_| self.fired.is_none())
            .flat_map(|member| [Some(member.fires_at()), member.patient_until])
            .flatten();
        let ends = self.members.values().filter_map(|member| member.ends_at);
        let face = self
            .fired
            .as_ref()
            .and_then(|fired| fired.face_lost)
            .map(|lost| after(lost, self.rule.hold));
        dues.chain(ends)
            .chain(face)
            .chain(self.patient_until)
            .filter(|&time| time > now)
            .min()
    }
}
