//! What a replica is to do: the six rules as one pure function.

use std::collections::BTreeSet;

use tokio::time::Instant;

use super::{Epoch, HASH_ID, HeldBy, Holder, Lease, Record, Shard, View};

/// What to do next. All of it is conditional on the version of what it was decided from, and repeated until the view shows that it is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Take the Lease of this shard, or renew it.
    Hold(Shard),
    /// Stop serving this shard, let the sends in flight end, and free its Lease.
    Release(Shard),
    /// Ask the holder of this shard to let go.
    Claim(Shard),
    /// Say on the Lease that nothing older than this epoch is served any more, once that is true.
    Acknowledge(Shard, Epoch),
    /// Write the record.
    WriteRecord(Record),
    /// Delete the Lease of a shard of a generation that is over.
    DeleteLease(Shard),
    /// Delete the state of a shard of a generation that is over.
    DeleteState(Shard),
}

/// What is decided from: what a replica sees, who it is, and its own clock.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    /// What it sees.
    pub view: &'a View,
    /// Who it is.
    pub me: &'a Holder,
    /// Whether orphans have an heir also where no generation changes.
    pub takeover: bool,
    /// Its own monotonic clock.
    pub now: Instant,
}

/// What to do, in this order.
pub fn decide(situation: Situation<'_>) -> Vec<Action> {
    match situation.view.record() {
        None => situation.first_record(),
        // Another version of the program, which sends keys to other shards: with the same total the two would page for each other's keys. It takes no part, holds
        // nothing and does not become ready, so that its rollout stops at the first pod; what it does not hold has an heir.
        Some(record) if &*record.hash != HASH_ID => situation.leave(),
        Some(record) => {
            let mut actions = situation.leases(record);
            actions.extend(match record.previous {
                Some(previous) => situation.end_of_hand_over(record, previous),
                None => situation.between_hand_overs(record),
            });
            actions
        }
    }
}

