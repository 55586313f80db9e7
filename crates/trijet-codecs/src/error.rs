//! Errors: which codec failed, and why.

use std::borrow::Cow;
use std::fmt;

/// The reason for which a codec fails, in plain words.
pub(crate) type Cause = Cow<'static, str>;

/// A block that a codec cannot decode or encode.
///
/// ```
/// use trijet_codecs::{Chain, Codec, Scratch};
///
/// let chain = Chain::new(vec![Codec::Crc32c]);
/// let error = chain.decode(&[0; 9], 0, &mut [0; 5], &mut Scratch::default()).unwrap_err();
/// assert_eq!(error.codec(), "crc32c");
/// assert_eq!(error.cause(), "the checksum differs from the data");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodecError {
    codec: &'static str,
    cause: Cause,
}

impl CodecError {
    pub(crate) fn new(codec: &'static str, cause: impl Into<Cause>) -> Self {
        Self { codec, cause: cause.into() }
    }

    /// The name of the codec that failed.
    pub fn codec(&self) -> &str {
        self.codec
    }

    /// The reason, in plain words.
    pub fn cause(&self) -> &str {
        &self.cause
    }
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.codec, self.cause)
    }
}

impl std::error::Error for CodecError {}

/// The cause of a block that is longer than its room.
pub(crate) fn too_long(most: usize) -> Cause {
    format!("decodes to more than {most} bytes").into()
}

/// The cause of a block that has another length than expected.
pub(crate) fn other_length(length: usize, expected: usize) -> Cause {
    format!("decodes to {length} bytes, and {expected} are expected").into()
}

/// The cause of bytes after the end of the data.
pub(crate) fn trailing(bytes: usize) -> Cause {
    format!("has {bytes} bytes after the end of its data").into()
}
