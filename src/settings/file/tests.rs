use std::{fmt::Write as _, time::Duration};

use proptest::prelude::*;

use super::*;
use crate::{
    alert::Severity,
    rules::{self, Setting, Threshold, Value},
};

fn parse(text: &str) -> Result<Config, String> {
    Config::parse("a.yaml", text).map_err(|error| error.to_string())
}

#[test]
fn what_is_set_is_read_with_its_place() {
    let config = parse(
        "cluster: prod-eu\nrules:\n  KubePodCrashLooping:\n    enabled: true\n    severity: critical\n    for: 5m\n    overrides:\n      - matchers: ['namespace=~\"dev-.*\"']\n        severity: info\n",
    )
    .unwrap();
    let rule = rules::named("KubePodCrashLooping").unwrap();
    assert_eq!(config.cluster.as_deref(), Some("prod-eu"));
    assert_eq!(
        config.tuning.of(rule),
        Some(&Setting {
            enabled: Some(true),
            severity: Some(Severity::Critical),
            r#for: Some(Duration::from_secs(300)),
            ..Setting::default()
        })
    );
    let [changed] = config.tuning.overrides(rule) else {
        panic!("{config:?}");
    };
    assert_eq!(changed.matchers.to_string(), "{namespace=~\"dev-.*\"}");
    assert_eq!(changed.setting.severity, Some(Severity::Info));
    assert_eq!(config.origin(rule, "for").as_deref(), Some("a.yaml:6"));
    assert_eq!(config.origin(rule, "window"), None);
}

#[test]
fn an_empty_file_changes_nothing() {
    for text in [
        "",
        "\n",
        "# nothing\n",
        "---\n",
        "rules:\n",
        "rules: {}\n",
        "\u{feff}",
    ] {
        let config = parse(text).unwrap();
        assert_eq!(
            (config.cluster, config.tuning),
            (None, Tuning::default()),
            "{text:?}"
        );
    }
}

#[test]
fn everything_wrong_is_told_at_once_with_its_place() {
    let text = "\
clutser: prod
cluster: 7
rules:
  KubePodCrashLoping:
    for: 5m
  KubePodCrashLooping:
    enabled: yes
    severity: crit
    for: 15
    fro: 3m
    overrides:
      - matchers: ['namespace=~\"dev-(\"']
        severity: info
      - matchers: ['namespce=\"dev\"']
        severity: info
      - matchers: ['container=\"app\"']
        for: 5m # not known by then
      - matchers: []
        severity: info
      - severity: info
  KubePodCrashLooping: {}
  KubeNodeNotReady: 5
";
    insta::assert_snapshot!(parse(text).unwrap_err());
}

#[test]
fn broken_yaml_is_told_with_its_place() {
    insta::assert_snapshot!(
        [
            "rules: [",
            "rules:\n  a: b: c\n",
            "\tx: y",
            "a: *b\n",
            "rules:\n  {}: 1\n? [a]\n: b\n"
        ]
        .map(|text| parse(text).unwrap_err())
        .join("\n----\n")
    );
}

#[test]
fn the_example_is_valid() {
    let config = parse(include_str!("../../../examples/alertkube.yaml")).unwrap();
    assert_eq!(config.cluster.as_deref(), Some("prod-eu"));
    let rule = rules::named("KubePodCrashLooping").unwrap();
    assert_eq!(config.tuning.overrides(rule).len(), 2);
}

#[test]
fn what_is_shown_is_the_same_configuration() {
    for text in ["", include_str!("../../../examples/alertkube.yaml")] {
        let config = parse(text).unwrap();
        let shown = config.to_yaml();
        let again = parse(&shown).unwrap();
        assert_eq!(again.cluster, config.cluster);
        for rule in rules::all() {
            let setting = |config: &Config| config.tuning.of(rule).cloned().unwrap_or_default();
            assert_eq!(setting(&again), setting(&config), "{shown}");
            assert_eq!(again.tuning.overrides(rule), config.tuning.overrides(rule));
        }
    }
}

