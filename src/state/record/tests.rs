use serde_json::{Value, json};

use super::*;
use crate::{
    notify::Standing,
    testing::{START, at},
};

fn identity(container: &str) -> Labels {
    Labels::new()
        .with("alertname", "KubePodCrashLooping")
        .with("container", container.to_owned())
}

/// What a receiver holds.
fn held(container: &str) -> Debt {
    Debt {
        identity: identity(container),
        standing: Some(Standing {
            labels: identity(container).with("severity", "warning"),
            annotations: Labels::new().with("summary", "it crashes"),
            starts_at: START,
            reference: None,
        }),
        doubtful: Vec::new(),
        owed: None,
        besides: Besides::new(),
    }
}

fn remembered(debts: Vec<Debt>) -> Remembered {
    Remembered {
        receivers: [("webhook".into(), debts)].into(),
        ..Remembered::default()
    }
}

fn read(json: Value) -> Remembered {
    serde_json::from_value(json).unwrap()
}

fn written(record: &Remembered) -> Value {
    serde_json::to_value(record).unwrap()
}

#[test]
fn what_is_written_has_names_that_stay() {
    let mut record = remembered(vec![held("app")]);
    record.ended.push(Ended {
        identity: identity("web"),
        at: at(60),
    });
    insta::assert_json_snapshot!(record);
    assert_eq!(read(written(&record)), record);
}

#[test]
fn what_an_earlier_version_did_not_write_is_nothing() {
    assert_eq!(read(json!({})), Remembered::default());
    let record = read(json!({
        "receivers": { "webhook": [{ "identity": { "alertname": "KubePodCrashLooping" } }] }
    }));
    let debt = &record.receivers["webhook"][0];
    assert_eq!((&debt.standing, &debt.owed), (&None, &None));
    assert_eq!(debt.doubtful, []);
}

#[test]
fn what_a_later_version_has_written_besides_is_written_again() {
    let mut json = written(&remembered(vec![held("app")]));
    json["acknowledgements"] = json!([{ "by": "ops", "at": 1.5, "of": null }]);
    json["receivers"]["webhook"][0]["escalation"] = json!({ "level": 2 });
    let record = read(json.clone());
    assert_eq!(written(&record), json);
    // Also if there is nothing else.
    let record = read(json!({ "acknowledgements": [1] }));
    assert!(!record.is_empty() && record.weight() > 0);
}

#[test]
fn what_only_an_older_record_knows_of_receivers_is_taken_over() {
    let mut own = remembered(vec![held("app")]);
    own.receivers.get_mut("webhook").unwrap()[0].standing = None;
    own.ended.push(Ended {
        identity: identity("over"),
        at: at(60),
    });
    let mut older = remembered(vec![held("app"), held("side"), held("over")]);
    older.receivers.insert("pager".into(), vec![held("app")]);
    older.besides.insert("acknowledgements".into(), json!([1]));
    own.adopt(&older);

    let webhook = &own.receivers["webhook"];
    let containers: Vec<_> = webhook.iter().map(|debt| debt.identity.clone()).collect();
    assert_eq!(containers, [identity("app"), identity("side")]);
    assert_eq!(webhook[0].standing, None, "what is newer stays");
    assert_eq!(own.receivers["pager"], [held("app")]);
    assert_eq!(own.besides["acknowledgements"], json!([1]));

    let mut empty = Remembered::default();
    empty.adopt(&older);
    assert_eq!(empty, older);
}
