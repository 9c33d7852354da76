use std::{
    collections::BTreeMap,
    io::Write as _,
    process::{Command, Stdio},
};

use jiff::SignedDuration;

use super::*;
use crate::shard::ownership::Shard;
use crate::{
    alert::{Resolution, State},
    notify::Reason,
    testing::RULE,
};

fn metrics() -> Metrics {
    let metrics = Metrics::new(1, 3, &[&RULE], &["stdout", "webhook"]).unwrap();
    metrics.at_scrape(|gauges| {
        gauges.ownership(&Ownership {
            // These series come and go.
            serving: Shard::all(3).chain(Shard::all(4)).collect(),
            ..Ownership::default()
        });
    });
    metrics
}

/// The value of a series.
fn value(text: &str, series: &str) -> f64 {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{series} is missing in:\n{text}"))
        .parse()
        .unwrap()
}

#[test]
fn every_metric_is_there_from_the_start() {
    insta::assert_snapshot!(metrics().render().unwrap());
}

#[test]
fn names_and_help_follow_prometheus_conventions() {
    let text = metrics().render().unwrap();
    let mut types = BTreeMap::new();
    let mut helps = BTreeMap::new();
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|l| l.split_once(' ')) {
            assert!(types.insert(name, kind).is_none(), "{name} twice");
        } else if let Some((name, help)) =
            line.strip_prefix("# HELP ").and_then(|l| l.split_once(' '))
        {
            helps.insert(name, help);
        }
    }
    assert!(types.len() > 20);
    for (name, kind) in types {
        assert!(name.starts_with("alertkube_"), "{name}");
        assert!(
            name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'),
            "{name}"
        );
        let help = helps.get(name).unwrap_or_else(|| panic!("{name}: no help"));
        assert!(help.ends_with('.') && help.len() > 10, "{name}: {help}");
        assert_eq!(
            kind == "counter",
            name.ends_with("_total"),
            "{name}: counters, and they alone, end in _total"
        );
        // Base units, as `promtool check metrics` asks.
        for wrong in [
            "milliseconds",
            "_ms",
            "minutes",
            "kib",
            "percent",
            "_count",
            "_sum",
            "_bucket",
        ] {
            assert!(!name.contains(wrong), "{name}");
        }
        if kind == "histogram" || name.contains("_age") || name.contains("lag") {
            assert!(name.ends_with("_seconds"), "{name}");
        }
    }
}

