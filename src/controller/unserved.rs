//! Shards that nobody serves, on the way of all alerts.

use std::sync::Arc;

use tokio::time::Instant;
use tracing::{error, info, warn};

use super::{Controller, queues};
use crate::{
    alert::{Labels, Resolution, Transition},
    cluster::Subject,
    notify::{Debt, Handle},
    rules::SHARD_NOT_SERVED,
    shard::{
        ShardKey,
        ownership::{Alerts, Replica, Shard},
    },
    time::before,
    unserved::{About, Seen, Step, Unserved, stands},
};

impl Controller {
    /// Pages for shards that nobody serves, too, as far as that is to be seen from the custody.
    #[must_use]
    pub fn watching_over_shards(mut self, unserved: Option<Unserved>) -> Self {
        self.unserved = unserved;
        self
    }

    /// Looks after the shards that nobody serves.
    pub(super) fn look_after_shards(&mut self) {
        let (Some(custody), Some(mut unserved)) = (&self.custody, self.unserved.take()) else {
            return;
        };
        let steps = custody
            .keeper()
            .look(|replica, now| decide(&mut unserved, replica, now));
        for step in steps {
            match step {
                Step::Look(shard) => self.look_at(shard),
                Step::Page(shard, since) => self.page_for(&mut unserved, shard, since),
                Step::Resolve(identity, why) => self.resolve_for(&mut unserved, &identity, why),
            }
        }
        self.engine
            .set_unserved(unserved.shards(), self.clock.now());
        self.unserved = Some(unserved);
    }

    fn look_at(&self, shard: Shard) {
        if let Some(custody) = &self.custody {
            custody.keeper().update(|replica, _| replica.look_at(shard));
        }
    }

    fn page_for(&self, unserved: &mut Unserved, shard: Shard, since: Instant) {
        let Some(custody) = self.custody.as_ref().filter(|custody| custody.has_any()) else {
            return;
        };
        let mine = |subject: &Subject| custody.has(&ShardKey::of(subject));
        let subject = unserved.subjects(shard).find(mine);
        let Some(subject) = subject else {
            warn!("cannot page that nobody serves shard {shard}: has charge of too little");
            return;
        };
        error!("nobody serves shard {shard}: nobody is paged for its part of the cluster");
        // One that is still owed the end of the last such page has it under the subject of that.
        let identity = unserved.labels(shard);
        let own = |receiver: &Handle| receiver.subject_of(&identity);
        let subjects: Vec<Subject> = self
            .receivers
            .iter()
            .map(|receiver| own(receiver).unwrap_or_else(|| subject.clone()))
            .collect();
        let now = self.clock.now();
        let starts_at = before(now, since.elapsed());
        let all = subjects.iter().cloned().chain([subject]).collect();
        let notices = unserved.page(shard, all, starts_at, now);
        self.metrics
            .transition(Transition::Fired, SHARD_NOT_SERVED.severity);
        let mut queues = queues(&self.receivers);
        for notice in notices.into_iter().map(Arc::new) {
            let theirs = queues.iter_mut().zip(&subjects);
            for (queue, _) in theirs.filter(|(_, own)| **own == notice.alert.subject) {
                queue.push(Arc::clone(&notice));
            }
            self.write_down(&notice.alert.subject, &queues, &[]);
        }
    }

    fn resolve_for(&self, unserved: &mut Unserved, identity: &Labels, why: Resolution) {
        let notices = unserved.resolve(identity, why, self.clock.now());
        let shard = identity.get("shard").unwrap_or_default();
        match why {
            Resolution::Recovered => info!("shard {shard} is served again"),
            Resolution::Deleted => info!("shard {shard} is not needed any more"),
        }
        self.metrics
            .transition(Transition::Resolved(why), SHARD_NOT_SERVED.severity);
        let mut queues = queues(&self.receivers);
        for notice in notices.into_iter().map(Arc::new) {
            let subject = &notice.alert.subject;
            for queue in &mut queues {
                // Only who holds it: to another it would be news that it was paged at all.
                let holds = |debt: &Debt| debt.identity == *identity && stands(debt);
                if queue.debts(subject).iter().any(holds) {
                    queue.push(Arc::clone(&notice));
                }
            }
            self.write_down(subject, &queues, &[]);
        }
    }
}

fn decide<A: Alerts>(unserved: &mut Unserved, replica: &Replica<A>, now: Instant) -> Vec<Step> {
    let me = replica.me();
    let covered = replica.view().record().map(|_| replica.coverage(now));
    let seen = Seen {
        covered: covered.as_deref(),
        serves_own: replica.serves(me.shard(), now),
    };
    let about = |shard| About {
        is_heir: replica.heir_of(shard, now) == me.ordinal,
        looked: replica.looked_at(shard),
        lasts: replica
            .view()
            .lease(shard)
            .map_or_else(Default::default, |lease| lease.duration),
    };
    unserved.decide(seen, about, now)
}

#[cfg(test)]
mod tests;
