//! A 64-bit hash that tells whether two outputs are equal. The hash does not resist forgery.

use std::fmt;
use xxhash_rust::xxh3::Xxh3Default;

/// The 64-bit XXH3 hash of a sequence of bytes, fed in pieces of any size.
///
/// ```
/// use trijet_cli::digest::Digest;
/// let mut pieces = Digest::new();
/// pieces.update(b"over");
/// pieces.update(b"lap");
/// assert_eq!(pieces.value(), Digest::of(b"overlap").value());
/// ```
#[derive(Clone)]
pub struct Digest(Xxh3Default);

impl Digest {
    /// The digest of no bytes.
    #[must_use]
    pub fn new() -> Self {
        Self(Xxh3Default::new())
    }

    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut digest = Self::new();
        digest.update(bytes);
        digest
    }

    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The hash of all bytes so far.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.digest()
    }
}

impl Default for Digest {
    fn default() -> Self {
        Self::new()
    }
}

/// Sixteen hexadecimal digits.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.value())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hash of no bytes, from the specification of xxHash (`XXH3_64b`, seed 0).
    #[test]
    fn the_empty_input_has_the_published_hash() {
        assert_eq!(Digest::new().to_string(), "2d06800538d394c2");
    }
}
