//! Records in memory.

use proptest::prelude::*;

use super::{super::codec, *};
use crate::state::testing::{Note, app, realistic};

fn subject(text: &str) -> Subject {
    text.parse().unwrap()
}

/// As after a write and a read.
fn stored_and_read(records: &Records<Note>) -> Records<Note> {
    let parts = records.parts.iter().map(|part| {
        let bytes = codec::encode(part).unwrap();
        Arc::new(codec::decode(codec::VERSION, &bytes).unwrap())
    });
    Records::from_parts(parts.collect())
}

#[test]
fn a_record_is_made_changed_and_removed_when_it_is_empty() {
    let mut records = Records::<Note>::default();
    let web = app(1);
    assert!(records.is_empty());
    assert_eq!(records.update(&web, |note| note.text.push('a')), ());
    assert_eq!(records.update(&web, |note| note.text.clone()), "a");
    assert_eq!(records.get(&web).unwrap().text, "a");
    assert_eq!(records.len(), 1);
    records.update(&web, |note| note.text.clear());
    assert_eq!(records.get(&web), None);
    assert!(records.is_empty());
    assert_eq!(records.weight(), 0);
}

#[test]
fn a_snapshot_shares_what_does_not_change_and_keeps_what_does() {
    let mut records = realistic(3000);
    let snapshot = records.clone();
    let count = records.parts.len();
    assert!(count > 1, "{count}");
    records.update(&app(7), |note| note.told.clear());
    let differ: Vec<_> = (0..count)
        .filter(|&at| !Arc::ptr_eq(&records.parts[at], &snapshot.parts[at]))
        .collect();
    assert_eq!(differ, [part_of(&app(7), count)]);
    assert_eq!(snapshot.get(&app(7)).unwrap().told.len(), 2);
    assert_ne!(records, snapshot);
}

#[test]
fn a_change_that_changes_nothing_leaves_all_as_it_is() {
    let mut records = realistic(100);
    let snapshot = records.clone();
    records.update(&app(7), |note| note.told.push(note.told[0].clone()));
    records.update(&app(7), |note| note.told.truncate(2));
    let unchanged = records.clone();
    records.update(&app(7), |_| ());
    records.update(&app(100), |_| ());
    assert!(Arc::ptr_eq(&records.parts[0], &unchanged.parts[0]));
    assert_eq!(records, snapshot);
}

#[test]
fn parts_are_filled_evenly_also_where_namespace_and_name_are_alike_and_within_any_shard() {
    const COUNT: usize = 16;
    for total in 1..=4 {
        for shard in Shard::all(total) {
            for alike in [true, false] {
                let keys = (0..).map(|number| {
                    let namespace = if alike {
                        format!("app-{number}")
                    } else {
                        "shop".to_owned()
                    };
                    subject(&format!("Deployment/{namespace}/app-{number}"))
                });
                let mut filled = [0_u32; COUNT];
                for subject in keys
                    .filter(|subject| shard.owns(&ShardKey::of(subject)))
                    .take(100 * COUNT)
                {
                    filled[part_of(&subject, COUNT)] += 1;
                }
                let (least, most) = (filled.iter().min().unwrap(), filled.iter().max().unwrap());
                // 100 on average, so 10 is one standard deviation.
                assert!(
                    *least > 55 && *most < 150,
                    "{shard}, alike: {alike}: {filled:?}"
                );
            }
        }
    }
}

#[test]
fn there_are_as_many_parts_as_the_weight_needs_and_never_too_many() {
    let mut records = Records::<Heavy>::default();
    assert_eq!(records.parts.len(), 1);
    for number in 0..2000 {
        records.update(&app(number), |heavy| heavy.0 = 1 << 10);
        let count = records.parts.len();
        assert!(count.is_power_of_two());
        assert!(records.weight() <= PART_WEIGHT * count);
        assert!(count == 1 || records.weight() * 2 > PART_WEIGHT * count);
    }
    // A single one that is far too large ends up in the largest layout, and no further.
    for weight in [1 << 40, 1 << 50] {
        records.update(&app(0), |heavy| heavy.0 = weight);
        assert_eq!(records.parts.len(), MAX_PARTS);
    }
    assert_eq!(records.len(), 2000);
}

