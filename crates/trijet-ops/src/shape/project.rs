//! One element for all elements along an axis.
#![forbid(unsafe_code)]

use super::how::Projection;
use super::kernel::PROJECT;
use super::params::ProjectPlan;
use crate::call::{Arrays, are_rows, checked, refused};
use crate::elements::RealType;
use crate::operation::{Operation, RowsOfCall};
use crate::stack::Typed;
use std::ops::Range;
use trijet::{Device, Dtype, Result, Stream, View, ViewMut};

/// The name of the operation in errors.
const NAME: &str = "project";

/// Makes one element of all elements along an axis, which the output lacks. The results are the
/// results of NumPy (`array.max(axis)`). Sums are added in the order of the axis, in `f64` for
/// floats, so the last bits may differ from NumPy, which adds in another order.
///
/// Axis 0 is refused: each row of the output would need all rows of the array. Exchange the first
/// two axes of such an array when it is read, and project axis 1.
///
/// ```
/// use trijet::{Device, Dtype, Select};
/// use trijet_ops::{Project, Projection, Typed, apply};
/// let device = Device::open(Select::Host(0))?;
/// let stack = Typed::new(Dtype::U8, vec![2, 2, 3]);
/// let x = [1, 2, 3, 4, 1, 6, 7, 8, 9, 0, 11, 2];
/// let most = Project { axis: 1, how: Projection::Max };
/// assert_eq!(apply(&device, &most, &stack, &x)?, [4, 2, 6, 7, 11, 9]);
/// let most = Project { axis: 2, how: Projection::Max };
/// assert_eq!(apply(&device, &most, &stack, &x)?, [3, 6, 9, 11]);
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Project {
    /// The axis. Axis 0 is the slowest one.
    pub axis: usize,
    /// The element that is made of the elements along the axis.
    pub how: Projection,
}

impl Project {
    fn plan(&self, array: &Typed) -> Result<ProjectPlan> {
        array.stack()?;
        let (axis, axes) = (self.axis, array.shape.len());
        let Some(&count) = array.shape.get(axis).filter(|_| axis > 0) else {
            let cause = if axis == 0 && axes > 1 {
                "axis 0 would need the whole array for each row; read the array with its first two \
                 axes exchanged (`--axis` of the command), and project axis 1"
                    .to_owned()
            } else if axes == 1 {
                "the array has one axis only; choose an array of at least 2".to_owned()
            } else {
                format!("the axis is {axis}, and the array has {axes}; choose 1 to {}", axes - 1)
            };
            return Err(refused(NAME, cause));
        };
        if count == 0 {
            return Err(refused(NAME, format!("{array}: axis {axis} has no elements")));
        }
        let inner =
            array.shape[axis + 1..].iter().try_fold(1_u64, |all, one| all.checked_mul(*one));
        let inner =
            inner.ok_or_else(|| refused(NAME, format!("{array}: the array is too large")))?;
        Ok(ProjectPlan { count, inner, first_in: 0, first_out: 0 })
    }

    /// The type of the output.
    fn dtype(&self, array: &Typed) -> Result<Dtype> {
        let real = RealType::of(NAME, array.dtype)?;
        let is_integer = real.limits().is_some();
        let is_signed = real.limits().is_some_and(|[least, _]| least < 0);
        Ok(match self.how {
            Projection::Max | Projection::Min => array.dtype,
            Projection::Sum if is_signed => Dtype::I64,
            Projection::Sum if is_integer => Dtype::U64,
            _ if real == RealType::F64 => Dtype::F64,
            Projection::Mean | Projection::Sum | Projection::Std => Dtype::F32,
        })
    }

    fn without_axis(&self, array: &Typed) -> Vec<u64> {
        let axes = array.shape.iter().enumerate();
        axes.filter(|(axis, _)| *axis != self.axis).map(|(_, length)| *length).collect()
    }

    /// The rows that rows of the output need, if the array and the output have elements.
    fn rows_in(&self, x: &Typed, y: &Range<u64>) -> Option<Range<u64>> {
        if !are_rows(self, x, y) {
            return None;
        }
        let plan = self.plan(x).ok()?;
        let output = Typed::new(x.dtype, self.without_axis(x)).stack().ok()?;
        let width = x.stack().ok()?.width;
        let elements = y.start * output.width..y.end * output.width;
        if elements.is_empty() || plan.inner == 0 || width == 0 {
            return None;
        }
        let elements = plan.elements_in(elements);
        Some(elements.start / width..elements.end.div_ceil(width))
    }
}

impl Operation for Project {
    fn description(&self) -> String {
        format!("project axis {} {}", self.axis, self.how)
    }

    fn output(&self, x: &Typed) -> Result<Typed> {
        self.plan(x)?;
        let output = Typed::new(self.dtype(x)?, self.without_axis(x));
        output.stack()?;
        Ok(output)
    }

    fn input_rows(&self, x: &Typed, y: Range<u64>) -> Range<u64> {
        self.rows_in(x, &y).unwrap_or(0..0)
    }

    fn load(&self, device: &Device, _: &Typed) -> Result<()> {
        device.load(&PROJECT)
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
        let plan = ProjectPlan {
            first_in: part.first * array.stack()?.width,
            first_out: rows.y.start * output.stack()?.width,
            ..self.plan(array)?
        };
        let from = RealType::of(NAME, array.dtype)?.number();
        let to = RealType::of(NAME, output.dtype)?.number();
        stream.launch(&PROJECT, (from, to, self.how.number(), plan, part.x, y))
    }
}
