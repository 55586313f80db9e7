//! The order of the bytes of elements.
#![forbid(unsafe_code)]

use super::kernel::SWAP;
use crate::call::{Arrays, checked};
use crate::operation::{Operation, RowsOfCall};
use crate::stack::Typed;
use std::ops::Range;
use trijet::{Device, Dtype, Result, Stream, View, ViewMut};

/// The name of the operation in errors.
const NAME: &str = "swap";

/// Swaps the bytes of each element, for arrays in the byte order of another machine. A complex
/// number is swapped part by part.
///
/// ```
/// use trijet::{Device, Dtype, Select};
/// use trijet_ops::{Swap, Typed, apply};
/// let device = Device::open(Select::Host(0))?;
/// let array = Typed::new(Dtype::U16, vec![2]);
/// assert_eq!(apply(&device, &Swap, &array, &[1, 2, 3, 4])?, [2, 1, 4, 3]);
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swap;

/// The size of a number in bytes: an element, or a part of a complex number.
fn part_bytes(dtype: Dtype) -> u32 {
    let parts = if dtype.name().starts_with('c') { 2 } else { 1 };
    u32::try_from(dtype.bytes() / parts).unwrap_or(u32::MAX)
}

impl Operation for Swap {
    fn description(&self) -> String {
        "swap the bytes of each element".to_owned()
    }

    fn output(&self, x: &Typed) -> Result<Typed> {
        x.stack()?;
        Ok(x.clone())
    }

    fn input_rows(&self, _: &Typed, y: Range<u64>) -> Range<u64> {
        y
    }

    fn load(&self, device: &Device, _: &Typed) -> Result<()> {
        device.load(&SWAP)
    }

    fn enqueue(
        &self,
        stream: &Stream,
        array: &Typed,
        rows: &RowsOfCall,
        x: View<'_, u8>,
        y: ViewMut<'_, u8>,
    ) -> Result<()> {
        let output = self.output(array)?;
        let arrays = Arrays { x: array, y: &output };
        let Some(part) = checked(NAME, arrays, &rows.y, rows, x, &y)? else {
            return Ok(());
        };
        let bytes = part_bytes(array.dtype);
        stream.launch(&SWAP, (bytes, part.x, y))
    }
}
