//! Elements held to a range.
#![forbid(unsafe_code)]

use super::kernel::CLIP;
use crate::call::{Arrays, checked, refused};
use crate::elements::RealType;
use crate::operation::{Operation, RowsOfCall};
use crate::stack::Typed;
use std::ops::Range;
use trijet::{Device, Result, Stream, View, ViewMut};

/// The name of the operation in errors.
const NAME: &str = "clip";

/// Holds each element to the range from `low` to `high`. The output has the type of the input.
/// NaN stays NaN.
///
/// For integers, the bounds are the integers within the range, and integers of 64 bits are compared
/// exactly. Bounds beyond the range of the type are held to it. For floats, a bound is rounded to
/// the type.
///
/// ```
/// use trijet::{Device, Dtype, Select};
/// use trijet_ops::{Clip, Typed, apply};
/// let device = Device::open(Select::Host(0))?;
/// let array = Typed::new(Dtype::U8, vec![4]);
/// let clip = Clip { low: 9.5, high: 300.0 };
/// assert_eq!(apply(&device, &clip, &array, &[0, 9, 11, 255])?, [10, 10, 11, 255]);
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clip {
    /// The smallest value of the output, which may be negative infinity.
    pub low: f64,
    /// The largest value of the output, which may be infinity.
    pub high: f64,
}

impl Clip {
    /// The bounds as the kernel takes them: integers of 64 bits, or the bits of floats.
    fn bounds(&self, real: RealType) -> Result<[u64; 2]> {
        let Self { low, high } = *self;
        let is_rising = low <= high;
        if !is_rising {
            let cause = format!("the range is {low:?} to {high:?}; choose values that rise");
            return Err(refused(NAME, cause));
        }
        if real.limits().is_none() {
            return Ok([low.to_bits(), high.to_bits()]);
        }
        let (low, high) = (low.ceil(), high.floor());
        if low > high {
            let cause = format!("no integer is between {:?} and {:?}", self.low, self.high);
            return Err(refused(NAME, cause));
        }
        Ok([real.word(low), real.word(high)])
    }
}

impl Operation for Clip {
    fn description(&self) -> String {
        format!("clip from {:?} to {:?}", self.low, self.high)
    }

    fn output(&self, x: &Typed) -> Result<Typed> {
        self.bounds(RealType::of(NAME, x.dtype)?)?;
        x.stack()?;
        Ok(x.clone())
    }

    fn input_rows(&self, _: &Typed, y: Range<u64>) -> Range<u64> {
        y
    }

    fn load(&self, device: &Device, _: &Typed) -> Result<()> {
        device.load(&CLIP)
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
        let [low, high] = self.bounds(real)?;
        stream.launch(&CLIP, (real.number(), low, high, part.x, y))
    }
}
