//! The contract of an operation.
#![forbid(unsafe_code)]

use crate::stack::Typed;
use std::fmt;
use std::ops::Range;
use trijet::{Device, Result, Stream, View, ViewMut};

/// The rows of one call of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowsOfCall {
    /// The rows that the input of the call has. Row 0 is the first row of the whole input array.
    pub x: Range<u64>,
    /// The rows that the call writes. Row 0 is the first row of the whole output array.
    pub y: Range<u64>,
}

/// An operation on an array that may be larger than the memory of a device. A pipeline calls the
/// operation for some rows of the output at a time.
///
/// The laws:
///
/// 1. **Rows.** The bytes of a row of the output are the same, however the rows are divided among
///    calls. For this, a call gets at least the rows [`input_rows`](Self::input_rows) of its output
///    rows.
/// 2. **Order.** For later rows of the output, `input_rows` starts and ends at the same rows or at
///    later rows.
/// 3. **Twin.** A host device computes the same bytes as a GPU, or values within a tolerance that
///    the operation states.
/// 4. **Empty.** A call without rows enqueues nothing, and is no error.
pub trait Operation: fmt::Debug + Send + Sync {
    /// A text that names the operation and all its parameters. Two operations with the same text
    /// compute the same bytes.
    fn description(&self) -> String;

    /// The array that the operation makes of the array `x`.
    ///
    /// # Errors
    /// `InvalidValue` for an array to which the operation cannot be applied.
    fn output(&self, x: &Typed) -> Result<Typed>;

    /// The rows of the input array `x` that the rows `y` of the output need, as far as the input
    /// has them. `x` is an array for which [`output`](Self::output) succeeds, and `y` are rows of
    /// that output.
    fn input_rows(&self, x: &Typed, y: Range<u64>) -> Range<u64>;

    /// The number of rows of the output for the array `x` at whose multiples calls start; 1 by
    /// default. Calls end at such a multiple or at the end of the output.
    fn granule(&self, _x: &Typed) -> u64 {
        1
    }

    /// Loads the kernels that the operation needs for the array `x`, so that the first call does
    /// not wait for running work.
    ///
    /// # Errors
    /// Errors of the driver.
    fn load(&self, device: &Device, x: &Typed) -> Result<()>;

    /// Enqueues the kernels that compute the rows `rows.y` of the output into `y`. The input has
    /// the rows `rows.x` of the array `array`, whose bytes are `x`.
    ///
    /// # Errors
    /// `InvalidValue` for an input that lacks rows, and for spans that are not whole rows. Errors
    /// of the driver.
    fn enqueue(
        &self,
        stream: &Stream,
        array: &Typed,
        rows: &RowsOfCall,
        x: View<'_, u8>,
        y: ViewMut<'_, u8>,
    ) -> Result<()>;
}
