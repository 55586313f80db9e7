//! A part of each image.
#![forbid(unsafe_code)]

use super::kernel::CROP;
use super::params::CropPlan;
use crate::call::{Arrays, are_rows, checked, refused};
use crate::operation::{Operation, RowsOfCall};
use crate::stack::Typed;
use std::ops::Range;
use trijet::{Device, Result, Stream, View, ViewMut};

/// The name of the operation in errors.
const NAME: &str = "crop";

/// Keeps a part of each image: its rows `y` and its columns `x`. For elements of any type. A range
/// whose end is `u64::MAX` goes to the end of the image.
///
/// ```
/// use trijet::{Device, Dtype, Select};
/// use trijet_ops::{Crop, Typed, apply};
/// let device = Device::open(Select::Host(0))?;
/// let stack = Typed::new(Dtype::U8, vec![2, 2, 3]);
/// let crop = Crop { y: 1..2, x: 0..2 };
/// let y = apply(&device, &crop, &stack, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])?;
/// assert_eq!(y, [4, 5, 10, 11]);
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crop {
    /// The rows of an image. An array of one axis is one image with rows of one element.
    pub y: Range<u64>,
    /// The columns of an image.
    pub x: Range<u64>,
}

impl Crop {
    /// The part of each image, in elements.
    fn plan(&self, array: &Typed) -> Result<CropPlan> {
        let stack = array.stack()?;
        let to_end = |range: &Range<u64>, all| match range.end {
            u64::MAX => range.start..all,
            _ => range.clone(),
        };
        let (y, x) = (to_end(&self.y, stack.height), to_end(&self.x, stack.width));
        for (name, range, all) in [("y", &y, stack.height), ("x", &x, stack.width)] {
            if range.start > range.end || range.end > all {
                let cause = format!("`{name}` is {range:?}; choose a range within 0..{all}");
                return Err(refused(NAME, cause));
            }
        }
        Ok(CropPlan {
            top: y.start,
            left: x.start,
            height: stack.height,
            width: stack.width,
            out_height: y.end - y.start,
            out_width: x.end - x.start,
            first_in: 0,
            first_out: 0,
        })
    }
}

impl Operation for Crop {
    fn description(&self) -> String {
        format!("crop rows {:?} columns {:?}", self.y, self.x)
    }

    fn output(&self, x: &Typed) -> Result<Typed> {
        let plan = self.plan(x)?;
        let shape = match x.shape[..] {
            [ref outer @ .., _, _] => [outer, &[plan.out_height, plan.out_width]].concat(),
            _ => {
                if plan.out_width != 1 {
                    let cause = "`x` is empty; choose 0..1 for an array of one axis";
                    return Err(refused(NAME, cause));
                }
                vec![plan.out_height]
            }
        };
        Ok(Typed::new(x.dtype, shape))
    }

    fn input_rows(&self, x: &Typed, y: Range<u64>) -> Range<u64> {
        match self.plan(x) {
            Ok(plan) if are_rows(self, x, &y) => plan.row_in(y.start)..plan.row_in(y.end - 1) + 1,
            Ok(_) | Err(_) => 0..0,
        }
    }

    fn load(&self, device: &Device, _: &Typed) -> Result<()> {
        device.load(&CROP)
    }

    fn enqueue(
        &self,
        stream: &Stream,
        array: &Typed,
        rows: &RowsOfCall,
        x: View<'_, u8>,
        y: ViewMut<'_, u8>,
    ) -> Result<()> {
        let (output, need) = (self.output(array)?, self.input_rows(array, rows.y.clone()));
        let arrays = Arrays { x: array, y: &output };
        let Some(part) = checked(NAME, arrays, &need, rows, x, &y)? else {
            return Ok(());
        };
        // The kernel copies units of at most 8 bytes.
        let unit = array.dtype.bytes().min(8);
        let units = array.dtype.bytes() / unit;
        let plan = self.plan(array)?;
        let plan = CropPlan {
            left: plan.left * units,
            width: plan.width * units,
            out_width: plan.out_width * units,
            first_in: part.first,
            first_out: rows.y.start,
            ..plan
        };
        let unit = u32::try_from(unit).unwrap_or(u32::MAX);
        stream.launch(&CROP, (unit, plan, part.x, y))
    }
}
