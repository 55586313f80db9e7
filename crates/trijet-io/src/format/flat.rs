//! A file that consists of a header, the rows of one array, and an end, which most formats do not
//! have.
//!
//! The file has exactly the size of the header, the rows and the end. All threads share one file
//! descriptor, because `pread` and `pwrite` do not use the position of the file.

use super::ahead::{Ahead, reserve};
use super::contract::{
    NOFOLLOW, NOT_PARTIAL, Opened, Plan, Reader, Writer, check_own, lost, state_of,
};
use super::ways::Ways;
use crate::annotations::Annotations;
use crate::array::Array;
use crate::byte_order::{ByteOrder, swap};
use crate::file_error;
use crate::item::Item;
use crate::rows::Rows;
use crate::shown::shown;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use trijet::Dtype;
use trijet::Result;

#[derive(Debug)]
pub(super) struct FlatReader {
    file: File,
    path: PathBuf,
    data_start: u64,
    row_bytes: u64,
    dtype: Dtype,
    order: ByteOrder,
}

/// The number of bytes that are read and then converted to the other byte order. They are still in
/// the cache of the processor, and they are whole elements.
const SWAPPED_BYTES: usize = 128 << 10;

impl FlatReader {
    /// Describes the input `file`, whose rows begin at the byte `data_start`. The elements have the
    /// byte order `order`.
    pub(super) fn opened(
        file: File,
        path: &Path,
        data_start: u64,
        array: Array,
        order: ByteOrder,
        metadata: &Metadata,
    ) -> Opened {
        let (row_bytes, dtype) = (array.layout().row_bytes, array.dtype());
        let reader = Self { file, path: path.to_owned(), data_start, row_bytes, dtype, order };
        let items = vec![Item::new(OsString::new(), metadata)];
        let (left_out, reader) = (Vec::new(), Box::new(reader));
        let annotations = Annotations::default();
        Opened { array, granule: 1, whole_rows: 1, items, left_out, annotations, reader }
    }

    /// The offset of a row in the file.
    fn offset(&self, row: u64) -> u64 {
        self.data_start + row * self.row_bytes
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.file
            .read_exact_at(into, offset)
            .map_err(|error| file_error::io("read", &self.path, error))
    }
}

impl Reader for FlatReader {
    fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        if self.order == ByteOrder::Little {
            return self.read_at(self.offset(rows.start), into);
        }
        let mut offset = self.offset(rows.start);
        for part in into.chunks_mut(SWAPPED_BYTES) {
            self.read_at(offset, part)?;
            swap(self.dtype, part);
            offset += part.len() as u64;
        }
        Ok(())
    }

    fn byte_order(&self) -> ByteOrder {
        self.order
    }

    fn read_as_stored(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        self.read_at(self.offset(rows.start), into)
    }
}

/// The bytes after the rows of a file. They do not depend on the rows, and may be too many for the
/// memory.
pub(super) trait FlatEnd: fmt::Debug + Send + Sync {
    /// The number of bytes.
    fn bytes(&self) -> u64;

    /// Calls `each` with the bytes, piece by piece.
    ///
    /// # Errors
    /// Errors of `each`.
    fn pieces(&self, each: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()>;
}

/// Compares the length of a file with the length of an array that starts at the byte `data_start`.
/// If the file is longer, returns a text about the bytes that are not in the array.
///
/// # Errors
/// `Io` if the file is too short.
pub(super) fn check_length(
    path: &Path,
    array: &Array,
    data_start: u64,
    file_bytes: u64,
) -> Result<Option<String>> {
    let end = data_start.checked_add(array.bytes());
    match end.and_then(|end| file_bytes.checked_sub(end)) {
        Some(0) => Ok(None),
        Some(more) => Ok(Some(format!("{more} bytes after the array in {}", shown(path)))),
        None => {
            let (wanted, found) = (array.bytes(), file_bytes.saturating_sub(data_start));
            let cause =
                format!("the data are cut off: {array} needs {wanted} bytes, found {found}");
            Err(file_error::damaged("open", path, cause))
        }
    }
}

#[derive(Debug)]
pub(super) struct FlatPlan {
    header: Vec<u8>,
    data_bytes: u64,
    row_bytes: u64,
    end: Option<Arc<dyn FlatEnd>>,
    left_out: Vec<String>,
}

impl FlatPlan {
    /// Plans a file with this header and the rows of `array`.
    pub(super) fn new(header: Vec<u8>, array: &Array) -> Self {
        Self::padded(header, array, array.bytes())
    }

