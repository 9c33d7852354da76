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

#[cfg(test)]
mod tests {
    use super::*;

    /// A text, its 32-bit and its 64-bit FNV-1a: from the authors' own test program, `test_fnv.c` (public domain).
    const PUBLISHED: [(&[u8], u32, u64); 30] = [
        (b"", 0x811c_9dc5, 0xcbf2_9ce4_8422_2325),
        (b"a", 0xe40c_292c, 0xaf63_dc4c_8601_ec8c),
        (b"b", 0xe70c_2de5, 0xaf63_df4c_8601_f1a5),
        (b"c", 0xe60c_2c52, 0xaf63_de4c_8601_eff2),
        (b"d", 0xe10c_2473, 0xaf63_d94c_8601_e773),
        (b"e", 0xe00c_22e0, 0xaf63_d84c_8601_e5c0),
        (b"f", 0xe30c_2799, 0xaf63_db4c_8601_ead9),
        (b"fo", 0x6222_e842, 0x0898_5907_b541_d342),
        (b"foo", 0xa9f3_7ed7, 0xdcb2_7518_fed9_d577),
        (b"foob", 0x3f50_76ef, 0xdd12_0e79_0c25_12af),
        (b"fooba", 0x39aa_a18a, 0xcac1_65af_a2fe_f40a),
        (b"foobar", 0xbf9c_f968, 0x8594_4171_f739_67e8),
        (b"ch", 0x5f29_9f4e, 0x08a2_5607_b54a_22ae),
        (b"cho", 0xef85_80f3, 0xf5fa_f019_0cf9_0df3),
        (b"chon", 0xac29_7727, 0xf273_9791_0b32_21c7),
        (b"chong", 0x4546_b9c0, 0x2c8c_2b76_062f_22e0),
        (b"chongo", 0xbd56_4e7d, 0xe150_688c_8217_b8fd),
        (b"chongo ", 0x6bdd_5c67, 0xf35a_83c1_0e4f_1f87),
        (b"chongo w", 0xdd77_ed30, 0xd1ed_d10b_5073_44d0),
        (b"chongo wa", 0xf4ca_9683, 0x2a5e_e739_b3dd_b8c3),
        (b"chongo was", 0x4aeb_9bd0, 0xdcfb_970c_a1c0_d310),
        (b"chongo was ", 0xe0e6_7ad0, 0x4054_da76_daa6_da90),
        (b"chongo was h", 0xc2d3_2fa8, 0xf70a_2ff5_8986_1368),
        (b"chongo was he", 0x7f74_3fb7, 0x4c62_8b38_aed2_5f17),
        (b"chongo was her", 0x6900_631f, 0x9dd1_f651_0f78_189f),
        (b"chongo was here", 0xc59c_990e, 0xa3de_85bd_4912_70ce),
        (b"chongo was here!", 0x4485_24fd, 0x858e_2fa3_2a55_e61d),
        (b"chongo was here!\n", 0xd499_30d5, 0x4681_0940_eff5_f915),
        (b"hello", 0x4f9f_2cab, 0xa430_d846_80aa_bd0b),
        (b"\xff\x00\x00\x01", 0xc48f_b86d, 0x6961_1964_91cc_682d),
    ];

    fn fnv1a64(bytes: &[u8]) -> u64 {
        let mut hasher = FnvHasher::default();
        hasher.write(bytes);
        hasher.finish()
    }

    #[test]
    fn the_hashes_are_the_published_ones() {
        for (bytes, hash32, hash64) in PUBLISHED {
            let text = bytes.escape_ascii();
            assert_eq!(fnv1a32(bytes), hash32, "{text}");
            assert_eq!(fnv1a64(bytes), hash64, "{text}");
        }
    }

    #[test]
    fn text_is_hashed_as_its_bytes_and_not_as_rust_hashes_text() {
        use std::hash::Hash as _;

        let mut hasher = FnvHasher::default();
        // Appends 0xff, so that parts of a tuple do not run together.
        "foobar".hash(&mut hasher);
        assert_eq!(hasher.finish(), 0x3452_4ba7_168a_2c15);
        assert_ne!(hasher.finish(), fnv1a64(b"foobar"));

        let subject: Subject = "Deployment/shop/web".parse().unwrap();
        let text = subject.to_string();
        assert_eq!(
            ShardKey::of(&subject).as_str(),
            format!("{:016x}", fnv1a64(text.as_bytes()))
        );
    }

    #[test]
    fn the_key_of_a_subject_never_changes() {
        // The last are the owners for a total of 2, 3, 4, 5 and 8.
        for (text, key, hash, owners) in [
            (
                "Deployment/web/web",
                "eb1615f087cd879a",
                4_090_543_496,
                [0, 2, 0, 1, 0],
            ),
            (
                "Node//node-1",
                "23e2eb2411738689",
                1_627_156_373,
                [1, 2, 1, 3, 5],
            ),
            (
                "StatefulSet/db/db",
                "c186fa54879c67c9",
                2_011_336_981,
                [1, 1, 1, 1, 5],
            ),
            (
                "CronJob/batch/report",
                "2f1a52b4894d4eb6",
                3_294_110_134,
                [0, 1, 2, 4, 6],
            ),
        ] {
            let subject: Subject = text.parse().unwrap();
            let found = ShardKey::of(&subject);
            assert_eq!(found.as_str(), key, "{text}");
            assert_eq!(found.to_string(), key);
            assert_eq!(fnv1a32(key.as_bytes()), hash, "{text}");
            for (total, owner) in [2, 3, 4, 5, 8].into_iter().zip(owners) {
                assert_eq!(
                    crate::shard::Sharder::owner_of(key, total),
                    owner,
                    "{text} of {total}"
                );
            }
        }
    }

    #[test]
    fn leading_zeros_of_a_key_are_kept() {
        let subject = (0..1000)
            .map(|number| Subject {
                kind: "Pod".into(),
                namespace: "shop".into(),
                name: format!("{number}-worker").into(),
            })
            .find(|subject| fnv1a64(subject.to_string().as_bytes()) < 1 << 60)
            .unwrap();
        let key = ShardKey::of(&subject);
        assert_eq!(key.as_str().len(), 16);
        assert!(key.as_str().starts_with('0'), "{key}");
    }
}
