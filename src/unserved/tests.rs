use super::*;
use crate::{
    notify::{Besides, OwedDebt, Standing},
    shard::ownership::Holder,
    testing::{START, at},
};

const LOST: Shard = Shard { total: 3, index: 2 };

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn mk_unserved() -> Unserved {
    let installation = Installation {
        cluster: "prod".into(),
        namespace: "monitoring".into(),
        name: "alertkube".into(),
    };
    Unserved::new(installation, &Timing::default())
}

fn holder(name: &str) -> Holder {
    name.parse().unwrap()
}

/// A replica that looks every second.
struct Scene {
    unserved: Unserved,
    now: Instant,
    by: By,
    since: Instant,
    serves_own: bool,
    is_heir: bool,
    /// Whether the API server answers direct reads.
    answers: bool,
    looked: Option<Instant>,
    lasts: Duration,
}

impl Scene {
    /// The shard is served by nobody, and this replica is the one to say so.
    fn new() -> Self {
        let now = Instant::now();
        Self {
            unserved: mk_unserved(),
            now,
            by: By::Nobody,
            since: now,
            serves_own: true,
            is_heir: true,
            answers: true,
            looked: None,
            lasts: s(15),
        }
    }

    fn by(&mut self, by: By) {
        (self.by, self.since) = (by, self.now);
    }

    fn covered(&self) -> Covered {
        Covered {
            shard: LOST,
            by: self.by.clone(),
            since: self.since,
        }
    }

    /// One look.
    fn look(&mut self, covered: Option<&[Covered]>) -> Vec<Step> {
        let seen = Seen {
            covered,
            serves_own: self.serves_own,
        };
        let about = |_| About {
            is_heir: self.is_heir,
            looked: self.looked,
            lasts: self.lasts,
        };
        let mut steps = self.unserved.decide(seen, about, self.now);
        if steps.contains(&Step::Look(LOST)) && self.answers {
            self.looked = Some(self.now);
            steps.retain(|step| *step != Step::Look(LOST));
        }
        steps
    }

    /// So many seconds pass. What comes of it, and after how many.
    fn pass(&mut self, seconds: u64) -> Vec<(u64, Step)> {
        let mut all = Vec::new();
        for second in 1..=seconds {
            self.now += s(1);
            let covered = [self.covered()];
            let steps = self.look(Some(&covered));
            for step in &steps {
                match step {
                    Step::Page(shard, _) => {
                        let subject = self.unserved.subjects(*shard).next().unwrap();
                        self.unserved.page(*shard, [subject].into(), START, at(20));
                    }
                    Step::Resolve(identity, why) => {
                        self.unserved.resolve(identity, *why, at(60));
                    }
                    Step::Look(_) => {}
                }
            }
            all.extend(steps.into_iter().map(|step| (second, step)));
        }
        all
    }

    fn identity(&self) -> Labels {
        self.unserved.labels(LOST)
    }
}

#[test]
fn nobody_for_a_lease_and_a_little_is_paged_once() {
    let mut scene = Scene::new();
    let since = scene.since;
    // From the first look on: what was before was not watched.
    assert_eq!(scene.pass(120), [(22, Step::Page(LOST, since))]);
}

#[test]
fn only_the_heir_pages_and_whoever_becomes_it() {
    let mut scene = Scene::new();
    scene.is_heir = false;
    assert_eq!(scene.pass(60), []);
    scene.is_heir = true;
    let since = scene.since;
    assert_eq!(scene.pass(60), [(1, Step::Page(LOST, since))]);
}

#[test]
fn every_replica_knows_which_shards_nobody_serves_if_it_has_looked_and_may_tell() {
    let mut scene = Scene::new();
    scene.is_heir = false;
    scene.pass(20);
    assert!(scene.unserved.shards().is_empty());
    scene.pass(3);
    assert!(scene.unserved.shards().contains(&LOST));
    // While it is cut off itself, it cannot tell.
    scene.serves_own = false;
    scene.pass(1);
    assert!(scene.unserved.shards().is_empty());
    scene.serves_own = true;
    scene.pass(23);
    assert!(scene.unserved.shards().contains(&LOST));
    scene.by(By::Own(holder("2/3/b")));
    scene.pass(1);
    assert!(scene.unserved.shards().is_empty());
}

#[test]
fn a_lease_that_cannot_be_read_directly_may_be_held() {
    let mut scene = Scene::new();
    scene.answers = false;
    scene.pass(120);
    assert!(scene.unserved.shards().is_empty());
}

#[test]
fn who_was_cut_off_watches_anew() {
    let mut scene = Scene::new();
    scene.serves_own = false;
    assert_eq!(scene.pass(60), []);
    scene.serves_own = true;
    assert_eq!(scene.pass(20), []);
    // The others are back, too.
    scene.by(By::Own(holder("2/3/a")));
    assert_eq!(scene.pass(60), []);
}

#[test]
fn who_was_stopped_watches_anew() {
    let mut scene = Scene::new();
    assert_eq!(scene.pass(15), []);
    scene.now += s(60);
    assert_eq!(scene.pass(20), []);
    assert_eq!(scene.pass(60).len(), 1);
}

#[test]
fn a_lease_that_cannot_be_read_directly_is_not_paged_for() {
    let mut scene = Scene::new();
    scene.answers = false;
    // It is asked for again and again, but not every time.
    let asked: Vec<_> = [21, 26, 31, 36].map(|at| (at, Step::Look(LOST))).into();
    assert_eq!(scene.pass(40), asked);
    // An answer from before does not count.
    scene.looked = Some(scene.now - s(30));
    assert_eq!(scene.pass(1), [(1, Step::Look(LOST))]);
    scene.answers = true;
    assert_eq!(scene.pass(10).len(), 1);
}

