//! What is accepted as a shard, and that every key has one owner.

use proptest::prelude::*;

use super::*;

fn shard(total: &str, index: &str) -> Result<Sharder, ShardError> {
    Sharder::parse(Some(total), Some(index))
}

#[test]
fn unsharded_owns_everything_as_shard_0_of_1() {
    for sharder in [
        Sharder::default(),
        Sharder::new(0, 1).unwrap(),
        Sharder::new(5, 0).unwrap(),
        Sharder::new(-3, -1).unwrap(),
        Sharder::new(i64::MAX, i64::MIN).unwrap(),
        Sharder::parse(None, None).unwrap(),
        // The index is ignored, whatever number it is.
        Sharder::parse(None, Some("7")).unwrap(),
        Sharder::parse(None, Some("-7")).unwrap(),
        Sharder::parse(None, Some("alertkube-3")).unwrap(),
        Sharder::parse(Some("1"), None).unwrap(),
        Sharder::parse(Some("0"), None).unwrap(),
        Sharder::parse(Some(" -2 "), None).unwrap(),
        shard("-99999999999999999999", "1").unwrap(),
        shard("1", "1").unwrap(),
        shard("1", "99999999999999999999").unwrap(),
    ] {
        assert_eq!(sharder, Sharder::default());
        assert!(!sharder.enabled());
        assert_eq!((sharder.index(), sharder.total()), (0, 1));
        for key in ["", "eb1615f087cd879a", "anything"] {
            assert!(sharder.owns(key));
        }
    }
}

#[test]
fn an_index_is_a_number_or_a_pod_name() {
    for (total, index, expected) in [
        ("3", "0", (0, 3)),
        ("3", "2", (2, 3)),
        (" 3\n", "\t2 ", (2, 3)),
        ("+3", "+2", (2, 3)),
        ("003", "02", (2, 3)),
        ("3", "alertkube-2", (2, 3)),
        ("3", " alertkube-2\n", (2, 3)),
        ("12", "alertkube-prod-11", (11, 12)),
        ("3", "0-1", (1, 3)),
        ("3", "a.b-c-1", (1, 3)),
        ("4294967295", "4294967294", (4_294_967_294, 4_294_967_295)),
    ] {
        let sharder = shard(total, index).unwrap();
        assert_eq!(
            (sharder.index(), sharder.total()),
            expected,
            "{total:?} {index:?}"
        );
        assert!(sharder.enabled());
        assert_eq!(Sharder::new(sharder.index(), sharder.total()), Ok(sharder));
    }
}

#[test]
fn a_total_that_cannot_be_read_is_an_error() {
    for total in [
        "",
        " ",
        "three",
        "3 replicas",
        "3.0",
        "0x3",
        "1e1",
        "3,",
        "-",
        "+",
        "--3",
        "alertkube-3",
        "٣",
        "3\u{0}",
    ] {
        for index in [None, Some("0")] {
            assert_eq!(
                Sharder::parse(Some(total), index),
                Err(ShardError::TotalUnreadable(total.to_owned()))
            );
        }
    }
    for total in ["99999999999999999999", "4294967296"] {
        assert_eq!(
            shard(total, "0"),
            Err(ShardError::TotalTooLarge(total.to_owned()))
        );
    }
    assert_eq!(
        Sharder::new(0, 1_i64 << 32),
        Err(ShardError::TotalTooLarge("4294967296".to_owned()))
    );
}

#[test]
fn an_index_that_cannot_be_read_is_an_error_also_where_it_is_not_used() {
    for index in [
        "",
        "  ",
        "one",
        "1.0",
        "0x2",
        "1 2",
        "2nd",
        "-",
        "+",
        "-x",
        "--1",
        "alertkube",
        "alertkube-",
        "alertkube-x",
        "alertkube-1.0",
        "alertkube--1",
        "Alertkube-1",
        "my pod-1",
        "-1-1",
        "a..b-1",
        ".-1",
        "alertkube-+1",
        "alertkube_1",
        "alertkube-0x2",
        "alertkube-٣",
    ] {
        for (total, number) in [(Some("3"), 3), (Some("1"), 1), (None, 1)] {
            assert_eq!(
                Sharder::parse(total, Some(index)),
                Err(ShardError::IndexUnreadable {
                    value: index.to_owned(),
                    total: number
                })
            );
        }
    }
}

#[test]
fn an_index_out_of_range_is_an_error() {
    for index in [
        "3",
        "-1",
        "4294967296",
        "99999999999999999999",
        "alertkube-3",
        "alertkube-99999999999",
    ] {
        assert_eq!(
            shard("3", index),
            Err(ShardError::IndexOutOfRange {
                value: index.to_owned(),
                total: 3
            })
        );
    }
    for index in [-1, 3, i64::MAX] {
        assert!(Sharder::new(index, 3).is_err(), "{index}");
    }
}

#[test]
fn an_index_is_needed_as_soon_as_there_are_shards() {
    assert_eq!(
        Sharder::parse(Some("2"), None),
        Err(ShardError::IndexMissing { total: 2 })
    );
}

