//! What is remembered about one subject.

use std::{borrow::Cow, collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Record;
use crate::{
    alert::{Labels, Memory, Notice, Transition},
    notify::{Besides, Debt, OwedDebt},
    time::before,
};

/// How long it is remembered that an alert has ended and all were told: longer than another replica, which takes over, wonders whether they were.
const ENDED: Duration = Duration::from_secs(15 * 60);

/// About how many bytes of JSON an alert, one of its members, and what a receiver holds of it take.
const ALERT_WEIGHT: usize = 400;
const MEMBER_WEIGHT: usize = 550;
const DEBT_WEIGHT: usize = 700;
/// The same for what a receiver has yet to be told.
const OWED_WEIGHT: usize = 1500;

/// What is remembered about one subject, so that whoever serves its shard next goes on as if nothing had happened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Remembered {
    /// What the engine knows.
    #[serde(default, skip_serializing_if = "Memory::is_empty")]
    pub memory: Memory,
    /// What each receiver holds and is owed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub receivers: BTreeMap<Cow<'static, str>, Vec<Debt>>,
    /// The alerts that have ended of late.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<Ended>,
    /// What is not understood. A later version that writes more than this one does has to be able to tell what of it still counts: here, what it belongs to may have
    /// ended meanwhile.
    #[serde(flatten)]
    pub besides: Besides,
}

/// An alert that has ended. Without it, a replica that takes over could not tell whether what it saw begin and end was told to anybody.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// The alert's identity.
    pub identity: Labels,
    /// When it ended.
    pub at: Timestamp,
}

impl Record for Remembered {
    fn is_empty(&self) -> bool {
        let Self {
            memory,
            receivers,
            ended,
            besides,
        } = self;
        memory.is_empty() && receivers.is_empty() && ended.is_empty() && besides.is_empty()
    }

    fn weight(&self) -> usize {
        let debts = || self.receivers.values().flatten();
        let owed = debts().filter(|debt| debt.owed.is_some());
        ALERT_WEIGHT * self.memory.len()
            + MEMBER_WEIGHT * self.memory.objects()
            + DEBT_WEIGHT * debts().count()
            + OWED_WEIGHT * owed.count()
            + DEBT_WEIGHT * (self.ended.len() + self.besides.len())
    }

    fn adopt(&mut self, older: &Self) {
        if self.is_empty() {
            self.clone_from(older);
            return;
        }
        // Of the alerts that only the older one knows, receivers may hold some that are over by now: nobody else would tell them.
        for (receiver, debts) in &older.receivers {
            let known = self.receivers.get(receiver).map_or(&[][..], Vec::as_slice);
            let identities = known.iter().map(|debt| &debt.identity);
            let seen: Vec<_> = identities
                .chain(self.ended.iter().map(|ended| &ended.identity))
                .collect();
            let missing: Vec<_> = debts
                .iter()
                .filter(|debt| !seen.contains(&&debt.identity))
                .cloned()
                .collect();
            if !missing.is_empty() {
                let debts = self.receivers.entry(receiver.clone()).or_default();
                debts.extend(missing);
            }
        }
        for (field, value) in &older.besides {
            self.besides.entry(field).or_insert_with(|| value.clone());
        }
    }
}

impl Remembered {
    /// Whether the end that a notice tells of is known here: another replica has seen to it.
    pub fn has_ended(&self, notice: &Notice) -> bool {
        let identity = notice.alert.identity();
        self.ended
            .iter()
            .any(|ended| ended.identity == identity && ended.at >= notice.alert.starts_at)
    }

    /// Whether any receiver holds or is owed anything.
    pub fn has_debts(&self) -> bool {
        !self.receivers.is_empty()
    }

    /// Adds what receivers hold and are owed by what the replica itself knows that has read this: it had charge of the subject before, and could not write it down.
    /// Somebody else may have had charge since. What they have written is newer.
    pub fn join(&mut self, unwritten: BTreeMap<Cow<'static, str>, Vec<Debt>>) {
        for (receiver, debts) in unwritten {
            for debt in debts {
                let is_over = |ended: &Ended| {
                    ended.identity == debt.identity && debt.starts_at() <= Some(ended.at)
                };
                let known = self.receivers.entry(receiver.clone()).or_default();
                match known
                    .iter_mut()
                    .find(|known| known.identity == debt.identity)
                {
                    Some(known) if known.has_had_nothing_since(&debt) => *known = debt,
                    Some(_) => {}
                    None if self.ended.iter().any(is_over) => {}
                    None => known.push(debt),
                }
            }
        }
        self.receivers.retain(|_, debts| !debts.is_empty());
    }

    /// Notes that an alert has ended.
    pub fn note_end(&mut self, notice: &Notice) {
        let identity = notice.alert.identity();
        self.ended.retain(|ended| ended.identity != identity);
        let at = notice.at;
        self.ended.push(Ended { identity, at });
    }

    /// Whether it remembers ends that nobody can wonder about any more.
    pub fn ended_before(&self, now: Timestamp) -> bool {
        self.ended
            .iter()
            .any(|ended| ended.at <= before(now, ENDED))
    }

    /// Forgets them.
    pub fn forget_ends(&mut self, now: Timestamp) {
        self.ended.retain(|ended| ended.at > before(now, ENDED));
    }

    /// Whether this has something to tell somebody that fires that `before` had not: a page, which must not leave before it is written down, or nobody
    /// would owe its resolve after a crash.
    pub fn promises_more_than(&self, before: Option<&Self>) -> bool {
        self.has_new_debt(before, |debt, owed| {
            debt.standing.is_none() || !matches!(owed.notice.transition, Transition::Resolved(_))
        })
    }

    /// Whether this has anything to tell anybody that `before` had not. Ends, too, are written down before they are told: what was told to be over, and began again
    /// while nobody served its shard, would look like the same alert that goes on, of which nobody needs to be told.
    pub fn owes_more_than(&self, before: Option<&Self>) -> bool {
        self.has_new_debt(before, |_, _| true)
    }

    fn has_new_debt(
        &self,
        before: Option<&Self>,
        counts: impl Fn(&Debt, &OwedDebt) -> bool,
    ) -> bool {
        self.receivers.iter().any(|(receiver, debts)| {
            let before = before.and_then(|before| before.receivers.get(receiver));
            debts.iter().any(|debt| {
                let known = before
                    .into_iter()
                    .flatten()
                    .find(|known| known.identity == debt.identity);
                debt.owed.as_ref().is_some_and(|owed| {
                    counts(debt, owed)
                        && known.is_none_or(|known| known.owed.as_ref() != Some(owed))
                })
            })
        })
    }
}

#[cfg(test)]
mod tests;
