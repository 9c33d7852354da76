//! Who holds a Lease.

use std::{fmt, str::FromStr, sync::Arc};

use super::Shard;

/// A replica, as it names itself on the Leases that it holds: `ordinal/total/uid`.
///
/// The uid differs for each process: after a pod was deleted by force two of one ordinal can run side by side, and a process that has restarted
/// must not take for its own what it held in an earlier life.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holder {
    /// Its index.
    pub ordinal: u32,
    /// Its total.
    pub total: u32,
    /// Unique for each process; not empty.
    pub uid: Arc<str>,
}

impl Holder {
    /// The shard that is its own: of its index and its total.
    pub const fn shard(&self) -> Shard {
        Shard {
            total: self.total,
            index: self.ordinal,
        }
    }

    /// Whether the shard is its own. It may hold others: as an heir, or for a hand-over.
    pub fn owns(&self, shard: Shard) -> bool {
        self.shard() == shard
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            ordinal,
            total,
            uid,
        } = self;
        write!(f, "{ordinal}/{total}/{uid}")
    }
}

/// A text that names no replica.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0:?} names no replica: expected ordinal/total/uid, with the ordinal below the total")]
pub struct HolderError(String);

impl FromStr for Holder {
    type Err = HolderError;

    /// Reads what [`Display`](fmt::Display) writes, and nothing else, so that a name that is read and written again is the same.
    fn from_str(text: &str) -> Result<Self, HolderError> {
        let read = || {
            let mut parts = text.splitn(3, '/');
            let holder = Self {
                ordinal: parts.next()?.parse().ok()?,
                total: parts.next()?.parse().ok()?,
                uid: parts.next()?.into(),
            };
            let sound = holder.ordinal < holder.total && !holder.uid.is_empty();
            (sound && holder.to_string() == text).then_some(holder)
        };
        read().ok_or_else(|| HolderError(text.to_owned()))
    }
}

/// What is written on a Lease as its holder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum HeldBy {
    /// Nothing: it is free.
    #[default]
    Nobody,
    /// A replica.
    Replica(Holder),
    /// Something that is no replica's name. It is respected until it expires, like any holder; but it is no replica: not alive, no heir, and never the own one.
    Foreign(Arc<str>),
}

impl HeldBy {
    /// Reads a holder leniently.
    pub fn read(text: &str) -> Self {
        match text.parse() {
            _ if text.is_empty() => Self::Nobody,
            Ok(holder) => Self::Replica(holder),
            Err(_) => Self::Foreign(text.into()),
        }
    }

    /// The replica that holds, if one does.
    pub const fn replica(&self) -> Option<&Holder> {
        match self {
            Self::Replica(holder) => Some(holder),
            Self::Nobody | Self::Foreign(_) => None,
        }
    }

    /// Whether this replica holds.
    pub fn is(&self, holder: &Holder) -> bool {
        self.replica() == Some(holder)
    }
}

impl fmt::Display for HeldBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nobody => Ok(()),
            Self::Replica(holder) => holder.fmt(f),
            Self::Foreign(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for text in ["0/1/a", "2/3/8f0c", "7/8/with/slashes", "0/4294967295/x"] {
            let holder: Holder = text.parse().unwrap();
            assert_eq!(holder.to_string(), text);
            assert_eq!(HeldBy::read(text), HeldBy::Replica(holder));
        }
        let holder: Holder = "2/3/8f0c".parse().unwrap();
        assert!(holder.owns(Shard { total: 3, index: 2 }));
        assert!(!holder.owns(Shard { total: 4, index: 2 }));
    }

    #[test]
    fn a_text_that_names_no_replica_is_foreign_and_kept() {
        for text in [
            "x",
            "/",
            "//",
            "0/1",
            "0/1/",
            "1/1/a",
            "3/2/a",
            "0/0/a",
            "00/1/a",
            "+0/1/a",
            "-1/2/a",
            "0/ 1/a",
            " 0/1/a",
            "0/4294967296/a",
            "alertkube-0_6f1c",
        ] {
            let held = HeldBy::read(text);
            assert_eq!(held, HeldBy::Foreign(text.into()));
            assert_eq!(held.replica(), None);
            assert_eq!(held.to_string(), text);
        }
        assert_eq!(HeldBy::read(""), HeldBy::Nobody);
        assert_eq!(
            "1/1/a".parse::<Holder>().unwrap_err().to_string(),
            "\"1/1/a\" names no replica: expected ordinal/total/uid, with the ordinal below the total"
        );
    }
}