impl Situation<'_> {
    /// For a replica that takes no part: it lets go of what it holds.
    pub(super) fn leave(&self) -> Vec<Action> {
        let leases = self.view.leases();
        let mine = leases.filter(|(_, lease)| lease.held_by.is(self.me));
        mine.map(|(shard, _)| Action::Release(shard)).collect()
    }

    // === Who is there ===

    /// Whether somebody holds a shard, as far as can be told.
    fn is_held(&self, shard: Shard) -> bool {
        let holder = self.view.lease(shard).map(|lease| &lease.held_by);
        holder.is_some_and(|holder| *holder != HeldBy::Nobody)
            && self.view.is_fresh(shard, self.now)
    }

    /// The ordinals of the replicas that hold any shard, of any generation, and one's own: a replica holds its own shard whenever it is up.
    fn live(&self) -> BTreeSet<u32> {
        self.view
            .leases()
            .filter(|(shard, _)| self.is_held(*shard))
            .filter_map(|(_, lease)| lease.held_by.replica())
            .map(|holder| holder.ordinal)
            .chain([self.me.ordinal])
            .collect()
    }

    /// Whether each shard of a generation is held by its own replica, of this index and this total: not by an heir, nor by a replica of another generation.
    fn is_whole(&self, total: u32) -> bool {
        Shard::all(total).all(|shard| self.is_held(shard) && self.is_in_own_hands(shard))
    }

    fn is_in_own_hands(&self, shard: Shard) -> bool {
        let lease = self.view.lease(shard);
        lease
            .and_then(|lease| lease.held_by.replica())
            .is_some_and(|holder| holder.owns(shard))
    }

    /// A Lease that cannot be seen has acknowledged nothing: whoever held it may serve still.
    fn has_acknowledged(&self, shard: Shard, epoch: Epoch) -> bool {
        let lease = self.view.lease(shard);
        lease.is_some_and(|lease| lease.acknowledged >= epoch)
    }

    // === Rule 1: own first ===

    /// There is no record: this is the first start ever, or it was deleted. It is written with an epoch above every one in sight, so that no
    /// acknowledgement, and no state, of a life before counts for the new one.
    fn first_record(&self) -> Vec<Action> {
        let of_leases = self
            .view
            .leases()
            .flat_map(|(_, lease)| [lease.acknowledged, lease.adopted]);
        let of_states = self.view.states().map(|(_, epoch)| epoch);
        let highest = of_leases.chain(of_states).max().unwrap_or_default();
        let mut actions = vec![Action::WriteRecord(Record {
            epoch: highest.saturating_add(1),
            active: self.me.total,
            previous: None,
            hash: HASH_ID.into(),
        })];
        let own = self.me.shard();
        let mine = self
            .view
            .lease(own)
            .is_some_and(|lease| lease.held_by.is(self.me));
        if mine || !self.is_held(own) {
            actions.push(Action::Hold(own));
        }
        actions
    }

    // === Rule 2: orphans have an heir ===

    /// The shards that this replica should hold: its own, and of the generations that matter those with its index, and those to which it is the heir.
    fn wanted(&self, record: &Record) -> BTreeSet<Shard> {
        let live = self.live();
        let heirs = self.takeover || !self.is_steady(record);
        let mut wanted = BTreeSet::from([self.me.shard()]);
        for total in [Some(record.active), record.previous].into_iter().flatten() {
            wanted.extend(Shard::all(total).filter(|shard| {
                shard.index == self.me.ordinal
                    || heirs && heir(shard.index, &live) == self.me.ordinal
            }));
        }
        wanted
    }

    /// Whether only one generation is about. Takeover that is turned off is so only then: without heirs, a hand-over would wait for ever for a replica that is
    /// not replaced any more, or has restarted with another total.
    fn is_steady(&self, record: &Record) -> bool {
        let of_active = |holder: &Holder| holder.total == record.active;
        record.previous.is_none()
            && of_active(self.me)
            && self
                .view
                .leases()
                .filter(|(shard, _)| self.is_held(*shard))
                .all(|(_, lease)| lease.held_by.replica().is_none_or(of_active))
    }

    /// The ordinal of the replica that serves a shard, or would have to: that of its index if it is up, or else the next one.
    pub(super) fn heir_of(&self, shard: Shard) -> u32 {
        heir(shard.index, &self.live())
    }

    fn leases(&self, record: &Record) -> Vec<Action> {
        let wanted = self.wanted(record);
        let held = self
            .view
            .leases()
            .filter(|(_, lease)| lease.held_by.is(self.me));
        let held: BTreeSet<_> = held.map(|(shard, _)| shard).collect();
        let mut actions = Vec::new();
        for &shard in wanted.union(&held) {
            let lease = self.view.lease(shard);
            if !held.contains(&shard) {
                actions.extend(self.take(shard, lease));
            } else if !wanted.contains(&shard)
                || lease.is_some_and(|lease| self.gives_way(shard, lease))
            {
                actions.push(Action::Release(shard));
            } else {
                actions.push(Action::Hold(shard));
                // Rule 4. Also on the Leases of the generation that is over: an heir acknowledges for the dead, or nobody would.
                if !self.has_acknowledged(shard, record.epoch) {
                    actions.push(Action::Acknowledge(shard, record.epoch));
                }
            }
        }
        actions
    }

    /// How to get a shard that somebody else holds, or nobody.
    fn take(&self, shard: Shard, lease: Option<&Lease>) -> Option<Action> {
        let Some(lease) = lease else {
            return Some(Action::Hold(shard));
        };
        let mine = lease.claimed_by.as_ref() == Some(self.me);
        if self.is_held(shard) {
            let before = self.comes_before(lease.held_by.replica(), shard);
            return (before && !mine).then_some(Action::Claim(shard));
        }
        // It was let go for somebody: who gets the first turn, for as long as a Lease lasts.
        let reserved = lease
            .claimed_by
            .as_ref()
            .filter(|_| lease.held_by == HeldBy::Nobody && self.view.is_fresh(shard, self.now));
        let others =
            reserved.is_some_and(|claimant| !mine && !self.comes_before(Some(claimant), shard));
        (!others).then_some(Action::Hold(shard))
    }

    /// Whether this replica may claim a shard from another. The one of the exact index and total may from any; one of the index from an
    /// heir. Two of the same rank never claim from each other: the second pod of one ordinal stands by.
    fn comes_before(&self, other: Option<&Holder>, shard: Shard) -> bool {
        let exact = self.me.owns(shard) && !other.is_some_and(|other| other.owns(shard));
        let of_index = shard.index == self.me.ordinal
            && other.is_none_or(|other| other.ordinal != shard.index);
        exact || of_index
    }

    /// Whether a claim on a shard that this replica holds is to be answered by letting go.
    fn gives_way(&self, shard: Shard, lease: &Lease) -> bool {
        !self.me.owns(shard)
            && lease.claimed_by.as_ref().is_some_and(|claimant| {
                claimant.owns(shard)
                    || claimant.ordinal == shard.index && shard.index != self.me.ordinal
            })
    }

    // === Rule 3: a new generation takes over whole ===

    /// During a hand-over there is one thing to decide: whether it is over. It is when nobody serves the previous generation any more, and each shard of
    /// the active one is served and has written down all that it takes over.
    fn end_of_hand_over(&self, record: &Record, previous: u32) -> Vec<Action> {
        let left = Shard::all(previous).all(|shard| self.has_acknowledged(shard, record.epoch));
        let arrived = |shard| {
            let lease = self.view.lease(shard);
            self.is_held(shard)
                && self.has_acknowledged(shard, record.epoch)
                && lease.is_some_and(|lease| lease.adopted == record.epoch)
        };
        let over = left && Shard::all(record.active).all(arrived);
        let end = Record {
            previous: None,
            ..record.clone()
        };
        over.then_some(Action::WriteRecord(end))
            .into_iter()
            .collect()
    }

    /// Otherwise a generation that is whole may become active, and what is left of older ones goes.
    fn between_hand_overs(&self, record: &Record) -> Vec<Action> {
        let (own, active) = (self.me.total, record.active);
        let mut actions = Vec::new();
        // Not while the active one is whole, too: two complete sets would take turns for ever.
        if own != active && self.is_whole(own) && !self.is_whole(active) {
            actions.push(Action::WriteRecord(Record {
                epoch: record.epoch.saturating_add(1),
                active: own,
                previous: Some(active),
                hash: record.hash.clone(),
            }));
        }
        let shards = self.view.leases().map(|(shard, _)| shard);
        let over = shards.filter(|shard| {
            ![active, own].contains(&shard.total) && !self.view.is_fresh(*shard, self.now)
        });
        actions.extend(over.map(Action::DeleteLease));
        // Rule 4. By its epoch, not its total: a state may be seen earlier than the record that it belongs to, and then it is of the future, not of the past.
        let old = self
            .view
            .states()
            .filter(|(_, epoch)| *epoch < record.epoch);
        actions.extend(old.map(|(shard, _)| Action::DeleteState(shard)));
        actions
    }
}

/// Who serves an index: its replica, or else the next one in the ring.
fn heir(index: u32, live: &BTreeSet<u32>) -> u32 {
    let next = live.range(index..).next().or_else(|| live.first());
    next.copied().unwrap_or(index)
}
