use std::fs;

use super::*;
use crate::{
    cli::{
        cluster::{ClusterArgs, SourceArgs},
        config::ConfigArgs,
        scan::{Args, look},
    },
    settings::file::Config,
};

/// What is read of a shop, with rules that are set so.
fn read(object: &str, config: &str) -> (Search, Engine, Found) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.yaml");
    fs::write(&file, include_str!("shop.yaml")).unwrap();
    let args = Args {
        source: SourceArgs {
            cluster: ClusterArgs::default(),
            files: vec![file],
        },
        config: ConfigArgs::default(),
        output: Output::Table,
        fail_on: None,
        explain: Some(target(object).unwrap()),
        at: Some("2026-11-20T10:00:00Z".parse().unwrap()),
    };
    let tuning = Config::parse("a.yaml", config).unwrap().tuning;
    let (search, engine, found) = look(&args, Some("prod".to_owned()), tuning).unwrap();
    assert!(found.errors.is_empty(), "{:?}", found.errors);
    (search.unwrap(), engine, found)
}

fn table(object: &str, config: &str) -> String {
    let (search, engine, found) = read(object, config);
    let mut out = Vec::new();
    let objects = explained(&search, &engine, &found);
    write_tables(&mut out, false, &objects, &found).unwrap();
    String::from_utf8(out).unwrap()
}

