//! The members of a ZIP archive, from the directory at its end. Archives above 4 GiB have numbers
//! of 64 bits in additional fields (ZIP64).

use crate::byte_order::ByteOrder;
use crate::file_error;
use crate::format::fields::Fields;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use trijet::{Error, Result};

/// The lengths of the fixed parts of the records of an archive.
const END_BYTES: usize = 22;
const END_64_BYTES: usize = 56;
const LOCATOR_BYTES: usize = 20;
const ENTRY_BYTES: usize = 46;
const LOCAL_BYTES: usize = 30;
/// Maximum length of the comment after the last record.
const COMMENT_BYTES_MAX: u64 = 65_535;
/// Maximum size of a directory that is read.
const DIRECTORY_BYTES_MAX: u64 = 64 << 20;
/// The numbers that stand for a number in an additional field.
const IN_FIELD_16: u16 = u16::MAX;
const IN_FIELD_32: u32 = u32::MAX;
/// The identity of the additional field with numbers of 64 bits.
const FIELD_64: u16 = 1;

/// A member of an archive.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) name: String,
    /// The method of compression.
    pub(super) method: u16,
    pub(super) is_encrypted: bool,
    /// The number of bytes that the member has in the archive.
    stored: u64,
    /// The offset of the record before the bytes of the member.
    record: u64,
}

fn damaged(path: &Path, cause: &str) -> Error {
    file_error::damaged("open", path, cause)
}

/// The `N` bytes of `file` at `offset`.
fn read<const N: usize>(file: &File, path: &Path, offset: u64) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    file.read_exact_at(&mut bytes, offset).map_err(|error| file_error::io("open", path, error))?;
    Ok(bytes)
}

fn fields(bytes: &[u8]) -> Fields<'_> {
    Fields { bytes, order: ByteOrder::Little }
}

/// The members of an archive of `file_bytes` bytes, in the order of its directory.
///
/// # Errors
/// `Io` for a damaged archive. `InvalidValue` for a directory that is too large.
pub(super) fn members(file: &File, path: &Path, file_bytes: u64) -> Result<Vec<Member>> {
    let place = directory(file, path, file_bytes)?;
    if place.end > file_bytes {
        return Err(damaged(path, "the directory of the archive is cut off"));
    }
    let bytes = place.end - place.start;
    if bytes > DIRECTORY_BYTES_MAX {
        let cause = format!(
            "the directory of the archive has {bytes} bytes; at most {DIRECTORY_BYTES_MAX} are \
             supported"
        );
        return Err(file_error::refused("open", path, cause));
    }
    let mut entries = vec![0; usize::try_from(bytes).expect("the size is at most 64 MiB")];
    file.read_exact_at(&mut entries, place.start)
        .map_err(|error| file_error::io("open", path, error))?;
    let (mut rest, mut found) = (&entries[..], Vec::new());
    while !rest.is_empty() {
        let (member, after) = entry(rest)
            .ok_or_else(|| damaged(path, "the directory of the archive has a damaged entry"))?;
        found.push(member);
        rest = after;
    }
    Ok(found)
}

/// The place of the directory, which the last record of the archive states.
fn directory(file: &File, path: &Path, file_bytes: u64) -> Result<Range<u64>> {
    let none = || damaged(path, "not an .npz file: the end of a ZIP archive is missing");
    let tail_bytes = file_bytes.min(COMMENT_BYTES_MAX + END_BYTES as u64);
    let mut tail = vec![0; usize::try_from(tail_bytes).expect("the tail is short")];
    let tail_start = file_bytes - tail_bytes;
    file.read_exact_at(&mut tail, tail_start)
        .map_err(|error| file_error::io("open", path, error))?;
    let is_end = |at: &usize| {
        let end = &tail[*at..];
        let comment = fields(end).u16(20);
        end.starts_with(b"PK\x05\x06") && END_BYTES + usize::from(comment) == end.len()
    };
    let last = tail.len().checked_sub(END_BYTES).ok_or_else(none)?;
    let at = (0..=last).rev().find(is_end).ok_or_else(none)?;
    let end = fields(&tail[at..]);
    let (count, bytes, start) = (end.u16(10), end.u32(12), end.u32(16));
    let (bytes, start) = if count == IN_FIELD_16 || bytes == IN_FIELD_32 || start == IN_FIELD_32 {
        let locator = (tail_start + at as u64).checked_sub(LOCATOR_BYTES as u64);
        directory_64(file, path, locator.ok_or_else(none)?)?
    } else {
        (u64::from(bytes), u64::from(start))
    };
    let end = start.checked_add(bytes);
    Ok(start..end.ok_or_else(|| damaged(path, "the directory of the archive is too long"))?)
}

