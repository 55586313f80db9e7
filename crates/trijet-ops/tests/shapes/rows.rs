//! Law 1 of the contract: the bytes of a row are the same, however the rows are divided.

use crate::draw::Draw;
use std::ops::Range;
use trijet::{Device, Result};
use trijet_ops::{Operation, RowsOfCall, Typed, apply};

fn at(row: u64, row_bytes: u64) -> usize {
    usize::try_from(row * row_bytes).unwrap()
}

/// The size of a row in bytes.
fn row_bytes(array: &Typed) -> u64 {
    array.stack().unwrap().width * array.dtype.bytes()
}

/// One call for the rows `y` of the output.
fn part(
    device: &Device,
    operation: &dyn Operation,
    arrays: [&Typed; 2],
    x: &[u8],
    rows: RowsOfCall,
) -> Result<Vec<u8>> {
    let stream = device.stream()?;
    let [from, to] = arrays.map(row_bytes);
    let bytes = at(rows.y.end - rows.y.start, to);
    let input = stream.upload(&x[at(rows.x.start, from)..at(rows.x.end, from)])?;
    let mut output = stream.alloc::<u8>(bytes)?;
    operation.enqueue(&stream, arrays[0], &rows, input.view(), output.view_mut())?;
    stream.download(&output)
}

/// Applies an operation to a whole array, and in drawn parts. Some parts get more rows of the input
/// than they need. Returns the bytes of the whole output.
pub(crate) fn whole_and_parts(
    device: &Device,
    operation: &dyn Operation,
    array: &Typed,
    x: &[u8],
    draw: &mut Draw,
) -> Result<Vec<u8>> {
    let output = operation.output(array)?;
    let whole = apply(device, operation, array, x)?;
    let (rows_in, rows_out) = (array.stack()?.rows(), output.stack()?.rows());
    assert_eq!(whole.len(), at(rows_out, row_bytes(&output)), "{operation:?}");
    let mut start = 0;
    let mut before: Range<u64> = 0..0;
    while start < rows_out {
        let end = draw.between(start + 1, rows_out);
        let need = operation.input_rows(array, start..end);
        assert!(need.start <= need.end && need.end <= rows_in, "{operation:?} {need:?}");
        assert!(need.start >= before.start && need.end >= before.end, "{operation:?}: law 2");
        let given = match draw.between(0, 1) {
            0 => need.clone(),
            _ => draw.between(0, need.start)..draw.between(need.end, rows_in),
        };
        let rows = RowsOfCall { x: given, y: start..end };
        let got = part(device, operation, [array, &output], x, rows)?;
        let want = &whole[at(start, row_bytes(&output))..at(end, row_bytes(&output))];
        assert_eq!(got, want, "{operation:?} of {array}: rows {start}..{end}");
        (start, before) = (end, need);
    }
    // Law 4.
    let rows = RowsOfCall { x: 0..0, y: rows_out..rows_out };
    assert_eq!(part(device, operation, [array, &output], x, rows)?, [0; 0]);
    Ok(whole)
}
