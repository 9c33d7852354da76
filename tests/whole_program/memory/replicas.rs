//! Two replicas: one stands by for the other, or each has a shard and is the other's heir.

use std::time::Duration;

use tokio::time::Instant;

use super::{Installation, LEASE, pod_of, wait_until_it_says};
use crate::support::{Answer, ControlPlane, PATIENCE, Webhook, create_namespace, mk_pod, say};

/// How long a shard may be without an owner after a fault: until its Lease is over by the watcher's clock, and a retry; and what a slow machine takes.
const TAKEOVER: Duration = Duration::from_secs(15 + 3 + 5);

#[tokio::test]
async fn a_second_replica_stands_by_and_takes_over_from_one_that_is_killed() {
    let plane = ControlPlane::shared().await;
    let client = plane.client().await;
    let ns = "standby";
    create_namespace(&client, ns).await;
    mk_pod("before").crash_looping().create(&client, ns).await;
    let goes = mk_pod("goes").init_stuck();
    goes.create(&client, ns).await;

    let installation = Installation::new(&plane);
    let (first, second) = (Webhook::start(), Webhook::start());
    let mut holder = installation.start_with(&first, &[("ALERTKUBE_POD_NAME", "one-0")]);
    holder.wait_ready().await;
    let mut standby = installation.start_with(&second, &[("ALERTKUBE_POD_NAME", "two-0")]);
    wait_until_it_says(&mut standby, "standing by: 0/1/one-0_").await;
    let (status, _) = standby.get("/readyz").await.unwrap();
    assert_eq!(status, 503, "one that stands by is not ready");
    assert_eq!(standby.metric("alertkube_standing_by").await, Some(1.0));
    standby
        .wait_for_line("the holder", |line| line.contains("one-0_"))
        .await;
    first
        .wait_for("both pages", ns, PATIENCE, |pages| pages.len() == 2)
        .await;
    super::wait_until_it_is_written(&holder).await;

    holder.kill();
    let killed = Instant::now();
    goes.delete(&client, ns).await;
    mk_pod("during").crash_looping().create(&client, ns).await;
    second
        .wait_for_page("firing", "KubePodCrashLooping", ns, "during")
        .await;
    let unowned = killed.elapsed();
    say(format_args!(
        "standby: paged {:.1} s after kill -9 of the holder",
        unowned.as_secs_f64()
    ));
    assert!(unowned < TAKEOVER, "{unowned:?}");
    second
        .wait_for_page("resolved", "KubePodInitStuck", ns, "goes")
        .await;

    // And back, this time by a clean stop.
    let third = Webhook::start();
    let mut holder = installation.start_with(&third, &[("ALERTKUBE_POD_NAME", "one-0")]);
    wait_until_it_says(&mut holder, "standing by: 0/1/two-0_").await;
    let stopped = Instant::now();
    standby.stop().await;
    mk_pod("after").crash_looping().create(&client, ns).await;
    third
        .wait_for_page("firing", "KubePodCrashLooping", ns, "after")
        .await;
    let unowned = stopped.elapsed();
    say(format_args!(
        "standby: paged {:.1} s after SIGTERM of the holder",
        unowned.as_secs_f64()
    ));
    assert!(unowned < LEASE / 2, "{unowned:?}");
    holder.stop().await;

    first.assert_exactly(
        ns,
        &[
            ("KubePodCrashLooping", "before", 1, 0),
            ("KubePodInitStuck", "goes", 1, 0),
        ],
    );
    second.assert_exactly(
        ns,
        &[
            ("KubePodInitStuck", "goes", 0, 1),
            ("KubePodCrashLooping", "during", 1, 0),
        ],
    );
    third.assert_exactly(ns, &[("KubePodCrashLooping", "after", 1, 0)]);
}

