//! Watches that fail, end or are refused.

use super::*;

#[tokio::test(start_paused = true)]
async fn trap_10_gone_as_an_event_leads_to_a_fresh_list() {
    let mut scene = scene();
    let serving = scene.streamed().await;
    serving.error(410);
    scene.expect(&["failed expired"]).await;
    scene.streamed().await;
}

#[tokio::test(start_paused = true)]
async fn trap_10_gone_as_a_status_leads_to_a_fresh_list() {
    let mut scene = scene();
    let serving = scene.streamed().await;
    tokio::time::advance(seconds(60)).await;
    drop(serving);
    let asked = scene.request().await;
    assert!(asked.uri.contains("resourceVersion=5"), "{}", asked.uri);
    asked.refuse(410);
    scene.expect(&["failed expired"]).await;
    scene.streamed().await;
}

#[tokio::test(start_paused = true)]
async fn the_same_refusal_twice_leads_to_a_fresh_list() {
    let mut scene = scene();
    let serving = scene.streamed().await;
    tokio::time::advance(seconds(60)).await;
    drop(serving);
    for _ in 0..2 {
        let asked = scene.request().await;
        assert!(asked.uri.contains("resourceVersion=5"), "{}", asked.uri);
        asked.refuse(500);
        scene.expect(&["failed server_error"]).await;
    }
    scene.streamed().await;
}

#[tokio::test(start_paused = true)]
async fn trap_12_watches_that_end_at_once_lead_to_pauses_and_a_fresh_list() {
    let mut scene = scene();
    let serving = scene.streamed().await;
    tokio::time::advance(seconds(60)).await;
    drop(serving);
    let started = Instant::now();
    for at in 0..SHORT_WATCHES {
        let begun = Instant::now();
        let asked = scene.request().await;
        assert!(asked.uri.contains("resourceVersion=5"), "{}", asked.uri);
        assert!(at == 0 || begun.elapsed() >= seconds(1), "no pause");
        drop(asked.serve());
    }
    scene.expect(&["failed short_watch"]).await;
    assert!(started.elapsed() < seconds(90));
    scene.streamed().await;
}

#[tokio::test(start_paused = true)]
async fn watches_that_are_cut_at_once_do_not_spin() {
    let mut scene = scene();
    let serving = scene.streamed().await;
    tokio::time::advance(seconds(60)).await;
    drop(serving);
    for _ in 0..SHORT_WATCHES {
        scene.request().await.serve().cut();
    }
    scene.expect(&["failed short_watch"]).await;
    scene.streamed().await;
}

