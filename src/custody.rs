//! What this replica has charge of, and what it remembers of that: between the controller, the receivers' queues, and the coordinator.

mod unwritten;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::{
    alert::{Memory, Notice},
    cluster::Subject,
    coordinator::Coordinator,
    notify::{self, Debt, Ledger},
    shard::{
        ShardKey,
        ownership::{Change, Replica, Shard},
    },
    state::{Record as _, Records, Remembered},
    time::before,
};
use unwritten::Unwritten;

/// The coordinator of the program as it runs.
pub type Keeper = Coordinator<Records<Remembered>>;

/// For how long the end of an alert that another replica has charge of is kept in mind: that replica may have died before it could tell anybody. Longer than it takes
/// until that one's Lease is over and somebody has taken it, also if that fails a few times; shorter than the ends are remembered in the state.
const WONDER: Duration = Duration::from_secs(10 * 60);

/// How many such ends are kept in mind at most: a storm elsewhere must not cost the memory of this replica.
const MOST_ENDS: usize = 20_000;

/// What this replica has charge of.
#[derive(Debug)]
pub struct Custody {
    keeper: Keeper,
    changes: UnboundedReceiver<Change>,
    /// The shards, and in a hand-over the portions of them, of which the state was read.
    portions: BTreeMap<Shard, BTreeSet<Option<Shard>>>,
    /// This replica could not renew its Leases in time: it was out of touch.
    out_of_touch: bool,
    /// Alerts of others that have ended of late, oldest first.
    ended: VecDeque<Arc<Notice>>,
    unwritten: Unwritten,
}

/// What was taken charge of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Portion {
    shard: Shard,
    /// Only what this shard of the previous generation owned.
    old: Option<Shard>,
}

/// What has become of the charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// There is more of it: everything that is remembered about it, and what fires in it, is to be taken over.
    Take(Portion),
    /// There is less of it: what is in the queues of it is another's.
    Drop(Shard),
    /// The answers of the gate may have changed.
    Ask,
    /// This replica is in touch again, after it was not: what it has seen may be long over.
    LookAnew,
}

impl fmt::Display for Portion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shard {}", self.shard)?;
        match self.old {
            Some(old) => write!(f, ", as far as it was {old}"),
            None => Ok(()),
        }
    }
}

impl Portion {
    /// Whether it is of this shard.
    pub fn is_of(&self, shard: Shard) -> bool {
        self.shard == shard
    }

    /// Whether a key is in it.
    pub fn has(&self, key: &ShardKey) -> bool {
        self.shard.owns(key) && self.old.is_none_or(|old| old.owns(key))
    }
}

impl Custody {
    /// Has charge of nothing yet. `changes` is what the keeper tells.
    pub fn new(keeper: Keeper, changes: UnboundedReceiver<Change>) -> Self {
        Self {
            keeper,
            changes,
            portions: BTreeMap::new(),
            out_of_touch: false,
            ended: VecDeque::new(),
            unwritten: Unwritten::default(),
        }
    }

    /// Whether this replica has charge of a key: its state was read, and is kept by nobody else. Whether it may send at this moment is another question.
    pub fn has(&self, key: &ShardKey) -> bool {
        self.portions.iter().any(|(shard, olds)| {
            shard.owns(key) && olds.iter().any(|old| old.is_none_or(|old| old.owns(key)))
        })
    }

    /// Whether this replica has charge of anything.
    pub fn has_any(&self) -> bool {
        !self.portions.is_empty()
    }

    /// The coordinator.
    pub const fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    /// Waits for the next change.
    pub async fn changed(&mut self) -> Turn {
        match self.changes.recv().await {
            Some(change) => self.note(&change),
            // The coordinator has ended, and so will the program.
            None => std::future::pending().await,
        }
    }

    fn note(&mut self, change: &Change) -> Turn {
        match *change {
            Change::Known(shard, old) => Turn::Take(Portion { shard, old }),
            Change::Forgot(shard) => {
                self.portions.remove(&shard);
                let mut unwritten = None;
                let take = |replica: &mut Replica<_>, _| unwritten = replica.take_unwritten(shard);
                self.keeper.update(take);
                if let Some(records) = unwritten {
                    self.unwritten.keep(&records);
                }
                Turn::Drop(shard)
            }
            Change::Left(shard) => {
                // If it had let go of it, or another had taken it, it would see so.
                let still_mine = self.keeper.look(|replica, _| {
                    let lease = replica.view().lease(shard);
                    lease.is_some_and(|lease| lease.held_by.is(replica.me()))
                });
                self.out_of_touch |= still_mine;
                Turn::Ask
            }
            Change::Serves(_) if std::mem::take(&mut self.out_of_touch) => Turn::LookAnew,
            _ => Turn::Ask,
        }
    }

