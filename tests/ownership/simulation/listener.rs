//! What a pod hears from its replica, and what must hold of that.

use std::collections::{BTreeMap, BTreeSet};

use alertkube::shard::{
    ShardKey,
    ownership::{Answer, Call, Change, Replica, RequestId, Shard, State, Writer},
};
use std::time::Duration;
use tokio::time::Instant;

use super::api::{Api, Memory};

/// How long something that was promised waits, and how far apart writes are that nobody waits for.
const UNSAVED: Duration = Duration::from_secs(2);
const BETWEEN: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct Listener {
    /// What was said to be known.
    known: BTreeMap<Shard, BTreeSet<Option<Shard>>>,
    since: BTreeMap<Shard, Instant>,
    /// Reads of states that are under way, and what came of the last of each.
    asked: BTreeMap<RequestId, Shard>,
    read: BTreeMap<Shard, State<Memory>>,
    /// What was promised and is not known to be written: in which shard's state, and when.
    pub promised: BTreeMap<ShardKey, (Shard, Instant)>,
    /// When each state was last written, and whether it was since it was read.
    wrote: BTreeMap<Shard, Instant>,
    fenced: BTreeSet<Shard>,
}

impl Listener {
    pub fn ask(&mut self, id: RequestId, call: &Call<Memory>) {
        if let Call::ReadState(shard) = call {
            self.asked.insert(id, *shard);
            // The first write after it is waited for.
            self.fenced.remove(shard);
        }
    }

    /// Only the first answer counts.
    pub fn answer(&mut self, id: RequestId, answer: &Answer<Memory>) {
        if let Some(shard) = self.asked.remove(&id)
            && let Answer::State(_, state) = answer
        {
            self.read.insert(shard, state.clone().unwrap_or_default());
        }
    }

    /// Something new is to be sent.
    pub fn promise(&mut self, key: ShardKey, home: Shard, now: Instant) {
        self.promised.entry(key).or_insert((home, now));
    }

    /// Whether a shard's state was read that long ago.
    pub fn has_known_for(&self, shard: Shard, now: Instant) -> bool {
        let since = self.since.get(&shard);
        since.is_some_and(|since| *since + UNSAVED <= now)
    }

    /// Whether a version that is not written may be sent now.
    pub fn waited(&self, key: &ShardKey, now: Instant) -> bool {
        let promised = self.promised.get(key);
        promised.is_some_and(|(_, since)| *since + UNSAVED <= now)
    }

    /// Writes name their writer, and those that nobody waits for are a second apart.
    pub fn check_write(
        &mut self,
        replica: &Replica<Memory>,
        shard: Shard,
        state: &State<Memory>,
        api: &Api,
        now: Instant,
    ) -> Option<String> {
        let last = self.wrote.insert(shard, now);
        let lease = replica.view().lease(shard)?;
        let named = state.writer.as_ref().is_some_and(|writer| {
            let Writer {
                holder,
                transitions,
            } = writer;
            lease.held_by.is(holder) && lease.transitions == *transitions
        });
        if !named {
            return Some(format!("{shard} is written by {:?}", state.writer));
        }
        let awaited = !replica.serves(shard, now)
            || !self.fenced.contains(&shard)
            || self.promised.values().any(|(home, _)| *home == shard)
            || api
                .state(shard)
                .is_none_or(|old| old.adopted != state.adopted);
        let early = last.is_some_and(|last| now < last + BETWEEN);
        (early && !awaited).then(|| format!("{shard} is written again too early"))
    }

    /// What is known is told once, contains what was read, and is forgotten once.
    pub fn hear(
        &mut self,
        replica: &Replica<Memory>,
        change: &Change,
        lenient: bool,
        now: Instant,
    ) -> Option<String> {
        match change {
            Change::Known(shard, portion) => {
                let told = self.known.entry(*shard).or_default();
                let all = told.contains(&None) || portion.is_none() && !told.is_empty();
                if all || !told.insert(*portion) {
                    return Some(format!("{change:?} is told again"));
                }
                self.since.entry(*shard).or_insert(now);
                let known = replica.alerts(*shard);
                let lacks = |from: Shard, epochs: u64| {
                    let record = replica.view().record()?;
                    let read = self.read.get(&from)?;
                    let right = read.epoch + epochs == record.epoch;
                    read.alerts.iter().find(|(key, read)| {
                        let of_portion = portion.is_none_or(|old| old.owns(key));
                        let known = known.and_then(|known| known.get(key));
                        right
                            && shard.owns(key)
                            && of_portion
                            && known.is_none_or(|known| known.version < read.version)
                    })
                };
                let lacks = lacks(*shard, 0).or_else(|| lacks((*portion)?, 1));
                let lacks = lacks.filter(|_| !lenient);
                lacks.map(|lacks| format!("{change:?}, but not {lacks:?}"))
            }
            Change::Forgot(shard) => {
                self.since.remove(shard);
                self.promised.retain(|_, (home, _)| home != shard);
                let told = self.known.remove(shard);
                told.is_none()
                    .then(|| format!("{change:?} is told of what was not known"))
            }
            Change::Saved(shard) => {
                self.fenced.insert(*shard);
                self.promised
                    .retain(|key, (home, _)| home != shard || replica.waits_for_save(key));
                None
            }
            Change::Serves(_)
            | Change::Left(_)
            | Change::Record(_)
            | Change::Incomplete(..)
            | Change::Unsaved(_)
            | Change::Meddled(_) => None,
        }
    }

    /// A key is known exactly if that was told.
    pub fn check_knows(&self, replica: &Replica<Memory>, key: &ShardKey) -> Option<String> {
        let told = self.known.iter().any(|(shard, portions)| {
            let has = |portion: &Option<Shard>| portion.is_none_or(|old| old.owns(key));
            shard.owns(key) && portions.iter().any(has)
        });
        let knows = replica.home(key).is_some();
        (told != knows).then(|| format!("{key}: known {knows}, told {:?}", self.known))
    }
}