#[tokio::test]
async fn of_two_shards_the_heir_serves_both_until_the_other_is_back() {
    let plane = ControlPlane::shared().await;
    let client = plane.client().await;
    let ns = "heirs";
    create_namespace(&client, ns).await;
    let installation = Installation::new(&plane);
    let webhooks = [Webhook::start(), Webhook::start()];
    let mut replicas = Vec::new();
    for (index, webhook) in (0..).zip(&webhooks) {
        let mut replica = installation.start_shard(webhook, index, 2, &[]);
        replica.wait_ready().await;
        replicas.push(replica);
    }
    let own = "shard 0-of-2 served by its own replica";
    wait_until_it_says(&mut replicas[0], own).await;
    let of = |index, prefix| pod_of(index, ns, prefix);
    let page = |webhook: &Webhook, name: &str| {
        let pages = webhook.pages(ns);
        pages
            .iter()
            .filter(|page| page.label("workload") == name)
            .count()
    };
    // One of each shard: one to go on, and one to be resolved by the heir.
    let [mine, yours] = [of(0, "before"), of(1, "before")];
    let gone = of(1, "gone");
    for name in [&mine, &yours, &gone] {
        mk_pod(name).init_stuck().create(&client, ns).await;
    }
    webhooks[0]
        .wait_for_page("firing", "KubePodInitStuck", ns, &mine)
        .await;
    for name in [&yours, &gone] {
        webhooks[1]
            .wait_for_page("firing", "KubePodInitStuck", ns, name)
            .await;
    }
    super::wait_until_it_is_written(&replicas[1]).await;

    replicas.pop().unwrap().kill();
    let killed = Instant::now();
    mk_pod(&gone).delete(&client, ns).await;
    let during = of(1, "during");
    mk_pod(&during).init_stuck().create(&client, ns).await;
    webhooks[0]
        .wait_for_page("firing", "KubePodInitStuck", ns, &during)
        .await;
    let unowned = killed.elapsed();
    say(format_args!(
        "heir: paged {:.1} s after kill -9 of the shard's own replica",
        unowned.as_secs_f64()
    ));
    assert!(unowned < TAKEOVER, "{unowned:?}");
    webhooks[0]
        .wait_for_page("resolved", "KubePodInitStuck", ns, &gone)
        .await;
    wait_until_it_says(&mut replicas[0], "shard 1-of-2 served by an heir").await;

    let back = Instant::now();
    let mut second = installation.start_shard(&webhooks[1], 1, 2, &[]);
    second.wait_ready().await;
    say(format_args!(
        "heir: gave the shard back {:.1} s after its own replica was started",
        back.elapsed().as_secs_f64()
    ));
    wait_until_it_says(&mut replicas[0], "shard 1-of-2 served by its own replica").await;
    let after = of(1, "after");
    mk_pod(&after).init_stuck().create(&client, ns).await;
    webhooks[1]
        .wait_for_page("firing", "KubePodInitStuck", ns, &after)
        .await;
    second.stop().await;
    replicas.pop().unwrap().stop().await;

    for name in [&mine, &yours, &during, &after] {
        let [first, second] = webhooks.each_ref().map(|webhook| page(webhook, name));
        assert_eq!(
            first + second,
            1,
            "{name}: paged {first} and {second} times"
        );
    }
    let [first, second] = webhooks.each_ref().map(|webhook| page(webhook, &gone));
    assert_eq!((first, second), (1, 1), "{gone}: a page and a resolve");
}

#[tokio::test]
async fn a_holder_that_was_stopped_for_longer_than_its_lease_starts_nothing_when_it_wakes() {
    let plane = ControlPlane::shared().await;
    let client = plane.client().await;
    let ns = "paused";
    create_namespace(&client, ns).await;
    let installation = Installation::new(&plane);
    let (first, second) = (Webhook::start(), Webhook::start());
    let mut holder = installation.start(&first);
    holder.wait_ready().await;
    let mut standby = installation.start(&second);
    wait_until_it_says(&mut standby, "standing by").await;
    mk_pod("before").crash_looping().create(&client, ns).await;
    first
        .wait_for_page("firing", "KubePodCrashLooping", ns, "before")
        .await;
    // Something that is due when it wakes.
    first.answer(Answer::Fail(503, None));
    mk_pod("owed").crash_looping().create(&client, ns).await;
    first.wait_for_failure_in(ns).await;

    holder.signal("STOP");
    let paused = Instant::now();
    first.answer(Answer::Accept);
    mk_pod("during").crash_looping().create(&client, ns).await;
    for workload in ["owed", "during"] {
        second
            .wait_for_page("firing", "KubePodCrashLooping", ns, workload)
            .await;
    }
    say(format_args!(
        "paused: paged {:.1} s after SIGSTOP of the holder",
        paused.elapsed().as_secs_f64()
    ));
    holder.signal("CONT");
    wait_until_it_says(&mut holder, "standing by").await;
    mk_pod("after").crash_looping().create(&client, ns).await;
    second
        .wait_for_page("firing", "KubePodCrashLooping", ns, "after")
        .await;
    holder.stop().await;
    standby.stop().await;
    first.assert_exactly(ns, &[("KubePodCrashLooping", "before", 1, 0)]);
    second.assert_exactly(
        ns,
        &[
            ("KubePodCrashLooping", "owed", 1, 0),
            ("KubePodCrashLooping", "during", 1, 0),
            ("KubePodCrashLooping", "after", 1, 0),
        ],
    );
}

