//! Sources: where the data of a pipeline come from.
#![forbid(unsafe_code)]

use super::layout::Layout;
use crate::base::error::Result;
use std::ops::Range;

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
