//! The directories (IFDs) of a TIFF file: a list of tags for each page, in a chain.
//!
//! The crate `tiff` is not used. Its decoder reserves as many bytes as a tag states before it looks
//! at the file, refuses files without some tags before a caller can name the cause, and decodes one
//! page after another.

use crate::byte_order::ByteOrder;
use crate::file_error;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use trijet::Result;

/// Maximum number of tags of a directory. tifffile has the same limit.
const TAGS_MAX: u64 = 4096;
/// The number of bytes that are read at once at a new place of the file. Reads of the bytes that
/// follow are larger and larger, up to `WINDOW_BYTES_MAX`.
const WINDOW_BYTES: usize = 4 << 10;
const WINDOW_BYTES_MAX: usize = 256 << 10;

/// The number of at most 8 bytes that `bytes` are in this order.
fn number_of(order: ByteOrder, bytes: &[u8]) -> u64 {
    let add = |all: u64, byte: &u8| all << 8 | u64::from(*byte);
    match order {
        ByteOrder::Little => bytes.iter().rev().fold(0, add),
        ByteOrder::Big => bytes.iter().fold(0, add),
    }
}

/// An open TIFF file, and the bytes of the file that were read last.
#[derive(Debug)]
pub(super) struct TiffFile<'a> {
    file: &'a File,
    path: &'a Path,
    bytes: u64,
    order: ByteOrder,
    is_big: bool,
    window: Vec<u8>,
    window_at: u64,
}

/// A tag of a directory. The values of the tag are in `inline`, or at the offset that `inline` is.
#[derive(Debug, Clone, Copy)]
pub(super) struct TagEntry {
    tag: u16,
    kind: u16,
    pub(super) count: u64,
    inline: [u8; 8],
}

/// The tags of a page.
#[derive(Debug, Default)]
pub(super) struct Directory {
    entries: Vec<TagEntry>,
    /// The offset of the next directory. 0 if there is none.
    pub(super) next: u64,
    /// The number of bytes that the directory takes in the file.
    pub(super) bytes: u64,
}

impl Directory {
    pub(super) fn find(&self, tag: u16) -> Option<&TagEntry> {
        self.entries.iter().find(|entry| entry.tag == tag)
    }
}

/// The number of bytes of a value of a type. `None` for an unknown type.
fn bytes_of(kind: u16) -> Option<u64> {
    Some(match kind {
        1 | 2 | 6 | 7 => 1,
        3 | 8 => 2,
        4 | 9 | 11 | 13 => 4,
        5 | 10 | 12 | 16 | 17 | 18 => 8,
        _ => return None,
    })
}

/// Whether the values of a type are numbers without a sign.
fn is_unsigned(kind: u16) -> bool {
    matches!(kind, 1 | 3 | 4 | 13 | 16 | 18)
}

impl<'a> TiffFile<'a> {
    /// Reads the header of a file of `bytes` bytes. Returns the file, and the offset of the first
    /// directory.
    pub(super) fn open(file: &'a File, path: &'a Path, bytes: u64) -> Result<(Self, u64)> {
        let (order, window) = (ByteOrder::Little, Vec::new());
        let mut tiff = Self { file, path, bytes, order, is_big: false, window, window_at: 0 };
        let mut start = [0; 8];
        start.copy_from_slice(tiff.get(0, 8)?);
        tiff.order = match &start[..2] {
            b"II" => ByteOrder::Little,
            b"MM" => ByteOrder::Big,
            _ => return Err(tiff.damaged("not a TIFF file: the first bytes are not II or MM")),
        };
        match number_of(tiff.order, &start[2..4]) {
            42 => {}
            43 if number_of(tiff.order, &start[4..6]) == 8 => tiff.is_big = true,
            version => {
                return Err(tiff.damaged(format!("unknown version {version} of the TIFF format")));
            }
        }
        let first = match tiff.is_big {
            true => tiff.number_at(8, 8)?,
            false => number_of(tiff.order, &start[4..]),
        };
        Ok((tiff, first))
    }

    pub(super) fn order(&self) -> ByteOrder {
        self.order
    }

