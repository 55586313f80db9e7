//! The map from one range of values to another.
#![forbid(unsafe_code)]

use super::kernel::RESCALE;
use crate::call::{Arrays, checked, refused};
use crate::elements::RealType;
use crate::operation::{Operation, RowsOfCall};
use crate::stack::Typed;
use std::ops::Range;
use trijet::{Device, Dtype, Result, Stream, View, ViewMut};

/// The name of the operation in errors.
const NAME: &str = "rescale";

/// Maps the values of the range `from` onto the range `to`. Values beyond `from` are held to it
/// first.
///
/// The result is `(x - from[0]) / (from[1] - from[0]) * (to[1] - to[0]) + to[0]` in `f64`, rounded
/// after each step, and becomes an element as in [`Convert`](crate::Convert).
///
/// ```
/// use trijet::{Device, Dtype, Select};
/// use trijet_ops::{Rescale, Typed, apply};
/// let device = Device::open(Select::Host(0))?;
/// let array = Typed::new(Dtype::U8, vec![4]);
/// let stretch = Rescale { from: [50.0, 150.0], to: [0.0, 255.0], dtype: None };
/// assert_eq!(apply(&device, &stretch, &array, &[0, 50, 100, 200])?, [0, 0, 128, 255]);
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rescale {
    /// The range of the input, as its first and last value. Both are finite, and the first is the
    /// smaller one.
    pub from: [f64; 2],
    /// The values of the output for the first and the last value of `from`. Both are finite. The
    /// first may be the larger one.
    pub to: [f64; 2],
    /// The type of the output. `None` for the type of the input.
    pub dtype: Option<Dtype>,
}

impl Operation for Rescale {
    fn description(&self) -> String {
        let ([low, high], [to_low, to_high]) = (self.from, self.to);
        let dtype = self.dtype.map_or(String::new(), |dtype| format!(" as {dtype}"));
        format!("rescale from {low:?} to {high:?} onto {to_low:?} to {to_high:?}{dtype}")
    }

    fn output(&self, x: &Typed) -> Result<Typed> {
        let [low, high] = self.from;
        let is_finite = |[first, last]: [f64; 2]| first.is_finite() && (last - first).is_finite();
        if !is_finite(self.from) || low >= high {
            let cause = format!("`from` is {low:?} to {high:?}; choose finite values that rise");
            return Err(refused(NAME, cause));
        }
        if !is_finite(self.to) {
            let cause = format!("`to` is {:?}; choose finite values", self.to);
            return Err(refused(NAME, cause));
        }
        let dtype = self.dtype.unwrap_or(x.dtype);
        RealType::of(NAME, x.dtype)?;
        RealType::of(NAME, dtype)?;
        x.stack()?;
        Ok(Typed::new(dtype, x.shape.clone()))
    }

    fn input_rows(&self, _: &Typed, y: Range<u64>) -> Range<u64> {
        y
    }

    fn load(&self, device: &Device, _: &Typed) -> Result<()> {
        device.load(&RESCALE)
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
        let ([low, high], [to_low, to_high]) = (self.from, self.to);
        let from = RealType::of(NAME, array.dtype)?.number();
        let to = RealType::of(NAME, output.dtype)?.number();
        stream.launch(&RESCALE, (from, to, low, high, to_low, to_high, part.x, y))
    }
}