    /// Plans a file as [`new`](Self::new) does, with zeros after the rows. The rows and the zeros
    /// have `data_bytes` bytes.
    pub(super) fn padded(header: Vec<u8>, array: &Array, data_bytes: u64) -> Self {
        let row_bytes = array.layout().row_bytes;
        Self { header, data_bytes, row_bytes, end: None, left_out: Vec::new() }
    }

    /// Adds bytes after the rows.
    pub(super) fn with_end(self, end: Arc<dyn FlatEnd>) -> Self {
        Self { end: Some(end), ..self }
    }

    /// Sets the texts about the annotations that the file does not keep.
    pub(super) fn with_left_out(self, left_out: Vec<String>) -> Self {
        Self { left_out, ..self }
    }

    /// States that the header has only the part `kept` of `annotations`.
    pub(super) fn keeping(mut self, annotations: &Annotations, kept: &Annotations) -> Self {
        self.left_out = annotations.missing_in(kept);
        self
    }

    /// The offset of the end.
    fn end_at(&self) -> u64 {
        self.header.len() as u64 + self.data_bytes
    }

    fn file_bytes(&self) -> u64 {
        self.end_at() + self.end.as_ref().map_or(0, |end| end.bytes())
    }

    /// Whether the file has the bytes of the header and of the end.
    fn has_frame(&self, file: &File) -> io::Result<bool> {
        let mut found = vec![0; self.header.len()];
        file.read_exact_at(&mut found, 0)?;
        let (mut is_whole, mut at) = (found == self.header, self.end_at());
        let Some(end) = &self.end else { return Ok(is_whole) };
        end.pieces(&mut |piece| {
            found.resize(piece.len(), 0);
            file.read_exact_at(&mut found, at)?;
            at += piece.len() as u64;
            is_whole &= found == piece;
            Ok(())
        })?;
        Ok(is_whole)
    }

    fn writer(&self, file: File, partial: &Path, ahead: Option<Ahead>) -> FlatWriter {
        FlatWriter {
            file,
            path: partial.to_owned(),
            header: self.header.clone(),
            file_bytes: self.file_bytes(),
            end_at: self.end_at(),
            end: self.end.clone(),
            row_bytes: self.row_bytes,
            ways: Ways::new(self.file_bytes()),
            ahead: Mutex::new(ahead),
        }
    }
}

/// Creates a file at `path`. This is the file of `ahead`, or another new file if the file of
/// `ahead` cannot get the name.
fn create(path: &Path, ahead: Option<Ahead>) -> io::Result<(File, Option<Ahead>)> {
    if let Some(ahead) = ahead {
        match ahead.name(path) {
            Ok(file) => return Ok((file, Some(ahead))),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
            // The file of `ahead` gets its name through `/proc`, which does not exist on some
            // systems.
            Err(_) => drop(ahead),
        }
    }
    let file = File::options().read(true).write(true).create_new(true).open(path)?;
    Ok((file, None))
}

impl Plan for FlatPlan {
    fn granule(&self) -> u64 {
        1
    }

    fn bytes(&self) -> Option<u64> {
        Some(self.file_bytes())
    }

    fn left_out(&self) -> Vec<String> {
        self.left_out.clone()
    }

    fn begin_ahead(&self, folder: &Path, waits_for_disk: bool) -> Option<Ahead> {
        Ahead::start(folder, self.file_bytes(), waits_for_disk)
    }

    fn create(&self, partial: &Path, ahead: Option<Ahead>) -> Result<Box<dyn Writer>> {
        let io = |error| file_error::io("create", partial, error);
        let (file, ahead) = create(partial, ahead).map_err(io)?;
        let is_new = ahead.is_none();
        let writer = self.writer(file, partial, ahead);
        match writer.reset() {
            Ok(()) => {
                if is_new {
                    reserve(&writer.file, self.file_bytes());
                }
                Ok(Box::new(writer))
            }
            Err(error) => match fs::remove_file(partial) {
                Ok(()) => Err(error),
                Err(second) => Err(error.context(second.to_string())),
            },
        }
    }

    fn check_reuse(&self, path: &Path) -> Result<()> {
        match state_of("overwrite", path)? {
            None => Ok(()),
            Some(state) if !state.is_file() => {
                Err(file_error::refused("overwrite", path, "is not a regular file"))
            }
            Some(state) => check_own("overwrite", path, &state),
        }
    }

    fn reuse(&self, partial: &Path) -> Result<Box<dyn Writer>> {
        self.check_reuse(partial)?;
        let file = open_own("overwrite", partial)?;
        Ok(Box::new(self.writer(file, partial, None)))
    }