    /// The size of the file.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn path(&self) -> &'a Path {
        self.path
    }

    pub(super) fn damaged(&self, cause: impl std::fmt::Display) -> trijet::Error {
        file_error::damaged("open", self.path, cause)
    }

    fn number_at(&mut self, offset: u64, bytes: usize) -> Result<u64> {
        let order = self.order;
        Ok(number_of(order, self.get(offset, bytes)?))
    }

    /// The bytes of a part of the file.
    fn get(&mut self, offset: u64, bytes: usize) -> Result<&[u8]> {
        let end = offset.checked_add(bytes as u64).filter(|end| *end <= self.bytes);
        let Some(end) = end else {
            let cause = format!(
                "the file is cut off or damaged: {bytes} bytes at byte {offset} are outside of its \
                 {} bytes",
                self.bytes
            );
            return Err(self.damaged(cause));
        };
        let window_end = self.window_at + self.window.len() as u64;
        if offset < self.window_at || end > window_end {
            let follows = offset >= self.window_at && offset <= window_end;
            let step = if follows { self.window.len() * 2 } else { WINDOW_BYTES };
            let wanted = bytes.max(step.clamp(WINDOW_BYTES, WINDOW_BYTES_MAX)) as u64;
            let wanted = usize::try_from(wanted.min(self.bytes - offset)).unwrap_or(bytes);
            self.window.resize(wanted, 0);
            self.window_at = offset;
            if let Err(error) = self.file.read_exact_at(&mut self.window, offset) {
                self.window.clear();
                return Err(file_error::io("open", self.path, error));
            }
        }
        let from = usize::try_from(offset - self.window_at).unwrap_or(0);
        Ok(&self.window[from..from + bytes])
    }

    /// Reads the directory at `offset` into `into`, whose memory is reused.
    pub(super) fn read(&mut self, offset: u64, into: &mut Directory) -> Result<()> {
        let order = self.order;
        let (count_bytes, entry_bytes, field) = if self.is_big { (8, 20, 8) } else { (2, 12, 4) };
        let tags = self.number_at(offset, count_bytes)?;
        if tags > TAGS_MAX {
            let cause = format!("the directory at byte {offset} states {tags} tags");
            return Err(self.damaged(cause));
        }
        let tags = usize::try_from(tags).unwrap_or(0);
        let bytes = count_bytes + tags * entry_bytes + field;
        let all = self.get(offset, bytes)?;
        into.entries.clear();
        for entry in all[count_bytes..bytes - field].chunks_exact(entry_bytes) {
            let (head, value) = entry.split_at(4 + field);
            let mut inline = [0; 8];
            inline[..field].copy_from_slice(value);
            into.entries.push(TagEntry {
                tag: u16::try_from(number_of(order, &head[..2])).unwrap_or(0),
                kind: u16::try_from(number_of(order, &head[2..4])).unwrap_or(0),
                count: number_of(order, &head[4..]),
                inline,
            });
        }
        into.next = number_of(order, &all[bytes - field..]);
        into.bytes = bytes as u64;
        Ok(())
    }

    /// The bytes of the values of a tag.
    fn values(&mut self, entry: &TagEntry) -> Result<Vec<u8>> {
        let field = if self.is_big { 8 } else { 4 };
        let wrong = |tiff: &Self| {
            let TagEntry { tag, kind, count, .. } = entry;
            tiff.damaged(format!("the tag {tag} states {count} values of the type {kind}"))
        };
        let bytes = bytes_of(entry.kind).and_then(|one| one.checked_mul(entry.count));
        let bytes = bytes.filter(|bytes| *bytes <= self.bytes).ok_or_else(|| wrong(self))?;
        let bytes = usize::try_from(bytes).map_err(|_| wrong(self))?;
        if bytes <= field {
            return Ok(entry.inline[..bytes].to_vec());
        }
        let offset = number_of(self.order, &entry.inline[..field]);
        Ok(self.get(offset, bytes)?.to_vec())
    }

    /// The values of a tag that has numbers without a sign.
    pub(super) fn numbers(&mut self, entry: &TagEntry) -> Result<Vec<u64>> {
        let one = bytes_of(entry.kind).filter(|_| is_unsigned(entry.kind));
        let Some(one) = one.and_then(|one| usize::try_from(one).ok()) else {
            let cause = format!("the tag {} has values of the type {}", entry.tag, entry.kind);
            return Err(self.damaged(cause));
        };
        let order = self.order;
        let values = self.values(entry)?;
        Ok(values.chunks_exact(one).map(|value| number_of(order, value)).collect())
    }

    /// The first value of a tag, or `missing` if the directory does not have the tag. All values
    /// must be equal.
    pub(super) fn number(&mut self, of: &Directory, tag: u16, missing: u64) -> Result<u64> {
        let Some(entry) = of.find(tag) else { return Ok(missing) };
        if entry.count == 1 && is_unsigned(entry.kind) {
            let bytes = bytes_of(entry.kind).unwrap_or(0);
            if bytes <= if self.is_big { 8 } else { 4 } {
                let bytes = usize::try_from(bytes).unwrap_or(0);
                return Ok(number_of(self.order, &entry.inline[..bytes]));
            }
        }
        let values = self.numbers(entry)?;
        match values.split_first() {
            Some((first, rest)) if rest.iter().all(|value| value == first) => Ok(*first),
            Some(_) => {
                let cause =
                    format!("the samples of a pixel have different values of the tag {tag}");
                Err(file_error::refused("open", self.path, cause))
            }
            None => Err(self.damaged(format!("the tag {tag} has no value"))),
        }
    }

    /// The text of a tag. `None` if the directory does not have the tag.
    pub(super) fn text(&mut self, of: &Directory, tag: u16) -> Result<Option<String>> {
        let Some(entry) = of.find(tag) else { return Ok(None) };
        let mut bytes = self.values(entry)?;
        while bytes.last() == Some(&0) {
            bytes.pop();
        }
        // Some programs write Latin-1, in which the micro sign is one byte.
        Ok(Some(match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => error.into_bytes().into_iter().map(char::from).collect(),
        }))
    }

    /// The positive fraction of a tag. `None` if the directory has none.
    pub(super) fn fraction(&mut self, of: &Directory, tag: u16) -> Result<Option<f64>> {
        let Some(entry) = of.find(tag).filter(|entry| entry.kind == 5 && entry.count == 1) else {
            return Ok(None);
        };
        let values = self.values(entry)?;
        let [above, below] =
            [&values[..4], &values[4..]].map(|part| number_of(self.order, part) as f64);
        Ok(Some(above / below).filter(|value| value.is_finite() && *value > 0.0))
    }
}
