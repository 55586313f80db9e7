//! Operations on whole arrays in host memory.
#![forbid(unsafe_code)]

use crate::operation::{Operation, RowsOfCall};
use crate::stack::Typed;
use trijet::{Device, Result};

/// Applies an operation to a whole array, whose bytes are `x`, and returns the bytes of the output.
/// For small arrays: the arrays are in the memory of the device as a whole, and the call waits for
/// the result.
///
/// ```
/// use trijet::{Device, Dtype, Select};
/// use trijet_ops::{Threshold, Typed, apply};
/// let device = Device::open(Select::Auto)?;
/// let image = Typed::new(Dtype::U8, vec![2, 3]);
/// let bright = Threshold { above: 4.0, value: 255 };
/// let y = apply(&device, &bright, &image, &[1, 9, 1, 4, 5, 0])?;
/// assert_eq!(y, [0, 255, 0, 0, 255, 0]);
/// # Ok::<(), trijet::Error>(())
/// ```
///
/// # Errors
/// `InvalidValue` for an array to which the operation cannot be applied, and for bytes that are not
/// the bytes of the array. Errors of the driver.
pub fn apply(
    device: &Device,
    operation: &dyn Operation,
    array: &Typed,
    x: &[u8],
) -> Result<Vec<u8>> {
    let output = operation.output(array)?;
    operation.load(device, array)?;
    let rows = RowsOfCall { x: 0..array.stack()?.rows(), y: 0..output.stack()?.rows() };
    let bytes = output.bytes()?;
    let stream = device.stream()?;
    let x = stream.upload(x)?;
    let mut y = stream.alloc::<u8>(bytes)?;
    operation.enqueue(&stream, array, &rows, x.view(), y.view_mut())?;
    stream.download(&y)
}
