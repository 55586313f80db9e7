//! Numbers and parts of the bytes of a container.

use crate::error::Cause;

/// The bytes of a container that are not read yet.
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl<'a> Bytes<'a> {
    /// The next bytes.
    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], Cause> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or("the data end early")?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Cause> {
        let (taken, rest) = self.0.split_first_chunk().ok_or("the data end early")?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn u32_le(&mut self) -> Result<usize, Cause> {
        self.array().map(|bytes| u32::from_le_bytes(bytes) as usize)
    }

    pub(crate) fn u32_be(&mut self) -> Result<usize, Cause> {
        self.array().map(|bytes| u32::from_be_bytes(bytes) as usize)
    }

    pub(crate) fn u64_be(&mut self) -> Result<u64, Cause> {
        self.array().map(u64::from_be_bytes)
    }
}
