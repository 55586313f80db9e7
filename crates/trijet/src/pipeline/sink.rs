//! Sinks: where the results of a pipeline go.
#![forbid(unsafe_code)]

use crate::base::error::Result;
use std::ops::Range;

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