/// The size and the offset of the directory in numbers of 64 bits. Their record is named by the
/// locator at the offset `locator`.
fn directory_64(file: &File, path: &Path, locator: u64) -> Result<(u64, u64)> {
    let none = || damaged(path, "the ZIP64 record of the archive is missing");
    let locator = read::<LOCATOR_BYTES>(file, path, locator)?;
    if !locator.starts_with(b"PK\x06\x07") {
        return Err(none());
    }
    let at = fields(&locator).u64(8);
    // A file offset is a signed number.
    if i64::try_from(at).is_err() {
        return Err(none());
    }
    let end = read::<END_64_BYTES>(file, path, at)?;
    if !end.starts_with(b"PK\x06\x06") {
        return Err(none());
    }
    Ok((fields(&end).u64(40), fields(&end).u64(48)))
}

/// The first entry of a directory, and the bytes after this entry.
fn entry(bytes: &[u8]) -> Option<(Member, &[u8])> {
    let (fixed, rest) = bytes.split_at_checked(ENTRY_BYTES)?;
    let numbers = fields(fixed);
    if !fixed.starts_with(b"PK\x01\x02") {
        return None;
    }
    let (name, rest) = rest.split_at_checked(usize::from(numbers.u16(28)))?;
    let (additional, rest) = rest.split_at_checked(usize::from(numbers.u16(30)))?;
    let (_comment, rest) = rest.split_at_checked(usize::from(numbers.u16(32)))?;
    let mut long = field_64(additional);
    // The additional field has only the numbers that are missing here, in this order.
    let [_decoded, stored, record] = [24, 20, 42].map(|at| match numbers.u32(at) {
        IN_FIELD_32 => {
            let (number, rest) = long.split_at_checked(8)?;
            long = rest;
            Some(fields(number).u64(0))
        }
        number => Some(u64::from(number)),
    });
    let member = Member {
        name: String::from_utf8_lossy(name).into_owned(),
        method: numbers.u16(10),
        is_encrypted: numbers.u16(8) & 1 == 1,
        stored: stored?,
        record: record?,
    };
    Some((member, rest))
}

/// The content of the additional field with numbers of 64 bits; empty if there is none.
fn field_64(additional: &[u8]) -> &[u8] {
    let mut rest = additional;
    while let Some((head, after)) = rest.split_at_checked(4) {
        let (id, bytes) = (fields(head).u16(0), usize::from(fields(head).u16(2)));
        let Some((content, after)) = after.split_at_checked(bytes) else { return &[] };
        if id == FIELD_64 {
            return content;
        }
        rest = after;
    }
    &[]
}

impl Member {
    /// The place of the bytes of the member in an archive of `file_bytes` bytes.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn place(&self, file: &File, path: &Path, file_bytes: u64) -> Result<Range<u64>> {
        let cut = || damaged(path, "a member of the archive is cut off");
        if self.record > file_bytes {
            return Err(cut());
        }
        let local = read::<LOCAL_BYTES>(file, path, self.record)?;
        if !local.starts_with(b"PK\x03\x04") {
            return Err(damaged(path, "the record before a member of the archive is missing"));
        }
        let lengths = [26, 28].map(|at| u64::from(fields(&local).u16(at)));
        let start = self.record + LOCAL_BYTES as u64 + lengths[0] + lengths[1];
        let end = start.checked_add(self.stored).filter(|end| *end <= file_bytes);
        Ok(start..end.ok_or_else(cut)?)
    }
}
