//! What is explained now, by what, and what follows from it. Which rules explain which: see [`cause`](super::cause).

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;

use super::{
    Engine,
    cause::{
        Reach, explains, lacks_pod_metrics, leads_to_pods, may_need_api, needs_api, reaches_beyond,
    },
    entry::{AlertKey, Entry, Explained, Member},
};
use crate::{
    cluster::{KindId, Subject},
    shard::ownership::Shard,
    time::after,
};

/// How long after its cause an alert about another object is given to end, too: a pod is scheduled once it has its volume, and a workload's status follows its pods. Without
/// that, what has just recovered would page at that moment.
const RECOVERY: Duration = Duration::from_secs(30);

/// What explains a member of an alert.
pub(super) struct Cause<'a> {
    pub entry: &'a Entry,
    /// Whether it fires when the alert comes due.
    is_urged: bool,
    /// What the member is by it.
    explained: Explained,
}

/// The kinds of the subjects whose pods a `PodDisruptionBudget` may select.
const SELECTED: [KindId; 4] = [
    KindId::Deployment,
    KindId::StatefulSet,
    KindId::DaemonSet,
    KindId::ReplicaSet,
];

/// The kind of the subject that an `EndpointSlice` is about.
const SERVICE: &str = "Service";

impl Engine {
    /// Works out which of the object's alerts are explained.
    pub(super) fn explain(&mut self, uid: &str, now: Timestamp) {
        let Some(known) = self.objects.get(uid) else {
            return;
        };
        for key in known.alerts.clone() {
            self.explain_member(&key, uid, now);
        }
    }

    fn explain_member(&mut self, key: &Arc<AlertKey>, uid: &str, now: Timestamp) {
        let Some(effect) = self.alerts.get(key) else {
            return;
        };
        let Some(member) = effect.members.get(uid) else {
            return;
        };
        let mut explained = Explained::No;
        for cause in self.causes(effect, uid, member) {
            explained = explained.max(cause.explained);
            if explained == Explained::ByAnother {
                break;
            }
        }
        let Some(effect) = self.alerts.get_mut(key) else {
            return;
        };
        if effect.urging.is_some() {
            // It may be explained by others now, which have to fire in place of those before.
            effect.looked_at.insert(uid.into());
            self.unsettled.insert(Arc::clone(key));
        }
        if let Some(member) = effect.member_mut(uid)
            && member.explained != explained
        {
            if explained == Explained::ByAnother {
                member.patient_until = None;
            } else if member.explained == Explained::ByAnother {
                member.patient_until = Some(after(now, RECOVERY));
            }
            member.explained = explained;
            self.unsettled.insert(Arc::clone(key));
        }
    }