#[test]
fn errors_name_variable_value_range_and_remedy() {
    let texts: Vec<_> = [
        Sharder::parse(Some("3 replicas"), None),
        shard("99999999999999999999", "0"),
        Sharder::parse(Some("3"), None),
        shard("3", "1.0"),
        shard("1", ""),
        shard("3", "alertkube-3"),
        Sharder::new(-1, 3),
    ]
    .into_iter()
    .map(|result| result.unwrap_err().to_string())
    .collect();
    insta::assert_snapshot!(texts.join("\n"), @r#"
    ALERTKUBE_SHARD_TOTAL is "3 replicas", which is no whole number: set it to the number of replicas, or unset it to own everything (so do 1, 0 and less)
    ALERTKUBE_SHARD_TOTAL is 99999999999999999999, which is too large: set it to the number of replicas
    ALERTKUBE_SHARD_INDEX is not set, but ALERTKUBE_SHARD_TOTAL is 3: set it to 0 to 2, a different one for each replica, or to the name of the StatefulSet's pod (alertkube-0), which ends in its ordinal
    ALERTKUBE_SHARD_INDEX is "1.0", which is neither a whole number nor the name of a StatefulSet's pod: set it to 0 to 2 (ALERTKUBE_SHARD_TOTAL is 3), or to a pod name that ends in its ordinal (alertkube-0)
    ALERTKUBE_SHARD_INDEX is "", which is neither a whole number nor the name of a StatefulSet's pod: set it to 0, or unset it (ALERTKUBE_SHARD_TOTAL is unset or at most 1, so there are no shards)
    ALERTKUBE_SHARD_INDEX is "alertkube-3", which is out of range: set it to 0 to 2, or raise ALERTKUBE_SHARD_TOTAL (now 3) to the number of replicas, on all of them
    ALERTKUBE_SHARD_INDEX is "-1", which is out of range: set it to 0 to 2, or raise ALERTKUBE_SHARD_TOTAL (now 3) to the number of replicas, on all of them
    "#);
}

#[test]
fn the_environment_is_read_by_exact_names() {
    let read = |variables: &[(&str, &str)]| {
        Sharder::from_vars(
            variables
                .iter()
                .map(|(name, value)| (name.into(), value.into())),
        )
    };
    assert_eq!(read(&[]), Ok(Sharder::default()));
    assert_eq!(
        read(&[
            ("PATH", "/bin"),
            ("ALERTKUBE_SHARD_TOTAL", " 4 "),
            ("ALERTKUBE_SHARD_INDEX", "alertkube-3"),
            ("ALERTKUBE_SHARD_TOTAL_", "9"),
            ("alertkube_shard_total", "9"),
        ]),
        Sharder::new(3, 4)
    );
    assert_eq!(
        read(&[("ALERTKUBE_SHARD_TOTAL", "")]),
        Err(ShardError::TotalUnreadable(String::new()))
    );
    assert_eq!(
        read(&[
            ("ALERTKUBE_SHARD_TOTAL", "3"),
            ("ALERTKUBE_SHARD_INDEX", "")
        ]),
        shard("3", "")
    );
    // An environment can have a name twice.
    let twice = read(&[
        ("ALERTKUBE_SHARD_TOTAL", "2"),
        ("ALERTKUBE_SHARD_TOTAL", "3"),
    ]);
    assert!(
        matches!(twice, Err(ShardError::Environment(_))),
        "{twice:?}"
    );
}

#[cfg(unix)]
#[test]
fn only_our_own_variables_must_be_utf8() {
    use std::os::unix::ffi::OsStringExt as _;

    let bad = || OsString::from_vec(vec![b'3', 0xff]);
    let foreign = Sharder::from_vars([("LS_COLORS".into(), bad()), (bad(), bad())]);
    assert_eq!(foreign, Ok(Sharder::default()));
    assert_eq!(
        Sharder::from_vars([(INDEX.into(), bad())]),
        Err(ShardError::NotUtf8 {
            variable: INDEX,
            value: "3\u{fffd}".to_owned()
        })
    );
}

#[test]
fn names_hold_index_and_total() {
    let sharder = Sharder::new(2, 5).unwrap();
    assert_eq!(sharder.lease_name("alertkube"), "alertkube-shard-2-of-5");
    assert_eq!(
        sharder.state_config_map_name("alertkube"),
        "alertkube-state-2-of-5"
    );
    assert_eq!(Sharder::default().lease_name("prod"), "prod-shard-0-of-1");
    assert_eq!(
        Sharder::default().state_config_map_name("prod"),
        "prod-state-0-of-1"
    );
}

proptest! {
    #[test]
    fn every_key_has_exactly_one_owner(key in any::<String>(), total in 1..200_u32) {
        let owners: Vec<_> = (0..total)
            .filter(|index| Sharder::new(*index, total).unwrap().owns(&key))
            .collect();
        prop_assert_eq!(owners, [Sharder::owner_of(&key, total)]);
        prop_assert_eq!(Sharder::owner_of(&key, total), fnv1a32(key.as_bytes()) % total);
    }

    #[test]
    fn no_text_panics_and_none_gives_a_shard_out_of_range(total in ".*", index in ".*", number in any::<i64>()) {
        for (total, index) in [(&*total, &*index), ("3", &index), (&total, "1"), (&number.to_string(), &index)] {
            if let Ok(sharder) = Sharder::parse(Some(total), Some(index)) {
                prop_assert!(sharder.index() < sharder.total());
            }
        }
    }

    #[test]
    fn numbers_mean_the_same_as_text_and_as_numbers(index in any::<i64>(), small in -2..9_i64, total in any::<i64>(), few in -2..9_i64) {
        for (index, total) in [(index, total), (small, few), (index, few), (small, total)] {
            prop_assert_eq!(shard(&total.to_string(), &index.to_string()), Sharder::new(index, total));
        }
    }
}
