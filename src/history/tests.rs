use std::fs;

use serde_json::{Value, json};

use super::*;
use crate::{
    alert::Engine,
    cluster::{Event, Failure, FailureReason, KindId, Object},
    rules::cases,
    sim::pods::mk_pod,
};

fn time(text: &str) -> jiff::Timestamp {
    text.parse().unwrap()
}

/// A healthy object of each kind, and every object of the rules' cases.
fn all_objects() -> Vec<Value> {
    let mut objects = cases::objects();
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/healthy");
    for file in fs::read_dir(directory).unwrap() {
        let file = file.unwrap().path();
        if file
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            objects.push(serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap());
        }
    }
    objects.push(mk_pod("shop", "web-7d9c5b8f6-x2x4q").build());
    objects
}

#[test]
fn what_is_written_of_an_object_is_all_that_is_read_of_it() {
    let objects = all_objects();
    let mut kinds: Vec<KindId> = Vec::new();
    let mut alerts = 0;
    for value in &objects {
        let object = cases::decode(value).unwrap();
        let written = serde_json::to_value(&object).unwrap();
        let again = cases::decode(&written).unwrap();
        // All fields of the trimmed types are in it.
        assert_eq!(format!("{object:?}"), format!("{again:?}"), "{written}");
        let at = time("2026-06-01T00:00:00Z");
        let found = Engine::new("test").scan([object], at);
        alerts += found.len();
        assert_eq!(found, Engine::new("test").scan([again.clone()], at));
        kinds.push(again.kind());
    }
    kinds.sort();
    kinds.dedup();
    assert_eq!(kinds, KindId::ALL);
    assert!(alerts > 100, "{alerts}");
}

#[test]
fn what_is_written_is_an_object_as_kubernetes_knows_it() {
    // Items that are only counted are written as empty objects, also where Kubernetes has UIDs.
    let counted = "uncountedTerminatedPods";
    for value in all_objects() {
        if value["status"][counted].is_object() {
            continue;
        }
        let written = serde_json::to_value(cases::decode(&value).unwrap()).unwrap();
        assert_eq!(written["apiVersion"], value["apiVersion"]);
        let unknown: Vec<String> = cases::unknown_fields(&written)
            .into_iter()
            .filter(|what| what.starts_with("unknown field"))
            .collect();
        assert_eq!(unknown, <[String; 0]>::default(), "{written}");
    }
}

#[test]
fn nothing_that_no_rule_reads_is_recorded() {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "web-1", "namespace": "shop", "uid": "1",
            "annotations": {"note": "hush"}, "labels": {"password": "hush"},
            "managedFields": [{"manager": "hush"}],
        },
        "spec": {
            "containers": [{
                "name": "app", "image": "hush", "command": ["hush"],
                "env": [{"name": "TOKEN", "value": "hush"}],
                "readinessProbe": {"httpGet": {"path": "/hush"}, "periodSeconds": 5},
            }],
            "volumes": [{"name": "hush", "secret": {"secretName": "hush"}}],
        },
    });
    let written = serde_json::to_string(&cases::decode(&pod).unwrap()).unwrap();
    assert!(!written.contains("hush"), "{written}");
    assert!(written.contains(r#""periodSeconds":5"#), "{written}");
}

fn pod(name: &str) -> Object {
    cases::decode(&json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "uid": name},
    }))
    .unwrap()
}

#[test]
fn what_a_watch_sees_is_written_as_lines() {
    let mut out = Vec::new();
    let mut recorder = Recorder::new(&mut out, "prod", &[KindId::Pod, KindId::Node]);
    let failed = Failure::new(FailureReason::Forbidden, "no\nrights".to_owned());
    let events = [
        (KindId::Pod, Event::ListStarted),
        (KindId::Pod, Event::Listed(pod("a"), 0)),
        (KindId::Pod, Event::ListDone),
        (KindId::Pod, Event::Applied(pod("a"), 0)),
        (KindId::Pod, Event::Applied(pod("b"), 0)),
        (KindId::Pod, Event::Deleted(pod("b"))),
        (KindId::Node, Event::Failed(failed)),
        (KindId::Node, Event::Restored),
    ];
    let mut now = time("2026-01-31T02:00:00Z");
    for (kind, event) in &events {
        recorder.take(*kind, event, now).unwrap();
        now += jiff::SignedDuration::from_secs(1);
    }
    // The clock was corrected.
    let early = time("2026-01-31T01:59:00Z");
    let again = Event::Applied(pod("a"), 0);
    recorder.take(KindId::Pod, &again, early).unwrap();
    assert_eq!(recorder.lines(), 10);
    let text = String::from_utf8(out).unwrap();
    insta::assert_snapshot!(text);

    let mut reader = Reader::new("x", text.as_bytes());
    let mut lines = 0;
    while reader.read().unwrap().is_some() {
        lines += 1;
    }
    assert_eq!((lines, reader.torn()), (10, false));
}

/// Reads to the end, or to the error.
fn read(text: &str) -> Result<(usize, bool), String> {
    let mut reader = Reader::new("night.jsonl", text.as_bytes());
    let mut lines = 0;
    loop {
        match reader.read() {
            Ok(Some(_)) => lines += 1,
            Ok(None) => return Ok((lines, reader.torn())),
            Err(error) => return Err(error.to_string()),
        }
    }
}

