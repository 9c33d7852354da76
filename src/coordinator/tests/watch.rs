//! What a watch says, and in which version that is so.

use std::{convert::Infallible, sync::atomic::AtomicBool};

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use tokio::{sync::oneshot, task::JoinHandle, time::timeout};

use super::{
    super::{
        trouble::{Resource, Troubles},
        watch::{Selection, Whole, watch},
    },
    *,
};
use crate::sim::Injected;

/// A watch of the Leases, and what it has said: a name, a version, and whether there is such a Lease.
struct Watcher {
    seen: UnboundedReceiver<(String, u64, bool)>,
    complete: oneshot::Receiver<()>,
    task: JoinHandle<Infallible>,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watcher {
    fn new(world: &World) -> Self {
        let client = world.client(&Arc::new(AtomicBool::new(false)));
        let api = Api::<Lease>::namespaced(client, NAMESPACE);
        let selection = Selection::Labels(world.names.selector());
        let (send, seen) = mpsc::unbounded_channel();
        let (completed, complete) = oneshot::channel();
        let task = tokio::spawn(async move {
            let troubles = Troubles::new(NAMESPACE.into());
            let source = Whole(Resource::Lease, api);
            watch(source, selection, &troubles, completed, |seen| {
                let there = seen.object.is_some();
                _ = send.send((seen.name, seen.version.0, there));
            })
            .await
        });
        Self {
            seen,
            complete,
            task,
        }
    }

    async fn next(&mut self) -> (String, u64, bool) {
        timeout(s(90), self.seen.recv()).await.unwrap().unwrap()
    }
}

fn create(world: &World, name: &str) -> u64 {
    let lease = json!({"metadata": {
        "namespace": NAMESPACE, "name": name, "labels": {"app.kubernetes.io/instance": "ak"},
    }});
    let created = world.server.store().create(&LEASES, lease).unwrap();
    created.resource_version()
}

/// Ends all watches, and lets nobody list until that is lifted.
async fn blind(world: &World) -> Injected {
    let refuse = Fault::Refuse(StatusCode::SERVICE_UNAVAILABLE, None);
    let faults = world.server.faults();
    let blind = faults.inject(refuse, On::any().verb(Verb::List));
    let ended = faults.inject(Fault::EndWatches(End::Cut), On::any());
    ended.wait_struck(1).await;
    blind.wait_struck(1).await;
    blind
}

#[tokio::test(start_paused = true)]
async fn it_is_complete_when_the_first_list_was_told() {
    let world = World::new().await;
    let version = create(&world, "a");
    let mut watcher = Watcher::new(&world);
    (&mut watcher.complete).await.unwrap();
    assert_eq!(watcher.seen.try_recv(), Ok(("a".into(), version, true)));
    let version = create(&world, "b");
    assert_eq!(watcher.next().await, ("b".into(), version, true));
}

#[tokio::test(start_paused = true)]
async fn what_is_deleted_is_gone_in_a_version() {
    let world = World::new().await;
    create(&world, "a");
    let mut watcher = Watcher::new(&world);
    watcher.next().await;
    world.delete(&LEASES, "a");
    let gone = world.server.store().version();
    assert_eq!(watcher.next().await, ("a".into(), gone, false));
}

#[tokio::test(start_paused = true)]
async fn what_is_deleted_while_nobody_watches_is_gone_in_the_version_of_the_list() {
    let (_log, _guard) = capture();
    let world = World::new().await;
    create(&world, "a");
    let mut watcher = Watcher::new(&world);
    watcher.next().await;
    let blind = blind(&world).await;
    world.delete(&LEASES, "a");
    let b = create(&world, "b");
    blind.lift();
    assert_eq!(watcher.next().await, ("b".into(), b, true));
    assert_eq!(watcher.next().await, ("a".into(), b, false));
}

#[tokio::test(start_paused = true)]
async fn what_has_lost_its_label_is_still_there() {
    let (_log, _guard) = capture();
    let world = World::new().await;
    create(&world, "a");
    create(&world, "b");
    let mut watcher = Watcher::new(&world);
    watcher.next().await;
    watcher.next().await;
    let bare = json!({"metadata": {"labels": null}});
    let version = || world.server.store().version();
    world.patch(&LEASES, "a", &bare);
    assert_eq!(watcher.next().await, ("a".into(), version(), true));
    // The same while nobody watches.
    let a = version();
    let blind = blind(&world).await;
    world.patch(&LEASES, "b", &bare);
    blind.lift();
    assert_eq!(watcher.next().await, ("a".into(), a, true));
    assert_eq!(watcher.next().await, ("b".into(), version(), true));
    // It is looked for by name with each list, for nobody tells when it goes.
    world.delete(&LEASES, "a");
    let gone = version();
    loop {
        let (name, version, there) = watcher.next().await;
        if name == "a" {
            assert_eq!((version, there), (gone, false));
            break;
        }
    }
}
