//! A small record for the tests of the states.

use serde::{Deserialize, Serialize};

use super::{Record, Records};
use crate::{
    cluster::Subject,
    shard::ownership::{Holder, Shard, State, Writer},
};

/// What was told about a subject, and to whom.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Note {
    pub text: String,
    pub told: Vec<String>,
}

impl Record for Note {
    fn is_empty(&self) -> bool {
        self == &Self::default()
    }

    fn weight(&self) -> usize {
        22 + self.text.len() + self.told.iter().map(|to| 3 + to.len()).sum::<usize>()
    }

    fn adopt(&mut self, older: &Self) {
        for to in &older.told {
            if !self.told.contains(to) {
                self.told.push(to.clone());
            }
        }
    }
}

impl Note {
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            told: Vec::new(),
        }
    }
}

/// The Deployment `shop/app-<number>`.
pub fn app(number: usize) -> Subject {
    Subject {
        kind: "Deployment".into(),
        namespace: "shop".into(),
        name: format!("app-{number}").into(),
    }
}

/// Notes about so many apps, of the size and kind that real ones have: about 600 bytes of JSON each, half of which is alike.
pub fn realistic(count: usize) -> Records<Note> {
    let mut records = Records::default();
    for number in 0..count {
        // What differs in real ones: hashes, uids, times.
        let mut random = fastrand::Rng::with_seed(number as u64);
        let mut hex = |digits: usize| -> String { (0..digits).map(|_| random.digit(16)).collect() };
        let text = format!(
            "KubePodCrashLooping severity=critical namespace=shop workload=app-{number} workload_type=deployment container=app reason=CrashLoopBackOff \
             since=2026-11-02T12:{:02}:{:02}Z member=app-{number}-{}-{} uid={}-{}-{}-{}-{} restarts={} summary=Container app of pod app-{number}-{} is \
             restarting again and again (exit code 1); last message: panic: cannot connect to database at 10.{}.{}.7:5432 fingerprint={}",
            number / 60 % 60,
            number % 60,
            hex(9),
            hex(5),
            hex(8),
            hex(4),
            hex(4),
            hex(4),
            hex(12),
            number % 50,
            hex(9),
            number % 256,
            number / 256 % 256,
            hex(16),
        );
        records.update(&app(number), |note| {
            *note = Note {
                text,
                told: vec!["slack/#oncall".into(), format!("pagerduty/{}", hex(32))],
            };
        });
    }
    records
}

/// Shard 1 of 3.
pub const SHARD: Shard = Shard { total: 3, index: 1 };

/// The holder of `SHARD` in its so-many-eth life.
pub fn writer(life: u32) -> Writer {
    Writer {
        holder: Holder {
            ordinal: 1,
            total: 3,
            uid: format!("alertkube-1_{life:012x}").into(),
        },
        transitions: life,
    }
}

/// A state of epoch 5 by the first writer.
pub fn state(alerts: Records<Note>) -> State<Records<Note>> {
    State {
        writer: Some(writer(1)),
        epoch: 5,
        adopted: [0, 2].into(),
        alerts,
    }
}
