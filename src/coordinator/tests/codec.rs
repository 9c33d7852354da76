//! Leases and the record, as they are kept.

use k8s_openapi::api::{coordination::v1::Lease as LeaseObject, core::v1::ConfigMap};
use serde_json::{Value, json};

use super::{
    super::{
        lease::{self, Draft},
        record,
    },
    *,
};
use crate::shard::ownership::{HASH_ID, Lease, Record};

const SHARD: Shard = Shard { total: 3, index: 2 };

fn names() -> Names {
    Names {
        namespace: "monitoring".into(),
        name: "ak".into(),
    }
}

fn lease_of(object: Value) -> Lease {
    lease::read(&serde_json::from_value(object).unwrap())
}

fn a_lease() -> Lease {
    Lease {
        held_by: HeldBy::read("2/3/a"),
        renewed: START.as_microsecond(),
        duration: s(15),
        transitions: 4,
        acknowledged: 7,
        incomplete: true,
        adopted: 6,
        claimed_by: Some("2/3/b".parse().unwrap()),
    }
}

fn write(lease: &Lease, renew: bool, old: Option<LeaseObject>) -> LeaseObject {
    let draft = Draft {
        names: &names(),
        shard: SHARD,
        lease,
        renew,
        expect: Some(Version(42)),
        now: START,
    };
    draft.object(old)
}