/// Says that it is so heavy.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
struct Heavy(usize);

impl Record for Heavy {
    fn is_empty(&self) -> bool {
        self.0 == 0
    }

    fn weight(&self) -> usize {
        self.0
    }

    fn adopt(&mut self, _older: &Self) {}
}

#[test]
fn what_has_become_small_is_merged_when_it_is_read_but_not_at_once() {
    let mut records = realistic(5000);
    let count = records.parts.len();
    assert!(count >= 8, "{count}");
    for number in 4000..5000 {
        records.update(&app(number), |note| *note = Note::default());
    }
    assert_eq!(
        stored_and_read(&records).parts.len(),
        count,
        "not much smaller"
    );
    for number in 100..4000 {
        records.update(&app(number), |note| *note = Note::default());
    }
    assert_eq!(records.parts.len(), count);
    let read = stored_and_read(&records);
    assert_eq!(read.parts.len(), 1);
    assert_eq!(read, records);
}

#[test]
fn a_record_in_the_wrong_part_is_found_all_the_same() {
    let records = realistic(3000);
    let mut parts = records.parts.clone();
    parts.reverse();
    let read = Records::from_parts(parts);
    assert_eq!(read, records);
    assert!(read.get(&app(7)).is_some());
}

#[test]
fn adopting_takes_what_the_shard_owns_and_keeps_what_is_newer() {
    let shard = Shard { total: 2, index: 0 };
    let owned: Vec<_> = (0..100)
        .filter(|number| shard.owns(&ShardKey::of(&app(*number))))
        .collect();
    let mut own = Records::default();
    own.update(&app(owned[0]), |note| *note = Note::new("newer"));
    let old = realistic(100);
    own.adopt(&old, shard);
    assert_eq!(own.len(), owned.len());
    let merged = own.get(&app(owned[0])).unwrap();
    assert_eq!((&*merged.text, merged.told.len()), ("newer", 2));
    for number in &owned[1..] {
        let (own, old) = (own.get(&app(*number)), old.get(&app(*number)));
        assert!(Arc::ptr_eq(own.unwrap(), old.unwrap()));
    }
}

#[test]
fn adopting_much_at_once_lays_out_enough_parts() {
    let old = realistic(5000);
    let mut own = Records::default();
    own.adopt(&old, Shard { total: 1, index: 0 });
    assert_eq!(own, old);
    assert_eq!(own.parts.len(), old.parts.len());
}

proptest! {
    // Each case packs and unpacks megabytes.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn after_any_changes_what_is_read_is_what_a_plain_map_has(
        changes in prop::collection::vec((0..30_usize, prop::option::weighted(0.7, (0..150_usize, any::<char>()))), 0..60),
        reread in any::<prop::sample::Index>(),
    ) {
        let mut records = Records::<Note>::default();
        let mut model = BTreeMap::new();
        let reread = reread.index(changes.len() + 1);
        for (at, (number, change)) in changes.into_iter().enumerate() {
            if at == reread {
                records = stored_and_read(&records);
            }
            let note = change.map_or_else(Note::default, |(kib, mark)| Note::new(format!("{mark}{}", "x".repeat(kib << 10))));
            records.update(&app(number), |old| *old = note.clone());
            model.insert(app(number), note);
        }
        model.retain(|_, note| !note.is_empty());
        let read = stored_and_read(&records);
        for records in [&records, &read] {
            let all: BTreeMap<_, _> = records.iter().map(|(subject, note)| (subject.clone(), (**note).clone())).collect();
            prop_assert_eq!(&all, &model);
            prop_assert_eq!(records.weight(), records.laid_out(1).weight());
        }
        prop_assert_eq!(read, records);
    }

}

proptest! {
    #[test]
    fn the_part_follows_from_the_key_only(number in any::<usize>(), exponent in 0..10_u32) {
        let count = 1 << exponent;
        let at = part_of(&app(number), count);
        prop_assert!(at < count);
        // With twice as many parts it is the same one, or its new sibling.
        let doubled = part_of(&app(number), 2 * count);
        prop_assert!(doubled == at || doubled == at + count);
    }
}
