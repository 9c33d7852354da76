//! What changes, in plain words, for the log.

use std::collections::BTreeSet;

use tokio::time::Instant;

use crate::shard::ownership::{
    Alerts, Change, HASH_ID, HeldBy, Holder, Record, Replica, Shard, Step,
};

/// Which part a replica plays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Part {
    /// It takes part, or may.
    #[default]
    Takes,
    /// Its own shard is held by another that is as good: of the same index and total, or no replica at all.
    StandsBy(HeldBy),
    /// Its own shard is held by another that will let go of it.
    Waits(HeldBy),
    /// The record has another hash than its own.
    None(Box<str>),
}

impl Part {
    pub fn of<A: Alerts>(replica: &Replica<A>, me: &Holder, now: Instant) -> Self {
        let (view, own) = (replica.view(), me.shard());
        if let Some(record) = view.record()
            && &*record.hash != HASH_ID
        {
            return Self::None((*record.hash).into());
        }
        let holder = view.lease(own).map(|lease| &lease.held_by);
        let other = holder.filter(|holder| {
            **holder != HeldBy::Nobody && !holder.is(me) && view.is_fresh(own, now)
        });
        match other {
            Some(holder) if holder.replica().is_some_and(|other| !other.owns(own)) => {
                Self::Waits(holder.clone())
            }
            Some(holder) => Self::StandsBy(holder.clone()),
            None => Self::Takes,
        }
    }
}

/// What was said last.
#[derive(Debug, Default)]
pub(super) struct Story {
    part: Part,
    record: Option<Record>,
}

impl Story {
    /// Tells what has changed. The Leases of `expired` are this replica's, and could not be renewed in time.
    pub fn go_on(
        &mut self,
        me: &Holder,
        changes: &[Change],
        part: Part,
        expired: &BTreeSet<Shard>,
    ) {
        for change in changes {
            match change {
                Change::Serves(shard) => self.tell_serves(me, *shard),
                Change::Left(shard) if expired.contains(shard) => tracing::warn!(
                    "could not renew the Lease of shard {shard} in time: pages for nothing of it until that works again, unless another replica takes over"
                ),
                Change::Left(shard) => tracing::info!("does not serve shard {shard} any more"),
                Change::Record(record) => self.tell_record(record),
                Change::Incomplete(shard, step) => tell_incomplete(*shard, *step),
                Change::Known(shard, None) => {
                    tracing::debug!("knows what is remembered about shard {shard}");
                }
                Change::Known(shard, Some(old)) => tracing::debug!(
                    "knows what is remembered about shard {shard}, as far as it was {old}"
                ),
                Change::Forgot(shard) => {
                    tracing::debug!(
                        "does not know what is remembered about shard {shard} any more"
                    );
                }
                Change::Saved(shard) => tracing::debug!("the state of shard {shard} is written"),
                Change::Unsaved(shard) => tracing::warn!(
                    "the state of shard {shard} could not be written in time; pages leave all the same, and would be repeated if this process ended now"
                ),
                Change::Meddled(shard) => tracing::warn!(
                    "the state of shard {shard} was changed or deleted by somebody else, although this replica has its Lease: what is remembered is written again"
                ),
            }
        }
        if self.part != part {
            tell_part(me, &part);
            self.part = part;
        }
    }

    fn tell_serves(&self, me: &Holder, shard: Shard) {
        let active = self.record.as_ref().map(|record| record.active);
        if active.is_some_and(|active| active != shard.total) {
            tracing::info!("holds shard {shard}, of a generation that is not active");
        } else if me.owns(shard) {
            tracing::info!("serves shard {shard}, its own");
        } else {
            tracing::info!("serves shard {shard}, in place of its own replica");
        }
    }

    fn tell_record(&mut self, record: &Record) {
        let Record {
            epoch,
            active,
            previous,
            hash: _,
        } = record;
        let before = self.record.replace(record.clone());
        match previous {
            Some(previous) => tracing::info!(
                "epoch {epoch}: a generation of {active} is active, the one of {previous} is handed over to it"
            ),
            None if before.as_ref().is_some_and(|before| before.epoch == *epoch) => {
                tracing::info!("epoch {epoch}: all is handed over to the generation of {active}");
            }
            // A change of the total is one epoch, too, but of another total.
            None if before.is_some_and(|before| {
                before.active == *active && before.epoch.saturating_add(1) == *epoch
            }) =>
            {
                tracing::warn!(
                    "epoch {epoch}: the generation of {active} is active by a new record, so somebody has deleted the old one: what has been paged for is \
                 forgotten, what stands may be paged again, with the same keys, and the resolve of what has ended may be missing"
                );
            }
            None => tracing::info!("epoch {epoch}: the generation of {active} is active"),
        }
    }
}

fn tell_part(me: &Holder, part: &Part) {
    let own = me.shard();
    match part {
        Part::Takes => tracing::info!("shard {own}, its own, is not held by another any more"),
        Part::StandsBy(holder) => {
            tracing::info!("stands by: shard {own}, its own, is held by {holder}");
        }
        Part::Waits(holder) => {
            tracing::info!("waits for {holder}, which serves shard {own} in its place, to let go");
        }
        Part::None(hash) => tracing::error!(
            "takes no part: the record of the active generation is of the hash {hash:?}, and this version of the program knows {HASH_ID:?} only; roll it back, \
             or, if no other version is meant to run, delete the record (the ConfigMap that ends in -generation): what has been paged for is forgotten then"
        ),
    }
}

fn tell_incomplete(shard: Shard, step: Step) {
    const COST: &str =
        "paging goes on without: what stands may be paged again, and a resolve may be missing";
    match step {
        Step::Load => {
            tracing::error!("the state of shard {shard} could not be read for too long; {COST}");
        }
        Step::Adopt(old) => tracing::error!(
            "the state of shard {old} of the previous generation was not complete, or could not be read for too long; shard {shard} has taken over its alerts, and {COST}"
        ),
        Step::Save => {
            tracing::error!("the state of shard {shard} could not be written for too long; {COST}");
        }
        Step::LastWrite(epoch) => tracing::error!(
            "the state of shard {shard} could not be written a last time for epoch {epoch}; {COST}"
        ),
    }
}
