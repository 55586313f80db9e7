//! The file as the bytes of its structure, with limits for damaged files.

use super::cursor::{FieldCursor, Widths};
use super::fault::{Fault, Outcome};
use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use trijet_codecs::lookup3;

/// The bytes that one read of the structure counts as, at least.
const READ_BYTES_MIN: u64 = 64;
/// The bytes that the structure of any file may have, and the part of a file that may be structure.
/// A damaged file can name the same bytes many times, and would be read for hours.
const STRUCTURE_BYTES: u64 = 64 << 20;
const STRUCTURE_PARTS: u64 = 4;
/// Maximum size of one part of the structure. The library of HDF5 cuts long arrays into pages.
const PART_BYTES_MAX: u64 = 64 << 20;
const SIGNATURE_BYTES: usize = 4;
const CHECKSUM_BYTES: usize = 4;

/// The file, as the readers of its parts see it.
#[derive(Debug)]
pub(in crate::format::hdf5) struct Structure {
    file: File,
    /// The length of the file.
    bytes: u64,
    /// The bytes that may still be read or copied.
    left: Cell<u64>,
    /// The offset of the address 0, which is after the block of a user.
    pub(super) base: u64,
    pub(super) widths: Widths,
    /// Whether checksums are compared. They are not in tests that damage a file, and not by a
    /// fuzzer, which would rarely find the right one.
    checks_sums: bool,
}

impl Structure {
    pub(super) fn new(file: File, bytes: u64) -> Self {
        let left = bytes.saturating_mul(STRUCTURE_PARTS).saturating_add(STRUCTURE_BYTES);
        let (left, widths) = (Cell::new(left), Widths { address: 8, length: 8 });
        Self { file, bytes, left, base: 0, widths, checks_sums: !cfg!(fuzzing) }
    }

    #[cfg(test)]
    pub(super) fn without_checksums(self) -> Self {
        Self { checks_sums: false, ..self }
    }

    #[cfg(test)]
    pub(super) fn with_left(self, left: u64) -> Self {
        Self { left: Cell::new(left), ..self }
    }

    /// A structure over these bytes.
    #[cfg(test)]
    pub(super) fn of_bytes(bytes: &[u8]) -> Self {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(bytes, 0).unwrap();
        Self::new(file, bytes.len() as u64)
    }

    /// The bytes that may still be read or copied.
    #[cfg(test)]
    pub(super) fn left(&self) -> u64 {
        self.left.get()
    }

    /// The offset in the file of `bytes` bytes at an address.
    pub(in crate::format::hdf5) fn offset(&self, address: u64, bytes: u64) -> Outcome<u64> {
        let offset = self.base.checked_add(address);
        let is_inside =
            |offset: &u64| offset.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        offset.filter(is_inside).ok_or_else(|| {
            Fault::damaged(format!("{bytes} bytes at {address} are not in the file"))
        })
    }

    /// The bytes at an address.
    pub(super) fn read(&self, address: u64, bytes: u64) -> Outcome<Vec<u8>> {
        let offset = self.offset(address, bytes)?;
        if bytes > PART_BYTES_MAX {
            return Err(Fault::damaged(format!("a part of it has {bytes} bytes")));
        }
        self.charge(READ_BYTES_MIN.max(bytes))?;
        let length = usize::try_from(bytes).map_err(|_| Fault::damaged("it is too large"))?;
        let mut read = vec![0; length];
        self.file.read_exact_at(&mut read, offset).map_err(Fault::Io)?;
        Ok(read)
    }

    /// Counts bytes that are copied, because a damaged file can name the same ones many times.
    pub(super) fn charge(&self, bytes: u64) -> Outcome<()> {
        let again = || Fault::damaged("the structure names the same bytes again and again");
        self.left.set(self.left.get().checked_sub(bytes).ok_or_else(again)?);
        Ok(())
    }

    /// The bytes of a block without its signature.
    pub(super) fn signed(&self, address: u64, bytes: u64, signature: &str) -> Outcome<Vec<u8>> {
        without_signature(self.read(address, bytes)?, address, signature)
    }

    /// The bytes of a block between its signature and its checksum.
    pub(super) fn checked(&self, address: u64, bytes: u64, signature: &str) -> Outcome<Vec<u8>> {
        without_signature(self.summed(address, bytes, signature)?, address, signature)
    }

    /// The bytes before a checksum at their end. `name` is for messages.
    pub(super) fn summed(&self, address: u64, bytes: u64, name: &str) -> Outcome<Vec<u8>> {
        let mut read = self.read(address, bytes)?;
        let length = read.len().checked_sub(CHECKSUM_BYTES);
        let length = length.ok_or_else(|| Fault::damaged(format!("{name} ends early")))?;
        let mut sum = FieldCursor::new(&read[length..], self.widths);
        self.compare(sum.u32()?, &read[..length], name)?;
        read.truncate(length);
        Ok(read)
    }

    /// Compares a checksum with its bytes.
    pub(super) fn compare(&self, sum: u32, bytes: &[u8], name: &str) -> Outcome<()> {
        if self.checks_sums && lookup3(bytes) != sum {
            return Err(Fault::damaged(format!("the checksum of {name} differs from its bytes")));
        }
        Ok(())
    }

    pub(super) fn cursor<'a>(&self, bytes: &'a [u8]) -> FieldCursor<'a> {
        FieldCursor::new(bytes, self.widths)
    }
}

fn without_signature(mut read: Vec<u8>, address: u64, signature: &str) -> Outcome<Vec<u8>> {
    if !read.starts_with(signature.as_bytes()) {
        return Err(Fault::damaged(format!("there is no {signature} at {address}")));
    }
    read.drain(..SIGNATURE_BYTES);
    Ok(read)
}
