//! The string that is hashed, and the hash.

use std::{fmt, hash::Hasher as _};

use fnv::FnvHasher;

use crate::cluster::Subject;

/// The 32-bit FNV-1a hash of some bytes (the crate `fnv` has the 64-bit one only).
/// Constants and test vectors are those of the authors, <http://www.isthe.com/chongo/tech/comp/fnv/>.
pub const fn fnv1a32(bytes: &[u8]) -> u32 {
    let mut hash: u32 = 0x811c_9dc5;
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u32).wrapping_mul(0x0100_0193);
        at += 1;
    }
    hash
}

/// What is hashed to find the owner of a subject: the 64-bit FNV-1a of `Kind/namespace/name` as 16 lower-case hex digits.
///
/// Hashing the bare text would be wrong. The FNV prime is odd, so the hash's lowest bit is the parity of its input's, and text that occurs
/// twice cancels itself: for `Deployment/web/web` every even total would leave half of its shards empty.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardKey([u8; 16]);

impl ShardKey {
    /// The key of a subject.
    pub fn of(subject: &Subject) -> Self {
        let mut hasher = FnvHasher::default();
        for part in [
            &*subject.kind,
            "/",
            &*subject.namespace,
            "/",
            &*subject.name,
        ] {
            hasher.write(part.as_bytes());
        }
        let hash = hasher.finish();
        let mut digits = [0; 16];
        for (at, digit) in digits.iter_mut().enumerate() {
            *digit = b"0123456789abcdef"[(hash >> (60 - 4 * at) & 0xf) as usize];
        }
        Self(digits)
    }

    /// The 16 hex digits.
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for ShardKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for ShardKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShardKey({self})")
    }
}