/// The line of a rule in a table, with single spaces.
fn line(table: &str, rule: &str) -> String {
    let lines = table.lines().filter(|line| line.starts_with(rule));
    let words = lines.flat_map(str::split_whitespace);
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_pod_with_what_fires_what_that_explains_and_what_is_quiet() {
    insta::assert_snapshot!(table("pod/shop/web-7c5d8bf9f7-x2x9k", ""));
}

#[test]
fn a_workload_with_the_alerts_of_its_pods() {
    insta::assert_snapshot!(table("deploy/shop/web", ""));
}

#[test]
fn json_for_programs() {
    let (search, engine, found) = read("Deployment/shop/web", "");
    let mut out = Vec::new();
    write_json(&mut out, &explained(&search, &engine, &found), &[]).unwrap();
    insta::assert_snapshot!(String::from_utf8(out).unwrap());
}

#[test]
fn what_waits_for_more_objects_says_so() {
    let table = table("pods/shop/agent-aaaaa", "");
    let line = line(&table, "KubePodRejected");
    assert!(
        line.starts_with("KubePodRejected pending warning 4m -"),
        "{line}"
    );
    assert!(
        line.ends_with("; fires only once 3 objects show it, now 1"),
        "{line}"
    );
}

#[test]
fn what_is_pending_says_since_when_and_until_when() {
    // What it explains would make it fire early.
    let config = "rules: {KubePodCrashLooping: {for: 1h}, KubePodNotReady: {for: 2h}, KubeDeploymentDown: {for: 2h}}\n";
    let (search, engine, found) = read("po/shop/web-7c5d8bf9f7-x2x9k", config);
    let objects = explained(&search, &engine, &found);
    let json = serde_json::to_value(&objects[0].rules).unwrap();
    let row = json.as_array().unwrap().iter();
    let row = row
        .clone()
        .find(|row| row["alert"] == "KubePodCrashLooping");
    let row = row.unwrap();
    assert_eq!(row["state"], "pending");
    assert_eq!(row["since"], "2026-11-20T09:54:30Z");
    assert_eq!(row["firesAt"], "2026-11-20T10:54:30Z");
}

#[test]
fn what_is_off_says_what_it_would_say() {
    let found = line(&table("pdb/shop/web", ""), "KubePdbNeverAllows");
    assert!(
        found.starts_with("KubePdbNeverAllows off - - - it is turned off; else it would say: "),
        "{found}"
    );
    let on = "rules: {KubePdbNeverAllows: {enabled: true}}\n";
    let found = line(&table("pdb/shop/web", on), "KubePdbNeverAllows");
    assert!(
        found.starts_with("KubePdbNeverAllows firing info 2d"),
        "{found}"
    );
    let off = "rules: {KubeNodeNotReady: {enabled: false}}\n";
    let quiet = line(&table("node/node-a", off), "KubeNodeNotReady");
    assert!(
        quiet.starts_with(
            "KubeNodeNotReady off - - - it is turned off; else it would find nothing: "
        ),
        "{quiet}"
    );
}

#[test]
fn what_other_objects_speak_against_is_quiet() {
    let slices = table("svc/shop/web", "");
    let lines = line(&slices, "KubeServiceNoEndpoints");
    assert!(
        lines.contains("quiet - - - another slice of its Service has an endpoint that is ready"),
        "{slices}"
    );
    assert!(
        lines.contains("quiet - - - an endpoint is ready"),
        "{slices}"
    );
    let failed = line(&table("job/shop/report-29919360", ""), "KubeJobFailed");
    assert!(
        failed.ends_with("CronJob shop/report has succeeded since"),
        "{failed}"
    );
}

#[test]
fn whatever_is_asked_about_the_alerts_are_the_same() {
    let alerts = |object: &str| read(object, "").2.alerts;
    let expected = alerts("node/none");
    assert!(!expected.is_empty());
    for object in [
        "Pod/shop/web-7c5d8bf9f7-x2x9k",
        "deploy/shop/web",
        "svc/shop/web",
    ] {
        assert_eq!(alerts(object), expected, "{object}");
    }
}

#[test]
fn every_rule_of_the_kind_is_in_the_table() {
    for (object, kind) in [
        ("Pod/shop/web-7c5d8bf9f7-x2x9k", KindId::Pod),
        ("Pod/shop/agent-aaaaa", KindId::Pod),
        ("Deployment/shop/web", KindId::Deployment),
        ("CronJob/shop/report", KindId::CronJob),
        ("Node/node-a", KindId::Node),
    ] {
        let table = table(object, "");
        for rule in crate::rules::all().filter(|rule| rule.kind == kind) {
            assert!(
                !line(&table, rule.name).is_empty(),
                "{}: {table}",
                rule.name
            );
        }
    }
}

#[test]
fn kinds_are_called_as_kubectl_does() {
    for (word, expected) in [
        ("Pod", "Pod"),
        ("pods", "Pod"),
        ("PO", "Pod"),
        ("statefulset", "StatefulSet"),
        ("storageclass", ""),
        ("apiservices", "APIService"),
        ("services", "Service"),
        ("svc", "Service"),
        ("endpointslice", "EndpointSlice"),
        ("pvc", "PersistentVolumeClaim"),
    ] {
        assert_eq!(kind(word).unwrap_or_default(), expected, "{word}");
    }
    for (short, kind) in SHORT {
        assert!(kinds().any(|known| known == *kind), "{short}");
    }
}

#[test]
fn what_names_no_object_says_what_to_write() {
    let errors = ["", "web", "a/b/c/d", "pod/", "/shop/web", "secret/shop/web"];
    let errors = errors.map(|text| target(text).unwrap_err());
    insta::assert_snapshot!(errors.join("\n"));
    assert_eq!(
        target("node//node-a").unwrap(),
        target("No/node-a").unwrap()
    );
}

#[test]
fn an_object_that_does_not_exist_is_answered_with_what_may_be_meant() {
    let said = |object: &str| {
        let (search, _, found) = read(object, "");
        assert!(search.found().is_empty(), "{object}");
        search.not_found(&found)
    };
    let said = [
        "pod/shop/web",
        "pod/web-7c5d8bf9f7-x2x9k",
        "sts/shop/web",
        "deploy/shop/wbe",
        "node/node-b",
        "node/shop/node-a",
        "pvc/shop/xyz",
    ]
    .map(said);
    insta::assert_snapshot!(said.join("\n"));
}
