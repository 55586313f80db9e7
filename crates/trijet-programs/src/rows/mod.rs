//! The product of a sparse matrix and a vector. The number of entries per row differs greatly.

use crate::mix::mix;
use crate::part::part;
use trijet::kernels::{ArgBlock, Read, Write};
use trijet::workers::{Body, Kinds, Program, ProgramSpec, Worker};

/// The kinds of tasks of [`ROWS`]. There is one kind.
#[derive(Debug, Clone, Copy)]
pub struct RowsKind;

impl Kinds for RowsKind {
    const KINDS: &'static [(&'static str, Body)] = &[("row", row)];
}

/// The value of the entry in this row and column.
const fn entry(row: u32, column: u32) -> u32 {
    mix(column ^ row)
}

/// The product of a row with the vector `x`. `columns` are the columns of the entries of the row.
/// An entry in a column that `x` does not have counts as 0.
#[must_use]
pub fn product(number: u32, columns: &[u32], x: &[u32]) -> u32 {
    let x = |column: u32| x.get(column as usize).copied().unwrap_or(0);
    let entries = columns.iter().map(|column| entry(number, *column).wrapping_mul(x(*column)));
    entries.fold(0, u32::wrapping_add)
}

fn row(w: &mut Worker<'_>, payload: u64) {
    let (ends, columns, x) = (w.read::<u32>(0), w.read::<u32>(2), w.read::<u32>(4));
    let (number, y) = (payload as u32 as usize, w.shared::<u32>(6));
    let (Some(begin), Some(end)) = (ends.get(number), ends.get(number + 1)) else { return };
    if number < y.len() {
        y.set(number, product(payload as u32, part(columns, *begin, *end), x));
    }
}

fn check(args: &ArgBlock) -> Result<(), String> {
    let (ends, rows) = (args.spans()[0].elements, args.spans()[3].elements);
    if ends != rows + 1 {
        return Err(format!("{ends} ends for {rows} rows; one end more than rows is needed"));
    }
    Ok(())
}

/// The parameters of [`ROWS`].
pub type RowsParams = (Read<u32>, Read<u32>, Read<u32>, Write<u32>);

/// Multiplies a sparse matrix by a vector, in 32-bit words that wrap around. Its arguments are
/// `(&ends, &columns, &x, &mut y)`. The value of an entry is a hash of its row and its column. Each
/// task computes one row.
pub static ROWS: Program<RowsKind, RowsParams> = {
    let bodies = concat!(include_str!("../mix.cu"), include_str!("rows.cu"));
    let parameters = "const u32* ends, u64 marks, const u32* columns, u64 entries, const u32* x, u64 length, \
                      u32* y, u64 rows";
    let spec = ProgramSpec::new("rows", bodies, parameters);
    // SAFETY: every index is compared with the length of its span, in 64 bits, and results are
    // written atomically.
    unsafe { Program::declare(spec.check(check)) }
};
