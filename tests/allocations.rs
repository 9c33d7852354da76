//! What a healthy object costs: its decoding, and nothing else. In a binary of its own, because all of it counts allocations.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod healthy;

use alertkube::{
    alert::Engine,
    cluster::{KindId, Object},
    sim::pods::mk_pod,
};
use healthy::{Healthy, NOW};

#[test]
fn a_healthy_object_of_any_kind_is_judged_without_an_allocation_and_leaves_nothing_behind() {
    for &kind in KindId::ALL {
        let healthy = Healthy::of(kind).decode();
        let mut engine = Engine::new("");
        engine.list_started(kind);
        // What the engine makes once, whatever it sees.
        engine.observe(&healthy, NOW);

        let judged = allocation_counter::measure(|| {
            engine.observe(&healthy, NOW);
            engine.advance(NOW);
        });
        let left = (judged.count_total, engine.kept_objects());
        // Those that tell of a success end what was alerted for before it: the three parts of the subject's name.
        let named = match kind {
            KindId::Job => 3,
            // It is kept, trimmed, until its next run is due: if none is started, no event says so.
            KindId::CronJob => 3 + 9,
            _ => 0,
        };
        assert_eq!(left, (named, 0), "{}", kind.as_str());
    }
}

#[test]
fn a_broken_pod_is_kept_until_it_is_gone() {
    let pod = mk_pod("shop", "web-7d9c5b8f6-x2x4q")
        .oom_killed(NOW, 1)
        .build();
    let (broken, _) = Object::decode("v1", "Pod", &pod).unwrap().unwrap();
    let mut engine = Engine::new("");
    let judged = allocation_counter::measure(|| engine.observe(&broken, NOW));
    assert!(judged.count_total > 0, "the counter counts");
    assert_eq!(engine.kept_objects(), 1);
}