    /// What explains a member of an alert.
    pub(super) fn causes<'a>(
        &'a self,
        effect: &'a Entry,
        uid: &'a str,
        member: &'a Member,
    ) -> impl Iterator<Item = Cause<'a>> + 'a {
        let known = self.objects.get(uid);
        let of_object = known.into_iter().flat_map(|known| &known.alerts);
        let of_object = of_object.filter_map(|key| self.alerts.get(key));
        let of_object = of_object.filter_map(move |cause| {
            let how = explains(cause.rule, effect.rule)?;
            let fits = match how.reach {
                Reach::Part => cause.key.part == effect.key.part,
                Reach::Object => true,
                Reach::Subject
                | Reach::Node
                | Reach::Pod
                | Reach::Claim
                | Reach::Namespace
                | Reach::Api
                | Reach::Target
                | Reach::Selected => false,
            };
            let because = cause.members.get(uid)?;
            let held = how.while_held && cause.fired.is_some();
            let explains = fits && because.explains(held) && cause.is_quorate();
            (explains && cause.tells_of(because)).then_some(Cause {
                entry: cause,
                is_urged: how.urged,
                explained: Explained::Yes,
            })
        });
        let subject = &effect.key.subject;
        let of_subject = self
            .about(subject.clone())
            .map(|cause| (Reach::Subject, cause));
        let on_node =
            (!member.node.is_empty()).then(|| Subject::cluster_scoped("Node", &member.node));
        let on_node = on_node.into_iter().flat_map(|node| self.about(node));
        let on_node = on_node.map(|cause| (Reach::Node, cause));
        let of_claims = member.claims.iter().flat_map(|claim| {
            self.about(Subject {
                kind: KindId::PersistentVolumeClaim.as_str().into(),
                namespace: subject.namespace.clone(),
                name: claim.clone(),
            })
        });
        let of_claims = of_claims.map(|cause| (Reach::Claim, cause));
        let in_namespace = (!subject.namespace.is_empty())
            .then(|| Subject::cluster_scoped("Namespace", &subject.namespace));
        let in_namespace = in_namespace
            .into_iter()
            .flat_map(|namespace| self.about(namespace));
        let in_namespace = in_namespace.map(|cause| (Reach::Namespace, cause));
        let beyond = of_subject
            .chain(on_node)
            .chain(of_claims)
            .chain(in_namespace)
            .chain(self.of_api(effect, member))
            .chain(self.of_target(subject, member))
            .chain(self.of_selected(subject, member));
        let beyond = beyond.filter_map(move |(reach, cause)| {
            let how = explains(cause.rule, effect.rule).filter(|how| how.reach == reach)?;
            cause.explains(how.while_held).then(|| Cause {
                entry: cause,
                is_urged: how.urged,
                explained: if cause.explains(false) {
                    Explained::ByAnother
                } else {
                    Explained::Yes
                },
            })
        });
        of_object
            .chain(beyond)
            .chain(self.causes_in_pods(effect, member))
            .filter(|cause| self.is_served(cause.entry))
    }

    /// What explains a member by way of the pods that it leads to.
    fn causes_in_pods<'a>(
        &'a self,
        effect: &'a Entry,
        member: &'a Member,
    ) -> impl Iterator<Item = Cause<'a>> + 'a {
        let of_pod = |uid| {
            self.objects
                .get(uid)
                .into_iter()
                .flat_map(|pod| &pod.alerts)
        };
        let causes = member.pods().iter().flat_map(move |uid| {
            of_pod(uid).filter_map(move |key| Some((uid, self.alerts.get(key)?)))
        });
        causes.filter_map(move |(uid, cause)| {
            let how = explains(cause.rule, effect.rule).filter(|how| how.reach == Reach::Pod)?;
            let because = cause.members.get(uid)?;
            let held = how.while_held && cause.fired.is_some();
            let explains = because.explains(held) && cause.is_quorate();
            (explains && cause.tells_of(because)).then(|| Cause {
                entry: cause,
                is_urged: how.urged,
                explained: if because.explains(false) {
                    Explained::ByAnother
                } else {
                    Explained::Yes
                },
            })
        })
    }

    /// Works out again whether an alert is explained by pods that its objects lead to. One of them may have joined an alert that stood already, which is told to
    /// nobody.
    pub(super) fn look_at_pods(&mut self, key: &Arc<AlertKey>, now: Timestamp) {
        let entry = self.alerts.get(key);
        let entry = entry.filter(|entry| leads_to_pods(entry.rule));
        let members = entry.into_iter().flat_map(|entry| entry.members.keys());
        for uid in members.cloned().collect::<Vec<_>>() {
            self.explain_member(key, &uid, now);
        }
    }

    /// The alerts about APIs that a member needs.
    fn of_api<'a>(
        &'a self,
        effect: &'a Entry,
        member: &'a Member,
    ) -> impl Iterator<Item = (Reach, &'a Entry)> + 'a {
        let apis =
            may_need_api(effect.rule).then(|| self.of_kind(KindId::ApiService.as_str(), None));
        let apis = apis.into_iter().flatten();
        apis.filter(|api| needs_api(effect.rule, &member.face.reason, &api.key.subject.name))
            .map(|cause| (Reach::Api, cause))
    }

    /// The alerts about the workload that a member scales, if it would get its metrics from its pods.
    fn of_target<'a>(
        &'a self,
        subject: &'a Subject,
        member: &'a Member,
    ) -> impl Iterator<Item = (Reach, &'a Entry)> + 'a {
        let target = member
            .target()
            .filter(|_| lacks_pod_metrics(&member.face.reason));
        let about = target.into_iter().flat_map(|target| {
            self.about(Subject {
                kind: target.kind.clone(),
                namespace: subject.namespace.clone(),
                name: target.name.clone(),
            })
        });
        about.map(|cause| (Reach::Target, cause))
    }

    /// The alerts about workloads whose pods a member selects.
    fn of_selected<'a>(
        &'a self,
        subject: &'a Subject,
        member: &'a Member,
    ) -> impl Iterator<Item = (Reach, &'a Entry)> + 'a {
        let selector = member.selector().into_iter();
        let selected = selector.flat_map(move |selector| {
            let workloads = SELECTED.iter();
            let entries =
                workloads.flat_map(|kind| self.of_kind(kind.as_str(), Some(&subject.namespace)));
            entries.filter(|entry| entry.is_selected(selector))
        });
        selected.map(|cause| (Reach::Selected, cause))
    }

    /// The alerts whose subject is of a kind, of all namespaces or of one: they are neighbours.
    fn of_kind<'a>(
        &'a self,
        kind: &'a str,
        namespace: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Entry> + 'a {
        let first = AlertKey {
            subject: Subject {
                kind: kind.into(),
                namespace: namespace.unwrap_or_default().into(),
                name: "".into(),
            },
            rule: "",
            part: None,
        };
        let from_it = self.alerts.range::<AlertKey, _>(first..);
        let entries = from_it.map(|(_, entry)| entry);
        entries.take_while(move |entry| {
            let subject = &entry.key.subject;
            *subject.kind == *kind
                && namespace.is_none_or(|namespace| *subject.namespace == *namespace)
        })
    }

    /// Whether somebody would be told of an alert when it fires.
    fn is_served(&self, entry: &Entry) -> bool {
        let mut unserved = self.unserved.iter();
        !unserved.any(|shard| shard.owns(&entry.shard_key))
    }

    /// Takes note of the shards that nobody serves: their alerts explain no others, for nobody is told of them.
    pub fn set_unserved(&mut self, shards: &BTreeSet<Shard>, now: Timestamp) {
        if self.unserved == *shards {
            return;
        }
        self.unserved.clone_from(shards);
        let members = self.alerts.values().flat_map(|entry| {
            let uids = entry.members.keys();
            uids.map(|uid| (Arc::clone(&entry.key), uid.clone()))
        });
        for (key, uid) in members.collect::<Vec<_>>() {
            self.explain_member(&key, &uid, now);
        }
    }

    /// Looks again at what is explained by the alerts that have begun or ceased to explain others, beyond their objects. There is no index of who is on a node, needs a
    /// claim or is in a namespace: all alerts are gone through, but once for all such causes, since a storm brings many of them at once.
    pub(super) fn explain_beyond(&mut self, now: Timestamp) {
        let causes = std::mem::take(&mut self.stirred);
        let mut reached: BTreeSet<(Arc<AlertKey>, Box<str>)> = BTreeSet::new();
        let mut reach = |entry: &Entry, fits: &dyn Fn(&Member) -> bool| {
            let members = entry.members.iter().filter(|(_, member)| fits(member));
            reached.extend(members.map(|(uid, _)| (Arc::clone(&entry.key), uid.clone())));
        };
        let mut nodes: HashSet<&str> = HashSet::new();
        let mut claims: HashSet<(&str, &str)> = HashSet::new();
        let mut namespaces: HashSet<&str> = HashSet::new();
        let mut apis = false;
        for cause in &causes {
            let subject = &cause.subject;
            for entry in self.about(subject.clone()) {
                reach(entry, &|_| true);
            }
            match &*subject.kind {
                "Node" => _ = nodes.insert(&*subject.name),
                "PersistentVolumeClaim" => _ = claims.insert((&*subject.namespace, &*subject.name)),
                "Namespace" => _ = namespaces.insert(&*subject.name),
                "APIService" => apis = true,
                _ => {
                    let namespace = Some(&*subject.namespace);
                    for entry in self.of_kind(KindId::HorizontalPodAutoscaler.as_str(), namespace) {
                        reach(entry, &|member| {
                            member.target().is_some_and(|target| {
                                *target.name == *subject.name && *target.kind == *subject.kind
                            })
                        });
                    }
                    for entry in self.of_kind(SERVICE, namespace) {
                        reach(entry, &|member| !member.pods().is_empty());
                    }
                    let gone = self.alerts.get(cause).is_none_or(Entry::is_over);
                    for entry in self.of_kind(KindId::PodDisruptionBudget.as_str(), namespace) {
                        reach(entry, &|member| {
                            // What is over can no longer be asked whom it explained.
                            let mut selector = member.selector().into_iter();
                            gone || selector
                                .any(|selector| self.alerts[cause].is_selected(selector))
                        });
                    }
                }
            }
        }
        if apis {
            for kind in [KindId::HorizontalPodAutoscaler, KindId::Namespace] {
                for entry in self.of_kind(kind.as_str(), None) {
                    reach(entry, &|_| may_need_api(entry.rule));
                }
            }
        }
        if !(nodes.is_empty() && claims.is_empty() && namespaces.is_empty()) {
            for entry in self.alerts.values() {
                let namespace = &*entry.key.subject.namespace;
                let in_namespace = namespaces.contains(namespace);
                reach(entry, &|member| {
                    let mut needs = member.claims.iter();
                    in_namespace
                        || nodes.contains(&*member.node)
                        || needs.any(|claim| claims.contains(&(namespace, &**claim)))
                });
            }
        }
        for (key, uid) in reached {
            self.explain_member(&key, &uid, now);
        }
    }

    /// Notes which of the alerts about which something new was seen explain others, before any of them is decided: else it would depend on their order what fires.
    pub(super) fn note_causes(&mut self, now: Timestamp) {
        for key in self.unsettled.iter().cloned().collect::<Vec<_>>() {
            self.note_cause(&key, now);
        }
        self.explain_beyond(now);
    }

    /// Notes whether an alert explains others, and what is to be looked at again if that has changed.
    pub(super) fn note_cause(&mut self, key: &Arc<AlertKey>, now: Timestamp) {
        let Some(entry) = self.alerts.get_mut(key) else {
            return;
        };
        self.census.count(entry, now);
        if !entry.note_standing() {
            return;
        }
        let rule = entry.rule;
        if rule.quorum > 1 {
            // Its own objects are looked at whenever they change, but not when others do.
            for uid in entry.members.keys().cloned().collect::<Vec<_>>() {
                self.explain(&uid, now);
            }
        }
        if reaches_beyond(rule) {
            self.stirred.insert(Arc::clone(key));
        }
    }

    /// An alert that would fire if nothing explained it makes its causes fire. Not those that stand beside one of which somebody knows: they have their own time.
    pub(super) fn urge(&mut self, key: &Arc<AlertKey>, now: Timestamp) {
        let Some(effect) = self.alerts.get_mut(key) else {
            return;
        };
        let looked_at = std::mem::take(&mut effect.looked_at);
        let urging = effect.urging(now);
        let before = std::mem::replace(&mut effect.urging, urging);
        let Some((severity, due)) = urging else {
            return;
        };
        // It may have thousands of members, and is settled whenever one of them changes.
        let patience = effect.patient_until.take();
        let all = urging != before || patience.is_some_and(|until| until <= now);
        let mut patience = patience.filter(|_| !all);
        let is_news = |uid: &str| all || looked_at.contains(uid);
        let Some(effect) = self.alerts.get(key) else {
            return;
        };
        let mut told: BTreeMap<&AlertKey, bool> = BTreeMap::new();
        let mut urged: BTreeSet<Arc<AlertKey>> = BTreeSet::new();
        let members = effect.members.iter();
        for (uid, member) in
            members.filter(|(uid, member)| member.explained != Explained::No && is_news(uid))
        {
            let causes = self.causes(effect, uid, member);
            let causes: Vec<_> = causes
                .filter(|cause| cause.is_urged)
                .map(|cause| {
                    let told = told.entry(&cause.entry.key);
                    let told = *told.or_insert_with(|| self.is_told(cause.entry));
                    (cause.entry, told)
                })
                .collect();
            let somebody_knows = causes.iter().any(|(_, told)| *told);
            for (cause, _) in causes.iter().filter(|(_, told)| *told == somebody_knows) {
                match self.too_young(effect, cause, now) {
                    Some(until) if !somebody_knows => {
                        patience = Some(patience.map_or(until, |earlier| earlier.min(until)));
                    }
                    _ => _ = urged.insert(Arc::clone(&cause.key)),
                }
            }
        }
        self.be_patient(key, patience);
        for cause in urged {
            if let Some(entry) = self.alerts.get_mut(&cause)
                && entry.urge(severity, due)
            {
                self.unsettled.insert(cause);
            }
        }
    }

    /// Until when a cause is not made to fire by its effect: while a `DaemonSet` lacks pods only on nodes that are so young that they are not expected to run yet.
    /// They may still fire in their own time.
    fn too_young(&self, effect: &Entry, cause: &Entry, now: Timestamp) -> Option<Timestamp> {
        if effect.rule.kind != KindId::DaemonSet || cause.rule.kind != KindId::Pod {
            return None;
        }
        let members = cause.members.values().filter(|member| member.seen);
        let young = members.map(|member| self.census.young_until(&member.node, now));
        young.reduce(|a, b| Some(a?.min(b?))).flatten()
    }

    /// The alert is looked at again when its patience is over.
    fn be_patient(&mut self, key: &Arc<AlertKey>, until: Option<Timestamp>) {
        let (Some(until), Some(entry)) = (until, self.alerts.get_mut(key)) else {
            return;
        };
        entry.patient_until = Some(until);
        if entry.deadline.is_some_and(|deadline| deadline <= until) {
            return;
        }
        if let Some(deadline) = entry.deadline.replace(until) {
            self.timers.remove(&(deadline, Arc::clone(key)));
        }
        self.timers.insert((until, Arc::clone(key)));
    }

    /// Whether an alert fires, or one that explains it.
    fn is_told(&self, entry: &Entry) -> bool {
        let mut members = entry.members.iter();
        entry.fired.is_some()
            || members.any(|(uid, member)| {
                member.explained != Explained::No
                    && self
                        .causes(entry, uid, member)
                        .any(|cause| self.is_told(cause.entry))
            })
    }
}
