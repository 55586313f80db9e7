//! Common parts of the operations: the checks of a call, and launches along one axis.
#![forbid(unsafe_code)]

use crate::elements::RealType;
use crate::operation::{Operation, RowsOfCall};
use crate::stack::Typed;
use std::ops::Range;
use trijet::kernels::{ArgBlock, Cost};
use trijet::{Error, ErrorKind, LaunchConfig, Result, View, ViewMut};

/// The number of threads of a block.
pub(crate) const THREADS: u64 = 256;

/// Maximum number of blocks along the first axis of a grid (CUDA C++ Programming Guide, compute
/// capabilities).
const GRID_X_MAX: u64 = (1 << 31) - 1;

/// An `InvalidValue` error of an operation.
#[cold]
pub(crate) fn refused(operation: &'static str, cause: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidValue, operation, cause.into())
}

/// The bytes of a row of an array. At most `u64::MAX`.
pub(crate) fn row_bytes(array: &Typed) -> Result<u64> {
    Ok(array.stack()?.width.saturating_mul(array.dtype.bytes()))
}

/// Whether `y` are rows of the output for the array `x`, and not empty.
pub(crate) fn are_rows(operation: &dyn Operation, x: &Typed, y: &Range<u64>) -> bool {
    let all = operation.output(x).and_then(|output| output.stack()).map(|stack| stack.rows());
    !y.is_empty() && all.is_ok_and(|all| y.end <= all)
}

/// The arrays of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrays<'a> {
    pub(crate) x: &'a Typed,
    pub(crate) y: &'a Typed,
}

/// The part of the input that a call needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part<'a> {
    /// The number of the first row. Row 0 is the first row of the whole input array.
    pub(crate) first: u64,
    /// The bytes of the rows.
    pub(crate) x: View<'a, u8>,
}

/// Checks the spans of a call, and returns the rows `need` of its input. `None` for a call that has
/// nothing to do.
///
/// # Errors
/// `InvalidValue` for rows beyond the arrays, for spans that are not the rows of the call, for an
/// input that lacks rows, and for addresses that are not aligned for the elements.
pub(crate) fn checked<'a>(
    operation: &'static str,
    arrays: Arrays<'_>,
    need: &Range<u64>,
    rows: &RowsOfCall,
    x: View<'a, u8>,
    y: &ViewMut<'_, u8>,
) -> Result<Option<Part<'a>>> {
    let spans = [("input", arrays.x, &rows.x, x.len()), ("output", arrays.y, &rows.y, y.len())];
    for (name, array, rows, len) in spans {
        let (all, row_bytes) = (array.stack()?.rows(), row_bytes(array)?);
        let count = rows.end.checked_sub(rows.start).filter(|_| rows.end <= all);
        let Some(count) = count else {
            let cause = format!("the {name} has {all} rows, and the call has rows {rows:?} of it");
            return Err(refused(operation, cause));
        };
        if count.checked_mul(row_bytes) != u64::try_from(len).ok() {
            let cause = format!(
                "the {name} of the call has {len} bytes, and its {count} rows have {row_bytes} each"
            );
            return Err(refused(operation, cause));
        }
    }
    if rows.y.is_empty() || y.is_empty() {
        return Ok(None);
    }
    if need.start < rows.x.start || need.end > rows.x.end {
        let (given, wanted) = (&rows.x, &rows.y);
        let cause =
            format!("rows {wanted:?} of the output need rows {need:?} of the input, not {given:?}");
        return Err(refused(operation, cause));
    }
    let bytes = row_bytes(arrays.x)?;
    let at = |row: u64| {
        usize::try_from((row - rows.x.start) * bytes).expect("an offset in a span fits in `usize`")
    };
    let x = x.slice(at(need.start)..at(need.end));
    for (name, array, address) in
        [("input", arrays.x, x.address()), ("output", arrays.y, y.address())]
    {
        // A complex number is aligned as its parts.
        let bytes = array.dtype.bytes().min(8);
        if !address.is_multiple_of(bytes) {
            let cause = format!("the address of the {name} is not a multiple of {bytes}");
            return Err(refused(operation, cause));
        }
    }
    Ok(Some(Part { first: need.start, x }))
}

/// A launch with one thread for each of `elements` elements.
pub(crate) fn line(elements: u64) -> LaunchConfig {
    let blocks = elements.div_ceil(THREADS).min(GRID_X_MAX);
    let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
    LaunchConfig::new([blocks, 1, 1], [256, 1, 1])
}

/// The result of the check of a kernel's arguments.
pub(crate) type Checked = std::result::Result<(), String>;

/// The size of the elements of the type that argument `index` has the number of.
pub(crate) fn bytes_of(args: &ArgBlock, index: usize) -> std::result::Result<u64, String> {
    let number = args.scalar::<u32>(index);
    let found = RealType::numbered(number).map(RealType::bytes);
    found.ok_or_else(|| format!("{number} is not the number of a type"))
}

/// The cost of a kernel that reads or writes each byte of its spans once.
pub(crate) fn bytes_moved(args: &ArgBlock) -> Cost {
    Cost { bytes: args.spans().iter().map(|arg| arg.bytes()).sum(), ops: 0 }
}
