//! The one place that knows this replica's index and the total.

use std::ffi::OsString;

use serde::Deserialize;

use super::fnv1a32;

/// The prefix of the two variables, ...
const PREFIX: &str = "ALERTKUBE_SHARD_";
/// ... the total, ...
const TOTAL: &str = "ALERTKUBE_SHARD_TOTAL";
/// ... and the index.
const INDEX: &str = "ALERTKUBE_SHARD_INDEX";

/// Which part of the cluster this replica acts on. Made once, before anything else starts; the default owns everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sharder {
    /// Below `total`.
    index: u32,
    /// At least 1.
    total: u32,
}

/// An index or a total that cannot be used. There is never a default in its place: a replica that owns nothing, or the wrong part, looks healthy
/// while nobody pages for the rest.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum ShardError {
    /// The total is no whole number.
    #[error(
        "{TOTAL} is {0:?}, which is no whole number: set it to the number of replicas, or unset it to own everything (so do 1, 0 and less)"
    )]
    TotalUnreadable(String),
    /// The total is too large.
    #[error("{TOTAL} is {0}, which is too large: set it to the number of replicas")]
    TotalTooLarge(String),
    /// There is more than one shard, and no index.
    #[error(
        "{INDEX} is not set, but {TOTAL} is {total}: set it to 0 to {max}, a different one for each replica, or to the name of the StatefulSet's pod (alertkube-0), which ends in its ordinal",
        max = total - 1
    )]
    IndexMissing {
        /// The total.
        total: u32,
    },
    /// The index is neither a whole number nor the name of a `StatefulSet`'s pod. This is an error also where the index is not used.
    #[error(
        "{INDEX} is {value:?}, which is neither a whole number nor the name of a StatefulSet's pod: {}",
        remedy(*total)
    )]
    IndexUnreadable {
        /// The text.
        value: String,
        /// The total; 1 if unsharded.
        total: u32,
    },
    /// The index is not below the total.
    #[error(
        "{INDEX} is {value:?}, which is out of range: set it to 0 to {max}, or raise {TOTAL} (now {total}) to the number of replicas, on all of them",
        max = total - 1
    )]
    IndexOutOfRange {
        /// The number, or the pod name that ends in it.
        value: String,
        /// The total.
        total: u32,
    },
    /// A variable is not UTF-8.
    #[error("{variable} is {value:?}, which is not UTF-8: set it to a whole number")]
    NotUtf8 {
        /// The variable.
        variable: &'static str,
        /// What can be shown of its value.
        value: String,
    },
    /// The environment is not usable, such as when it has a variable twice.
    #[error("cannot read {TOTAL} and {INDEX}: give each of them once at most")]
    Environment(#[source] envy::Error),
}

impl Default for Sharder {
    fn default() -> Self {
        Self { index: 0, total: 1 }
    }
}

impl Sharder {
    /// Shard `index` of `total`. A total of 1 or less owns everything, and then the index is ignored, whatever it is.
    ///
    /// # Errors
    ///
    /// The index is not in `0..total`, or the total is above 4,294,967,295.
    pub fn new(index: impl Into<i64>, total: impl Into<i64>) -> Result<Self, ShardError> {
        let (index, total) = (index.into(), total.into());
        if total <= 1 {
            return Ok(Self::default());
        }
        let total =
            u32::try_from(total).map_err(|_| ShardError::TotalTooLarge(total.to_string()))?;
        u32::try_from(index)
            .ok()
            .filter(|index| *index < total)
            .map(|index| Self { index, total })
            .ok_or_else(|| ShardError::IndexOutOfRange {
                value: index.to_string(),
                total,
            })
    }

    /// The shard that the values of `ALERTKUBE_SHARD_TOTAL` and `ALERTKUBE_SHARD_INDEX` describe; `None` for one that is unset. White space around
    /// them does not matter.
    ///
    /// The total is a whole number; unset, or at most 1, means unsharded. The index is a whole number, or a `StatefulSet`'s pod name that ends in
    /// `-<ordinal>`. When unsharded, the index may be any number and does not count; but a text that is no number (an empty one, too) is an
    /// error even then, since it shows that something else was meant.
    ///
    /// # Errors
    ///
    /// See [`ShardError`]: a value that cannot be read, or is out of range, and an index that is missing.
    pub fn parse(total: Option<&str>, index: Option<&str>) -> Result<Self, ShardError> {
        let total = total.map_or(Ok(1), read_total)?;
        let unreadable = |value: &str| ShardError::IndexUnreadable {
            value: value.to_owned(),
            total,
        };
        let Some(value) = index else {
            return match total {
                1 => Ok(Self::default()),
                _ => Err(ShardError::IndexMissing { total }),
            };
        };
        let digits = ordinal(value.trim()).ok_or_else(|| unreadable(value))?;
        match digits.parse::<u32>() {
            _ if total == 1 => Ok(Self::default()),
            Ok(index) if index < total => Ok(Self { index, total }),
            // Negative, or more than any total can be.
            Ok(_) | Err(_) => Err(ShardError::IndexOutOfRange {
                value: value.trim().to_owned(),
                total,
            }),
        }
    }

