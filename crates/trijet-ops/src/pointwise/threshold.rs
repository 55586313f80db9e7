//! Elements above a value.
#![forbid(unsafe_code)]

use super::kernel::THRESHOLD;
use crate::call::{Arrays, checked, refused};
use crate::elements::RealType;
use crate::operation::{Operation, RowsOfCall};
use crate::stack::Typed;
use std::ops::Range;
use trijet::{Device, Dtype, Result, Stream, View, ViewMut};

/// The name of the operation in errors.
const NAME: &str = "threshold";

/// Marks the elements above a value. The output is an array of bytes: `value` for elements above
/// `above`, and 0 for other elements and for NaN.
///
/// Elements are compared exactly. NumPy first rounds the value to the type of a float array, and
/// integers of 64 bits to `f64`.
///
/// ```
/// use trijet::{Device, Dtype, Select};
/// use trijet_ops::{Threshold, Typed, apply};
/// let device = Device::open(Select::Host(0))?;
/// let array = Typed::new(Dtype::U8, vec![4]);
/// let mask = Threshold { above: 9.5, value: 1 };
/// assert_eq!(apply(&device, &mask, &array, &[0, 9, 10, 255])?, [0, 0, 1, 1]);
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold {
    /// The value that elements are compared with. Not NaN.
    pub above: f64,
    /// The byte for elements above the value, for example 1 or 255.
    pub value: u8,
}

impl Operation for Threshold {
    fn description(&self) -> String {
        format!("threshold above {:?} is {}", self.above, self.value)
    }

    fn output(&self, x: &Typed) -> Result<Typed> {
        if self.above.is_nan() {
            return Err(refused(NAME, "the value `above` is NaN; choose a number"));
        }
        RealType::of(NAME, x.dtype)?;
        x.stack()?;
        Ok(Typed::new(Dtype::U8, x.shape.clone()))
    }

    fn input_rows(&self, _: &Typed, y: Range<u64>) -> Range<u64> {
        y
    }

    fn load(&self, device: &Device, _: &Typed) -> Result<()> {
        device.load(&THRESHOLD)
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
        let real = RealType::of(NAME, array.dtype)?;
        let value = u32::from(self.value);
        let (above, low) = match real.limits() {
            None => (self.above.to_bits(), 0),
            // Every integer of the type is above the value.
            Some([least, _]) if self.above < least as f64 => (0, value),
            Some(_) => (real.word(self.above.floor()), 0),
        };
        stream.launch(&THRESHOLD, (real.number(), above, low, value, part.x, y))
    }
}
