//! Sinks: the targets of the results of a pipeline.
#![forbid(unsafe_code)]

use crate::base::error::Result;
use crate::pipeline::plan::layout::Layout;
use std::ops::Range;

/// A target of results. A run calls a sink in the order of the rows, unless the sink is
/// [parallel](Sink::parallel).
///
/// A `Vec` is a sink that appends the results. A slice is a sink that puts each row at its index.
/// Both sinks refuse rows of another element type. With elements of `u8`, both take rows of any
/// type as plain bytes.
///
/// ```
/// use std::ops::Range;
/// use trijet::{Pipeline, Sink};
/// use trijet::pipeline::rows_of;
/// use trijet::{Device, Result, Select};
///
/// #[derive(Default)]
/// struct Largest(u8);
///
/// impl Sink for Largest {
///     fn write(&mut self, _rows: Range<u64>, bytes: &[u8]) -> Result<()> {
///         self.0 = bytes.iter().copied().fold(self.0, u8::max);
///         Ok(())
///     }
///
///     fn finish(&mut self) -> Result<()> {
///         Ok(())
///     }
/// }
///
/// let device = Device::open(Select::Host(0))?;
/// let mut largest = Largest::default();
/// Pipeline::on(&device).source(rows_of([3u8, 9, 4, 1], 2)).sink(&mut largest).run()?;
/// assert_eq!(largest.0, 9);
/// # Ok::<(), trijet::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no sink of a pipeline",
    label = "no sink",
    note = "pass a vector or a slice as `&mut results`, and a function with `rows_to_fn`; for a \
            page-locked \
            buffer, use `Pipeline::pinned_sink`"
)]
pub trait Sink: Send {
    /// Returns an error if the sink cannot take the results. A run calls this function with the
    /// layout of all results, before the run allocates anything. By default every layout is
    /// accepted.
    ///
    /// # Errors
    /// `InvalidValue`, with the reason.
    fn check(&self, _results: Layout) -> Result<()> {
        Ok(())
    }

    /// Writes the bytes of `rows`. If a later run relies on the rows, the sink makes them durable
    /// before this call returns.
    ///
    /// # Errors
    /// `Io`, with the file and the failed operation. The pipeline adds the number of the chunk.
    fn write(&mut self, rows: Range<u64>, bytes: &[u8]) -> Result<()>;

    /// This sink as a [`ParallelSink`], if several threads may call the sink at once with rows in
    /// any order. `None` by default.
    fn parallel(&self) -> Option<&dyn ParallelSink> {
        None
    }

    /// Whether [`finish`](Self::finish) waits until the results are durable; true by default. If
    /// true, reports attribute the time of `finish` to the engine *sync*. If false, reports
    /// attribute this time to the writer.
    fn is_durable(&self) -> bool {
        true
    }

    /// Called once after the last row, and not after an error.
    ///
    /// # Errors
    /// `Io`, with the file and the failed operation.
    fn finish(&mut self) -> Result<()>;
}

/// A sink that several threads use at once, each for different rows, in any order.
pub trait ParallelSink: Sync {
    /// Number of rows at whose multiples a chunk may be cut into parts: a divisor of the granule of
    /// the results. `None`, the default, stands for this granule. A sink that takes any rows
    /// returns 1, so that many threads write a chunk of few granules, for example of one large
    /// image.
    fn granule(&self) -> Option<u64> {
        None
    }

    /// Writes the bytes of `rows`, as [`Sink::write`] does. The rows are a part of a chunk. Their
    /// number is a multiple of [`granule`](Self::granule), except at the end of the data.
    ///
    /// # Errors
    /// The errors of [`Sink::write`].
    fn write_part(&self, rows: Range<u64>, bytes: &[u8]) -> Result<()>;
}

/// A sink that is chosen when the program runs.
impl<S: Sink + ?Sized> Sink for Box<S> {
    fn check(&self, results: Layout) -> Result<()> {
        (**self).check(results)
    }

    fn write(&mut self, rows: Range<u64>, bytes: &[u8]) -> Result<()> {
        (**self).write(rows, bytes)
    }

    fn parallel(&self) -> Option<&dyn ParallelSink> {
        (**self).parallel()
    }

    fn is_durable(&self) -> bool {
        (**self).is_durable()
    }

    fn finish(&mut self) -> Result<()> {
        (**self).finish()
    }
}

/// A sink that is lent to a pipeline, so that the program can use the sink after the run.
impl<S: Sink + ?Sized> Sink for &mut S {
    fn check(&self, results: Layout) -> Result<()> {
        (**self).check(results)
    }

    fn write(&mut self, rows: Range<u64>, bytes: &[u8]) -> Result<()> {
        (**self).write(rows, bytes)
    }

    fn parallel(&self) -> Option<&dyn ParallelSink> {
        (**self).parallel()
    }

    fn is_durable(&self) -> bool {
        (**self).is_durable()
    }

    fn finish(&mut self) -> Result<()> {
        (**self).finish()
    }
}
