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
