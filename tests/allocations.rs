//! What a healthy object costs: its decoding, and nothing else. In a binary of its own, because all of it counts allocations.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use alertkube::{
    alert::Engine,
    cluster::{KindId, Object},
    sim::pods::mk_pod,
};
use jiff::Timestamp;

const NOW: Timestamp = Timestamp::constant(1_790_000_000, 0);

fn decode(text: &str) -> Object {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let decoded = Object::decode("v1", "Pod", &mut deserializer).unwrap();
    decoded.unwrap().0
}

#[test]
fn a_healthy_pod_is_judged_without_an_allocation_and_leaves_nothing_behind() {
    let healthy = decode(&mk_pod("shop", "web-7d9c5b8f6-x2x4q").build().to_string());
    let mut engine = Engine::new("");
    engine.list_started(KindId::Pod);
    // What the engine makes once, whatever it sees.
    engine.observe(&healthy, NOW);

    let judged = allocation_counter::measure(|| {
        engine.observe(&healthy, NOW);
        engine.advance(NOW);
    });
    assert_eq!((judged.count_total, engine.kept_objects()), (0, 0));
}

#[test]
fn a_broken_pod_is_kept_until_it_is_gone() {
    let pod = mk_pod("shop", "web-7d9c5b8f6-x2x4q")
        .oom_killed(NOW, 1)
        .build();
    let broken = decode(&pod.to_string());
    let mut engine = Engine::new("");
    let judged = allocation_counter::measure(|| engine.observe(&broken, NOW));
    assert!(judged.count_total > 0, "the counter counts");
    assert_eq!(engine.kept_objects(), 1);
}
