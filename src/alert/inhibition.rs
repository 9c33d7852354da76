//! What is explained now, by what, and what follows from it. Which rules explain which: see [`cause`](super::cause).

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;

use super::{
    Engine,
    cause::{Reach, explains, leads_to_pods, reaches_beyond},
    entry::{AlertKey, Entry, Member},
};
use crate::cluster::{KindId, Subject};

impl Engine {
    /// Works out which of the object's alerts are explained.
    pub(super) fn explain(&mut self, uid: &str) {
        let Some(known) = self.objects.get(uid) else {
            return;
        };
        for key in known.alerts.clone() {
            self.explain_member(&key, uid);
        }
    }

    fn explain_member(&mut self, key: &Arc<AlertKey>, uid: &str) {
        let Some(effect) = self.alerts.get(key) else {
            return;
        };
        let Some(member) = effect.members.get(uid) else {
            return;
        };
        let explained = self.causes(effect, uid, member).next().is_some();
        let Some(effect) = self.alerts.get_mut(key) else {
            return;
        };
        if effect.urging.is_some() {
            effect.looked_at.insert(uid.into());
        }
        if let Some(member) = effect.member_mut(uid)
            && member.explained != explained
        {
            member.explained = explained;
            self.unsettled.insert(Arc::clone(key));
        }
    }

    /// What explains a member of an alert, and whether that fires when the alert comes due.
    pub(super) fn causes<'a>(
        &'a self,
        effect: &'a Entry,
        uid: &'a str,
        member: &'a Member,
    ) -> impl Iterator<Item = (&'a Entry, bool)> + 'a {
        let known = self.objects.get(uid);
        let of_object = known.into_iter().flat_map(|known| &known.alerts);
        let of_object = of_object.filter_map(|key| self.alerts.get(key));
        let of_object = of_object.filter_map(move |cause| {
            let how = explains(cause.rule, effect.rule)?;
            let fits = match how.reach {
                Reach::Part => cause.key.part == effect.key.part,
                Reach::Object => true,
                Reach::Subject | Reach::Node | Reach::Pod | Reach::Claim | Reach::Namespace => {
                    false
                }
            };
            let because = cause.members.get(uid)?;
            let held = how.while_held && cause.fired.is_some();
            let explains = fits && because.explains(held) && cause.is_quorate();
            explains.then_some((cause, how.urged))
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
            .chain(in_namespace);
        let beyond = beyond.filter_map(move |(reach, cause)| {
            let how = explains(cause.rule, effect.rule).filter(|how| how.reach == reach)?;
            cause.explains(how.while_held).then_some((cause, how.urged))
        });
        of_object
            .chain(beyond)
            .chain(self.causes_in_pods(effect, member))
    }

    /// What explains a member by way of the pods that it leads to, and whether that fires when the alert comes due.
    fn causes_in_pods<'a>(
        &'a self,
        effect: &'a Entry,
        member: &'a Member,
    ) -> impl Iterator<Item = (&'a Entry, bool)> + 'a {
        let of_pod = |uid| {
            self.objects
                .get(uid)
                .into_iter()
                .flat_map(|pod| &pod.alerts)
        };
        let causes = member.pods.iter().flat_map(move |uid| {
            of_pod(uid).filter_map(move |key| Some((uid, self.alerts.get(key)?)))
        });
        causes.filter_map(move |(uid, cause)| {
            let how = explains(cause.rule, effect.rule).filter(|how| how.reach == Reach::Pod)?;
            let held = how.while_held && cause.fired.is_some();
            let explains = cause.members.get(uid)?.explains(held) && cause.is_quorate();
            explains.then_some((cause, how.urged))
        })
    }

    /// Works out again whether an alert is explained by pods that its objects lead to. One of them may have joined an alert that stood already, which is told to
    /// nobody.
    pub(super) fn look_at_pods(&mut self, key: &Arc<AlertKey>) {
        let entry = self.alerts.get(key);
        let entry = entry.filter(|entry| leads_to_pods(entry.rule));
        let members = entry.into_iter().flat_map(|entry| entry.members.keys());
        for uid in members.cloned().collect::<Vec<_>>() {
            self.explain_member(key, &uid);
        }
    }

    /// An alert has begun or ceased to explain others, beyond its objects: they are looked at again. It is rare for nodes, claims and namespaces, and so these
    /// have no index.
    pub(super) fn explain_beyond(&mut self, cause: &AlertKey) {
        let subject = &cause.subject;
        let mut reached: Vec<(Arc<AlertKey>, Box<str>)> = Vec::new();
        let mut reach = |entry: &Entry, fits: &dyn Fn(&Member) -> bool| {
            let members = entry.members.iter().filter(|(_, member)| fits(member));
            reached.extend(members.map(|(uid, _)| (Arc::clone(&entry.key), uid.clone())));
        };
        for entry in self.about(subject.clone()) {
            reach(entry, &|_| true);
        }
        // The alerts on Services are neighbours, those of a namespace too.
        let service = |name: &str| AlertKey {
            subject: Subject {
                kind: "Service".into(),
                namespace: subject.namespace.clone(),
                name: name.into(),
            },
            rule: "",
            part: None,
        };
        let services = self.alerts.range(service("")..).map(|(_, entry)| entry);
        let services = services.take_while(|entry| {
            let Subject {
                kind, namespace, ..
            } = &entry.key.subject;
            **kind == *"Service" && *namespace == subject.namespace
        });
        for entry in services {
            reach(entry, &|member| !member.pods.is_empty());
        }
        match &*subject.kind {
            "Node" => {
                for entry in self.alerts.values() {
                    reach(entry, &|member| member.node == subject.name);
                }
            }
            "PersistentVolumeClaim" => {
                let in_namespace =
                    |entry: &&Entry| entry.key.subject.namespace == subject.namespace;
                for entry in self.alerts.values().filter(in_namespace) {
                    reach(entry, &|member| member.claims.contains(&subject.name));
                }
            }
            "Namespace" => {
                for entry in self.alerts.values() {
                    reach(entry, &|_| entry.key.subject.namespace == subject.name);
                }
            }
            _ => {}
        }
        for (key, uid) in reached {
            self.explain_member(&key, &uid);
        }
    }

    /// Notes whether an alert explains others, beyond its objects, and what follows if that has changed.
    pub(super) fn note_cause(&mut self, key: &Arc<AlertKey>) {
        let Some(entry) = self.alerts.get_mut(key) else {
            return;
        };
        if !entry.note_standing() {
            return;
        }
        if entry.rule.quorum > 1 {
            // Its own objects are looked at whenever they change, but not when others do.
            for uid in entry.members.keys().cloned().collect::<Vec<_>>() {
                self.explain(&uid);
            }
        }
        if self
            .alerts
            .get(key)
            .is_some_and(|entry| reaches_beyond(entry.rule))
        {
            self.explain_beyond(key);
        }
    }

    /// An alert that would fire if nothing explained it makes its causes fire.
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
        let all = urging != before;
        let is_news = |uid: &str| all || looked_at.contains(uid);
        let Some(effect) = self.alerts.get(key) else {
            return;
        };
        let members = effect.members.iter();
        let causes: BTreeSet<_> = members
            .filter(|(uid, member)| member.explained && is_news(uid))
            .flat_map(|(uid, member)| self.causes(effect, uid, member))
            .filter(|(_, urged)| *urged)
            .map(|(cause, _)| Arc::clone(&cause.key))
            .collect();
        for cause in causes {
            if let Some(entry) = self.alerts.get_mut(&cause)
                && entry.urge(severity, due)
            {
                self.unsettled.insert(cause);
            }
        }
    }
}
