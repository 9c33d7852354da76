//! An API server, a StatefulSet controller, pods, faults, and what must hold whatever they do.

use std::{collections::BTreeMap, io::Write as _};

use alertkube::{
    cluster::Subject,
    shard::{
        ShardKey,
        ownership::{Call, Change, Holder, Leave, Record, Shard, Step},
    },
};
use std::time::Duration;
use tokio::time::Instant;

use super::{
    Options, Report,
    api::{Api, Known, Name},
    pod::{Flight, Pod, uniform},
};

/// Seconds.
const STEP: f64 = 0.25;
/// How much faster or slower a clock may be: two of them differ by at most the 5 % that rule 5 allows for.
const DRIFT: f64 = 0.024;
/// The grace of a pod that is told to stop, in seconds.
const GRACE: f64 = 30.0;

/// A StatefulSet: `podManagementPolicy: Parallel` if not ordered; a rolling update from the top, one at a time.
struct StatefulSet {
    total: u32,
    replicas: u32,
    next: f64,
}

pub struct World {
    options: Options,
    rng: fastrand::Rng,
    start: Instant,
    now: f64,
    api: Api,
    flights: Vec<Flight>,
    pods: BTreeMap<u32, Pod>,
    /// Pods that run on after they were removed.
    ghosts: Vec<Pod>,
    restart_at: BTreeMap<u32, f64>,
    number: u32,
    set: StatefulSet,
    /// When a mistake is rolled back, and to which total and replicas.
    back: Option<(f64, u32, u32)>,

    keys: Vec<ShardKey>,
    broken: Vec<bool>,
    version: u64,
    /// The last that was delivered for a key.
    delivered: Vec<u64>,
    /// Who sends for a key, until when.
    flying: Vec<(u32, f64)>,
    /// Whether the last that was delivered was not written when it was sent.
    unsaved: Vec<bool>,
    unowned: Vec<Option<f64>>,
    /// Until when it is forgiven that an owner does not know: it said that a state is incomplete.
    lenient_until: f64,
    record: Option<Record>,
    report: Report,
}