const LINE: &str = r#"{"time":"2026-01-31T02:00:01Z","type":"ADDED","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}}"#;

#[test]
fn a_last_line_that_is_torn_is_left_out_wherever_it_was_torn() {
    for end in 1..LINE.len() {
        let text = format!("{LINE}\n{}", &LINE[..end]);
        assert_eq!(read(&text), Ok((1, true)), "{text}");
    }
    assert_eq!(read(LINE), Ok((1, false)), "only the line break is missing");
    assert_eq!(read(&format!("{LINE}\n\n")), Ok((1, false)));
    assert_eq!(read(""), Ok((0, false)));
}

#[test]
fn a_line_that_cannot_be_read_is_named() {
    let with = |line: &str| read(&format!("{LINE}\n{line}\n{LINE}\n")).unwrap_err();
    let errors = [
        with("{"),
        with("[]"),
        with(r#"{"time":"2026-01-31T02:00:01Z","type":"CHANGED"}"#),
        with(r#"{"time":"2 o'clock","type":"ADDED"}"#),
        with(r#"{"time":"2026-01-31T02:00:01Z","type":"ADDED"}"#),
        with(r#"{"time":"2026-01-31T02:00:01Z","type":"SNAPSHOT","of":"Pod"}"#),
        with(r#"{"time":"2026-01-31T02:00:01Z","type":"SNAPSHOT","of":"pods","part":"end"}"#),
        with(r#"{"time":"2026-01-31T02:00:01Z","type":"ADDED","object":{"metadata":{}}}"#),
        with(&LINE.replace(r#""a""#, "7")),
        with(
            &LINE
                .replace("{}", "")
                .replace(r#"{"name":"a"}"#, r#"{"name":"a","generation":"x"}"#),
        ),
        with(&LINE.replace("02:00:01", "01:59:59")),
    ];
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn objects_of_kinds_without_rules_are_passed_over() {
    let mut reader = Reader::new("x", LINE.as_bytes());
    assert!(matches!(reader.read(), Ok(Some((_, Seen::Applied(_))))));
    let other = LINE.replace("Pod", "Widget");
    let mut reader = Reader::new("x", other.as_bytes());
    assert!(matches!(reader.read(), Ok(Some((_, Seen::Unwatched)))));
}

/// A pod whose image cannot be pulled since then.
fn broken(since: &str) -> Object {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "a", "namespace": "shop", "uid": "a", "creationTimestamp": since},
        "spec": {"nodeName": "n1", "containers": [{"name": "app"}]},
        "status": {"phase": "Pending", "startTime": since, "containerStatuses": [{
            "name": "app", "state": {"waiting": {"reason": "ImagePullBackOff"}},
        }]},
    });
    cases::decode(&pod).unwrap()
}

#[test]
fn nothing_is_decided_before_every_kind_is_listed() {
    let mut replay = Replay::new("");
    let recording = Seen::Recording {
        cluster: String::new(),
        kinds: vec![KindId::Pod, KindId::Node],
    };
    let start = time("2026-01-31T02:00:00Z");
    let late = time("2026-01-31T02:30:00Z");
    replay.see(start, &recording).unwrap();
    for seen in [
        Seen::Snapshot(KindId::Pod, Part::Begin),
        Seen::Listed(broken("2026-01-31T01:50:00Z")),
        Seen::Snapshot(KindId::Pod, Part::End),
    ] {
        replay.see(start, &seen).unwrap();
    }
    let failed = |lasting| Seen::Failed {
        kind: KindId::Node,
        lasting,
    };
    replay.see(late, &failed(false)).unwrap();
    assert_eq!(replay.take_notices(), []);
    assert_eq!(replay.waits_for().collect::<Vec<_>>(), [KindId::Node]);
    // It will not be listed.
    replay.see(late, &failed(true)).unwrap();
    replay.finish(late).unwrap();
    let fired: Vec<_> = replay.take_notices().iter().map(|n| n.at).collect();
    assert_eq!(fired, [late]);
}

#[test]
fn what_a_later_list_does_not_have_is_gone() {
    let mut replay = Replay::new("");
    let start = time("2026-01-31T02:00:00Z");
    let broken = broken("2026-01-31T01:50:00Z");
    replay.see(start, &Seen::Applied(broken)).unwrap();
    replay.finish(start).unwrap();
    assert_eq!(replay.take_notices().len(), 1);
    let later = time("2026-01-31T02:10:00Z");
    replay
        .see(later, &Seen::Snapshot(KindId::Pod, Part::Begin))
        .unwrap();
    replay
        .see(later, &Seen::Snapshot(KindId::Pod, Part::End))
        .unwrap();
    replay.finish(time("2026-01-31T03:00:00Z")).unwrap();
    assert_eq!(replay.take_notices().len(), 1, "resolved");
    assert!(replay.alerts().is_empty());
    let error = replay.see(start, &Seen::Unwatched).unwrap_err();
    insta::assert_snapshot!(error, @"2026-01-31T02:00:00Z is before 2026-01-31T03:00:00Z, which was seen already");
}
