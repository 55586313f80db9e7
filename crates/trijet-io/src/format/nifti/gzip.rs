//! Reads rows of a file that is compressed with gzip.
//!
//! A gzip file can only be decoded from its start, by one thread. A run reads its rows forwards,
//! and a chunk may start with rows of the chunk before (a halo). So the reader keeps the bytes of
//! the last read, and decodes on from its end. Memory is the size of one read. Rows that are
//! skipped are decoded, and forgotten. A read of earlier rows starts again at the start of the
//! file.

use crate::annotations::Annotations;
use crate::array::Array;
use crate::byte_order::{ByteOrder, swap};
use crate::file_error;
use crate::format::contract::{Opened, Reader};
use crate::item::Item;
use flate2::read::MultiGzDecoder;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use trijet::Dtype;
use trijet::Result;

/// The number of skipped bytes that are decoded at once.
const SKIPPED_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct GzipReader {
    file: Arc<File>,
    path: PathBuf,
    data_start: u64,
    data_bytes: u64,
    row_bytes: u64,
    dtype: Dtype,
    order: ByteOrder,
    place: Mutex<Option<Decoded>>,
}

/// The place up to which the file is decoded.
#[derive(Debug)]
struct Decoded {
    decoder: MultiGzDecoder<From>,
    /// The number of bytes of the array that are decoded.
    at: u64,
    /// The bytes of the array before `at` that the last read has returned.
    last: Vec<u8>,
}

/// Reads a file from its start, without the position that the file has.
#[derive(Debug)]
struct From {
    file: Arc<File>,
    at: u64,
}

impl Read for From {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(into, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// The first bytes of a file after decoding, at most `bytes`.
pub(super) fn start_of(
    file: &File,
    path: &Path,
    bytes: usize,
    is_compressed: bool,
) -> Result<Vec<u8>> {
    let io = |error| decoding("open", path, error);
    let file = Arc::new(file.try_clone().map_err(io)?);
    let plain = From { file, at: 0 };
    let mut start = Vec::new();
    let read = match is_compressed {
        true => MultiGzDecoder::new(plain).take(bytes as u64).read_to_end(&mut start),
        false => plain.take(bytes as u64).read_to_end(&mut start),
    };
    read.map_err(io)?;
    Ok(start)
}

/// Maximum number of bytes to which deflate decodes one byte (RFC 1951: 258 bytes by two bits).
const RATIO_MAX: u64 = 1032;

/// Refuses an array to which `file_bytes` bytes cannot decode.
///
/// # Errors
/// `Io`.
pub(super) fn check_length(path: &Path, array: &Array, file_bytes: u64) -> Result<()> {
    if array.bytes() / RATIO_MAX > file_bytes {
        let cause = format!("the data are cut off: {file_bytes} bytes cannot decode to {array}");
        return Err(file_error::damaged("open", path, cause));
    }
    Ok(())
}

/// The error of a decoder. It is an error of the system, or damage.
fn decoding(op: &'static str, path: &Path, error: io::Error) -> trijet::Error {
    match error.kind() {
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
            let cause = format!("the gzip file is damaged: {error}");
            file_error::damaged(op, path, cause)
        }
        _ => file_error::io(op, path, error),
    }
}

impl GzipReader {
    /// Describes the input `file`. The rows begin at the byte `data_start` of the decoded file.
    pub(super) fn opened(
        file: File,
        path: &Path,
        data_start: u64,
        array: Array,
        order: ByteOrder,
        metadata: &Metadata,
    ) -> Opened {
        let (row_bytes, data_bytes, dtype) =
            (array.layout().row_bytes, array.bytes(), array.dtype());
        let (file, path, place) = (Arc::new(file), path.to_owned(), Mutex::new(None));
        let reader = Self { file, path, data_start, data_bytes, row_bytes, dtype, order, place };
        let items = vec![Item::new(OsString::new(), metadata)];
        let (left_out, annotations) = (Vec::new(), Annotations::default());
        let reader = Box::new(reader);
        Opened { array, granule: 1, whole_rows: 1, items, left_out, annotations, reader }
    }

    /// The place from which the bytes at `start` can be read: the place of the last read, or the
    /// start of the file.
    fn place_for(&self, earlier: Option<Decoded>, start: u64) -> io::Result<Decoded> {
        let kept = earlier.filter(|place| place.at - place.last.len() as u64 <= start);
        if let Some(place) = kept {
            return Ok(place);
        }
        let from = From { file: Arc::clone(&self.file), at: 0 };
        let mut place = Decoded { decoder: MultiGzDecoder::new(from), at: 0, last: Vec::new() };
        skip(&mut place.decoder, self.data_start)?;
        Ok(place)
    }

    /// Reads the bytes of the array at `start`.
    fn read_from(
        &self,
        earlier: Option<Decoded>,
        start: u64,
        into: &mut [u8],
    ) -> io::Result<Decoded> {
        let mut place = self.place_for(earlier, start)?;
        skip(&mut place.decoder, start.saturating_sub(place.at))?;
        place.at = place.at.max(start);
        let before = usize::try_from(place.at - start).unwrap_or(usize::MAX);
        let known = before.min(into.len());
        let (first, rest) = into.split_at_mut(known);
        // If the last read has fewer bytes, then rows were skipped, and `known` is 0.
        let from = place.last.len() - before.min(place.last.len());
        first.copy_from_slice(&place.last[from..from + known]);
        if rest.is_empty() {
            return Ok(place);
        }
        place.decoder.read_exact(rest)?;
        place.at = start + into.len() as u64;
        place.last.clear();
        place.last.extend_from_slice(into);
        if place.at == self.data_bytes {
            // Bytes of no row may follow. The checksum is after them.
            io::copy(&mut (&mut place.decoder).take(SKIPPED_BYTES as u64), &mut io::sink())?;
        }
        Ok(place)
    }
}

/// Decodes `bytes` bytes without a use for them.
fn skip(decoder: &mut impl Read, bytes: u64) -> io::Result<()> {
    let mut buffer = vec![0; SKIPPED_BYTES];
    let mut left = bytes;
    while left > 0 {
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        decoder.read_exact(&mut buffer[..count])?;
        left -= count as u64;
    }
    Ok(())
}

impl Reader for GzipReader {
    fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        if into.is_empty() {
            return Ok(());
        }
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        let read = self.read_from(place.take(), rows.start * self.row_bytes, into);
        *place = Some(read.map_err(|error| decoding("read", &self.path, error))?);
        drop(place);
        if self.order == ByteOrder::Big {
            swap(self.dtype, into);
        }
        Ok(())
    }

    fn is_parallel(&self) -> bool {
        false
    }
}
