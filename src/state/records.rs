//! A shard's records in memory: parts that are shared until they change.

use std::{collections::BTreeMap, fmt::Debug, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};

use crate::{
    cluster::Subject,
    shard::{
        ShardKey,
        ownership::{Alerts, Shard},
    },
};

/// From this weight on, on average, there are twice as many parts: JSON of this size compresses to about 64 KiB. Even if it did not compress at all, and
/// one part had twice the average, it would fit into a `ConfigMap` (1 MiB).
const PART_WEIGHT: usize = 384 << 10;

/// The most parts that there are: of 64 KiB each, 64 MiB of state for one shard. It is a bound for what a damaged or hostile object can say.
pub(super) const MAX_PARTS: usize = 1024;

/// What an entry of a part weighs beside its texts: the names of the subject's fields and punctuation.
const ENTRY_WEIGHT: usize = 40;

/// What is remembered about one subject.
pub trait Record:
    Serialize + DeserializeOwned + Clone + Default + PartialEq + Debug + Send + Sync + 'static
{
    /// Whether there is nothing to remember. Such a record is not kept.
    fn is_empty(&self) -> bool;

    /// About how many bytes it has as JSON: decides on the number of parts. It must be cheap.
    fn weight(&self) -> usize;

    /// Takes in what an older record of the same subject knows.
    fn adopt(&mut self, older: &Self);
}

/// The records of some subjects.
#[derive(Debug, Clone)]
pub(super) struct Part<R> {
    // The keys are shared too: a part is copied whenever it changes while a snapshot of it is being written.
    records: BTreeMap<Arc<Subject>, Arc<R>>,
    weight: usize,
}

impl<R> Default for Part<R> {
    fn default() -> Self {
        Self {
            records: BTreeMap::new(),
            weight: 0,
        }
    }
}

impl<R: Record> Part<R> {
    pub fn len(&self) -> usize {
        self.records.len()
    }

    fn insert(&mut self, subject: &Arc<Subject>, record: Arc<R>) {
        self.weight += weight(subject, &record);
        if let Some(old) = self.records.insert(Arc::clone(subject), record) {
            self.weight = self.weight.saturating_sub(weight(subject, &old));
        }
    }

    fn remove(&mut self, subject: &Subject) {
        if let Some(old) = self.records.remove(subject) {
            self.weight = self.weight.saturating_sub(weight(subject, &old));
        }
    }
}

impl<R: Record> PartialEq for Part<R> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && self.records.iter().zip(&other.records).all(
                |((subject, record), (other_subject, other_record))| {
                    subject == other_subject && same(record, other_record)
                },
            )
    }
}

impl<R: Record> Serialize for Part<R> {
    /// `[[subject, record], ...]`, in order, so that equal parts are equal bytes.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entries = self.records.iter();
        serializer.collect_seq(entries.map(|(subject, record)| (&**subject, &**record)))
    }
}

impl<'de, R: Record> Deserialize<'de> for Part<R> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut part = Self::default();
        for (subject, record) in Vec::<(Subject, R)>::deserialize(deserializer)? {
            if !record.is_empty() {
                part.insert(&Arc::new(subject), Arc::new(record));
            }
        }
        Ok(part)
    }
}

fn weight<R: Record>(subject: &Subject, record: &Arc<R>) -> usize {
    let Subject {
        kind,
        namespace,
        name,
    } = subject;
    ENTRY_WEIGHT + kind.len() + namespace.len() + name.len() + record.weight()
}

fn same<R: PartialEq>(one: &Arc<R>, other: &Arc<R>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}

/// The part of `count` (a power of two) that a subject belongs to: a function of its key only.
///
/// The key's 64 bits are folded (the upper half onto the lower, as the hash's authors advise for smaller results): its lowest bit is only the parity of its
/// input, and for `Deployment/web/web` that is always the same, which would leave half of the parts empty. Nor can it be the hash that decides on the
/// shard: with an even number of shards all keys of one share its lowest bit.
fn part_of(subject: &Subject, count: usize) -> usize {
    let key = ShardKey::of(subject);
    let bits = u64::from_str_radix(key.as_str(), 16).unwrap_or_default();
    let folded = (bits >> 32) ^ bits;
    // `count` is at most `MAX_PARTS`: what is cut off does not matter.
    #[expect(clippy::cast_possible_truncation, reason = "see above")]
    let folded = folded as usize;
    folded & (count - 1)
}

/// Records by subject. A clone shares all that is not changed afterwards, and costs one pointer for each part.
#[derive(Debug, Clone)]
pub struct Records<R> {
    /// A power of two many, at most [`MAX_PARTS`].
    parts: Vec<Arc<Part<R>>>,
}

