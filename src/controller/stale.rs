//! Being out of touch: what the watches bring may be long over, so the cluster is listed anew before anything follows from it.
//!
//! A process that stood still, or was cut off, finds in its connections what happened meanwhile, in order, as if it happened now. In between others may have served its
//! shard, and written down what it has not come to yet. If it went by its own view it would resolve what stands.

use std::{collections::BTreeMap, time::Duration};

use tokio::{sync::watch, time::Instant};
use tracing::{info, warn};

use super::Controller;
use crate::{
    cluster::{Event, KindId},
    custody::Portion,
};

/// A loop that did not go round for this long, although it does so every second, stood still: the process was stopped, or had no processor.
const STOOD_STILL: Duration = Duration::from_secs(5);

/// How long the new lists are waited for. What is known by then is gone by: a kind that cannot be listed must not hold up the others.
const PATIENCE: Duration = Duration::from_secs(30);

/// Lists that are waited for.
#[derive(Debug)]
pub(super) struct Stale {
    /// The kinds whose list is not complete, and whether it has begun.
    lists: BTreeMap<KindId, bool>,
    until: Instant,
    /// What was taken charge of meanwhile.
    portions: Vec<Portion>,
}

impl Controller {
    /// Lists the cluster anew, whenever this replica was out of touch, by telling the watches here to begin again.
    #[must_use]
    pub fn listing_anew(mut self, relist: watch::Sender<u64>) -> Self {
        self.relist = Some(relist);
        self
    }

    /// Whether nothing follows from what is seen for now.
    pub(super) const fn is_stale(&self) -> bool {
        self.stale.is_some()
    }

    /// Notices that the loop stood still.
    pub(super) fn mind_the_gap(&mut self) {
        let now = Instant::now();
        let gap = now.saturating_duration_since(self.last_round);
        self.last_round = now;
        if gap > STOOD_STILL {
            warn!(
                seconds = gap.as_secs(),
                "stood still: the cluster is listed anew"
            );
            self.look_anew();
        }
    }

    /// Begins all lists anew. Until they are complete nothing is decided, nothing is taken charge of, and nothing resolves.
    pub(super) fn look_anew(&mut self) {
        let Some(relist) = self.relist.as_ref().filter(|_| self.health.sees()) else {
            return;
        };
        relist.send_modify(|count| *count += 1);
        let portions = self
            .stale
            .take()
            .map_or_else(Vec::new, |stale| stale.portions);
        self.stale = Some(Stale {
            lists: KindId::ALL.iter().map(|kind| (*kind, false)).collect(),
            until: Instant::now() + PATIENCE,
            portions,
        });
        for &kind in KindId::ALL {
            self.engine.blind(kind);
        }
    }

    /// Takes charge of a portion, as soon as what is seen can be gone by.
    pub(super) fn take_charge_when_seen(&mut self, portion: Portion) {
        match &mut self.stale {
            Some(stale) => stale.portions.push(portion),
            None => self.take_charge(&portion),
        }
    }

    /// Forgets what is waited for of a shard: there is no charge of it any more.
    pub(super) fn do_not_take(&mut self, gone: impl Fn(&Portion) -> bool) {
        if let Some(stale) = &mut self.stale {
            stale.portions.retain(|portion| !gone(portion));
        }
    }

    /// Notes how far the new lists are.
    pub(super) fn note_list(&mut self, kind: KindId, event: &Event) {
        let Some(stale) = &mut self.stale else {
            return;
        };
        match event {
            Event::ListStarted => {
                stale.lists.entry(kind).and_modify(|begun| *begun = true);
            }
            Event::ListDone if stale.lists.get(&kind) == Some(&true) => {
                stale.lists.remove(&kind);
            }
            _ => {}
        }
    }

    /// Goes on, if the new lists are complete or have taken too long.
    pub(super) fn go_on_when_seen(&mut self) {
        let is_over = |stale: &mut Stale| {
            let late = stale.until <= Instant::now();
            if late {
                warn!(
                    "the cluster could not be listed anew in time: what was seen before is gone by"
                );
            }
            late || stale.lists.is_empty()
        };
        if let Some(stale) = self.stale.take_if(is_over) {
            info!("the cluster is seen as it is now");
            for portion in stale.portions {
                self.take_charge(&portion);
            }
        }
    }
}