    fn reopen(&self, partial: &Path, _done: &Rows) -> Result<Box<dyn Writer>> {
        let io = |error| file_error::io("resume", partial, error);
        let bytes = self.file_bytes();
        let Some(state) = state_of("resume", partial)? else {
            return Err(lost(partial, "the partial output is missing"));
        };
        check_own("resume", partial, &state)?;
        if state.len() != bytes {
            return Err(lost(partial, format!("has {} bytes instead of {bytes}", state.len())));
        }
        let file = open_own("resume", partial)?;
        if !self.has_frame(&file).map_err(io)? {
            return Err(lost(partial, "the header is damaged"));
        }
        Ok(Box::new(self.writer(file, partial, None)))
    }

    fn check_discard(&self, partial: &Path) -> Result<()> {
        match state_of("discard", partial)? {
            Some(state) if !state.is_file() => {
                Err(file_error::refused("discard", partial, NOT_PARTIAL))
            }
            _ => Ok(()),
        }
    }

    fn discard(&self, partial: &Path) -> Result<()> {
        self.check_discard(partial)?;
        match fs::remove_file(partial) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done.map_err(|error| file_error::io("discard", partial, error)),
        }
    }
}

/// Opens a file whose bytes the caller is about to replace.
fn open_own(op: &'static str, path: &Path) -> Result<File> {
    let io = |error| file_error::io(op, path, error);
    let mut options = File::options();
    options.read(true).write(true).custom_flags(NOFOLLOW);
    let file = options.open(path).map_err(io)?;
    check_own(op, path, &file.metadata().map_err(io)?)?;
    Ok(file)
}

#[derive(Debug)]
struct FlatWriter {
    file: File,
    path: PathBuf,
    header: Vec<u8>,
    file_bytes: u64,
    end_at: u64,
    end: Option<Arc<dyn FlatEnd>>,
    row_bytes: u64,
    ways: Ways,
    /// The thread that creates the pages of a new output. `None` if there is none, or if the output
    /// is complete.
    ahead: Mutex<Option<Ahead>>,
}

impl FlatWriter {
    /// The offset of a row in the file.
    fn offset(&self, row: u64) -> u64 {
        self.header.len() as u64 + row * self.row_bytes
    }
}

impl Writer for FlatWriter {
    fn write(&self, rows: Range<u64>, bytes: &[u8]) -> Result<()> {
        self.ways
            .write_at(&self.file, bytes, self.offset(rows.start))
            .map_err(|error| file_error::io("write", &self.path, error))?;
        if let Some(ahead) = &*self.ahead.lock().unwrap_or_else(PoisonError::into_inner) {
            ahead.wrote(bytes.len() as u64);
        }
        Ok(())
    }

    fn limit_memory(&self, bytes: u64) {
        self.ways.limit_memory(bytes);
    }

    /// A mapping is written back in whole pages, and the edge of a page may have rows of another
    /// machine.
    fn share(&self) {
        self.ways.use_calls_only();
    }

    fn reset(&self) -> Result<()> {
        let restore = || {
            self.file.write_all_at(&self.header, 0)?;
            self.file.set_len(self.file_bytes)?;
            let Some(end) = &self.end else { return Ok(()) };
            let mut at = self.end_at;
            end.pieces(&mut |piece| {
                self.file.write_all_at(piece, at)?;
                at += piece.len() as u64;
                Ok(())
            })
        };
        restore().map_err(|error| file_error::io("create", &self.path, error))
    }

    fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        self.file
            .read_exact_at(into, self.offset(rows.start))
            .map_err(|error| file_error::io("read", &self.path, error))
    }

    fn root(&self) -> &File {
        &self.file
    }

    fn sync(&self) -> Result<()> {
        // This call does not bring the file name to the disk. The caller does that for the folder
        // of the output.
        self.file.sync_all().map_err(|error| file_error::io("synchronize", &self.path, error))
    }

    fn check_complete(&self) -> Result<()> {
        // If the thread created a page after this call, the time of the file's last change would
        // become later.
        drop(self.ahead.lock().unwrap_or_else(PoisonError::into_inner).take());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trijet::ErrorKind;

    #[test]
    fn a_full_disk_is_an_error_that_names_the_file() {
        let path = Path::new("/dev/full");
        let file = File::options().write(true).open(path).expect("every Linux has /dev/full");
        let plan = FlatPlan::new(Vec::new(), &Array::new(Dtype::F32, vec![2]).unwrap());
        let flat = plan.writer(file, path, None);
        let error = flat.write(1..2, &[1, 2, 3, 4]).expect_err("the device is always full");
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains("/dev/full: no space left"), "{error}");
    }
}
