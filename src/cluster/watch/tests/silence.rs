//! A server that says nothing, and one that has nothing to say.

use super::*;

#[tokio::test(start_paused = true)]
async fn trap_14_a_silent_watch_is_restarted_within_90_seconds() {
    let mut scene = scene();
    let _silent = scene.streamed().await;
    let started = Instant::now();
    let asked = scene.request().await;
    assert!(started.elapsed() <= seconds(90), "{:?}", started.elapsed());
    asked.serve().event("MODIFIED", "a", 9);
    scene.expect(&["applied a"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_request_without_an_answer_is_given_up_within_90_seconds() {
    let mut scene = scene();
    let serving = scene.streamed().await;
    tokio::time::advance(seconds(60)).await;
    drop(serving);
    let started = Instant::now();
    let _silent = scene.request().await;
    scene.expect(&["failed silent"]).await;
    assert!(started.elapsed() <= seconds(90), "{:?}", started.elapsed());
    scene.streamed().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_without_an_answer_is_given_up_within_90_seconds() {
    for refused in [false, true] {
        let mut scene = scene();
        if refused {
            scene.request().await.refuse(422);
        }
        let started = Instant::now();
        let _silent = scene.request().await;
        if refused {
            scene.expect(&["list"]).await;
        }
        scene.expect(&["failed silent"]).await;
        assert!(started.elapsed() <= seconds(90), "{:?}", started.elapsed());
        scene.request().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_falls_silent_is_given_up_within_90_seconds() {
    let mut scene = scene();
    let started = Instant::now();
    let serving = scene.request().await.serve();
    serving.event("ADDED", "a", 1);
    scene.expect(&["list", "listed a"]).await;
    assert!(scene.event().await.starts_with("failed "));
    assert!(started.elapsed() <= seconds(90), "{:?}", started.elapsed());
    scene.request().await;
}

#[tokio::test(start_paused = true)]
async fn a_quiet_cluster_is_not_silent() {
    let mut scene = scene();
    let mut serving = scene.streamed().await;
    for at in 0..20 {
        // The server ends each watch after a minute, with a bookmark.
        assert!(scene.quiet(seconds(60)).await);
        serving.bookmark(100 + at);
        drop(serving);
        let asked = scene.request().await;
        let place = format!("resourceVersion={}", 100 + at);
        assert!(asked.uri.contains(&place), "{}", asked.uri);
        serving = asked.serve();
    }
    assert!(scene.quiet(seconds(1)).await);
}
