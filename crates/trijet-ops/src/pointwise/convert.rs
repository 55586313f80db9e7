//! Elements of another type.
#![forbid(unsafe_code)]

use super::kernel::CONVERT;
use super::rescale::Rescale;
use crate::call::{Arrays, checked};
use crate::elements::RealType;
use crate::operation::{Operation, RowsOfCall};
use crate::stack::Typed;
use std::ops::Range;
use trijet::{Device, Dtype, Result, Stream, View, ViewMut};

/// The name of the operation in errors.
const NAME: &str = "convert";

/// Converts each element to another type.
///
/// A value is rounded once, to nearest, ties to even. Integers saturate: a value beyond the range
/// of the type becomes the smallest or the largest integer of the type. NaN becomes 0 in integers.
/// A NaN that a conversion makes has all bits set but the sign. If both types are the same, the
/// bytes are copied.
///
/// ```
/// use trijet::{Device, Dtype, Select};
/// use trijet_ops::{Convert, Typed, apply};
/// let device = Device::open(Select::Host(0))?;
/// let array = Typed::new(Dtype::F32, vec![2, 2]);
/// let x: Vec<u8> = [0.5_f32, 1.5, -3.0, 300.0].iter().flat_map(|v| v.to_le_bytes()).collect();
/// let to_bytes = Convert { to: Dtype::U8, range: None };
/// assert_eq!(apply(&device, &to_bytes, &array, &x)?, [0, 2, 0, 255]);
/// let stretched = Convert { to: Dtype::U8, range: Some([0.0, 2.0]) };
/// assert_eq!(apply(&device, &stretched, &array, &x)?, [64, 191, 0, 255]);
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Convert {
    /// The type of the output.
    pub to: Dtype,
    /// The first and the last value of a range that is mapped onto all integers of the type `to`,
    /// or onto 0 to 1 for a float, as [`Rescale`](crate::Rescale) does. `None` keeps the values.
    pub range: Option<[f64; 2]>,
}

impl Convert {
    /// The operation that maps the range onto the type `to`.
    fn rescale(&self, to: RealType) -> Option<Rescale> {
        let limits = to.limits().map_or([0.0, 1.0], |limits| limits.map(|limit| limit as f64));
        self.range.map(|from| Rescale { from, to: limits, dtype: Some(self.to) })
    }
}

impl Operation for Convert {
    fn description(&self) -> String {
        match self.range {
            None => format!("convert to {}", self.to),
            Some([low, high]) => format!("convert to {} from {low:?} to {high:?}", self.to),
        }
    }

    fn output(&self, x: &Typed) -> Result<Typed> {
        let to = RealType::of(NAME, self.to)?;
        if let Some(rescale) = self.rescale(to) {
            return rescale.output(x);
        }
        RealType::of(NAME, x.dtype)?;
        x.stack()?;
        Ok(Typed::new(self.to, x.shape.clone()))
    }

    fn input_rows(&self, _: &Typed, y: Range<u64>) -> Range<u64> {
        y
    }

    fn load(&self, device: &Device, x: &Typed) -> Result<()> {
        match self.rescale(RealType::of(NAME, self.to)?) {
            Some(rescale) => rescale.load(device, x),
            None => device.load(&CONVERT),
        }
    }

    fn enqueue(
        &self,
        stream: &Stream,
        array: &Typed,
        rows: &RowsOfCall,
        x: View<'_, u8>,
        y: ViewMut<'_, u8>,
    ) -> Result<()> {
        let to = RealType::of(NAME, self.to)?;
        if let Some(rescale) = self.rescale(to) {
            return rescale.enqueue(stream, array, rows, x, y);
        }
        let output = self.output(array)?;
        let arrays = Arrays { x: array, y: &output };
        let Some(part) = checked(NAME, arrays, &rows.y, rows, x, &y)? else {
            return Ok(());
        };
        let from = RealType::of(NAME, array.dtype)?;
        stream.launch(&CONVERT, (from.number(), to.number(), part.x, y))
    }
}