impl<R> Default for Records<R> {
    fn default() -> Self {
        Self {
            parts: vec![Arc::default()],
        }
    }
}

impl<R: Record> Records<R> {
    /// What is remembered about a subject.
    pub fn get(&self, subject: &Subject) -> Option<&Arc<R>> {
        self.part(subject).records.get(subject)
    }

    /// Changes what is remembered about a subject, and returns what `change` does. It gets an empty record if there is none, and one that is empty
    /// afterwards is removed. If nothing has changed, nothing is to be written.
    pub fn update<T>(&mut self, subject: &Subject, change: impl FnOnce(&mut R) -> T) -> T {
        let old = self.get(subject).cloned();
        let mut new = old.as_deref().cloned().unwrap_or_default();
        let result = change(&mut new);
        match old {
            Some(old) if *old == new => {}
            Some(_) if new.is_empty() => self.part_mut(subject).remove(subject),
            None if new.is_empty() => {}
            _ => self.insert(&Arc::new(subject.clone()), Arc::new(new)),
        }
        result
    }

    /// All records, in no order that means anything.
    pub fn iter(&self) -> impl Iterator<Item = (&Subject, &Arc<R>)> {
        let parts = self.parts.iter();
        parts.flat_map(|part| {
            part.records
                .iter()
                .map(|(subject, record)| (&**subject, record))
        })
    }

    /// How many subjects are remembered.
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn parts(&self) -> &[Arc<Part<R>>] {
        &self.parts
    }

    /// Puts parts that were read together. Parts that have become far too many are merged; if a record is not where it belongs, all are laid out anew.
    pub(super) fn from_parts(parts: Vec<Arc<Part<R>>>) -> Self {
        let read = Self { parts };
        let count = read.parts.len();
        let in_place = || {
            let parts = read.parts.iter().enumerate();
            parts.into_iter().all(|(at, part)| {
                let mut subjects = part.records.keys();
                subjects.all(|subject| part_of(subject, count) == at)
            })
        };
        // Half of what makes them grow, so that it does not go to and fro.
        let enough = count_for(read.weight(), PART_WEIGHT / 2);
        if count.is_power_of_two() && enough >= count && in_place() {
            read
        } else {
            read.laid_out(enough)
        }
    }

    fn weight(&self) -> usize {
        self.parts.iter().map(|part| part.weight).sum()
    }

    fn part(&self, subject: &Subject) -> &Part<R> {
        &self.parts[part_of(subject, self.parts.len())]
    }

    fn part_mut(&mut self, subject: &Subject) -> &mut Part<R> {
        let at = part_of(subject, self.parts.len());
        Arc::make_mut(&mut self.parts[at])
    }

    fn insert(&mut self, subject: &Arc<Subject>, record: Arc<R>) {
        self.part_mut(subject).insert(subject, record);
        let count = count_for(self.weight(), PART_WEIGHT);
        if count > self.parts.len() {
            *self = self.laid_out(count);
        }
    }

    /// The same records in another number of parts.
    fn laid_out(&self, count: usize) -> Self {
        let mut parts: Vec<Part<R>> = Vec::new();
        parts.resize_with(count, Part::default);
        for (subject, record) in self.parts.iter().flat_map(|part| &part.records) {
            parts[part_of(subject, count)].insert(subject, Arc::clone(record));
        }
        Self {
            parts: parts.into_iter().map(Arc::new).collect(),
        }
    }
}

/// The number of parts of which none weighs more than `each`, on average.
fn count_for(weight: usize, each: usize) -> usize {
    weight
        .div_ceil(each)
        .clamp(1, MAX_PARTS)
        .next_power_of_two()
}

impl<R: Record> PartialEq for Records<R> {
    /// Whether they are the same records, however they are laid out.
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && self.iter().all(|(subject, record)| {
                other
                    .get(subject)
                    .is_some_and(|other_record| same(record, other_record))
            })
    }
}

impl<R: Record> Alerts for Records<R> {
    fn adopt(&mut self, other: &Self, shard: Shard) {
        let entries = other.parts.iter().flat_map(|part| &part.records);
        for (subject, record) in entries.filter(|(subject, _)| shard.owns(&ShardKey::of(subject))) {
            if self.get(subject).is_some() {
                self.update(subject, |own| own.adopt(record));
            } else {
                self.insert(subject, Arc::clone(record));
            }
        }
    }

    fn beyond(&self, written: &Self) -> Self {
        let mut beyond = Self::default();
        for (subject, record) in self.parts.iter().flat_map(|part| &part.records) {
            let known = written.get(subject);
            if known.is_none_or(|known| !same(known, record)) {
                beyond.insert(subject, Arc::clone(record));
            }
        }
        beyond
    }
}

#[cfg(test)]
mod tests;