#[test]
fn it_resolves_when_the_shard_has_been_renewed_since_it_was_first_seen_held() {
    let mut scene = Scene::new();
    scene.pass(30);
    scene.by(By::Own(holder("2/3/b")));
    let resolve = Step::Resolve(scene.identity(), Resolution::Recovered);
    assert_eq!(scene.pass(60), [(15, resolve)]);

    // So does an heir, and the Lease may be a longer one than one's own.
    scene.by(By::Nobody);
    assert_eq!(scene.pass(30).len(), 1);
    scene.by(By::Heir(holder("0/3/a")));
    scene.lasts = s(40);
    let resolve = Step::Resolve(scene.identity(), Resolution::Recovered);
    assert_eq!(scene.pass(60), [(40, resolve)]);
}

#[test]
fn it_stands_while_a_dead_lease_only_looks_fresh_to_who_has_just_come() {
    let mut scene = Scene::new();
    scene.pass(30);
    scene.by(By::Own(holder("2/3/a")));
    assert_eq!(scene.pass(14), []);
    scene.by(By::Nobody);
    assert_eq!(scene.pass(60), []);
}

#[test]
fn it_is_over_when_there_is_no_such_shard_any_more_but_not_when_that_cannot_be_told() {
    let mut scene = Scene::new();
    scene.pass(30);
    assert_eq!(scene.look(None), []);
    let over = Step::Resolve(scene.identity(), Resolution::Deleted);
    assert_eq!(scene.look(Some(&[])), [over]);
}

#[test]
fn who_does_not_serve_its_own_still_resolves() {
    let mut scene = Scene::new();
    scene.pass(30);
    scene.by(By::Own(holder("2/3/b")));
    scene.serves_own = false;
    assert_eq!(scene.pass(20).len(), 1);
}

#[test]
fn the_page_says_what_to_do_and_its_identity_is_the_installation_and_the_shard() {
    let mut unserved = mk_unserved();
    let subject = unserved.subjects(LOST).nth(7).unwrap();
    let notices = unserved.page(LOST, [subject.clone()].into(), START, at(20));
    let [notice] = &notices[..] else { panic!() };
    assert_eq!(notice.alert.shard_key, ShardKey::of(&subject));
    assert_eq!(notice.alert.identity(), unserved.labels(LOST));
    assert_eq!(
        notice.alert.headline(),
        "nobody serves it, so nobody is paged for its part of the cluster"
    );
    insta::assert_json_snapshot!(notice.alert);
    // As it is written down.
    let text = serde_json::to_string(notice).unwrap();
    assert_eq!(&serde_json::from_str::<Notice>(&text).unwrap(), notice);
}

/// What is written down of a page, before or after it was delivered.
fn mk_debt(notice: Notice, delivered: bool) -> Debt {
    Debt {
        identity: notice.alert.identity(),
        standing: delivered.then(|| Standing::from(&notice.alert)),
        doubtful: Vec::new(),
        owed: (!delivered).then(|| OwedDebt {
            notice: notice.into(),
            transitions: 1,
            fired: true,
            ended: false,
        }),
        besides: Besides::new(),
    }
}

#[test]
fn who_takes_over_goes_on_with_the_same_page() {
    for delivered in [true, false] {
        let mut first = mk_unserved();
        let subject = first.subjects(LOST).nth(7).unwrap();
        let fired = first.page(LOST, [subject.clone()].into(), START, at(20));
        let debt = mk_debt(fired[0].clone(), delivered);

        let mut scene = Scene::new();
        scene.unserved.restore(&subject, [&debt]);
        assert_eq!(scene.pass(60), [], "it stands already");
        scene.by(By::Own(holder("2/3/b")));
        scene.now += s(15);
        let covered = [scene.covered()];
        let steps = scene.look(Some(&covered));
        let [Step::Resolve(identity, why)] = &steps[..] else {
            panic!("{steps:?}");
        };
        let notices = scene.unserved.resolve(identity, *why, at(99));
        let [resolved] = &notices[..] else { panic!() };
        assert_eq!(resolved.alert.labels, fired[0].alert.labels);
        assert_eq!(resolved.alert.subject, subject);
        assert_eq!(resolved.alert.starts_at, START);
        assert_eq!(resolved.alert.ends_at, Some(at(99)));
    }
}

#[test]
fn what_is_over_already_is_not_taken_over() {
    let mut first = mk_unserved();
    let subject = first.subjects(LOST).next().unwrap();
    first.page(LOST, [subject.clone()].into(), START, at(20));
    let identity = first.labels(LOST);
    let over = first.resolve(&identity, Resolution::Recovered, at(60));
    let mut second = mk_unserved();
    second.restore(&subject, [&mk_debt(over[0].clone(), false)]);
    assert!(second.is_empty());
}

#[test]
fn another_replicas_pages_are_forgotten() {
    let mut unserved = mk_unserved();
    let subjects: Vec<_> = unserved.subjects(LOST).take(2).collect();
    let all = subjects.iter().cloned().collect();
    unserved.page(LOST, all, START, at(20));
    unserved.forget(|key| *key == ShardKey::of(&subjects[0]));
    assert_eq!(unserved.len(), 1);
    let identity = unserved.labels(LOST);
    unserved.forget(|key| *key == ShardKey::of(&subjects[1]));
    assert!(unserved.is_empty());
    assert_eq!(unserved.resolve(&identity, Resolution::Deleted, at(60)), []);
}
