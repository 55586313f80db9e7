//! An output of one file. Each row is written at its offset.

use crate::file_error;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use trijet::Result;

#[derive(Debug)]
pub(super) struct Flat {
    file: File,
    path: PathBuf,
    data_start: u64,
    row_bytes: u64,
}

impl Flat {
    /// Creates a file with this header and space for `data_bytes` of data.
    pub(super) fn create(
        path: &Path,
        header: &[u8],
        data_bytes: u64,
        row_bytes: u64,
    ) -> Result<Self> {
        let io = |error| file_error::io("create", path, error);
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io(error)),
            _ => {}
        }
        let file = File::options().write(true).create_new(true).open(path).map_err(io)?;
        let data_start = header.len() as u64;
        file.write_all_at(header, 0).map_err(io)?;
        file.set_len(data_start + data_bytes).map_err(io)?;
        Ok(Self { file, path: path.to_owned(), data_start, row_bytes })
    }

    /// Opens the file of an earlier run; `None` if it is missing or `create` would make another
    /// one.
    pub(super) fn reopen(
        path: &Path,
        header: &[u8],
        data_bytes: u64,
        row_bytes: u64,
    ) -> Result<Option<Self>> {
        let io = |error| file_error::io("resume", path, error);
        let data_start = header.len() as u64;
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_file() && metadata.len() == data_start + data_bytes => {}
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io(error)),
        }
        let file = File::options().read(true).write(true).open(path).map_err(io)?;
        let mut found = vec![0; header.len()];
        file.read_exact_at(&mut found, 0).map_err(io)?;
        let flat = Self { file, path: path.to_owned(), data_start, row_bytes };
        Ok((found == header).then_some(flat))
    }

    pub(super) fn write(&self, row: u64, bytes: &[u8]) -> Result<()> {
        self.file
            .write_all_at(bytes, self.data_start + row * self.row_bytes)
            .map_err(|error| file_error::io("write", &self.path, error))
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
        let flat = Flat { file, path: path.to_owned(), data_start: 0, row_bytes: 4 };
        let error = flat.write(1, &[1, 2, 3, 4]).expect_err("the device is always full");
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains("/dev/full: no space left"), "{error}");
    }
}
