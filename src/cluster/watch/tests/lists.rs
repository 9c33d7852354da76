//! Lists: streamed, in pages, and how they end.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_streaming_list_goes_on_as_a_watch() {
    let mut scene = scene();
    let asked = scene.request().await;
    for part in [
        "/api/v1/pods?",
        "watch=true",
        STREAMING,
        "resourceVersionMatch=NotOlderThan",
    ] {
        assert!(asked.uri.contains(part), "{part} in {}", asked.uri);
    }
    let serving = asked.serve();
    serving.event("ADDED", "a", 1);
    serving.event("ADDED", "b", 2);
    serving.end_of_list(5);
    serving.event("MODIFIED", "a", 6);
    serving.event("DELETED", "b", 7);
    scene
        .expect(&[
            "list",
            "listed a",
            "listed b",
            "done",
            "applied a",
            "deleted b",
        ])
        .await;
    // The server ends it in time, and kube resumes without a word.
    tokio::time::advance(seconds(60)).await;
    drop(serving);
    let asked = scene.request().await;
    assert!(asked.uri.contains("resourceVersion=7"), "{}", asked.uri);
    assert!(!asked.uri.contains(STREAMING));
    asked.serve().event("ADDED", "c", 8);
    scene.expect(&["applied c"]).await;
}

#[tokio::test(start_paused = true)]
async fn one_namespace_and_a_selector_are_asked_for() {
    let mut scene = scene_with(WatchOptions {
        namespace: Some("shop".into()),
        label_selector: Some("app=web".into()),
    });
    let uri = scene.request().await.uri;
    assert!(uri.contains("/api/v1/namespaces/shop/pods?"), "{uri}");
    assert!(uri.contains("labelSelector=app%3Dweb"), "{uri}");
}

#[tokio::test(start_paused = true)]
async fn trap_8_a_server_without_streaming_lists_is_asked_for_pages() {
    for code in [400, 422] {
        let mut scene = scene();
        scene.request().await.refuse(code);
        let started = Instant::now();
        let asked = scene.request().await;
        assert!(
            started.elapsed() < seconds(1),
            "nothing failed, so there is no pause"
        );
        assert!(!asked.uri.contains("watch=true"), "{}", asked.uri);
        asked.page(&["a"], "more");
        let asked = scene.request().await;
        assert!(asked.uri.contains("continue=more"), "{}", asked.uri);
        asked.page(&["b"], "");
        scene
            .expect(&["list", "listed a", "listed b", "done"])
            .await;
        let asked = scene.request().await;
        assert!(asked.uri.contains("resourceVersion=5"), "{}", asked.uri);
        // The choice stays: a fresh list is a paged one.
        asked.serve().error(410);
        scene.expect(&["failed expired"]).await;
        let asked = scene.request().await;
        assert!(asked.uri.contains("limit=500"), "{}", asked.uri);
    }
}

#[tokio::test(start_paused = true)]
async fn trap_8_a_server_that_never_ends_a_streaming_list_is_asked_for_pages() {
    let mut scene = scene();
    let serving = scene.request().await.serve();
    serving.event("ADDED", "a", 1);
    scene
        .expect(&["list", "listed a", "failed incomplete"])
        .await;
    let asked = scene.request().await;
    assert!(asked.uri.contains("limit=500"), "{}", asked.uri);
    asked.page(&["a"], "");
    scene.expect(&["list", "listed a", "done"]).await;
}

#[tokio::test(start_paused = true)]
async fn trap_9_lists_ask_for_the_most_recent_state() {
    let mut scene = scene();
    scene.request().await.refuse(422);
    let uri = scene.request().await.uri;
    assert!(!uri.contains("resourceVersion"), "{uri}");
}

#[tokio::test(start_paused = true)]
async fn gone_in_the_middle_of_a_paged_list_leads_to_a_fresh_list() {
    let mut scene = scene();
    scene.request().await.refuse(422);
    scene.request().await.page(&["a"], "more");
    let asked = scene.request().await;
    assert!(asked.uri.contains("continue=more"), "{}", asked.uri);
    asked.refuse(410);
    scene.expect(&["list", "listed a", "failed expired"]).await;
    let asked = scene.request().await;
    assert!(!asked.uri.contains("continue"), "{}", asked.uri);
    asked.page(&["a"], "more");
    scene.request().await.page(&["b"], "");
    scene
        .expect(&["list", "listed a", "listed b", "done"])
        .await;
}

#[tokio::test(start_paused = true)]
async fn trap_11_what_was_deleted_while_nobody_looked_is_not_in_the_next_complete_list() {
    let mut scene = scene();
    let serving = scene.streamed().await;
    serving.error(410);
    let serving = scene.request().await.serve();
    serving.event("ADDED", "b", 9);
    serving.end_of_list(9);
    scene
        .expect(&["failed expired", "list", "listed b", "done"])
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_breaks_off_is_not_done_and_does_not_spin() {
    let mut scene = scene();
    let started = Instant::now();
    for lasted in [0, 10] {
        let serving = scene.request().await.serve();
        serving.event("ADDED", "a", 1);
        scene.expect(&["list", "listed a"]).await;
        tokio::time::advance(seconds(lasted)).await;
        serving.cut();
        if lasted > 0 {
            // kube asks for the next one at once.
            scene.request().await.serve().event("ADDED", "a", 1);
        }
        let ended = Instant::now();
        scene.expect(&["failed incomplete"]).await;
        assert!(ended.elapsed() < seconds(1));
    }
    let asked = scene.request().await;
    assert!(started.elapsed() >= seconds(2));
    assert!(asked.uri.contains("limit=500"), "{}", asked.uri);
}

#[tokio::test(start_paused = true)]
async fn trap_7_an_unreadable_object_in_a_list_hides_no_other_and_the_list_is_not_done() {
    let mut scene = scene();
    let serving = scene.request().await.serve();
    serving.event("ADDED", "a", 1);
    serving.line("%%%");
    serving.line("%%%");
    serving.event("ADDED", "b", 2);
    serving.end_of_list(5);
    scene
        .expect(&["list", "listed a", "failed decode", "listed b"])
        .await;
    scene.streamed().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_at_streaming_lists_is_asked_for_one_in_pages() {
    let mut scene = scene();
    for _ in 0..2 {
        let asked = scene.request().await;
        assert!(asked.uri.contains(STREAMING), "{}", asked.uri);
        asked.refuse(500);
        scene.expect(&["failed server_error"]).await;
    }
    let asked = scene.request().await;
    assert!(asked.uri.contains("limit=500"), "{}", asked.uri);
    asked.page(&["a"], "");
    scene.expect(&["list", "listed a", "done"]).await;
    // It may only have been starting: the next list is a streaming one.
    scene.request().await.serve().error(410);
    scene.expect(&["failed expired"]).await;
    scene.streamed().await;
}
