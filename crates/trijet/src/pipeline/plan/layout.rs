//! The layout of data: rows of bytes.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};
use crate::memory::Element;
use crate::memory::ElementKind;

/// The layout of data: `rows` rows of `row_bytes` bytes each.
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
    /// Chunks begin at multiples of this number of rows, because the format cannot read or write
    /// fewer rows. The number is 1 for arrays, and the height of an image for folders of images.
    pub granule: u64,
    /// The type of the elements in a row, if it is known.
    pub(in crate::pipeline) element: Option<ElementKind>,
}

impl Layout {
    /// A layout of `rows` rows of `row_bytes` bytes, with chunks that begin at any row.
    #[must_use]
    pub fn rows(rows: u64, row_bytes: u64) -> Self {
        Self { rows, row_bytes, granule: 1, element: None }
    }

    /// A layout of `rows` rows of `row_len` elements of type `T`, with chunks that begin at any
    /// row. A run refuses stages and sinks of another element type, except for `u8`, which fits
    /// every type.
    ///
    /// ```
    /// use trijet::pipeline::Layout;
    /// assert_eq!(Layout::of::<u16>(512, 2048).row_bytes, 4096);
    /// ```
    #[must_use]
    pub fn of<T: Element>(rows: u64, row_len: usize) -> Self {
        let element = ElementKind::of::<T>();
        let row_bytes = (row_len as u64).saturating_mul(element.bytes);
        Self { element: Some(element), ..Self::rows(rows, row_bytes) }
    }

    /// Makes chunks begin at multiples of `rows` rows.
    #[must_use]
    pub fn granule(mut self, rows: u64) -> Self {
        self.granule = rows;
        self
    }

    /// Returns the number of rows before a chunk, and after a chunk, on which the results of the
    /// chunk depend, if the stages have the halos `halos`. Chunks are whole granules, so each halo
    /// is rounded up to whole granules.
    ///
    /// ```
    /// use trijet::pipeline::Layout;
    /// assert_eq!(Layout::rows(1000, 1).reach([3, 0, 2]), 5);
    /// assert_eq!(Layout::rows(1000, 1).granule(10).reach([3, 0, 11]), 30);
    /// ```
    #[must_use]
    pub fn reach(&self, halos: impl IntoIterator<Item = u64>) -> u64 {
        let whole = |halo: u64| halo.checked_next_multiple_of(self.granule).unwrap_or(u64::MAX);
        halos.into_iter().map(whole).fold(0, u64::saturating_add)
    }

    /// The bytes of all rows.
    ///
    /// # Errors
    /// `InvalidValue` when the product overflows.
    pub fn bytes(&self) -> Result<u64> {
        self.rows.checked_mul(self.row_bytes).ok_or_else(|| {
            let (rows, row_bytes) = (self.rows, self.row_bytes);
            let cause = format!("{rows} rows of {row_bytes} bytes do not fit into 64 bits");
            Error::new(ErrorKind::InvalidValue, "layout", cause)
        })
    }

    /// Refuses rows without bytes, and granules without rows.
    pub(in crate::pipeline) fn check(&self) -> Result<()> {
        let cause = match (self.row_bytes, self.granule) {
            (0, _) => "a row has 0 bytes; it needs at least 1",
            (_, 0) => "the granule has 0 rows; it needs at least 1",
            _ => return Ok(()),
        };
        Err(Error::new(ErrorKind::InvalidValue, "layout", cause))
    }

    /// Refuses rows that do not consist of elements of type `T`. Implementations of
    /// [`Sink::check`](crate::Sink::check) call this function.
    ///
    /// # Errors
    /// `InvalidValue` when the rows have elements of another type, or are not a whole number of
    /// elements.
    pub fn check_elements<T: Element>(&self) -> Result<()> {
        self.check_element(ElementKind::of::<T>())
            .map_err(|cause| Error::new(ErrorKind::InvalidValue, "sink", cause))
    }

    /// Returns an error with the reason if a row does not consist of elements of type `wanted`.
    pub(in crate::pipeline) fn check_element(
        &self,
        wanted: ElementKind,
    ) -> std::result::Result<(), String> {
        if let Some(held) = self.element.filter(|held| !held.fits(wanted)) {
            return Err(format!("it takes elements of {wanted}, and the rows have {held}"));
        }
        if !self.row_bytes.is_multiple_of(wanted.bytes) {
            let bytes = self.row_bytes;
            return Err(format!(
                "a row of {bytes} bytes is not a whole number of elements of {wanted} ({} bytes)",
                wanted.bytes
            ));
        }
        Ok(())
    }
}
