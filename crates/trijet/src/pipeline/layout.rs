//! The layout of data: rows of bytes.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};

/// How data are laid out: `rows` rows of `row_bytes` bytes each.
///
/// ```
/// use trijet::pipeline::Layout;
/// let images = Layout::rows(512 * 2048, 4096).granule(2048);
/// assert_eq!(images.bytes()?, 4 << 30);
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
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
    /// `rows` rows of `row_bytes` bytes, with chunks that begin at any row.
    #[must_use]
    pub fn rows(rows: u64, row_bytes: u64) -> Self {
        Self { rows, row_bytes, granule: 1 }
    }

    /// Has chunks begin at multiples of `rows` rows.
    #[must_use]
    pub fn granule(mut self, rows: u64) -> Self {
        self.granule = rows;
        self
    }

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
