//! The affine map of each element.
#![forbid(unsafe_code)]

use super::kernel::AFFINE;
use crate::call::{Arrays, checked};
use crate::elements::RealType;
use crate::operation::{Operation, RowsOfCall};
use crate::stack::Typed;
use std::ops::Range;
use trijet::{Device, Result, Stream, View, ViewMut};

/// The name of the operation in errors.
const NAME: &str = "affine";

/// Computes `scale * x + offset` for each element. The output has the type of the input.
///
/// Elements of at most 16 bits and `f32` are computed in `f32`, other elements in `f64`. The result
/// is rounded after the product and after the sum, and becomes an element as in
/// [`Convert`](crate::Convert).
///
/// ```
/// use trijet::{Device, Dtype, Select};
/// use trijet_ops::{Affine, Typed, apply};
/// let device = Device::open(Select::Host(0))?;
/// let array = Typed::new(Dtype::U8, vec![4]);
/// let map = Affine { scale: 2.5, offset: -1.0 };
/// assert_eq!(apply(&device, &map, &array, &[0, 1, 2, 200])?, [0, 2, 4, 255]);
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Affine {
    /// The factor. Elements that are computed in `f32` use the nearest `f32`.
    pub scale: f64,
    /// The value that is added to the product. Elements that are computed in `f32` use the nearest
    /// `f32`.
    pub offset: f64,
}

impl Operation for Affine {
    fn description(&self) -> String {
        format!("affine scale {:?} offset {:?}", self.scale, self.offset)
    }

    fn output(&self, x: &Typed) -> Result<Typed> {
        RealType::of(NAME, x.dtype)?;
        x.stack()?;
        Ok(x.clone())
    }

    fn input_rows(&self, _: &Typed, y: Range<u64>) -> Range<u64> {
        y
    }

    fn load(&self, device: &Device, _: &Typed) -> Result<()> {
        device.load(&AFFINE)
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
        stream.launch(&AFFINE, (real.number(), self.scale, self.offset, part.x, y))
    }
}
