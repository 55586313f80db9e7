//! A file that consists of a header and the rows of one array.
//!
//! The file has exactly the size of the header and the rows. All threads share one file descriptor,
//! because `pread` and `pwrite` do not use the position of the file.

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
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
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

#[derive(Debug)]
pub(super) struct FlatPlan {
    header: Vec<u8>,
    data_bytes: u64,
    row_bytes: u64,
}

impl FlatPlan {
    /// Plans a file with this header and the rows of `array`.
    pub(super) fn new(header: Vec<u8>, array: &Array) -> Self {
        Self { header, data_bytes: array.bytes(), row_bytes: array.layout().row_bytes }
    }

    fn file_bytes(&self) -> u64 {
        self.header.len() as u64 + self.data_bytes
    }

    fn writer(&self, file: File, partial: &Path, ahead: Option<Ahead>) -> FlatWriter {
        FlatWriter {
            file,
            path: partial.to_owned(),
            header: self.header.clone(),
            file_bytes: self.file_bytes(),
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
        let mut found = vec![0; self.header.len()];
        file.read_exact_at(&mut found, 0).map_err(io)?;
        if found != self.header {
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

    fn reset(&self) -> Result<()> {
        let written = self.file.write_all_at(&self.header, 0);
        let sized = written.and_then(|()| self.file.set_len(self.file_bytes));
        sized.map_err(|error| file_error::io("create", &self.path, error))
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
        let plan = FlatPlan { header: Vec::new(), data_bytes: 8, row_bytes: 4 };
        let flat = plan.writer(file, path, None);
        let error = flat.write(1..2, &[1, 2, 3, 4]).expect_err("the device is always full");
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains("/dev/full: no space left"), "{error}");
    }
}
