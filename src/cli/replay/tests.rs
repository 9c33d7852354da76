use std::fs;

use serde_json::Value;

use super::*;
use crate::rules::cases;

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// The path of a history under `tests/histories/`.
fn path(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/histories");
    directory.join(format!("{name}.jsonl"))
}

fn replayed(name: &str, until: Option<Timestamp>) -> Timeline {
    let text = fs::read_to_string(path(name)).unwrap();
    for (line, text) in text.lines().enumerate() {
        let line_of_history: Value = serde_json::from_str(text).unwrap();
        let unknown = cases::unknown_fields(&line_of_history["object"]);
        assert!(unknown.is_empty(), "{name}.jsonl:{}: {unknown:?}", line + 1);
    }
    of_history(name, text.as_bytes(), &Config::default(), until).unwrap()
}

fn table(timeline: &Timeline) -> String {
    let mut out = Vec::new();
    write_table(&mut out, false, timeline).unwrap();
    String::from_utf8(out).unwrap()
}

/// The whole timeline of each history is the file beside it.
#[test]
fn every_history_has_its_timeline() {
    let mut names: Vec<String> = fs::read_dir(path("").parent().unwrap())
        .unwrap()
        .map(|file| file.unwrap().path())
        .filter(|file| {
            file.extension()
                .is_some_and(|extension| extension == "jsonl")
        })
        .map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    assert!(names.len() >= 6, "{names:?}");
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../../../tests/histories");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        for name in names {
            let timeline = replayed(&name, None);
            assert_eq!(timeline.notes, [""; 0]);
            insta::assert_snapshot!(name, table(&timeline));
        }
    });
}

#[test]
fn a_rollout_that_works_is_silent() {
    let timeline = replayed("rollout", None);
    assert_eq!(timeline.notices, []);
    assert_eq!(timeline.standing, []);
}

#[test]
fn programs_get_a_line_for_each_transition() {
    let timeline = replayed("namespace_deleted", None);
    let mut out = Vec::new();
    write_json(&mut out, &timeline.notices).unwrap();
    let lines: Vec<Value> = str::from_utf8(&out)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), timeline.notices.len());
    assert_eq!(lines[0]["transition"], "fire");
    assert_eq!(lines[0]["alert"]["state"], "firing");
    let last = lines.last().unwrap();
    assert_eq!(last["transition"], "resolve");
    assert_eq!(last["resolution"], "deleted");
    assert!(last["alert"]["endsAt"].is_string());
}

#[test]
fn it_goes_on_until_a_time_and_not_back() {
    let text = fs::read_to_string(path("rollout_stuck")).unwrap();
    let part: Vec<&str> = text.lines().take(9).collect();
    let part = part.join("\n");
    let mut config = Config::default();
    config.cluster = Some("prod".to_owned());
    let replay = |until| of_history("x", part.as_bytes(), &config, until);
    let timeline = replay(None).unwrap();
    assert_eq!(timeline.notices, []);
    let pending = |alert: &Alert| alert.state == State::Pending;
    assert!(timeline.standing.iter().any(pending));

    let end = time("2026-01-31T02:30:00Z");
    let timeline = replay(Some(end)).unwrap();
    assert!(!timeline.notices.is_empty());
    assert_eq!(timeline.end, Some(end));
    let labels = &timeline.notices[0].alert.labels;
    assert_eq!(labels.get("cluster"), Some("prod"));

    let error = replay(Some(time("2026-01-31T01:00:00Z"))).unwrap_err();
    assert_eq!(error.to_string(), "--until");
}

#[test]
fn a_history_that_is_cut_off_is_replayed_up_to_there() {
    let text = fs::read_to_string(path("drain")).unwrap();
    let cut = &text[..text.len() - 30];
    let timeline = of_history("x", cut.as_bytes(), &Config::default(), None).unwrap();
    let last = text.lines().count();
    assert_eq!(
        timeline.notes,
        [format!(
            "x:{last}: the last line is not whole, and left out: the recording was cut off"
        )]
    );
    assert_eq!(timeline.end, Some(time("2026-01-31T07:00:00Z")));
}

#[test]
fn dumps_are_a_history_too() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, lines: &[&str]| {
        let objects: Vec<Value> = lines
            .iter()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["object"].clone())
            .collect();
        let file = directory.path().join(name);
        let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
        fs::write(&file, list.to_string()).unwrap();
        file
    };
    let text = fs::read_to_string(path("namespace_deleted")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    // The namespace, and the pod in its loop; later, no pod.
    let looping = lines
        .iter()
        .rfind(|line| {
            line.contains("CrashLoopBackOff")
                && line.contains("MODIFIED")
                && !line.contains("deletionTimestamp")
        })
        .unwrap();
    let dumps = [
        (
            time("2026-01-31T02:40:00Z"),
            write("after.json", &lines[..1]),
        ),
        (
            time("2026-01-31T02:18:00Z"),
            write("before.json", &[lines[0], looping]),
        ),
    ];
    let timeline = of_snapshots(
        &dumps,
        &Config::default(),
        Some(time("2026-01-31T04:00:00Z")),
    )
    .unwrap();
    assert!(timeline.errors.is_empty());
    let told: Vec<_> = timeline
        .notices
        .iter()
        .map(|notice| (notice.alert.rule.name, word(notice.transition).0))
        .collect();
    assert_eq!(
        told,
        [
            ("KubePodCrashLooping", "fire"),
            ("KubePodCrashLooping", "resolve")
        ]
    );
    assert_eq!(timeline.notices[0].at, time("2026-01-31T02:18:00Z"));

    let missing = [(
        time("2026-01-31T02:00:00Z"),
        directory.path().join("none.json"),
    )];
    let timeline = of_snapshots(&missing, &Config::default(), None).unwrap();
    assert_eq!(timeline.errors.len(), 1);
}

#[test]
fn a_history_shows_what_other_settings_would_have_done() {
    let text = fs::read_to_string(path("cron_job")).unwrap();
    let told = |config: &Config| {
        let timeline = of_history("cron_job", text.as_bytes(), config, None).unwrap();
        timeline.notices.len()
    };
    assert!(told(&Config::default()) > 0);
    let mut config = Config::default();
    for rule in crate::rules::all() {
        let off = crate::rules::Setting {
            enabled: Some(false),
            ..Default::default()
        };
        config.tuning.set(rule, off);
    }
    assert_eq!(told(&config), 0);
}

#[test]
fn a_snapshot_is_a_time_and_a_file() {
    let file = snapshot("2026-01-31T02:00:00Z=a=b.json").unwrap().1;
    assert_eq!(file, Path::new("a=b.json"));
    for wrong in ["a.json", "2026-01-31T02:00:00Z=", "noon=a.json"] {
        assert!(snapshot(wrong).is_err(), "{wrong}");
    }
}
