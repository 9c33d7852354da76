//! When alerts fire in a history: on the one side those of alertkube, on the other those of the mixin.

use std::collections::{BTreeMap, BTreeSet};

use alertkube::{
    alert::Transition,
    history::{Replay, Seen},
};

use crate::{
    history::{self, History, ORIGIN, Step},
    ksm::{self, INTERVAL_SECONDS},
};

/// For some time, an alert fires. In seconds from the moment at which things go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Episode {
    /// When it fires.
    pub from: i64,
    /// When it is over; nothing if that is not in the history.
    pub until: Option<i64>,
}

/// When alertkube's alerts fire, by name.
pub fn ours(history: &History) -> BTreeMap<String, Vec<Episode>> {
    let mut replay = Replay::new("");
    for (at, step) in &history.steps {
        let seen = match step {
            Step::Seen(object) => Seen::Applied(history::decode(object)),
            Step::Gone(object) => Seen::Deleted(history::decode(object)),
        };
        replay.see(*at, &seen).unwrap();
    }
    replay.finish(history.ends).unwrap();
    let mut episodes: BTreeMap<String, Vec<Episode>> = BTreeMap::new();
    // Several alerts of a name are one here: the mixin has one for each pod.
    let mut standing: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for notice in replay.take_notices() {
        let name = notice.alert.rule.name.to_owned();
        let key = notice.alert.dedup_key();
        let at = notice.at.as_second() - ORIGIN.as_second();
        let standing = standing.entry(name.clone()).or_default();
        match notice.transition {
            Transition::Fired => {
                if standing.is_empty() {
                    let episode = Episode {
                        from: at,
                        until: None,
                    };
                    episodes.entry(name).or_default().push(episode);
                }
                standing.insert(key);
            }
            Transition::Resolved(_) => {
                standing.remove(&key);
                if standing.is_empty() {
                    episodes.get_mut(&name).unwrap().last_mut().unwrap().until = Some(at);
                }
            }
            Transition::Changed => {}
        }
    }
    episodes
}

/// When the mixin's alert fires, which it does at these scrapes.
pub fn theirs(history: &History, firing: Option<&Vec<usize>>) -> Vec<Episode> {
    let time = |scrape: usize| {
        ksm::first_scrape(history) + i64::try_from(scrape).unwrap() * INTERVAL_SECONDS
    };
    let scrapes = firing.map(Vec::as_slice).unwrap_or_default();
    let runs = scrapes.chunk_by(|one, other| one + 1 == *other);
    let last = ksm::scrapes(history) - 1;
    runs.map(|run| Episode {
        from: time(run[0]),
        until: run
            .last()
            .filter(|end| **end < last)
            .map(|end| time(end + 1)),
    })
    .collect()
}
