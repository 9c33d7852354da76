//! What cannot be read.

use super::*;

const NAME: &str = crate::coordinator::NAME_LABEL;
const INSTANCE: &str = crate::coordinator::INSTANCE_LABEL;

/// Replaces the bytes of a part.
fn damage(server: &Server, name: &str, bytes: &[u8]) {
    let bytes = ByteString(bytes.to_vec());
    patch(server, name, &json!({"binaryData": {"state": bytes}}));
}

#[tokio::test]
async fn a_damaged_part_counts_as_empty_is_kept_aside_and_said_once() {
    let server = server().await;
    let state = state(realistic(3000));
    let (_, version) = serving(&server, &state).await;
    let number = numbers(&state)[2];
    let name = part_name(number);
    damage(&server, &name, b"not gzip");
    let damaged = object(&server, &name);

    let (logs, capturing) = capture();
    let new = replica(&server);
    for _ in 0..2 {
        let (seen, read) = found(&new).await;
        let read = read.unwrap();
        assert_eq!(
            (seen, read.epoch, &read.adopted),
            (version, 5, &state.adopted)
        );
        let lost = state.alerts.parts()[2].len();
        assert!(lost > 0);
        assert_eq!(read.alerts.len(), 3000 - lost);
        assert!(
            read.alerts
                .iter()
                .all(|(subject, note)| state.alerts.get(subject) == Some(note))
        );
    }
    drop(capturing);
    let logs = logs.text();
    assert_eq!(logs.matches("ERROR").count(), 1, "{logs}");
    for part in [
        &*name,
        "its bytes are damaged",
        "may be paged again",
        "the resolve of what has ended",
    ] {
        assert!(logs.contains(part), "{part}: {logs}");
    }

    let kept = format!(
        "{name}-kept-{}",
        damaged["metadata"]["resourceVersion"].as_str().unwrap()
    );
    assert!(logs.contains(&kept), "{logs}");
    let kept = object(&server, &kept);
    assert_eq!(kept["binaryData"], damaged["binaryData"]);
    assert_eq!(
        kept["metadata"]["labels"],
        json!({NAME: "alertkube", INSTANCE: "alertkube"})
    );

    // The next write makes it whole.
    let next = State {
        writer: Some(writer(2)),
        ..state
    };
    write(&new, &next, Some(version)).await;
    assert_eq!(found(&replica(&server)).await.1, Some(next));
}

#[tokio::test]
async fn a_part_of_a_newer_version_is_kept_as_soon_as_a_copy_can_be_made() {
    let server = server().await;
    let state = state(realistic(3000));
    let (store, _) = serving(&server, &state).await;
    let name = part_name(numbers(&state)[1]);
    let newer = json!({config_map::STATE_VERSION: "2"});
    patch(&server, &name, &json!({"metadata": {"annotations": newer}}));
    let before = server.store().len(&CONFIG_MAPS);

    let (logs, capturing) = capture();
    let fault = refuse(&server, 403, Verb::Create);
    let lost = state.alerts.parts()[1].len();
    for _ in 0..2 {
        let (_, read) = found(&store).await;
        assert_eq!(read.unwrap().alerts.len(), 3000 - lost);
        fault.lift();
    }
    drop(capturing);
    let logs = logs.text();
    assert_eq!(logs.matches("it is of version 2").count(), 2, "{logs}");
    assert_eq!(logs.matches("no copy could be kept").count(), 1, "{logs}");
    assert_eq!(server.store().len(&CONFIG_MAPS), before + 1);
}

#[tokio::test]
async fn without_a_head_that_can_be_read_the_state_is_of_no_epoch_and_all_of_it_is_kept() {
    let records = realistic(1000);
    for (annotation, value) in [
        (config_map::STATE_VERSION, json!("2")),
        (config_map::STATE_VERSION, Value::Null),
        (config_map::EPOCH, json!("five")),
        (config_map::ADOPTED, json!("0,x")),
        (config_map::PARTS, json!("3")),
        (config_map::PARTS, json!("4294967295")),
        (config_map::PARTS, json!("2147483648")),
    ] {
        let server = server().await;
        let state = state(records.clone());
        let (store, _) = serving(&server, &state).await;
        let head = part_name(HEAD);
        patch(
            &server,
            &head,
            &json!({"metadata": {"annotations": {annotation: value}}}),
        );
        let (logs, capturing) = capture();
        let (version, read) = found(&store).await;
        drop(capturing);
        let read = read.unwrap();
        assert_eq!(
            (read.epoch, read.adopted.len(), read.alerts.len()),
            (0, 0, 0)
        );
        let parts = numbers(&state).len();
        assert_eq!(logs.text().matches("a copy is kept").count(), parts);
        assert_eq!(server.store().len(&CONFIG_MAPS), 2 * parts);
        // It can be written over, and deleted.
        write(&store, &state, Some(version)).await;
        let (version, read) = found(&replica(&server)).await;
        assert_eq!(read, Some(state));
        assert_eq!(store.delete(SHARD, version).await, Answer::Deleted);
        assert_eq!(server.store().len(&CONFIG_MAPS), parts);
    }
}

#[tokio::test]
async fn a_missing_part_is_said_and_the_others_are_used() {
    let server = server().await;
    let state = state(realistic(3000));
    let (store, _) = serving(&server, &state).await;
    let name = part_name(numbers(&state)[1]);
    let now = sim::DeleteOptions::now();
    server
        .store()
        .delete(&CONFIG_MAPS, NAMESPACE, &name, &now)
        .unwrap();
    let (logs, capturing) = capture();
    let (_, read) = found(&store).await;
    drop(capturing);
    let lost = state.alerts.parts()[1].len();
    assert_eq!(read.unwrap().alerts.len(), 3000 - lost);
    assert!(
        logs.text()
            .contains(&format!("ConfigMap {name} is missing"))
    );
}

#[tokio::test]
async fn objects_of_others_with_the_same_labels_are_left_out() {
    let server = server().await;
    let state = state(realistic(10));
    let (store, version) = serving(&server, &state).await;
    let head = part_name(HEAD);
    for name in [
        "other".to_owned(),
        format!("{head}-x"),
        format!("{head}-01"),
        format!("{head}-kept-7"),
    ] {
        let mut copy = object(&server, &head);
        copy["metadata"] =
            json!({"name": name, "namespace": NAMESPACE, "labels": copy["metadata"]["labels"]});
        server.store().create(&CONFIG_MAPS, copy).unwrap();
    }
    assert_eq!(found(&store).await, (version, Some(state)));
}
