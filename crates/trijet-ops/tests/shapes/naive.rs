//! Comparison with values that are computed one element after another.

use crate::draw::Draw;
use crate::rows::whole_and_parts;
use crate::value::{Value, encode};
use trijet::Device;
use trijet_ops::{Operation, Typed};

/// Compares the output of an operation with the values `want`.
pub(crate) fn agrees(
    device: &Device,
    operation: &dyn Operation,
    array: &Typed,
    x: &[u8],
    draw: &mut Draw,
    want: &[Value],
) {
    let output = operation.output(array).unwrap();
    let got = whole_and_parts(device, operation, array, x, draw).unwrap();
    let size = usize::try_from(output.dtype.bytes()).unwrap();
    assert_eq!(got.len(), want.len() * size, "{operation:?} of {array}");
    for (index, (got, want)) in got.chunks_exact(size).zip(want).enumerate() {
        let bytes = encode(output.dtype, *want);
        assert_eq!(got, bytes, "{operation:?} of {array}: element {index}, {want:?}");
    }
}
