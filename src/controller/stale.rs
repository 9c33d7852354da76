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
            // Others cannot be listed at all: nobody waits for them.
            lists: self.listed.iter().map(|kind| (*kind, false)).collect(),
            until: Instant::now() + PATIENCE,
            portions,
        });
        for &kind in &self.listed {
            self.engine.blind(kind);
        }
        self.call_roll();
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
            self.end_roll_soon();
            for portion in stale.portions {
                self.take_charge(&portion);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::{StreamExt as _, stream};
    use tokio::{
        sync::{mpsc, oneshot},
        task::yield_now,
        time::advance,
    };
    use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

    use super::*;
    use crate::{
        alert::Engine,
        cluster::{Clock, Object},
        http::{Health, Metrics},
        shard::Sharder,
        testing::{START, mk_pod},
    };

    /// A controller that runs, and sees the cluster.
    struct Running {
        metrics: Arc<Metrics>,
        relisted: watch::Receiver<u64>,
        tell: mpsc::UnboundedSender<(KindId, Event)>,
        _task: AbortOnDropHandle<()>,
    }

    impl Running {
        async fn start() -> Self {
            let metrics = Arc::new(Metrics::new(0, 1, &[], &[]).unwrap());
            let (relist, relisted) = watch::channel(0);
            let controller = Controller::new(
                Engine::new("test"),
                Arc::new(Sharder::default()),
                None,
                Clock::starting_at(START, 1.0),
                Vec::new(),
                Arc::clone(&metrics),
                Health::new(&[KindId::Pod]),
            )
            .listing_anew(relist);
            let (tell, told) = mpsc::unbounded_channel();
            let events =
                stream::unfold(told, |mut told| async { Some((told.recv().await?, told)) });
            let (synced, stop) = (oneshot::channel().0, CancellationToken::new());
            let task = tokio::spawn(controller.run(events.boxed(), synced, stop));
            let this = Self {
                metrics,
                relisted,
                tell,
                _task: AbortOnDropHandle::new(task),
            };
            this.see(Event::ListStarted).await;
            this.see(Event::ListDone).await;
            this
        }

        async fn see(&self, event: Event) {
            self.tell.send((KindId::Pod, event)).unwrap();
            settle().await;
        }

        fn fired(&self) -> bool {
            let shown = self.metrics.render().unwrap();
            let series =
                r#"alertkube_alert_transitions_total{severity="warning",transition="fired"} 1"#;
            shown.contains(series)
        }
    }

    async fn settle() {
        for _ in 0..20 {
            yield_now().await;
        }
    }

    fn killed() -> Object {
        mk_pod("web-1").oom_killed(START).object()
    }

    #[tokio::test(start_paused = true)]
    async fn who_stood_still_decides_nothing_before_the_cluster_is_listed_anew() {
        let running = Running::start().await;
        assert_eq!(*running.relisted.borrow(), 0);
        // Nothing of this process ran meanwhile.
        advance(2 * STOOD_STILL).await;
        settle().await;
        assert_eq!(*running.relisted.borrow(), 1);
        // From before: it may be long over.
        running.see(Event::Applied(killed(), 0)).await;
        assert!(!running.fired());
        // The end of a list from before tells nothing, either.
        running.see(Event::ListDone).await;
        assert!(!running.fired());

        running.see(Event::ListStarted).await;
        running.see(Event::Listed(killed(), 0)).await;
        running.see(Event::ListDone).await;
        assert!(running.fired());
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_does_not_come_is_waited_for_and_then_not() {
        let running = Running::start().await;
        advance(2 * STOOD_STILL).await;
        settle().await;
        running.see(Event::Applied(killed(), 0)).await;
        for _ in 0..PATIENCE.as_secs() {
            settle().await;
            assert!(!running.fired());
            advance(Duration::from_secs(1)).await;
        }
        advance(Duration::from_secs(1)).await;
        settle().await;
        assert!(running.fired());
    }
}
