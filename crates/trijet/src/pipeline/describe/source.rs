//! Sources: where the data of a pipeline come from.
#![forbid(unsafe_code)]

use crate::base::error::Result;
use crate::pipeline::plan::layout::Layout;
use std::ops::Range;

/// The blocks of a source, each of which is decoded as a whole.
///
/// Chunks of such a source begin and end at blocks where possible, so that no block is decoded
/// twice. A run reads so many chunks at once that every processor has a block to decode. The
/// source itself decodes the blocks of one call in parallel, on threads of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocks {
    /// The number of rows of a block. Blocks start at multiples of this number.
    pub rows: u64,
    /// The number of blocks that have the same rows.
    pub count: u64,
}

/// Data that a pipeline reads chunk by chunk.
///
/// A run reads forwards, one chunk at a time: each call starts at the first row of the previous
/// call or at a later row. Rows may be read again, because the halos of chunks overlap, and because
/// tuning reads the first chunk more than once. Several threads read a
/// [parallel](Source::is_parallel) source.
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
    note = "for rows of a slice, an array or a vector use `rows_of(&data, row_len)`, for an \
            iterator or a function \
            `rows_from_iter` or `rows_from_fn`, and for a page-locked buffer \
            `Pipeline::pinned_source`"
)]
pub trait Source: Send + Sync {
    /// The layout of the data.
    fn layout(&self) -> Layout;

    /// Returns an error if the data cannot be read in their layout. A run calls this function
    /// before the run allocates anything. By default there is no error.
    ///
    /// # Errors
    /// `InvalidValue`, with the reason.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Whether several threads may call [`read`](Self::read) at once, each for a different part of
    /// a chunk, in any order. False by default.
    fn is_parallel(&self) -> bool {
        false
    }

    /// The blocks of a [parallel](Self::is_parallel) source that decodes its rows in blocks. `None`
    /// by default.
    fn blocks(&self) -> Option<Blocks> {
        None
    }

    /// Fills `into` with these rows. The number of rows is a multiple of the granule of the layout,
    /// except at the end of the data. `into` is exactly as long as the rows.
    ///
    /// # Errors
    /// `Io`, with the file and the failed operation. The pipeline adds the number of the chunk.
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

    fn blocks(&self) -> Option<Blocks> {
        (**self).blocks()
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

    fn blocks(&self) -> Option<Blocks> {
        (**self).blocks()
    }

    fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        (**self).read(rows, into)
    }
}
