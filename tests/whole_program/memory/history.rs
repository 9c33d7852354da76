//! What really happened, to hold what was paged against it.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use tokio::time::Instant;

use crate::support::{Page, Webhook};

/// How long a message may have been delivered before a kill and yet not have been written down as such: a state is written once a second, and the machines of
/// tests are slow.
const NOT_YET_WRITTEN: Duration = Duration::from_secs(10);

/// Conditions of one namespace, by workload, each of which comes once; and kills.
#[derive(Debug, Default)]
pub(super) struct History {
    conditions: Mutex<BTreeMap<String, Condition>>,
}

#[derive(Debug, Clone, Copy)]
struct Condition {
    began: Instant,
    /// It was not over before.
    over: Option<Instant>,
}

impl Condition {
    /// Whether somebody must have paged for it: it stood for `unowned` while nobody was killed.
    fn had_an_owner(&self, kills: &[Instant], unowned: Duration) -> bool {
        let Some(over) = self.over else { return true };
        let kills = kills
            .iter()
            .copied()
            .filter(|kill| *kill > self.began && *kill < over);
        let mut since = self.began;
        kills.chain([over]).any(|until| {
            let stood = until.duration_since(since);
            since = until;
            stood >= unowned
        })
    }
}

impl History {
    /// Right before an object is broken.
    pub fn breaks(&self, workload: &str) {
        let began = Instant::now();
        let condition = Condition { began, over: None };
        let old = self.conditions().insert(workload.to_owned(), condition);
        assert!(old.is_none(), "{workload} breaks twice");
    }

    /// Right before an object is repaired.
    pub fn recovers(&self, workload: &str) {
        let mut conditions = self.conditions();
        conditions.get_mut(workload).unwrap().over = Some(Instant::now());
    }

    /// Whether all was told that has to be: what stood for `unowned` or longer without a kill was paged, and what was paged and is over was resolved. `kills` are in
    /// their order.
    pub fn is_told(&self, pages: &[Page], kills: &[Instant], unowned: Duration) -> bool {
        let told = by_workload(pages.iter());
        self.conditions().iter().all(|(workload, condition)| {
            let told = told.get(workload.as_str());
            match told.and_then(|told| told.last()) {
                None => !condition.had_an_owner(kills, unowned),
                Some(last) => condition.over.is_none() || last.status == "resolved",
            }
        })
    }

    /// Panics unless all was told that has to be, and nothing else: see the messages. `kills` are the moments at which who pages was killed.
    /// Returns how many messages came more than once.
    pub fn check(
        &self,
        webhook: &Webhook,
        ns: &str,
        kills: &[Instant],
        unowned: Duration,
    ) -> usize {
        let pages = webhook.pages(ns);
        assert!(self.is_told(&pages, kills, unowned), "not all was told");
        let delivered = webhook.delivered();
        let timed = delivered
            .iter()
            .flat_map(|message| message.alerts.iter().map(|page| (message.at, page)))
            .filter(|(_, page)| page.label("namespace") == ns);
        let mut told = BTreeMap::<_, Vec<_>>::new();
        for (at, page) in timed {
            told.entry(page.label("workload"))
                .or_default()
                .push((at, page));
        }
        let conditions = self.conditions();
        let mut repeated = 0;
        for (workload, told) in told {
            let condition = conditions.get(workload);
            let Condition { began, over } = condition.expect(workload);
            let (_, first) = told[0];
            assert_eq!(
                first.status, "firing",
                "{workload}: resolved without a page"
            );
            for (index, (at, page)) in told.iter().enumerate() {
                let identity = (&page.fingerprint, &page.labels, page.starts_at);
                assert_eq!(
                    identity,
                    (&first.fingerprint, &first.labels, first.starts_at),
                    "{workload}: a duplicate must be recognizable as one"
                );
                assert!(at >= began, "{workload}: paged before it broke");
                if page.status == "resolved" {
                    assert!(
                        over.is_some_and(|over| *at >= over),
                        "{workload}: resolved while it stands"
                    );
                }
                let before = told[..index].iter().rev();
                let before = before.clone().find(|(_, old)| old.status == page.status);
                if let Some((before, _)) = before {
                    repeated += 1;
                    let excuse = kills.iter().any(|kill| {
                        before <= kill
                            && kill <= at
                            && kill.duration_since(*before) < NOT_YET_WRITTEN
                    });
                    assert!(
                        excuse,
                        "{workload}: told twice that it is {} without a crash in between; kills: {kills:?}, told: {:?}",
                        page.status,
                        told.iter()
                            .map(|(at, page)| (at, &page.status))
                            .collect::<Vec<_>>()
                    );
                }
            }
        }
        repeated
    }

    fn conditions(&self) -> MutexGuard<'_, BTreeMap<String, Condition>> {
        self.conditions.lock().unwrap()
    }
}

fn by_workload<'a>(pages: impl Iterator<Item = &'a Page>) -> BTreeMap<&'a str, Vec<&'a Page>> {
    let mut told = BTreeMap::<_, Vec<_>>::new();
    for page in pages {
        told.entry(page.label("workload")).or_default().push(page);
    }
    told
}
