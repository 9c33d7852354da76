//! A part as bytes: JSON, compressed with gzip, whose CRC-32 shows damage.

use std::io::{Read as _, Write as _};

use flate2::{Compression, bufread::GzDecoder, write::GzEncoder};

use super::records::{Part, Record};

/// The version of the format. One that is newer is not read: it may mean something else by the same words.
pub(super) const VERSION: u32 = 1;

/// The most JSON that is unpacked: far more than a part has, far less than what a few hundred KiB of zeros would become.
const MAX_JSON_BYTES: u64 = 64 << 20;

/// A part that cannot be read. No text quotes the part.
#[derive(Debug, thiserror::Error)]
pub(super) enum CodecError {
    /// There is no such object, although the head says so.
    #[error("ConfigMap {0} is missing")]
    NoObject(String),
    /// The head of the state it belongs to cannot be read.
    #[error("its head cannot be read: {0}")]
    Head(String),
    /// The object has no bytes.
    #[error("binaryData.state is missing")]
    NoBytes,
    /// An annotation is missing, or does not say what it should.
    #[error("the annotation {0} is missing or damaged")]
    Annotation(&'static str),
    /// A later version of the program has written it.
    #[error(
        "it is of version {0}, and this program reads up to version {VERSION}: a newer one has written it"
    )]
    Newer(u32),
    /// The checksum does not fit, or it is no gzip at all.
    #[error("its bytes are damaged: {0}")]
    Gzip(std::io::Error),
    /// More follows where it should end.
    #[error("its bytes are damaged: more follows after their end")]
    Trailing,
    /// It is too large to be true.
    #[error("it unpacks to more than {MAX_JSON_BYTES} bytes")]
    TooLarge,
    /// The JSON is not as expected. serde's own text would quote the value.
    #[error("its JSON does not fit ({:?} error at line {}, column {})", .0.classify(), .0.line(), .0.column())]
    Json(#[source] serde_json::Error),
}

/// A part as bytes.
///
/// # Errors
///
/// A record that JSON cannot express.
pub(super) fn encode<R: Record>(part: &Part<R>) -> Result<Vec<u8>, CodecError> {
    let json = serde_json::to_vec(part).map_err(CodecError::Json)?;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&json).map_err(CodecError::Gzip)?;
    encoder.finish().map_err(CodecError::Gzip)
}

/// A part from bytes of the version `version`. They are not looked into unless the version is known and the checksum fits.
///
/// # Errors
///
/// They are damaged, or of a newer version.
pub(super) fn decode<R: Record>(version: u32, bytes: &[u8]) -> Result<Part<R>, CodecError> {
    if version > VERSION {
        return Err(CodecError::Newer(version));
    }
    let mut decoder = GzDecoder::new(bytes);
    let mut json = Vec::new();
    let mut limited = decoder.by_ref().take(MAX_JSON_BYTES + 1);
    limited.read_to_end(&mut json).map_err(CodecError::Gzip)?;
    if json.len() as u64 > MAX_JSON_BYTES {
        return Err(CodecError::TooLarge);
    }
    if !decoder.into_inner().is_empty() {
        return Err(CodecError::Trailing);
    }
    serde_json::from_slice(&json).map_err(CodecError::Json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::testing::{Note, realistic};

    fn part() -> Part<Note> {
        (*realistic(20).parts()[0]).clone()
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn error(version: u32, bytes: &[u8]) -> String {
        decode::<Note>(version, bytes).unwrap_err().to_string()
    }

    #[test]
    fn equal_parts_are_equal_bytes() {
        let part = part();
        let bytes = encode(&part).unwrap();
        let read: Part<Note> = decode(VERSION, &bytes).unwrap();
        assert_eq!(read, part);
        assert_eq!(encode(&read).unwrap(), bytes);
    }

    #[test]
    fn damage_is_noticed_or_changes_nothing() {
        let part = part();
        let bytes = encode(&part).unwrap();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                if let Ok(read) = decode::<Note>(VERSION, &damaged) {
                    assert_eq!(read, part, "bit {bit} of byte {at}");
                }
            }
        }
        for end in 0..bytes.len() {
            assert!(
                decode::<Note>(VERSION, &bytes[..end]).is_err(),
                "cut at {end}"
            );
        }
        let mut longer = bytes.clone();
        longer.extend(&bytes);
        assert!(error(VERSION, &longer).contains("more follows"));
    }

    #[test]
    fn a_newer_version_is_not_looked_into() {
        assert!(error(VERSION + 1, b"anything").contains("of version 2"));
    }

    #[test]
    fn a_part_that_unpacks_to_far_more_than_it_should_is_refused() {
        let bomb = gzip(&vec![b' '; usize::try_from(MAX_JSON_BYTES).unwrap() + 1]);
        assert!(bomb.len() < 1 << 20);
        assert!(error(VERSION, &bomb).contains("unpacks to more than"));
    }

    #[test]
    fn json_that_does_not_fit_is_not_quoted() {
        let odd = gzip(br#"[[{"kind": "Pod", "namespace": "a", "name": "b"}, "hunter2"]]"#);
        let error = error(VERSION, &odd);
        assert!(error.contains("its JSON does not fit"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}