/// Not a replacement for the test above, which needs no tool: whoever has the tool gets its opinion, too.
#[test]
fn promtool_is_content_if_it_is_here() {
    let tool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut tool = match tool {
        Ok(tool) => tool,
        Err(error) => {
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
            return;
        }
    };
    let text = metrics().render().unwrap();
    tool.stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let output = tool.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn each_event_counts_where_it_belongs() {
    let metrics = metrics();
    metrics.watch_event(KindId::Pod, WatchEvent::Applied);
    metrics.watch_restarted(KindId::Pod);
    metrics.watch_failed(KindId::Pod, FailureReason::Expired);
    metrics.malformed(KindId::Pod, 3);
    metrics.transition(
        Transition::Resolved(Resolution::Recovered),
        Severity::Critical,
    );
    metrics.send_finished("webhook", None, Duration::from_millis(3));
    metrics.send_finished(
        "webhook",
        Some(Reason::RateLimited),
        Duration::from_millis(3),
    );
    metrics.delivered_after("webhook", Duration::from_secs(400));
    metrics.dropped("webhook");
    metrics.refused("webhook", 2);
    metrics.coalesced("webhook", 4);
    metrics.at_scrape(|gauges| {
        gauges.watch_lag(KindId::Pod, Duration::from_millis(1_500));
        gauges.watch(KindId::Pod, true, false);
        gauges.findings(&RULE, 5);
        gauges.alerts(&BTreeMap::from([((State::Pending, Severity::Warning), 6)]));
        gauges.subjects(7, 8);
        gauges.queue("stdout", 9, Duration::from_secs(10));
        gauges.clock_offset(SignedDuration::from_millis(-1_250));
    });
    let text = metrics.render().unwrap();
    for (series, expected) in [
        ("watch_events_total{kind=\"Pod\",type=\"applied\"}", 1.0),
        ("watch_restarts_total{kind=\"Pod\"}", 1.0),
        ("watch_failures_total{kind=\"Pod\",reason=\"expired\"}", 1.0),
        ("malformed_fields_total{kind=\"Pod\"}", 3.0),
        (
            "alert_transitions_total{severity=\"critical\",transition=\"resolved\"}",
            1.0,
        ),
        ("notifications_total{receiver=\"webhook\"}", 1.0),
        (
            "notifications_failed_total{reason=\"rateLimited\",receiver=\"webhook\"}",
            1.0,
        ),
        (
            "notification_duration_seconds_count{receiver=\"webhook\"}",
            2.0,
        ),
        (
            "detection_to_send_seconds_bucket{receiver=\"webhook\",le=\"300\"}",
            0.0,
        ),
        ("detection_to_send_seconds_count{receiver=\"webhook\"}", 1.0),
        ("notifications_dropped_total{receiver=\"webhook\"}", 1.0),
        ("notifications_refused_total{receiver=\"webhook\"}", 2.0),
        ("notifications_coalesced_total{receiver=\"webhook\"}", 4.0),
        ("watch_lag_seconds{kind=\"Pod\"}", 1.5),
        ("watch_synced{kind=\"Pod\"}", 1.0),
        ("watch_degraded{kind=\"Pod\"}", 0.0),
        ("findings{alertname=\"KubePodCrashLooping\"}", 5.0),
        ("alerts{severity=\"warning\",state=\"pending\"}", 6.0),
        ("subjects{owner=\"owned\"}", 7.0),
        ("subjects{owner=\"foreign\"}", 8.0),
        ("notification_queue_length{receiver=\"stdout\"}", 9.0),
        ("notification_queue_age_seconds{receiver=\"stdout\"}", 10.0),
        ("clock_offset_seconds", -1.25),
        ("shard_index", 1.0),
        ("shards", 3.0),
    ] {
        let found = value(&text, &format!("alertkube_{series}"));
        assert!((found - expected).abs() < 1e-9, "{series} is {found}");
    }
}

const ALERTS: &str = include_str!("../../../alerts/alertkube.yaml");
const ALERTS_TEST: &str = include_str!("../../../alerts/alertkube_test.yaml");

/// A rule about a metric that is not there never fires, and promtool's tests, which bring their own series, would not notice.
#[test]
fn the_rules_about_alertkube_itself_are_about_metrics_that_it_has() {
    let text = metrics().render().unwrap();
    let mut names = 0;
    for word in ALERTS.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
        if word.starts_with("alertkube_") && word != "alertkube_test" {
            names += 1;
            let series = text.lines().any(|line| {
                line.strip_prefix(word)
                    .is_some_and(|rest| rest.starts_with(['{', ' ']))
            });
            assert!(series, "{word} is no series");
        }
    }
    assert!(names > 10);
}

/// Labels that the scrape adds.
const OF_THE_TARGET: [&str; 4] = ["job", "namespace", "instance", "version"];

#[test]
fn the_tests_of_the_rules_are_about_series_that_it_has() {
    let text = metrics().render().unwrap();
    let mut checked = 0;
    for line in ALERTS_TEST.lines() {
        let Some((name, labels)) = line
            .trim()
            .strip_prefix("- series: 'alertkube_")
            .and_then(|series| series.strip_suffix("}'")?.split_once('{'))
        else {
            continue;
        };
        checked += 1;
        let labels: Vec<_> = labels
            .split(", ")
            .filter(|label| {
                OF_THE_TARGET
                    .iter()
                    .all(|added| !label.starts_with(&format!("{added}=")))
            })
            .collect();
        let is_served = text.lines().any(|line| {
            line.strip_prefix(&format!("alertkube_{name}"))
                .is_some_and(|rest| rest.starts_with(['{', ' ']))
                && labels.iter().all(|label| line.contains(label))
        });
        assert!(is_served, "alertkube_{name} with {labels:?} is no series");
    }
    assert!(checked > 20);
}