impl World {
    pub fn new(seed: u64, options: Options) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let replicas = rng.u32(1..=5);
        let key = |number: u32| {
            ShardKey::of(&Subject {
                kind: "Deployment".into(),
                namespace: "shop".into(),
                name: format!("app-{number}").into(),
            })
        };
        let keys: Vec<_> = (0..options.keys).map(|_| key(rng.u32(..))).collect();
        let count = keys.len();
        Self {
            options,
            rng,
            start: Instant::now(),
            now: 0.0,
            api: Api::default(),
            flights: Vec::new(),
            pods: BTreeMap::new(),
            ghosts: Vec::new(),
            restart_at: BTreeMap::new(),
            number: 0,
            set: StatefulSet {
                total: replicas,
                replicas,
                next: 0.0,
            },
            back: None,
            keys,
            broken: vec![false; count],
            version: 0,
            delivered: vec![0; count],
            flying: vec![(0, 0.0); count],
            unsaved: vec![false; count],
            unowned: vec![None; count],
            lenient_until: 0.0,
            record: None,
            report: Report::default(),
        }
    }

    /// 15 minutes with faults, then up to 7 without, at the end of which all must be well.
    pub fn run(mut self) -> Report {
        for _ in 0..3600 {
            self.faults();
            self.step();
        }
        self.options.faults.retain(|fault| *fault != "delay");
        self.back = None;
        self.scale(self.set.replicas, self.set.replicas);
        for ghost in &mut self.ghosts {
            ghost.until = ghost.until.min(self.now + 60.0);
        }
        for _ in 0..1600 {
            self.step();
        }
        self.check_end();
        self.report
    }

    fn log(&self, text: std::fmt::Arguments<'_>) {
        if self.options.verbose {
            // A closed pipe is the reader's wish.
            let _ = writeln!(std::io::stdout(), "{:8.2} {text}", self.now);
        }
    }

    fn fail(&mut self, text: &str) {
        self.log(format_args!("FAILED: {text}"));
        self.report
            .failures
            .push(format!("{:.2}: {text}", self.now));
    }

    fn chance(&mut self, chance: f64) -> bool {
        self.rng.f64() < chance
    }

    fn uniform(&mut self, from: f64, to: f64) -> f64 {
        uniform(&mut self.rng, from, to)
    }

    fn choose<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.rng.usize(..from.len())]
    }

    // === Faults ===

    fn strikes(&mut self, fault: &str, chance: f64) -> bool {
        self.options.faults.contains(&fault) && !self.pods.is_empty() && self.chance(chance)
    }

    fn some_pod(&mut self) -> u32 {
        let ordinals: Vec<_> = self.pods.keys().copied().collect();
        self.choose(&ordinals)
    }

    fn faults(&mut self) {
        let now = self.now + STEP;
        if self.strikes("kill", 0.004) {
            let (pod, back) = (self.some_pod(), self.choose(&[3.0, 40.0, 120.0]));
            self.kill(pod, None, back);
        }
        if self.strikes("pause", 0.002) {
            let (pod, until) = (self.some_pod(), now + self.uniform(5.0, 40.0));
            self.log(format_args!("pause {pod} until {until:.2}"));
            self.pods
                .entry(pod)
                .and_modify(|pod| pod.paused_until = until);
        }
        if self.strikes("cut", 0.002) {
            let (pod, until) = (self.some_pod(), now + self.uniform(5.0, 60.0));
            self.log(format_args!("cut off {pod} until {until:.2}"));
            self.pods.entry(pod).and_modify(|pod| pod.cut_until = until);
        }
        if self.strikes("rescale", 0.003) {
            let total = self.choose(&[1, 2, 3, 4, 5, 8]);
            self.scale(total, total);
            self.back = None;
        }
        if self.strikes("twin", 0.002) {
            let long = self.uniform(30.0, 400.0);
            let all = self.chance(0.2);
            let one = self.some_pod();
            let ordinals: Vec<_> = self.pods.keys().copied().collect();
            for ordinal in ordinals
                .into_iter()
                .filter(|ordinal| all || *ordinal == one)
            {
                if self.chance(0.5) {
                    let until = now + self.uniform(0.0, long);
                    self.pods
                        .entry(ordinal)
                        .and_modify(|pod| pod.cut_until = until);
                }
                self.kill(ordinal, Some(long), 3.0);
            }
        }
        // A mistake that is rolled back, often in the middle of the hand-over.
        if self.strikes("wrong", 0.0015) && self.back.is_none() {
            let (total, replicas) = (self.set.total, self.set.replicas);
            let wrong = self.choose(&[1, 2, 3, 4, 5, 8]);
            let soon = self.uniform(2.0, 25.0);
            let late = self.uniform(20.0, 150.0);
            self.back = Some((now + self.choose(&[soon, late]), total, replicas));
            match self.rng.u32(..3) {
                0 => self.scale(wrong, replicas),
                1 => self.scale(total, wrong),
                _ => self.scale(wrong, wrong),
            }
        }
        if self.strikes("refuse", 0.0008) {
            let what = self.rng.u32(..3);
            self.log(format_args!("the API server refuses ({what})"));
            match what {
                0 => self.api.no_lease_writes = now + 30.0,
                1 => self.api.no_reads = now + 30.0,
                _ => self.api.no_state_writes = now + 40.0,
            }
        }
        if let Some((at, total, replicas)) = self.back
            && now >= at
        {
            self.scale(total, replicas);
            self.back = None;
        }
    }

    // === The StatefulSet ===

    fn scale(&mut self, total: u32, replicas: u32) {
        self.log(format_args!("total {total} replicas {replicas}"));
        self.set.total = total;
        self.set.replicas = replicas;
    }

    fn reconcile(&mut self) {
        let now = self.now;
        if now < self.set.next {
            return;
        }
        self.set.next = now + 1.0;
        for ordinal in 0..self.set.replicas {
            let stopping = self
                .ghosts
                .iter()
                .any(|pod| pod.leaving && pod.me.ordinal == ordinal);
            let due = self.restart_at.get(&ordinal).is_none_or(|at| *at <= now);
            if !self.pods.contains_key(&ordinal) && due && !stopping {
                if ordinal < self.set.total {
                    self.start_pod(ordinal);
                    return;
                }
                // Outside of its total: it ends at once.
                self.restart_at.insert(ordinal, now + 10.0);
            }
            let total = self.set.total;
            let pod = self.pods.get(&ordinal);
            if self.options.ordered
                && !pod.is_some_and(|pod| pod.is_ready(now) || pod.me.total != total)
            {
                return;
            }
        }
        let surplus = self.pods.keys().next_back().copied();
        if let Some(ordinal) = surplus.filter(|ordinal| *ordinal >= self.set.replicas) {
            self.stop_pod(ordinal, 3.0);
            return;
        }
        let ordinals: Vec<_> = self.pods.keys().copied().collect();
        for ordinal in ordinals.into_iter().rev() {
            let pod = &self.pods[&ordinal];
            if pod.me.total != self.set.total {
                self.stop_pod(ordinal, 2.0);
                return;
            }
            if !pod.is_ready(now) {
                return;
            }
        }
    }

    fn start_pod(&mut self, ordinal: u32) {
        self.number += 1;
        let me = Holder {
            ordinal,
            total: self.set.total,
            uid: self.number.to_string().into(),
        };
        self.log(format_args!("start {me}"));
        let drifts = self.options.faults.contains(&"drift");
        let rate = 1.0
            + if drifts {
                self.uniform(-DRIFT, DRIFT)
            } else {
                0.0
            };
        let synced_at = self.now + self.uniform(1.0, 6.0);
        let pod = Pod::new(
            self.start,
            me,
            self.number,
            self.options.takeover,
            rate,
            synced_at,
        );
        self.pods.insert(ordinal, pod);
    }

    /// Killed at once; or deleted by force, so that it runs on beside its successor for some seconds.
    fn kill(&mut self, ordinal: u32, runs_on: Option<f64>, back: f64) {
        let Some(mut pod) = self.pods.remove(&ordinal) else {
            return;
        };
        self.log(format_args!("kill {} {runs_on:?}", pod.me));
        let restart = self.now + self.uniform(1.0, back + 1.0);
        self.restart_at.insert(ordinal, restart);
        if self.options.faults.contains(&"delay") && self.chance(0.5) {
            self.write_late(&pod);
        }
        if let Some(seconds) = runs_on {
            pod.until = self.now + seconds;
            self.ghosts.push(pod);
        }
    }

    /// What a pod that is killed was about to write lands when it hurts most: right after its successor's read.
    fn write_late(&mut self, pod: &Pod) {
        let states = self.api.names().filter_map(|name| match name {
            Name::State(shard) => Some(shard),
            Name::Lease(_) | Name::Record => None,
        });
        for shard in states.collect::<Vec<_>>() {
            if let Some(alerts) = pod.replica.alerts(shard)
                && let Some((version, state)) = self.api.state_and_version(shard)
                && state.writer.as_ref().map(|writer| &writer.holder) == Some(&pod.me)
            {
                let mut state = (*state).clone();
                state.alerts = alerts.clone();
                // At least one send has ended just now.
                state
                    .alerts
                    .values_mut()
                    .for_each(|known| known.sent = true);
                let until = self.now + 40.0;
                self.api.late.insert(shard, (until, version, state));
            }
        }
    }

    fn stop_pod(&mut self, ordinal: u32, back: f64) {
        let Some(mut pod) = self.pods.remove(&ordinal) else {
            return;
        };
        self.log(format_args!("stop {}", pod.me));
        let restart = self.now + self.uniform(1.0, back + 1.0);
        self.restart_at.insert(ordinal, restart);
        pod.leaving = true;
        pod.until = self.now + GRACE;
        pod.replica.stop();
        pod.next_tick = self.now;
        self.ghosts.push(pod);
    }

    // === A step ===

    fn step(&mut self) {
        self.now += STEP;
        let now = self.now;
        for index in 0..self.keys.len() {
            if self.chance(0.004) {
                self.broken[index] = !self.broken[index];
            }
        }
        self.reconcile();
        self.land();
        let ordinals: Vec<_> = self.pods.keys().copied().collect();
        for ordinal in ordinals {
            if let Some(mut pod) = self.pods.remove(&ordinal) {
                self.turn(&mut pod);
                self.pods.insert(ordinal, pod);
            }
        }
        for mut ghost in std::mem::take(&mut self.ghosts) {
            self.turn(&mut ghost);
            if now < ghost.until && !(ghost.leaving && ghost.replica.is_stopped()) {
                self.ghosts.push(ghost);
            }
        }
        for violation in std::mem::take(&mut self.api.violations) {
            if now >= self.lenient_until {
                self.fail(&violation);
            }
        }
        self.check_record();
        self.check_owners();
    }

    fn land(&mut self) {
        let now = self.now;
        self.flights.sort_by(|a, b| a.lands.total_cmp(&b.lands));
        let landed = self.flights.partition_point(|flight| flight.lands <= now);
        for flight in self.flights.drain(..landed) {
            let answer = self.api.call(flight.lands, &flight.call);
            let mut pods = self.pods.values_mut().chain(&mut self.ghosts);
            let pod = pods.find(|pod| pod.number == flight.pod);
            if let Some(pod) = pod
                && let Some(at) = flight.answered
                && at >= pod.cut_until
            {
                pod.mail.push((at, flight.id, answer));
            }
        }
    }

    fn turn(&mut self, pod: &mut Pod) {
        let now = self.now;
        if now < pod.paused_until {
            return;
        }
        if pod.woken != self.api.changes {
            pod.woken = self.api.changes;
            let soon = now + self.uniform(0.25, 0.75);
            pod.next_tick = pod.next_tick.min(soon.max(pod.synced_at));
        }
        pod.hear(now);
        pod.end_sends(now);
        if now >= pod.next_tick {
            pod.next_tick = now + self.uniform(1.6, 2.4);
            pod.watch(now, &self.api, &mut self.rng);
            pod.replica.synced();
            self.poll(pod);
            self.program(pod);
        } else if !pod.listener.promised.is_empty() {
            self.send_owed(pod, 0.0);
        }
        self.poll(pod);
    }

    fn poll(&mut self, pod: &mut Pod) {
        if self.now < pod.synced_at {
            return;
        }
        loop {
            let output = pod.replica.poll(pod.clock(self.now));
            for change in output.changes {
                self.log(format_args!("{}: {change:?}", pod.me));
                let lenient = self.now < self.lenient_until;
                let clock = pod.clock(self.now);
                if let Some(failure) = pod.listener.hear(&pod.replica, &change, lenient, clock) {
                    self.fail(&format!("{}: {failure}", pod.me));
                }
                if let Change::Incomplete(_, step) = change {
                    self.report.incomplete += 1;
                    let long = if step == Step::Save { 120.0 } else { 60.0 };
                    self.lenient_until = self.lenient_until.max(self.now + long);
                }
            }
            if output.requests.is_empty() {
                return;
            }
            self.report.requests += output.requests.len() as u64;
            let delays = self.options.faults.contains(&"delay");
            // By what the replica has decided from: the answers may come at once.
            for request in &output.requests {
                if let Call::WriteState { shard, state, .. } = &request.call {
                    self.report.writes += 1;
                    let clock = pod.clock(self.now);
                    let failure =
                        pod.listener
                            .check_write(&pod.replica, *shard, state, &self.api, clock);
                    if let Some(failure) = failure {
                        self.fail(&format!("{}: {failure}", pod.me));
                    }
                }
            }
            for request in output.requests {
                pod.send(
                    self.now,
                    request,
                    delays,
                    &mut self.api,
                    &mut self.flights,
                    &mut self.rng,
                );
            }
        }
    }

    /// What the program around a replica does: it decides, has that written, and then sends.
    fn program(&mut self, pod: &mut Pod) {
        let now = pod.clock(self.now);
        for index in 0..self.keys.len() {
            let key = self.keys[index];
            if let Some(failure) = pod.listener.check_knows(&pod.replica, &key) {
                self.fail(&format!("{}: {failure}", pod.me));
            }
            if !pod.replica.may_send(&key, now, Duration::ZERO) {
                continue;
            }
            let Some(home) = pod.replica.home(&key) else {
                self.fail(&format!("{} may send for {key} unknown", pod.me));
                continue;
            };
            let known = pod.replica.alerts(home).and_then(|alerts| alerts.get(&key));
            let known = known.copied().unwrap_or(Known {
                version: 0,
                firing: false,
                sent: true,
            });
            self.check_known(pod, index, known.version);
            if known.firing != self.broken[index]
                && let Some(alerts) = pod.replica.alerts_mut(home)
            {
                self.version += 1;
                let decided = Known {
                    version: self.version,
                    firing: self.broken[index],
                    sent: false,
                };
                alerts.insert(key, decided);
                pod.replica.promise(&key, now);
                pod.listener.promise(key, home, now);
            }
        }
        self.poll(pod);
        // Now and then again what was sent before.
        self.send_owed(pod, 0.1);
    }

    fn send_owed(&mut self, pod: &mut Pod, again: f64) {
        for index in 0..self.keys.len() {
            let key = self.keys[index];
            let home = pod.replica.home(&key);
            let known = home
                .and_then(|home| pod.replica.alerts(home)?.get(&key))
                .copied();
            let Some(known) = known else { continue };
            let again = again > 0.0 && self.chance(again);
            if !known.sent || again {
                self.send(pod, index, known.version);
            }
        }
    }

    fn send(&mut self, pod: &mut Pod, index: usize, version: u64) {
        let key = self.keys[index];
        let within = self.choose(&[1.0, 3.0, 10.0]);
        let limit = Duration::from_secs_f64(within);
        if pod.sending.contains_key(&key)
            || pod.replica.begin_send(&key, pod.clock(self.now), limit) != Leave::Granted
        {
            return;
        }
        self.check_known(pod, index, version);
        self.delivered[index] = version;
        if self.now >= self.lenient_until
            && let Some(failure) = self.check_fenced(pod, &key)
        {
            self.fail(&failure);
        }
        self.unsaved[index] = !self.api.has(&key, version);
        if self.unsaved[index] {
            self.report.unsaved += 1;
            if !pod.listener.waited(&key, pod.clock(self.now)) {
                self.fail(&format!("{} sends {key} before it is written", pod.me));
            }
        }
        let (who, end) = self.flying[index];
        if who != pod.number && end > self.now {
            self.fail(&format!(
                "{key} is sent by {} while it is by pod {who}",
                pod.me
            ));
        }
        let takes = self.uniform(0.1, within);
        let takes = pod.takes(self.choose(&[0.2, takes, within]));
        let end = self.now + takes;
        pod.sending.insert(key, (end, version));
        self.flying[index] = (pod.number, end);
        self.report.sends += 1;
    }

    // === What must hold ===

    /// Who sends has written the state since it was read, or has waited.
    fn check_fenced(&self, pod: &Pod, key: &ShardKey) -> Option<String> {
        let home = pod.replica.home(key)?;
        let transitions = pod.replica.view().lease(home)?.transitions;
        let writer = self.api.state(home).and_then(|state| state.writer.clone());
        let fenced = writer
            .is_some_and(|writer| writer.holder == pod.me && writer.transitions == transitions);
        let waited = pod.listener.has_known_for(home, pod.clock(self.now));
        let text = || format!("{} sends {key} before {home} is its own", pod.me);
        (!fenced && !waited).then(text)
    }

    /// An owner knows what was delivered last.
    fn check_known(&mut self, pod: &Pod, index: usize, version: u64) {
        let delivered = self.delivered[index];
        if version < delivered {
            if self.now >= self.lenient_until && !self.unsaved[index] {
                let key = self.keys[index];
                self.fail(&format!(
                    "{} knows {version} of {key}, {delivered} was delivered",
                    pod.me
                ));
            }
            self.delivered[index] = version;
        }
    }

    fn check_record(&mut self) {
        let record = self.api.record().cloned();
        if record == self.record {
            return;
        }
        self.log(format_args!("{record:?}"));
        let order = |record: &Record| (record.epoch, record.previous.is_none());
        if self.record.as_ref().map(order) > record.as_ref().map(order) {
            self.fail(&format!(
                "the record went back: {:?}, {record:?}",
                self.record
            ));
        }
        self.record = record;
    }

    fn check_owners(&mut self) {
        let now = self.now;
        let reachable = now > 1.0 + self.api.no_lease_writes.max(self.api.no_reads);
        let up = reachable
            && self
                .pods
                .values()
                .any(|pod| now >= pod.cut_until.max(pod.paused_until).max(pod.synced_at));
        let pods = self.pods.values().chain(&self.ghosts);
        let running: Vec<_> = pods
            .filter(|pod| now >= pod.paused_until)
            .map(|pod| (pod, pod.clock(now)))
            .collect();
        let mut failures = Vec::new();
        for (index, key) in self.keys.iter().enumerate() {
            let owners: Vec<_> = running
                .iter()
                .filter(|(pod, clock)| pod.replica.may_send(key, *clock, Duration::ZERO))
                .map(|(pod, _)| pod.me.to_string())
                .collect();
            if owners.len() > 1 {
                failures.push(format!("{key} has two owners: {owners:?}"));
            }
            if owners.is_empty() && up {
                let since = *self.unowned[index].get_or_insert(now);
                self.report.longest = self.report.longest.max(now - since);
            } else if let Some(since) = self.unowned[index].take()
                && !owners.is_empty()
            {
                self.report.gaps.push(now - since);
            }
        }
        for failure in failures {
            self.fail(&failure);
        }
    }

    /// Without faults all comes to rest: the last total is the active one, each shard is served by its own replica, and nothing older is left.
    fn check_end(&mut self) {
        let total = self.set.total;
        let right = |record: &Record| (record.active, record.previous) == (total, None);
        if !self.api.record().is_some_and(right) {
            self.fail(&format!("{:?}, want total {total}", self.api.record()));
        }
        for shard in Shard::all(total) {
            let holder = self
                .api
                .lease(shard)
                .and_then(|lease| lease.held_by.replica());
            if !holder.is_some_and(|holder| holder.owns(shard)) {
                self.fail(&format!("{shard} is held by {holder:?}"));
            }
        }
        let unowned = self.unowned.iter().filter(|since| since.is_some()).count();
        if unowned > 0 {
            self.fail(&format!("{unowned} keys have no owner"));
        }
        let mine = |name: &Name| match name {
            Name::Record => true,
            Name::Lease(shard) | Name::State(shard) => shard.total == total,
        };
        let left: Vec<_> = self.api.names().filter(|name| !mine(name)).collect();
        if !left.is_empty() {
            self.fail(&format!("left over: {left:?}"));
        }
    }
}