#[tokio::test(start_paused = true)]
async fn a_short_watch_now_and_then_is_nothing_to_talk_about() {
    let mut scene = scene();
    let mut serving = scene.streamed().await;
    for at in 0..10 {
        tokio::time::advance(seconds(60)).await;
        drop(serving);
        drop(scene.request().await.serve());
        serving = scene.request().await.serve();
        serving.event("MODIFIED", "a", 10 + at);
        scene.expect(&["applied a"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn trap_15_failures_are_tried_again_after_1_to_15_seconds() {
    let mut scene = scene();
    for _ in 0..30 {
        let started = Instant::now();
        let asked = scene.request().await;
        let waited = started.elapsed();
        assert!(waited <= seconds(15), "{waited:?}");
        asked.respond.send_error("connection refused");
        scene.expect(&["failed connection"]).await;
    }
    assert_eq!(
        scene.failure().message,
        "cannot watch Pod: connection refused"
    );
    let started = Instant::now();
    scene.request().await;
    assert!(started.elapsed() >= seconds(1));
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_is_resumed_without_a_list_and_said_to_be_restored() {
    let mut scene = scene();
    let serving = scene.streamed().await;
    tokio::time::advance(seconds(30)).await;
    serving.cut();
    for _ in 0..5 {
        let asked = scene.request().await;
        assert!(asked.uri.contains("resourceVersion=5"), "{}", asked.uri);
        asked.respond.send_error("connection refused");
        scene.expect(&["failed connection"]).await;
    }
    let asked = scene.request().await;
    assert!(asked.uri.contains("resourceVersion=5"), "{}", asked.uri);
    let _serving = asked.serve();
    let started = Instant::now();
    scene.expect(&["restored"]).await;
    assert_eq!(started.elapsed(), HEALTHY);
    assert!(scene.quiet(seconds(50)).await, "it is said once");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_last_restores_nothing() {
    let mut scene = scene();
    let serving = scene.streamed().await;
    tokio::time::advance(seconds(30)).await;
    serving.cut();
    scene.request().await.respond.send_error("refused");
    scene.expect(&["failed connection"]).await;
    let serving = scene.request().await.serve();
    assert!(scene.quiet(seconds(4)).await);
    drop(serving);
    let asked = scene.request().await;
    assert!(scene.quiet(seconds(20)).await);
    asked.respond.send_error("refused");
    scene.expect(&["failed connection"]).await;
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_honoured_up_to_a_minute() {
    let mut scene = scene();
    for (told, least) in [("25", 25), ("3600", 60)] {
        let asked = scene.request().await;
        asked.answer(
            429,
            &[("retry-after", told)],
            "Too many requests, please try again later.",
        );
        scene.expect(&["failed too_many_requests"]).await;
        let started = Instant::now();
        let asked = scene.request().await;
        assert!(
            started.elapsed() >= seconds(least),
            "{:?}",
            started.elapsed()
        );
        assert!(started.elapsed() <= seconds(61), "{:?}", started.elapsed());
        asked.respond.send_error("refused");
        scene.expect(&["failed connection"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_forbidden_or_not_served_is_said_once_and_tried_again() {
    for (code, reason) in [(403, "failed forbidden"), (404, "failed not_served")] {
        let mut scene = scene();
        scene.request().await.refuse(code);
        scene.expect(&[reason]).await;
        // An API server that has just started refuses for a moment: these are tried again soon.
        for _ in 1..PASSING_REFUSALS {
            let started = Instant::now();
            let asked = scene.request().await;
            assert!(started.elapsed() <= seconds(15), "{:?}", started.elapsed());
            asked.refuse(code);
        }
        // The next attempt is still a soon one; its refusal is the first of a lasting kind.
        scene.request().await.refuse(code);
        for _ in 0..5 {
            let started = Instant::now();
            assert!(scene.quiet(seconds(29)).await);
            let asked = scene.request().await;
            assert!(started.elapsed() >= seconds(30), "{:?}", started.elapsed());
            asked.refuse(code);
        }
        let _serving = scene.streamed().await;
        scene.expect(&["restored"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn another_text_of_a_refusal_is_said() {
    let mut scene = scene();
    for text in ["one", "two"] {
        let body = format!(r#"{{"code":403,"message":"{text}","status":"Failure"}}"#);
        scene.request().await.answer(403, &[], &body);
        scene.expect(&["failed forbidden"]).await;
        assert!(scene.failure().message.contains(text));
    }
}

#[tokio::test(start_paused = true)]
async fn trap_7_an_unreadable_event_leads_to_a_fresh_list() {
    let mut scene = scene();
    let serving = scene.streamed().await;
    serving.event("MODIFIED", "a", 6);
    serving.line("%%%");
    scene.expect(&["applied a", "failed decode"]).await;
    scene.streamed().await;
}

#[tokio::test(start_paused = true)]
async fn half_a_line_at_the_end_of_a_watch_is_asked_for_again() {
    let mut scene = scene();
    let serving = scene.streamed().await;
    tokio::time::advance(seconds(30)).await;
    let half = Bytes::from_static(br#"{"type":"MODIFIED","object":{"metadata":{"na"#);
    serving.0.unbounded_send(Ok(Frame::data(half))).unwrap();
    serving.cut();
    let asked = scene.request().await;
    assert!(asked.uri.contains("resourceVersion=5"), "{}", asked.uri);
    asked.serve().event("MODIFIED", "a", 6);
    scene.expect(&["applied a"]).await;
}
