//! A pod: a replica, the transport around it, and a program that sends.

use std::collections::BTreeMap;

use alertkube::shard::{
    ShardKey,
    ownership::{Answer, Call, Holder, Replica, Request, RequestId, Timing, Version},
};
use std::time::Duration;
use tokio::time::Instant;

use super::{
    api::{Api, Memory, Name, Object},
    listener::Listener,
};

/// The chance that a version of an object is seen late, and by how much at most, in seconds.
const LATE: (f64, f64) = (0.4, 3.0);
/// The time-out of a request, in seconds.
const TIME_OUT: f64 = 5.0;

/// Between two numbers.
pub fn uniform(rng: &mut fastrand::Rng, from: f64, to: f64) -> f64 {
    from + (to - from) * rng.f64()
}

/// A request on its way.
pub struct Flight {
    pub lands: f64,
    pub answered: Option<f64>,
    pub pod: u32,
    pub id: RequestId,
    pub call: Call<Memory>,
}

pub struct Pod {
    pub replica: Replica<Memory>,
    pub me: Holder,
    /// Unique, as its uid.
    pub number: u32,
    start: Instant,
    /// How fast its clock is.
    rate: f64,
    late: BTreeMap<Name, f64>,
    seen: BTreeMap<Name, Version>,
    pub mail: Vec<(f64, RequestId, Answer<Memory>)>,
    /// When the attempts under way end, with what they send.
    pub sending: BTreeMap<ShardKey, (f64, u64)>,
    pub synced_at: f64,
    pub next_tick: f64,
    pub paused_until: f64,
    pub cut_until: f64,
    /// When it ends, whatever it does.
    pub until: f64,
    pub leaving: bool,
    /// The last change of the API server that it was woken for.
    pub woken: u64,
    pub listener: Listener,
}

impl Pod {
    pub fn new(
        start: Instant,
        me: Holder,
        number: u32,
        takeover: bool,
        rate: f64,
        at: f64,
    ) -> Self {
        Self {
            replica: Replica::new(me.clone(), takeover, Timing::default()),
            me,
            number,
            start,
            rate,
            late: BTreeMap::new(),
            seen: BTreeMap::new(),
            mail: Vec::new(),
            sending: BTreeMap::new(),
            synced_at: at,
            next_tick: at,
            paused_until: 0.0,
            cut_until: 0.0,
            until: f64::MAX,
            leaving: false,
            woken: u64::MAX,
            listener: Listener::default(),
        }
    }

    pub fn clock(&self, at: f64) -> Instant {
        self.start + Duration::from_secs_f64(at * self.rate)
    }

    /// Something that takes so long by this pod's clock.
    pub fn takes(&self, seconds: f64) -> f64 {
        seconds / self.rate
    }

    pub fn is_ready(&self, at: f64) -> bool {
        self.replica.holds(self.me.shard(), self.clock(at))
    }

    /// Each version of each object is seen late on its own.
    pub fn watch(&mut self, at: f64, api: &Api, rng: &mut fastrand::Rng) {
        if at < api.no_reads || at < self.cut_until {
            return;
        }
        let now = self.clock(at);
        for (name, past) in &api.past {
            let Some(last) = past.last() else { continue };
            if self.seen.get(name) == Some(&last.version) {
                continue;
            }
            let late = *self.late.entry(*name).or_insert_with(|| {
                if rng.f64() < LATE.0 {
                    uniform(rng, 0.0, LATE.1)
                } else {
                    0.0
                }
            });
            let Some(seen) = past.iter().rev().find(|past| past.at + late <= at) else {
                continue;
            };
            if self.seen.insert(*name, seen.version) == Some(seen.version) {
                continue;
            }
            self.late.remove(name);
            let version = seen.version;
            match (*name, &seen.object) {
                (Name::Record, Some(Object::Record(record))) => {
                    self.replica.see_record(version, Some(record.clone()));
                }
                (Name::Lease(shard), Some(Object::Lease(lease))) => {
                    self.replica
                        .see_lease(shard, version, Some(lease.clone()), now);
                }
                (Name::State(shard), Some(Object::State(state))) => {
                    self.replica.see_state(shard, version, Some(state.epoch));
                }
                (Name::Record, _) => self.replica.see_record(version, None),
                (Name::Lease(shard), _) => self.replica.see_lease(shard, version, None, now),
                (Name::State(shard), _) => self.replica.see_state(shard, version, None),
            }
        }
    }

    /// Takes in the answers that have come, and the time-outs.
    pub fn hear(&mut self, at: f64) {
        let now = self.clock(at);
        self.mail.sort_by(|a, b| a.0.total_cmp(&b.0));
        let come = self.mail.partition_point(|mail| mail.0 <= at);
        for (_, id, answer) in self.mail.drain(..come) {
            self.listener.answer(id, &answer);
            self.replica.answer(id, answer, now);
        }
    }

    /// Sends a request. It may land late, after the time-out; its answer may be lost.
    pub fn send(
        &mut self,
        at: f64,
        request: Request<Memory>,
        delays: bool,
        api: &mut Api,
        flights: &mut Vec<Flight>,
        rng: &mut fastrand::Rng,
    ) {
        let Request { id, call } = request;
        self.listener.ask(id, &call);
        if at < self.cut_until {
            self.mail.push((at + TIME_OUT, id, Answer::Unknown));
            return;
        }
        let (lands, answered) = match rng.f64() {
            chance if delays && chance < 0.12 => {
                let lands = at + uniform(rng, 0.3, 10.0);
                let answered = (rng.f64() < 0.7).then(|| lands + uniform(rng, 0.0, 2.0));
                (lands, answered)
            }
            chance if delays && chance < 0.3 => {
                let lands = at + uniform(rng, 0.0, 0.5);
                (lands, Some(lands + uniform(rng, 0.0, 0.5)))
            }
            _ => {
                let answer = api.call(at, &call);
                self.listener.answer(id, &answer);
                self.replica.answer(id, answer, self.clock(at));
                return;
            }
        };
        self.mail.push((at + TIME_OUT, id, Answer::Unknown));
        let pod = self.number;
        flights.push(Flight {
            lands,
            answered,
            pod,
            id,
            call,
        });
    }

    /// Ends the attempts whose time has come. That they were sent is noted before.
    pub fn end_sends(&mut self, at: f64) {
        let over: Vec<_> = self
            .sending
            .iter()
            .filter(|(_, (end, _))| *end <= at)
            .map(|(key, (_, version))| (*key, *version))
            .collect();
        for (key, version) in over {
            self.sending.remove(&key);
            let home = self.replica.home(&key);
            if let Some(known) = home
                .and_then(|shard| self.replica.alerts_mut(shard))
                .and_then(|alerts| alerts.get_mut(&key))
                && known.version == version
            {
                known.sent = true;
            }
            self.replica.end_send(&key);
        }
    }
}
