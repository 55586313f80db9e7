//! Rows one after the other in one file, after a header.
//!
//! The size of the file is exactly what the array needs. All threads share one file descriptor,
//! because `pread` and `pwrite` do not use the position of the file.

use super::contract::{
    NOFOLLOW, NOT_PARTIAL, Opened, Plan, Reader, Writer, check_own, lost, state_of,
};
use super::ways::Ways;
use crate::array::Array;
use crate::file_error;
use crate::item::Item;
use crate::rows::Rows;
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use trijet::Result;

#[derive(Debug)]
pub(super) struct FlatReader {
    file: File,
    path: PathBuf,
    data_start: u64,
    row_bytes: u64,
}

impl FlatReader {
    /// The input whose rows begin at byte `data_start` of `file`.
    pub(super) fn opened(
        file: File,
        path: &Path,
        data_start: u64,
        array: Array,
        metadata: &Metadata,
    ) -> Opened {
        let row_bytes = array.layout().row_bytes;
        let reader = Self { file, path: path.to_owned(), data_start, row_bytes };
        let items = vec![Item::new(OsString::new(), metadata)];
        Opened { array, granule: 1, items, reader: Box::new(reader) }
    }
}

impl Reader for FlatReader {
    fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        self.file
            .read_exact_at(into, self.data_start + rows.start * self.row_bytes)
            .map_err(|error| file_error::io("read", &self.path, error))
    }
}

#[derive(Debug)]
pub(super) struct FlatPlan {
    header: Vec<u8>,
    data_bytes: u64,
    row_bytes: u64,
}

impl FlatPlan {
    /// A file of this header and the rows of `array`.
    pub(super) fn new(header: Vec<u8>, array: &Array) -> Self {
        Self { header, data_bytes: array.bytes(), row_bytes: array.layout().row_bytes }
    }

    fn writer(&self, file: File, partial: &Path) -> Box<dyn Writer> {
        Box::new(FlatWriter {
            file,
            path: partial.to_owned(),
            data_start: self.header.len() as u64,
            row_bytes: self.row_bytes,
            ways: Ways::new(self.header.len() as u64 + self.data_bytes),
        })
    }
}

impl Plan for FlatPlan {
    fn granule(&self) -> u64 {
        1
    }

    fn create(&self, partial: &Path) -> Result<Box<dyn Writer>> {
        let io = |error| file_error::io("create", partial, error);
        let file =
            File::options().read(true).write(true).create_new(true).open(partial).map_err(io)?;
        let bytes = self.header.len() as u64 + self.data_bytes;
        match file.write_all_at(&self.header, 0).and_then(|()| file.set_len(bytes)) {
            Ok(()) => Ok(self.writer(file, partial)),
            Err(error) => match fs::remove_file(partial) {
                Ok(()) => Err(io(error)),
                Err(second) => Err(io(error).context(second.to_string())),
            },
        }
    }

    fn reopen(&self, partial: &Path, _done: &Rows) -> Result<Box<dyn Writer>> {
        let io = |error| file_error::io("resume", partial, error);
        let bytes = self.header.len() as u64 + self.data_bytes;
        let Some(state) = state_of("resume", partial)? else {
            return Err(lost(partial, "the partial output is missing"));
        };
        check_own("resume", partial, &state)?;
        if state.len() != bytes {
            return Err(lost(partial, format!("has {} bytes instead of {bytes}", state.len())));
        }
        let mut options = File::options();
        options.read(true).write(true).custom_flags(NOFOLLOW);
        let file = options.open(partial).map_err(io)?;
        check_own("resume", partial, &file.metadata().map_err(io)?)?;
        let mut found = vec![0; self.header.len()];
        file.read_exact_at(&mut found, 0).map_err(io)?;
        if found != self.header {
            return Err(lost(partial, "the header is damaged"));
        }
        Ok(self.writer(file, partial))
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

#[derive(Debug)]
struct FlatWriter {
    file: File,
    path: PathBuf,
    data_start: u64,
    row_bytes: u64,
    ways: Ways,
}

impl Writer for FlatWriter {
    fn write(&self, rows: Range<u64>, bytes: &[u8]) -> Result<()> {
        self.ways
            .write_at(&self.file, bytes, self.data_start + rows.start * self.row_bytes)
            .map_err(|error| file_error::io("write", &self.path, error))
    }

    fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        self.file
            .read_exact_at(into, self.data_start + rows.start * self.row_bytes)
            .map_err(|error| file_error::io("read", &self.path, error))
    }

    fn root(&self) -> &File {
        &self.file
    }

    fn sync(&self) -> Result<()> {
        // The name is as durable as the folder, which the output synchronizes.
        self.file.sync_all().map_err(|error| file_error::io("synchronize", &self.path, error))
    }

    fn check_complete(&self) -> Result<()> {
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
        let file = File::options().write(true).open(path).expect("every Linux has it");
        let (path, ways) = (path.to_owned(), Ways::new(8));
        let flat = FlatWriter { file, path, data_start: 0, row_bytes: 4, ways };
        let error = flat.write(1..2, &[1, 2, 3, 4]).expect_err("the device is always full");
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains("/dev/full: no space left"), "{error}");
    }
}
