//! Several replicas at once: each page comes from exactly one of them, its owner.

use std::{fmt::Write as _, hash::Hasher as _};

use futures::future::join_all;

use crate::support::{
    ALERTKUBE, ControlPlane, PATIENCE, Program, Sketch, Webhook, create_namespace, eventually,
    mk_pod,
};

/// The owner of a subject, by the definition and by no code of alertkube: `fnv1a32(hex(fnv1a64("Kind/namespace/name"))) mod total`.
pub fn owner(subject: &str, total: u32) -> usize {
    let mut hasher = fnv::FnvHasher::default();
    hasher.write(subject.as_bytes());
    let mut key = String::new();
    write!(key, "{:016x}", hasher.finish()).unwrap();
    let mut hash: u32 = 2_166_136_261;
    for byte in key.bytes() {
        hash = (hash ^ u32::from(byte)).wrapping_mul(16_777_619);
    }
    (hash % total).try_into().unwrap()
}

/// A broken pod of each of 40 workloads: the workload's name, its subject, the pod.
fn workloads(ns: &str) -> Vec<(String, String, Sketch)> {
    (0..40)
        .map(|number| {
            let name = format!("workload-{number}");
            let pod = mk_pod(&format!("{name}-0")).crash_looping();
            let (kind, pod) = match number % 4 {
                0 => ("StatefulSet", pod.of("apps/v1", "StatefulSet", &name)),
                1 => ("DaemonSet", pod.of("apps/v1", "DaemonSet", &name)),
                _ => ("Deployment", pod.of_deployment(&name)),
            };
            let subject = format!("{kind}/{ns}/{name}");
            (name, subject, pod)
        })
        .collect()
}

async fn each_page_comes_from_its_owner(total: u32) {
    let plane = ControlPlane::shared().await;
    let client = plane.client().await;
    let (ns, early) = (format!("shards-of-{total}"), format!("early-of-{total}"));
    create_namespace(&client, &ns).await;
    create_namespace(&client, &early).await;
    let (broken, breaking) = (workloads(&early), workloads(&ns));
    // Some break before the replicas start, some while they watch.
    join_all(broken.iter().map(|(_, _, pod)| pod.create(&client, &early))).await;

    let all = total.to_string();
    let mut replicas = Vec::new();
    for index in 0..total {
        let webhook = Webhook::start();
        // The index is a number, or the name of a StatefulSet's pod.
        let index = match index {
            0 => "0".to_owned(),
            more => format!("alertkube-{more}"),
        };
        let program = Program::run(
            &plane,
            ALERTKUBE,
            &webhook,
            &[
                ("ALERTKUBE_NAME", &ns),
                ("ALERTKUBE_SHARD_TOTAL", &all),
                ("ALERTKUBE_SHARD_INDEX", &index),
            ],
        );
        replicas.push((program, webhook));
    }
    for (index, (program, _)) in replicas.iter_mut().enumerate() {
        program.wait_ready().await;
        // The first that was ready has served the shards of those that were not there yet.
        let own = format!("shard {index}-of-{total} served by its own replica");
        eventually(format_args!("{own:?}"), PATIENCE, async || {
            let (_, text) = program.get("/readyz?verbose").await?;
            text.contains(&own).then_some(())
        })
        .await;
    }
    join_all(breaking.iter().map(|(_, _, pod)| pod.create(&client, &ns))).await;

    let mut owned: Vec<Vec<_>> = vec![Vec::new(); replicas.len()];
    for (name, subject, _) in &breaking {
        owned[owner(subject, total)].push(("KubePodCrashLooping", name.as_str(), 1, 0));
    }
    for ((_, webhook), expected) in replicas.iter().zip(&owned) {
        assert!(!expected.is_empty(), "a shard without work tests nothing");
        webhook
            .wait_for("all that a shard owns", &ns, PATIENCE, |pages| {
                pages.len() >= expected.len()
            })
            .await;
    }
    // Those that were broken before are paged for by whoever served their shard then: also once, and by one.
    eventually("all that was broken before", PATIENCE, async || {
        let delivered = replicas
            .iter()
            .map(|(_, webhook)| webhook.pages(&early).len());
        (delivered.sum::<usize>() >= broken.len()).then_some(())
    })
    .await;
    let mut webhooks = Vec::new();
    for (program, webhook) in replicas {
        program.stop().await;
        webhooks.push(webhook);
    }
    for (webhook, expected) in webhooks.iter().zip(&owned) {
        webhook.assert_exactly(&ns, expected);
    }
    let pages = webhooks.iter().flat_map(|webhook| webhook.pages(&early));
    let mut told: Vec<_> = pages
        .map(|page| {
            assert_eq!(page.status, "firing", "{page:?}");
            page.labels["workload"].clone()
        })
        .collect();
    told.sort();
    let mut names: Vec<_> = broken.iter().map(|(name, ..)| name.clone()).collect();
    names.sort();
    assert_eq!(told, names);
}

#[tokio::test]
async fn of_two_replicas_the_owner_pages() {
    each_page_comes_from_its_owner(2).await;
}

#[tokio::test]
async fn of_three_replicas_the_owner_pages() {
    each_page_comes_from_its_owner(3).await;
}