#[test]
fn a_lease_that_is_written_is_read_the_same() {
    for lease in [
        a_lease(),
        Lease {
            held_by: HeldBy::Foreign("somebody".into()),
            ..a_lease()
        },
        Lease {
            duration: s(15),
            ..Lease::default()
        },
    ] {
        assert_eq!(lease::read(&write(&lease, false, None)), lease);
    }
    let object = serde_json::to_value(write(&a_lease(), false, None)).unwrap();
    insta::assert_json_snapshot!(object, @r#"
    {
      "apiVersion": "coordination.k8s.io/v1",
      "kind": "Lease",
      "metadata": {
        "annotations": {
          "alertkube.io/acknowledged": "7",
          "alertkube.io/adopted": "6",
          "alertkube.io/claimed-by": "2/3/b",
          "alertkube.io/incomplete": "true"
        },
        "labels": {
          "alertkube.io/shard-index": "2",
          "alertkube.io/shard-total": "3",
          "app.kubernetes.io/instance": "ak",
          "app.kubernetes.io/name": "alertkube"
        },
        "name": "ak-shard-2-of-3",
        "namespace": "monitoring",
        "resourceVersion": "42"
      },
      "spec": {
        "acquireTime": "2026-09-21T14:13:20.000000Z",
        "holderIdentity": "2/3/a",
        "leaseDurationSeconds": 15,
        "leaseTransitions": 4,
        "renewTime": "2026-09-21T14:13:20.000000Z"
      }
    }
    "#);
}

#[test]
fn a_renewal_changes_the_time_even_if_the_clock_stands_still() {
    let lease = a_lease();
    let renewed = lease::read(&write(&lease, true, None));
    assert_eq!(
        renewed,
        Lease {
            renewed: lease.renewed + 1,
            ..lease.clone()
        }
    );
    // One that was written by a clock that is ahead.
    let ahead = Lease {
        renewed: lease.renewed + 600_000_000,
        ..lease
    };
    let renewed = lease::read(&write(&ahead, true, None));
    assert_eq!(renewed.renewed, START.as_microsecond());
}

#[test]
fn it_is_acquired_when_its_holder_changes() {
    let acquired = |object: &LeaseObject| object.spec.clone().unwrap().acquire_time;
    let first = write(&a_lease(), true, None);
    assert_eq!(acquired(&first).unwrap().0, START);
    let mut old = first.clone();
    let spec = old.spec.as_mut().unwrap();
    spec.acquire_time.as_mut().unwrap().0 = crate::testing::at(-100);
    spec.preferred_holder = Some("x".into());
    old.metadata.uid = Some("uid".into());
    let kept = write(&a_lease(), true, Some(old.clone()));
    assert_eq!(acquired(&kept).unwrap().0, crate::testing::at(-100));
    assert_eq!(kept.spec.unwrap().preferred_holder.unwrap(), "x");
    assert_eq!(kept.metadata.uid.unwrap(), "uid");
    let other = Lease {
        held_by: HeldBy::read("2/3/z"),
        ..a_lease()
    };
    assert_eq!(acquired(&write(&other, true, Some(old))).unwrap().0, START);
}

#[test]
fn what_is_missing_on_a_lease_or_cannot_be_read_is_not_said() {
    let nothing = Lease {
        duration: s(15),
        ..Lease::default()
    };
    let named = |holder: &str| Lease {
        held_by: HeldBy::read(holder),
        ..nothing.clone()
    };
    for (object, expected) in [
        (json!({"metadata": {}}), nothing.clone()),
        (json!({"metadata": {}, "spec": {}}), nothing.clone()),
        (
            json!({"metadata": {}, "spec": {"holderIdentity": "", "leaseDurationSeconds": 0, "leaseTransitions": -1}}),
            nothing.clone(),
        ),
        (
            json!({"metadata": {}, "spec": {"holderIdentity": "3/3/x", "leaseDurationSeconds": -5}}),
            named("3/3/x"),
        ),
        (
            json!({
                "metadata": {"annotations": {
                    "alertkube.io/acknowledged": "-1",
                    "alertkube.io/adopted": "many",
                    "alertkube.io/incomplete": "TRUE",
                    "alertkube.io/claimed-by": "me",
                }},
                "spec": {"holderIdentity": "0/3/x"},
            }),
            named("0/3/x"),
        ),
        (
            json!({
                "metadata": {"annotations": {"alertkube.io/acknowledged": "18446744073709551616"}},
                "spec": {"leaseDurationSeconds": 40},
            }),
            Lease {
                duration: s(40),
                ..Lease::default()
            },
        ),
    ] {
        assert_eq!(lease_of(object.clone()), expected, "{object}");
    }
}

#[test]
fn a_duration_that_the_api_server_would_refuse_is_not_written() {
    for (duration, seconds) in [(s(0), 1), (s(15), 15), (Duration::MAX, i32::MAX)] {
        let lease = Lease {
            duration,
            ..a_lease()
        };
        let spec = write(&lease, true, None).spec.unwrap();
        assert_eq!(spec.lease_duration_seconds, Some(seconds));
    }
}

fn config_map(data: &Value) -> ConfigMap {
    let object = json!({"metadata": {"name": "ak-generation"}, "data": data});
    serde_json::from_value(object).unwrap()
}

fn record_of(data: &Value) -> Result<Record, String> {
    record::read(&config_map(data)).map_err(|error| error.to_string())
}

#[test]
fn a_record_that_is_written_is_read_the_same() {
    for previous in [None, Some(3)] {
        let record = Record {
            epoch: 7,
            active: 5,
            previous,
            hash: HASH_ID.into(),
        };
        // Over one that had more.
        let old = ConfigMap {
            data: Some([("previous".into(), "9".into()), ("note".into(), "x".into())].into()),
            ..ConfigMap::default()
        };
        let object = record::object(&names(), &record, Some(Version(42)), Some(old));
        assert_eq!(record::read(&object), Ok(record));
        assert_eq!(object.data.unwrap()["note"], "x");
        assert_eq!(object.metadata.name.unwrap(), "ak-generation");
        assert_eq!(object.metadata.resource_version.unwrap(), "42");
        assert_eq!(
            object.metadata.labels.unwrap()["app.kubernetes.io/instance"],
            "ak"
        );
    }
}

#[test]
fn a_record_that_cannot_be_gone_by_is_an_error() {
    let total = "which is no whole number from 1 to 10000";
    for (data, error) in [
        (json!(null), "it has no \"hash\"".to_owned()),
        (json!({}), "it has no \"hash\"".to_owned()),
        (
            json!({"hash": HASH_ID, "active": "3"}),
            "it has no \"epoch\"".to_owned(),
        ),
        (
            json!({"hash": HASH_ID, "epoch": "1", "active": " "}),
            "it has no \"active\"".to_owned(),
        ),
        (
            json!({"hash": HASH_ID, "epoch": "1", "active": "0"}),
            format!("its \"active\" is \"0\", {total}"),
        ),
        (
            json!({"hash": HASH_ID, "epoch": "1", "active": "10001"}),
            format!("its \"active\" is \"10001\", {total}"),
        ),
        (
            json!({"hash": HASH_ID, "epoch": "1", "active": "3", "previous": "three"}),
            format!("its \"previous\" is \"three\", {total}"),
        ),
        (
            json!({"hash": HASH_ID, "epoch": "-1", "active": "3"}),
            format!(
                "its \"epoch\" is \"-1\", which is no whole number from 1 to {}",
                u64::MAX
            ),
        ),
    ] {
        assert_eq!(record_of(&data), Err(error), "{data}");
    }
    let spaced = json!({"hash": HASH_ID, "epoch": " 4\n", "active": "3", "previous": ""});
    assert_eq!(record_of(&spaced).unwrap().epoch, 4);
}

#[test]
fn a_record_of_another_hash_is_one_that_fits_nobody() {
    for data in [
        json!({"hash": "xxh3", "epoch": "4", "active": "3"}),
        json!({"hash": "xxh3", "generation": "in other words"}),
    ] {
        assert_eq!(&*record_of(&data).unwrap().hash, "xxh3");
    }
    assert_ne!(&*record::unreadable().hash, HASH_ID);
}
