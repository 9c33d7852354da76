//! What this process could not write down before it lost a shard: whoever serves that next does not know it.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use crate::{
    alert::Notice,
    cluster::Subject,
    notify::Debt,
    shard::ShardKey,
    state::{Records, Remembered},
};

/// What receivers hold and are owed, that is written nowhere. It waits until this replica has charge of it again, if ever: a page that had to leave before it could be
/// written down gets its resolve so.
#[derive(Debug, Default)]
pub(super) struct Unwritten(BTreeMap<Subject, BTreeMap<Cow<'static, str>, Vec<Debt>>>);

impl Unwritten {
    /// Keeps what was lost with a shard.
    pub fn keep(&mut self, lost: &Records<Remembered>) {
        for (subject, record) in lost.iter().filter(|(_, record)| record.has_debts()) {
            let mut record = Remembered::clone(record);
            record.join(self.0.remove(subject).unwrap_or_default());
            self.0.insert(subject.clone(), record.receivers);
        }
    }

    /// An alert has ended while somebody else has charge of it, or nobody.
    pub fn end(&mut self, notice: &Notice) {
        if let Some(receivers) = self.0.get_mut(&notice.alert.subject) {
            let identity = notice.alert.identity();
            let debts = receivers.values_mut().flatten();
            for debt in debts.filter(|debt| debt.identity == identity) {
                debt.owe(notice);
            }
        }
    }

    /// Adds to the records of what this replica has charge of again.
    pub fn add_to(
        &mut self,
        mut records: Vec<(Subject, Arc<Remembered>)>,
        has: impl Fn(&ShardKey) -> bool,
    ) -> Vec<(Subject, Arc<Remembered>)> {
        if self.0.is_empty() {
            return records;
        }
        for (subject, record) in &mut records {
            if let Some(receivers) = self.0.remove(subject) {
                Arc::make_mut(record).join(receivers);
            }
        }
        let (unknown, others): (BTreeMap<_, _>, _) = std::mem::take(&mut self.0)
            .into_iter()
            .partition(|(subject, _)| has(&ShardKey::of(subject)));
        self.0 = others;
        records.extend(unknown.into_iter().map(|(subject, receivers)| {
            let mut record = Remembered::default();
            record.join(receivers);
            (subject, Arc::new(record))
        }));
        records
    }
}
