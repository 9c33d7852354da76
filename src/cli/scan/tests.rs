use std::{sync::LazyLock, time::Duration};

use super::*;
use crate::cli::cluster::ClusterArgs;
use crate::{
    alert::{Labels, Member},
    cluster::{KindId, ObjectRef, Subject},
    rules::Rule,
    shard::ShardKey,
};

static CRASH_LOOPING: Rule = Rule {
    name: "KubePodCrashLooping",
    kind: KindId::Pod,
    severity: Severity::Critical,
    r#for: Duration::from_secs(60),
    description: "a container crashes again and again",
    ..Rule::DEFAULTS
};

static AT: LazyLock<Timestamp> = LazyLock::new(|| time("2026-01-01T12:00:00Z"));

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// An alert that has stood for 10 minutes.
fn mk_alert(subject: &str, state: State, severity: Severity) -> Alert {
    let mut parts = subject.splitn(3, '/').map(Box::from);
    let mut part = || parts.next().unwrap();
    let subject = Subject {
        kind: part(),
        namespace: part(),
        name: part(),
    };
    let starts_at = time("2026-01-01T11:50:00Z");
    Alert {
        rule: &CRASH_LOOPING,
        shard_key: ShardKey::of(&subject),
        labels: Labels::new()
            .with("alertname", CRASH_LOOPING.name)
            .with("namespace", &*subject.namespace)
            .with("severity", severity.as_str())
            .with("workload", &*subject.name),
        annotations: Labels::new().with("summary", "container app crashes:\n exit code 1"),
        severity,
        reason: "CrashLoopBackOff".into(),
        state,
        starts_at,
        fires_at: match state {
            State::Pending => time("2026-01-01T12:05:00Z"),
            State::Firing | State::Inhibited | State::Resolved => time("2026-01-01T11:51:00Z"),
        },
        ends_at: None,
        members: vec![Member {
            object: ObjectRef {
                kind: "Pod".into(),
                namespace: subject.namespace.clone(),
                name: "web-7d4b9-x2x9z".into(),
            },
            node: "worker-1".into(),
            since: starts_at,
            reason: "CrashLoopBackOff".into(),
            summary: "container app crashes: exit code 1".to_owned(),
        }],
        subject,
    }
}

fn mk_found(alerts: Vec<Alert>) -> Found {
    Found {
        alerts,
        errors: Vec::new(),
        objects: 120,
        unwatched: 0,
        at: *AT,
        at_from: AtFrom::Now,
    }
}

/// One of each.
fn mk_mixed() -> Found {
    let mut found = mk_found(vec![
        mk_alert("StatefulSet/shop/db", State::Pending, Severity::Critical),
        mk_alert("Deployment/shop/web", State::Firing, Severity::Warning),
        mk_alert(
            "DaemonSet/kube-system/agent",
            State::Inhibited,
            Severity::Info,
        ),
        mk_alert("Deployment/shop/api", State::Firing, Severity::Critical),
    ]);
    let broken = std::env::temp_dir().join("alertkube-no-such-file.json");
    found.errors = files::read(&[broken]).errors;
    found.errors[0].file = "pods.json".to_owned();
    found.unwatched = 3;
    found.at_from = AtFrom::Newest;
    found
}

fn table_of(found: &Found, colour: bool) -> String {
    let mut out = Vec::new();
    write_table(&mut out, colour, found).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn table_for_people() {
    insta::assert_snapshot!(table_of(&mk_mixed(), false));
}

#[test]
fn table_when_all_is_well() {
    assert_eq!(
        table_of(&mk_found(Vec::new()), false),
        "0 firing, 0 pending in 120 objects\n"
    );
}

#[test]
fn colours_say_nothing_that_the_words_do_not() {
    let coloured = table_of(&mk_mixed(), true);
    assert!(coloured.contains("\x1b[1;31mcritical\x1b[0m"), "{coloured}");
    let mut plain = String::new();
    for (at, part) in coloured.split("\x1b[").enumerate() {
        let text = part.split_once('m').filter(|_| at > 0);
        plain.push_str(text.map_or(part, |(_, text)| text));
    }
    assert_eq!(plain, table_of(&mk_mixed(), false));
}

#[test]
fn json_for_programs() {
    let mut out = Vec::new();
    write_json(&mut out, &mk_mixed()).unwrap();
    insta::assert_snapshot!(String::from_utf8(out).unwrap());
}

#[test]
fn only_what_fires_and_is_severe_enough_fails() {
    let firing = mk_found(vec![mk_alert(
        "Deployment/shop/web",
        State::Firing,
        Severity::Warning,
    )]);
    assert_eq!(exit_of(&firing, None), Exit::Success);
    assert_eq!(exit_of(&firing, Some(Severity::Critical)), Exit::Success);
    assert_eq!(exit_of(&firing, Some(Severity::Warning)), Exit::Found);
    assert_eq!(exit_of(&firing, Some(Severity::Info)), Exit::Found);
    for state in [State::Pending, State::Inhibited] {
        let alert = mk_alert("Deployment/shop/web", state, Severity::Critical);
        let found = mk_found(vec![alert]);
        assert_eq!(exit_of(&found, Some(Severity::Info)), Exit::Success);
    }
}

#[test]
fn an_incomplete_scan_is_a_failure() {
    assert_eq!(exit_of(&mk_mixed(), None), Exit::Failure);
    assert_eq!(exit_of(&mk_mixed(), Some(Severity::Info)), Exit::Failure);
}

#[test]
fn objects_that_tell_no_time_hide_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let args = Args {
        config: ConfigArgs::default(),
        source: SourceArgs {
            cluster: ClusterArgs::default(),
            files: vec![
                file(
                    "timeless.yaml",
                    "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n",
                ),
                file("broken.json", "{"),
            ],
        },
        output: Output::Json,
        fail_on: None,
        explain: None,
        at: None,
    };

    let (_, found) = saved(&args, "", Tuning::default(), &mut |_| ());
    let errors: Vec<_> = found.errors.iter().map(|e| e.reason.to_string()).collect();
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(errors[0].contains("EOF while parsing"), "{errors:?}");
    assert!(errors[1].contains("--at"), "{errors:?}");
    // They were not judged, so they do not count as well.
    assert_eq!(found.objects, 0);
    assert_eq!(exit_of(&found, None), Exit::Failure);

    let at = Some(*AT);
    let (_, found) = saved(&Args { at, ..args }, "", Tuning::default(), &mut |_| ());
    assert_eq!((found.objects, found.errors.len()), (1, 1));
}