#[tokio::test]
async fn replicas_whose_wall_clocks_are_wrong_page_like_others() {
    let plane = ControlPlane::shared().await;
    let client = plane.client().await;
    let ns = "clocks";
    create_namespace(&client, ns).await;

    let right = Installation::new(&plane);
    let right_webhook = Webhook::start();
    let mut right = right.start(&right_webhook);
    right.wait_ready().await;
    let wrong = Installation::new(&plane);
    let wrong_webhook = Webhook::start();
    let mut replicas = Vec::new();
    for (index, clock) in [(0, "10m"), (1, "-10m")] {
        let fault = [("ALERTKUBE_FAULT_CLOCK", clock)];
        let mut replica = wrong.start_shard(&wrong_webhook, index, 2, &fault);
        replica.wait_ready().await;
        replicas.push(replica);
    }
    let offset = replicas[0].metric("alertkube_clock_offset_seconds").await;
    assert!(
        offset.unwrap() < -590.0,
        "the clock is not wrong: {offset:?}"
    );
    // Due in some seconds, and over in some seconds: by the API server's clock.
    let due = mk_pod("due").image_pull_failing(Duration::from_secs(3 * 60 - 10));
    let over = mk_pod("over").oom_killed(Duration::from_secs(3600 - 14));
    due.create(&client, ns).await;
    over.create(&client, ns).await;
    for webhook in [&right_webhook, &wrong_webhook] {
        webhook
            .wait_for_page("firing", "KubePodImagePullFailing", ns, "due")
            .await;
        webhook
            .wait_for_page("resolved", "KubePodOOMKilled", ns, "over")
            .await;
    }
    let times = |webhook: &Webhook| {
        let messages = webhook.delivered();
        let pages = messages.iter().flat_map(|message| {
            let pages = message
                .alerts
                .iter()
                .filter(|page| page.label("namespace") == ns);
            pages.map(|page| (page.label("workload").to_owned(), page.clone(), message.at))
        });
        let mut pages: Vec<_> = pages.collect();
        pages.sort_by_key(|(workload, page, _)| (workload.clone(), page.status.clone()));
        pages
    };
    let (rights, wrongs) = (times(&right_webhook), times(&wrong_webhook));
    assert_eq!((rights.len(), wrongs.len()), (3, 3));
    for ((workload, right, at), (_, wrong, at_wrong)) in rights.iter().zip(&wrongs) {
        assert_eq!(right.labels, wrong.labels);
        let starts = right.starts_at.duration_since(wrong.starts_at).abs();
        assert!(starts.as_secs() < 5, "{workload}: began {starts:#} apart");
        let apart = at.max(at_wrong).duration_since(*at.min(at_wrong));
        assert!(
            apart < Duration::from_secs(5),
            "{workload}: told {apart:?} apart"
        );
    }

    // Nobody takes a Lease for over because its times look old, and one whose times are of the future is over in time.
    for index in 0..2 {
        let own = format!("shard {index}-of-2 served by its own replica");
        wait_until_it_says(&mut replicas[0], &own).await;
    }
    let heir = replicas.pop().unwrap();
    replicas.pop().unwrap().kill();
    let killed = Instant::now();
    let name = pod_of(0, ns, "orphan");
    mk_pod(&name).crash_looping().create(&client, ns).await;
    wrong_webhook
        .wait_for_page("firing", "KubePodCrashLooping", ns, &name)
        .await;
    let unowned = killed.elapsed();
    say(format_args!(
        "clocks 20 minutes apart: the heir paged {:.1} s after kill -9",
        unowned.as_secs_f64()
    ));
    assert!(unowned < TAKEOVER, "{unowned:?}");
    heir.stop().await;
    right.stop().await;
    wrong_webhook.assert_exactly(
        ns,
        &[
            ("KubePodImagePullFailing", "due", 1, 0),
            ("KubePodOOMKilled", "over", 1, 1),
            ("KubePodCrashLooping", &name, 1, 0),
        ],
    );
}