    /// The shard that the environment of this process describes. See [`Sharder::parse`].
    ///
    /// # Errors
    ///
    /// See [`Sharder::parse`]; also, a variable that is not UTF-8.
    pub fn from_env() -> Result<Self, ShardError> {
        Self::from_vars(std::env::vars_os())
    }

    /// The shard that these variables describe. Other variables are not looked at: they may be anything, also no UTF-8.
    fn from_vars(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, ShardError> {
        /// As the variables are called after their prefix.
        #[derive(Deserialize)]
        struct RawEnv {
            total: Option<String>,
            index: Option<String>,
        }

        let mut ours = Vec::with_capacity(2);
        for (name, value) in variables {
            if let Some(variable) = [TOTAL, INDEX].into_iter().find(|ours| name == **ours) {
                let value = value.into_string().map_err(|value| ShardError::NotUtf8 {
                    variable,
                    value: value.to_string_lossy().into_owned(),
                })?;
                ours.push((variable.to_owned(), value));
            }
        }
        let RawEnv { total, index } = envy::prefixed(PREFIX)
            .from_iter(ours)
            .map_err(ShardError::Environment)?;
        Self::parse(total.as_deref(), index.as_deref())
    }

    /// Whether there is more than one shard.
    pub const fn enabled(&self) -> bool {
        self.total > 1
    }

    /// This shard's index, below [`Sharder::total`]; 0 when unsharded.
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// How many shards there are, at least 1; 1 when unsharded.
    pub const fn total(&self) -> u32 {
        self.total
    }

    /// Whether this replica acts on the subject with this key: `fnv1a32(key) mod total == index`.
    pub const fn owns(&self, key: &str) -> bool {
        Self::owner_of(key, self.total) == self.index
    }

    /// The index of the shard, of `total` shards, that owns the subject with this key. A total of 0 counts as 1.
    pub const fn owner_of(key: &str, total: u32) -> u32 {
        match fnv1a32(key.as_bytes()).checked_rem(total) {
            Some(index) => index,
            None => 0,
        }
    }

    /// The name of this shard's Lease, for a deployment of this name (`ALERTKUBE_NAME`). The total is part of it: two generations of a rollout
    /// never share a Lease.
    pub fn lease_name(&self, name: &str) -> String {
        format!("{name}-shard-{}-of-{}", self.index, self.total)
    }

    /// The name of this shard's state `ConfigMap`, for a deployment of this name (`ALERTKUBE_NAME`).
    pub fn state_config_map_name(&self, name: &str) -> String {
        format!("{name}-state-{}-of-{}", self.index, self.total)
    }
}

/// What to do about an index that cannot be read.
fn remedy(total: u32) -> String {
    match total {
        1 => format!(
            "set it to 0, or unset it ({TOTAL} is unset or at most 1, so there are no shards)"
        ),
        _ => format!(
            "set it to 0 to {} ({TOTAL} is {total}), or to a pod name that ends in its ordinal (alertkube-0)",
            total - 1
        ),
    }
}

/// Reads a total: 1 for whatever is less.
fn read_total(value: &str) -> Result<u32, ShardError> {
    let text = value.trim();
    if !is_whole_number(text) {
        return Err(ShardError::TotalUnreadable(value.to_owned()));
    }
    if text.starts_with('-') {
        return Ok(1);
    }
    text.parse::<u32>()
        .map(|total| total.max(1))
        .map_err(|_| ShardError::TotalTooLarge(text.to_owned()))
}

/// Whether a text is a whole number of any size, with or without a sign.
fn is_whole_number(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// The number in a text that is one, or that is the name of a `StatefulSet`'s pod: a DNS name, `-`, and the ordinal.
fn ordinal(text: &str) -> Option<&str> {
    if is_whole_number(text) {
        return Some(text);
    }
    let (set, ordinal) = text.rsplit_once('-')?;
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_name = set.split('.').all(|label| {
        label.bytes().all(|byte| inner(byte) || byte == b'-')
            && label.bytes().next().is_some_and(inner)
            && label.bytes().last().is_some_and(inner)
    });
    (is_name && ordinal.bytes().all(|byte| byte.is_ascii_digit()) && !ordinal.is_empty())
        .then_some(ordinal)
}

#[cfg(test)]
mod tests;