#[test]
fn every_default_that_is_shown_is_valid_as_a_setting() {
    let all = parse("").unwrap().to_yaml();
    // Without the comment marks, the defaults are settings.
    let set = all.replace("    # ", "    ");
    let config = parse(&set).unwrap();
    for rule in rules::all() {
        let setting = config.tuning.of(rule).unwrap();
        assert_eq!(setting.r#for, Some(rule.r#for), "{}", rule.name);
        assert_eq!(setting.severity, Some(rule.severity), "{}", rule.name);
        assert_eq!(setting.enabled, Some(rule.enabled), "{}", rule.name);
        for threshold in rule.thresholds {
            let value = setting.thresholds.get(threshold.name);
            assert_eq!(value, Some(&threshold.default), "{}", rule.name);
        }
    }
}

/// Another value than a threshold's default: as it is written, and what it means.
fn other(threshold: &Threshold) -> (String, Value) {
    match threshold.default {
        Value::Duration(default) => {
            let longer = default + Duration::from_secs(1);
            let written = format!("{}s", longer.as_secs());
            (written, Value::Duration(longer))
        }
        Value::Count(default) => ((default + 1).to_string(), Value::Count(default + 1)),
        Value::Percent(default) => (format!("{}%", default - 1), Value::Percent(default - 1)),
    }
}

#[test]
fn every_threshold_of_every_rule_can_be_set_and_is_shown() {
    let mut table = String::new();
    for rule in rules::all().filter(|rule| !rule.thresholds.is_empty()) {
        for threshold in rule.thresholds {
            let (name, (written, value)) = (threshold.name, other(threshold));
            let text = format!(
                "rules:\n  {}:\n    {name}: {written}\n    overrides:\n      - matchers: ['namespace=\"dev\"']\n        {name}: {written}\n",
                rule.name
            );
            let config = parse(&text).unwrap();
            let setting = Setting {
                thresholds: [(name, value)].into(),
                ..Setting::default()
            };
            assert_eq!(config.tuning.of(rule), Some(&setting), "{text}");
            let [changed] = config.tuning.overrides(rule) else {
                panic!("{text}");
            };
            assert_eq!(changed.setting, setting, "{text}");
            let shown = config.to_yaml();
            let line = shown.lines().find(|line| line.contains("set in a.yaml:3"));
            let line = line.unwrap_or_default().trim();
            writeln!(table, "{}: {line}", rule.name).unwrap();
            assert!(shown.contains(&format!("\n        {name}: ")), "{shown}");
            let again = parse(&shown).unwrap();
            assert_eq!(again.tuning.of(rule), Some(&setting), "{shown}");
            assert_eq!(again.tuning.overrides(rule), config.tuning.overrides(rule));
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn a_threshold_takes_only_what_it_can_be() {
    let errors = [
        ("KubePodRestarting", "restarts: 0"),
        ("KubePodRestarting", "restarts: -1"),
        ("KubePodRestarting", "restarts: 3m"),
        ("KubePodRestarting", "window: 3"),
        ("KubeQuotaAlmostFull", "percent: 101"),
        ("KubeQuotaAlmostFull", "percent: 90 percent"),
        ("KubeNodeNotReady", "restarts: 3"),
    ]
    .map(|(rule, set)| parse(&format!("rules:\n  {rule}:\n    {set}\n")).unwrap_err());
    insta::assert_snapshot!(errors.join("\n----\n"));
}

#[test]
fn no_threshold_is_called_as_a_setting_of_every_rule() {
    for rule in rules::all() {
        for threshold in rule.thresholds {
            let taken = reader::OF_RULE.contains(&threshold.name) || threshold.name == "matchers";
            assert!(!taken, "{}: {}", rule.name, threshold.name);
        }
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(
        pieces in proptest::collection::vec(
            prop_oneof![
                Just("rules:\n"), Just("  KubePodCrashLooping:"), Just("\n    for: "), Just("severity: "),
                Just("overrides:\n"), Just("      - matchers: "), Just("'a=~\"("), Just("ä"), Just("["), Just("]"),
                Just("{"), Just("}"), Just("'"), Just("\""), Just("\n"), Just("  "), Just("\t"), Just("&a "), Just("*a"),
                Just("5m"), Just("-1"), Just("1e99"), Just("~"), Just("!!int "), Just("|\n"), Just("---\n"), Just("<<: "), Just("\0"), Just(": "), Just("\r"),
            ],
            0..24,
        )
    ) {
        let text = pieces.concat();
        if let Err(error) = Config::parse("a.yaml", &text) {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}