    /// Takes charge of a portion.
    pub fn take(&mut self, portion: Portion) {
        let Portion { shard, old } = portion;
        self.portions.entry(shard).or_default().insert(old);
    }

    /// What is remembered of what was taken charge of: what was read, and what this process could not write down when it had charge of it before.
    pub fn records(&mut self, portion: &Portion) -> Vec<(Subject, Arc<Remembered>)> {
        let read = self.keeper.look(|replica, _| {
            let records = replica.alerts(portion.shard).into_iter();
            records
                .flat_map(Records::iter)
                .filter(|(subject, _)| portion.has(&ShardKey::of(subject)))
                .map(|(subject, record)| (subject.clone(), Arc::clone(record)))
                .collect()
        });
        self.unwritten.add_to(read, |key| portion.has(key))
    }

    /// Keeps the end of somebody else's alert in mind.
    pub fn wonder(&mut self, notice: Notice) {
        self.unwritten.end(&notice);
        let oldest = before(notice.at, WONDER);
        let expired = |ended: &Arc<Notice>| ended.at < oldest;
        while self.ended.len() >= MOST_ENDS || self.ended.front().is_some_and(expired) {
            self.ended.pop_front();
        }
        self.ended.push_back(Arc::new(notice));
    }

    /// The ends in a portion of which it is not known that anybody was told.
    pub fn untold_ends(
        &mut self,
        portion: &Portion,
        records: &[(Subject, Arc<Remembered>)],
        now: Timestamp,
    ) -> Vec<Arc<Notice>> {
        let (inside, outside): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.ended)
            .into_iter()
            .partition(|ended| portion.has(&ended.alert.shard_key));
        self.ended = outside;
        let records: BTreeMap<_, _> = records
            .iter()
            .map(|(subject, record)| (subject, record))
            .collect();
        let told = |ended: &Notice| {
            let record = records.get(&ended.alert.subject);
            record.is_some_and(|record| record.has_ended(ended))
        };
        inside
            .into_iter()
            .filter(|ended| ended.at >= before(now, WONDER) && !told(ended))
            .collect()
    }

    /// Writes down what there is about a subject now, if it is in this replica's charge. What it promises is waited for.
    pub fn write_down(
        &self,
        subject: &Subject,
        memory: Memory,
        queues: &[notify::Queue<'_>],
        ended: &[&Notice],
        now: Timestamp,
    ) {
        let debts = queues
            .iter()
            .map(|queue| (queue.receiver(), queue.debts(subject)));
        change(&self.keeper, subject, |record| {
            record.memory = memory;
            for (receiver, debts) in debts {
                set_debts(record, receiver, debts);
            }
            for notice in ended {
                record.note_end(notice);
            }
            record.forget_ends(now);
        });
    }

    /// Forgets the ends that nobody can wonder about any more.
    pub fn forget_ends(&self, now: Timestamp) {
        for shard in self.portions.keys() {
            let old: Vec<Subject> = self.keeper.look(|replica, _| {
                let records = replica.alerts(*shard).into_iter().flat_map(Records::iter);
                records
                    .filter(|(_, record)| record.ended_before(now))
                    .map(|(subject, _)| subject.clone())
                    .collect()
            });
            for subject in old {
                change(&self.keeper, &subject, |record| record.forget_ends(now));
            }
        }
    }
}

/// Changes what is remembered of a subject, if this replica has charge of it, and if that makes a difference.
fn change(keeper: &Keeper, subject: &Subject, change: impl FnOnce(&mut Remembered)) {
    let key = ShardKey::of(subject);
    keeper.update(|replica, now| {
        let Some(shard) = replica.home(&key) else {
            return;
        };
        let before = replica
            .alerts(shard)
            .and_then(|records| records.get(subject))
            .map(Arc::clone);
        let mut after = before.as_deref().cloned().unwrap_or_default();
        change(&mut after);
        if before.as_deref() == Some(&after) || before.is_none() && after.is_empty() {
            return;
        }
        let promises = after.promises_more_than(before.as_deref());
        let ends = after.owes_more_than(before.as_deref());
        let Some(records) = replica.alerts_mut(shard) else {
            return;
        };
        records.update(subject, |record| *record = after);
        if promises {
            replica.promise(&key, now);
        } else if ends {
            replica.await_save(&key, now);
        }
    });
}

fn set_debts(record: &mut Remembered, receiver: &'static str, debts: Vec<Debt>) {
    if debts.is_empty() {
        record.receivers.remove(receiver);
    } else {
        record.receivers.insert(receiver.into(), debts);
    }
}

impl Ledger for Keeper {
    fn note(&self, receiver: &'static str, subject: &Subject, debts: Vec<Debt>) {
        change(self, subject, |record| set_debts(record, receiver, debts));
    }
}
