//! Where a pipeline's data come from and where they go: rows of bytes.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};
use std::ops::Range;

/// How data are laid out: `rows` rows of `row_bytes` bytes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The number of rows.
    pub rows: u64,
    /// The bytes of a row; at least 1.
    pub row_bytes: u64,
    /// Chunks begin at multiples of this many rows, because the format reads or writes no less:
    /// 1 for arrays, the height of an image for folders of images.
    pub granule: u64,
}

impl Layout {
    /// All bytes.
    ///
    /// # Errors
    /// `InvalidValue` when the product overflows.
    pub fn bytes(&self) -> Result<u64> {
        self.rows.checked_mul(self.row_bytes).ok_or_else(|| {
            let cause = format!("{} rows of {} bytes overflow", self.rows, self.row_bytes);
            Error::new(ErrorKind::InvalidValue, "layout", cause)
        })
    }
}

/// Data to be read, chunk by chunk, in any order and from several threads.
pub trait Source: Send + Sync {
    /// What there is.
    fn layout(&self) -> Layout;

    /// Fills `into`, which is exactly as long as the rows are.
    ///
    /// # Errors
    /// `Io`, naming the file and what failed. The pipeline adds the chunk.
    fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()>;
}

/// Where results go. Called in the order of the rows.
pub trait Sink: Send {
    /// Takes the bytes of `rows`. When it returns, those rows survive the end of the process.
    ///
    /// # Errors
    /// `Io`, naming the file and what failed. The pipeline adds the chunk.
    fn write(&mut self, rows: Range<u64>, bytes: &[u8]) -> Result<()>;

    /// Called once after the last row, and not after an error.
    ///
    /// # Errors
    /// `Io`, naming the file and what failed.
    fn finish(&mut self) -> Result<()>;
}
