//! How often a state is written, and what waits for it.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use super::super::super::ShardKey;

/// How long a send waits for a write of the state that it belongs to. A write takes some 10 ms; one that takes this long is not about to succeed, and
/// paging comes first: a page that leaves without is at worst repeated by a successor, with the same key, while one that does not leave is missing when nobody
/// can repair it. Short, against the minutes that a condition has stood by then.
pub const UNSAVED: Duration = Duration::from_secs(2);

/// How long a send waits that is no page. Its write is put off, as far as [`LONGEST_DEBT`]; and it may be late, but who crashes after it must not be taken over by somebody who
/// does not know of it: what was told to be over, and began again since, would pass for something that goes on and was told.
const NOT_URGENT: Duration = Duration::from_secs(62);

/// Between the starts of two writes that nobody waits for. What they contain is then at most so much older than what is known.
const BETWEEN: Duration = Duration::from_secs(1);

/// How much is written on average, in bytes per second and shard. Every version of an object stays in etcd until it is compacted (each 5 minutes), in a database
/// of 2 GiB by default (<https://etcd.io/docs/v3.5/dev-guide/limit/>) that all of the cluster shares: this is at most 20 MiB a shard.
const BYTES_PER_SECOND: u64 = 64 * 1024;

/// For how long what was written beyond that can hold up what nobody waits for. A large state is written whole when its shard changes hands.
const LONGEST_DEBT: Duration = Duration::from_secs(60);

/// Slows down the writes of one shard's state that nobody waits for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// When the last write began, and ...
    last: Option<Instant>,
    /// ... when all that was written is paid for.
    paid_at: Option<Instant>,
}

impl Pace {
    pub const fn new() -> Self {
        Self {
            last: None,
            paid_at: None,
        }
    }

    /// A write begins.
    pub const fn begin(&mut self, now: Instant) {
        self.last = Some(now);
    }

    /// So much was written, of any kind.
    pub fn wrote(&mut self, bytes: u64, now: Instant) {
        let cost = Duration::from_micros(bytes.saturating_mul(1_000_000) / BYTES_PER_SECOND);
        let from = self.paid_at.map_or(now, |paid_at| paid_at.max(now));
        let owed = (from - now).saturating_add(cost).min(LONGEST_DEBT);
        self.paid_at = Some(now + owed);
    }

    /// When a write that nobody waits for may begin; nothing: at any time.
    pub fn next(&self) -> Option<Instant> {
        self.last.map(|last| last + BETWEEN).max(self.paid_at)
    }

    pub fn allows(&self, now: Instant) -> bool {
        self.next().is_none_or(|next| next <= now)
    }
}

/// Keys for which something is to be sent that the written state does not contain yet.
#[derive(Debug, Default)]
pub(super) struct Promises(BTreeMap<ShardKey, Promise>);

#[derive(Debug, Clone, Copy)]
struct Promise {
    /// Of the book.
    revision: u64,
    since: Instant,
    /// Whether the write is not put off for it.
    urgent: bool,
}

impl Promises {
    /// One that is made again waits for the newer write, but not for longer: a condition that changes all the time is paged, too.
    pub fn add(&mut self, key: ShardKey, revision: u64, urgent: bool, now: Instant) {
        let promise = self.0.entry(key).or_insert(Promise {
            revision,
            since: now,
            urgent,
        });
        promise.revision = revision;
        promise.urgent |= urgent;
    }

    /// All up to this revision of the book are kept. Whether there were any.
    pub fn written(&mut self, revision: u64) -> bool {
        let open = self.0.len();
        self.0.retain(|_, promise| promise.revision > revision);
        self.0.len() < open
    }

    pub fn are_urgent(&self) -> bool {
        self.0.values().any(|promise| promise.urgent)
    }

    pub fn is_urgent(&self, key: &ShardKey) -> bool {
        self.0.get(key).is_some_and(|promise| promise.urgent)
    }

    /// Until when a send for this key waits.
    pub fn until(&self, key: &ShardKey) -> Option<Instant> {
        self.0.get(key).map(|promise| {
            let wait = if promise.urgent { UNSAVED } else { NOT_URGENT };
            promise.since + wait
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn writes_are_a_second_apart_and_large_ones_further() {
        let start = Instant::now();
        let mut pace = Pace::new();
        assert!(pace.allows(start));
        pace.begin(start);
        pace.wrote(1024, start);
        assert!(!pace.allows(start + Duration::from_millis(999)));
        assert!(pace.allows(start + s(1)));
        // 5 s, and 3 s of them are left when the next comes, which nobody could hold up.
        pace.wrote(5 * BYTES_PER_SECOND, start + s(10));
        pace.begin(start + s(12));
        pace.wrote(2 * BYTES_PER_SECOND, start + s(12));
        assert_eq!(pace.next(), Some(start + s(17)));
        // What was not written in a quiet hour is not saved up.
        pace.wrote(2 * BYTES_PER_SECOND, start + s(3600));
        assert_eq!(pace.next(), Some(start + s(3602)));
    }

    #[test]
    fn a_debt_is_forgiven_at_last() {
        let start = Instant::now();
        let mut pace = Pace::new();
        pace.wrote(u64::MAX, start);
        pace.wrote(1 << 30, start + s(1));
        assert_eq!(pace.next(), Some(start + s(61)));
    }
}
