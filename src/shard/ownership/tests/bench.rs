//! A replica, and an API server whose answers the test decides on.

use std::collections::BTreeMap;

use super::*;
use crate::{cluster::Subject, shard::ShardKey, testing::Objects};

pub type Memory = BTreeMap<ShardKey, u32>;

pub fn key(number: u32) -> ShardKey {
    ShardKey::of(&Subject {
        kind: "Deployment".into(),
        namespace: "shop".into(),
        name: format!("app-{number}").into(),
    })
}

/// A key that is of these two shards.
pub fn key_of(shards: [Shard; 2]) -> ShardKey {
    (0..1000)
        .map(key)
        .find(|key| shards.iter().all(|shard| shard.owns(key)))
        .unwrap()
}

/// What the API server has.
pub type Server = Objects<Memory>;

impl Server {
    pub fn set_lease(&mut self, shard: Shard, lease: Lease) {
        let version = self.next();
        self.leases.insert(shard, (version, lease));
    }

    pub fn set_record(&mut self, record: Record) {
        self.record = Some((self.next(), record));
    }

    pub fn set_state(&mut self, shard: Shard, epoch: Epoch, alerts: &[(ShardKey, u32)]) {
        let state = State {
            epoch,
            alerts: alerts.iter().copied().collect(),
            ..State::default()
        };
        let version = self.next();
        self.states.insert(shard, (version, state));
    }
}

pub struct Bench {
    pub server: Server,
    pub replica: Replica<Memory>,
    pub now: Instant,
    pub changes: Vec<Change>,
    /// Which calls are refused.
    pub refuse: fn(&Call<Memory>) -> bool,
}

impl Bench {
    /// A replica beside the others of its generation, which is active in this epoch.
    pub fn new(me: &str, epoch: Epoch) -> Self {
        let me = holder(me);
        let mut server = Server::default();
        server.set_record(mk_record(epoch, me.total, None));
        for other in Shard::all(me.total).filter(|other| !me.owns(*other)) {
            let held_by = format!("{}/{}/other", other.index, other.total);
            server.set_lease(other, mk_lease(&held_by, epoch));
        }
        Self {
            server,
            replica: Replica::new(me, true, Timing::default()),
            now: Instant::now(),
            changes: Vec::new(),
            refuse: |_| false,
        }
    }

    /// A replica that serves its own shard.
    pub fn serving(me: &str, epoch: Epoch) -> Self {
        let mut bench = Self::new(me, epoch);
        bench.replica.synced();
        bench.watch();
        bench.settle();
        let own = OWN;
        assert!(bench.replica.serves(own, bench.now));
        bench
    }

    /// The watches bring all that there is now.
    pub fn watch(&mut self) {
        self.server.show(&mut self.replica, self.now);
    }

    pub fn poll(&mut self) -> Vec<Request<Memory>> {
        let output = self.replica.poll(self.now);
        self.changes.extend(output.changes);
        output.requests
    }

    pub fn answer(&mut self, request: Request<Memory>) {
        let answer = if (self.refuse)(&request.call) {
            Answer::Refused
        } else {
            self.server.call(request.call)
        };
        self.replica.answer(request.id, answer, self.now);
    }

    /// Asks and answers until nothing is left to ask.
    pub fn settle(&mut self) -> Vec<Call<Memory>> {
        let mut calls = Vec::new();
        loop {
            let requests = self.poll();
            if requests.is_empty() {
                return calls;
            }
            for request in requests {
                calls.push(request.call.clone());
                self.answer(request);
            }
            assert!(calls.len() < 1000, "does not settle: {calls:?}");
        }
    }

    /// Time passes, with a turn each second.
    pub fn wait(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now += s(1);
            self.settle();
        }
    }

    pub fn lease(&self, shard: Shard) -> &Lease {
        &self.server.leases[&shard].1
    }

    pub fn may_send(&self, key: &ShardKey) -> bool {
        self.replica.may_send(key, self.now, s(3))
    }

    pub fn knows(&self, key: &ShardKey) -> bool {
        self.replica.home(key).is_some()
    }
}

pub const OWN: Shard = shard(1, 3);

pub fn own_key() -> ShardKey {
    key_of([OWN, OWN])
}

pub fn is_own_lease_write(call: &Call<Memory>) -> bool {
    matches!(call, Call::WriteLease { shard: OWN, .. })
}

/// From 2 to 3 in epoch 2: this replica serves the new shard 1, and others hold the old ones.
pub fn handing_over() -> (Bench, [ShardKey; 2]) {
    let mut bench = Bench::serving("1/3/a", 2);
    bench.server.set_record(mk_record(2, 3, 2));
    let keys = [0, 1].map(|index| key_of([shard(index, 2), OWN]));
    for (index, key) in keys.into_iter().enumerate() {
        let old = shard(u32::try_from(index).unwrap(), 2);
        bench.server.set_state(old, 1, &[(key, 1)]);
        bench
            .server
            .set_lease(old, mk_lease(&format!("{index}/2/other"), 1));
    }
    bench.watch();
    bench.settle();
    (bench, keys)
}

/// One of the old shards has acknowledged.
pub fn acknowledge(bench: &mut Bench, index: u32) {
    bench
        .server
        .set_lease(shard(index, 2), mk_lease(&format!("{index}/2/other"), 2));
    bench.watch();
}
