//! Sources: where the data of a pipeline come from.
#![forbid(unsafe_code)]

use super::layout::Layout;
use crate::base::error::Result;
use std::ops::Range;

/// Data to be read, chunk by chunk.
///
/// A run reads forwards, one chunk at a time: each call begins at the first row of the call before
/// or after it. Rows may be read again, since the halos of chunks overlap and tuning reads the
/// first chunk more than once. A [parallel](Source::is_parallel) source is read by several threads.
///
/// ```
/// use std::ops::Range;
/// use trijet::{Pipeline, Source};
/// use trijet::pipeline::Layout;
/// use trijet::{Device, Result, Select};
///
/// /// Rows of four bytes that count.
/// struct Count;
///
/// impl Source for Count {
///     fn layout(&self) -> Layout {
///         Layout::rows(256, 4)
///     }
///
///     fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
///         for (row, into) in rows.zip(into.chunks_exact_mut(4)) {
///             into.fill(row as u8);
///         }
///         Ok(())
///     }
/// }
///
/// let device = Device::open(Select::Host(0))?;
/// let mut bytes: Vec<u8> = Vec::new();
/// Pipeline::on(&device).source(Count).sink(&mut bytes).run()?;
/// assert_eq!(bytes[1020..], [255; 4]);
/// # Ok::<(), trijet::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no source of a pipeline",
    label = "no source",
    note = "rows of a slice, an array or a vector are `rows_of(&data, row_len)`, those of an iterator or a function \
            `rows_from_iter` and `rows_from_fn`; a page-locked buffer goes to `Pipeline::pinned_source`"
)]
pub trait Source: Send + Sync {
    /// How the data are laid out.
    fn layout(&self) -> Layout;

    /// Says why the data cannot be read as the layout promises. Called before anything is
    /// allocated; by default there is no reason.
    ///
    /// # Errors
    /// `InvalidValue`, with what is wrong with the data.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Whether several threads may read at once, each a part of a chunk, in any order. By default
    /// they may not.
    fn is_parallel(&self) -> bool {
        false
    }

    /// Fills `into` with the rows, which are a multiple of the granule of the layout or end where
    /// the data end. It is exactly as long as they are.
    ///
    /// # Errors
    /// `Io`, with the file and what failed. The pipeline adds the chunk.
    fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()>;
}

/// A source that is lent to a pipeline.
impl<S: Source + ?Sized> Source for &S {
    fn layout(&self) -> Layout {
        (**self).layout()
    }

    fn check(&self) -> Result<()> {
        (**self).check()
    }

    fn is_parallel(&self) -> bool {
        (**self).is_parallel()
    }

    fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        (**self).read(rows, into)
    }
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn layout(&self) -> Layout {
        (**self).layout()
    }

    fn check(&self) -> Result<()> {
        (**self).check()
    }

    fn is_parallel(&self) -> bool {
        (**self).is_parallel()
    }

    fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        (**self).read(rows, into)
    }
}
