//! One element for each window of elements.
#![forbid(unsafe_code)]

use super::how::Binned;
use super::kernel::BIN;
use super::params::BinPlan;
use crate::call::{Arrays, are_rows, checked, refused};
use crate::elements::RealType;
use crate::operation::{Operation, RowsOfCall};
use crate::stack::Typed;
use std::ops::Range;
use trijet::{Device, Dtype, Result, Stream, View, ViewMut};

/// The name of the operation in errors.
const NAME: &str = "bin";

/// Maximum number of elements of a window. The exact mean of a window needs it to be below 2^32.
const COUNT_MAX: u64 = (1 << 32) - 1;

/// Makes one element of each window of elements. Windows do not overlap, and have `by` images, rows
/// and columns.
///
/// If a factor does not divide the length of its axis, the rest of the axis is dropped, as for
/// `skimage.measure.block_reduce` of an array that was cropped before. The factor of the images is
/// for the third axis from the end; windows do not reach over the axes before it. Elements are
/// added in the order of the array.
///
/// ```
/// use trijet::{Device, Dtype, Select};
/// use trijet_ops::{Bin, Binned, Typed, apply};
/// let device = Device::open(Select::Host(0))?;
/// let image = Typed::new(Dtype::U8, vec![2, 5]);
/// let x = [1, 2, 10, 20, 99, 3, 4, 30, 41, 99];
/// let mean = Bin { by: [1, 2, 2], how: Binned::Mean };
/// assert_eq!(apply(&device, &mean, &image, &x)?, [2, 25]);
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bin {
    /// The factors of the images, of the rows and of the columns. Each is at least 1, and at most
    /// the length of its axis. The factor of an axis that the array lacks is 1.
    pub by: [u64; 3],
    /// The element of a window.
    pub how: Binned,
}

impl Bin {
    fn plan(&self, array: &Typed) -> Result<BinPlan> {
        let stack = array.stack()?;
        let depth = match array.shape[..] {
            [.., depth, _, _] => depth,
            _ => 1,
        };
        let lengths = [depth, stack.height, stack.width];
        for ((name, by), all) in ["images", "rows", "columns"].iter().zip(self.by).zip(lengths) {
            if by == 0 || by > all.max(1) {
                let cause = format!(
                    "the factor of the {name} is {by}; choose 1 to {}, the length of the axis",
                    all.max(1)
                );
                return Err(refused(NAME, cause));
            }
        }
        let [images, rows, columns] = self.by;
        let count = images.checked_mul(rows).and_then(|count| count.checked_mul(columns));
        let most = self.count_max(array)?;
        if count.is_none_or(|count| count > most) {
            let cause = format!(
                "windows of {images} x {rows} x {columns} elements; choose at most {most} elements \
                 for a {} of elements of the type {}",
                self.how, array.dtype
            );
            return Err(refused(NAME, cause));
        }
        let (height, width) = (stack.height, stack.width);
        Ok(BinPlan { images, rows, columns, depth, height, width, first_in: 0, first_out: 0 })
    }

    /// Maximum number of elements of a window: the sum of elements of 8 or 16 bits has 32 bits.
    fn count_max(&self, array: &Typed) -> Result<u64> {
        let real = RealType::of(NAME, array.dtype)?;
        Ok(match (self.how, real) {
            (Binned::Sum, RealType::U8 | RealType::U16 | RealType::I8 | RealType::I16) => 1 << 16,
            _ => COUNT_MAX,
        })
    }

    /// The type of the output.
    fn dtype(&self, array: &Typed) -> Result<Dtype> {
        let real = RealType::of(NAME, array.dtype)?;
        Ok(match (self.how, real) {
            (Binned::Mean, _) => array.dtype,
            (Binned::Sum, RealType::U8 | RealType::U16) => Dtype::U32,
            (Binned::Sum, RealType::I8 | RealType::I16) => Dtype::I32,
            (Binned::Sum, RealType::U32 | RealType::U64) => Dtype::U64,
            (Binned::Sum, RealType::I32 | RealType::I64) => Dtype::I64,
            (Binned::Sum, RealType::F16 | RealType::BF16 | RealType::F32) => Dtype::F32,
            (Binned::Sum, RealType::F64) => Dtype::F64,
        })
    }
}

impl Operation for Bin {
    fn description(&self) -> String {
        let [images, rows, columns] = self.by;
        format!("bin {images} x {rows} x {columns} {}", self.how)
    }

    fn output(&self, x: &Typed) -> Result<Typed> {
        self.plan(x)?;
        let mut shape = x.shape.clone();
        let axes = shape.iter_mut().rev();
        if x.shape.len() == 1 {
            // The only axis is the axis of the rows.
            axes.zip([self.by[1]]).for_each(|(axis, by)| *axis /= by);
        } else {
            axes.zip(self.by.into_iter().rev()).for_each(|(axis, by)| *axis /= by);
        }
        Ok(Typed::new(self.dtype(x)?, shape))
    }

    fn input_rows(&self, x: &Typed, y: Range<u64>) -> Range<u64> {
        match self.plan(x) {
            Ok(plan) if are_rows(self, x, &y) => plan.rows_in(y),
            Ok(_) | Err(_) => 0..0,
        }
    }

    fn load(&self, device: &Device, _: &Typed) -> Result<()> {
        device.load(&BIN)
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
        let plan = self.plan(array)?;
        let plan = BinPlan { first_in: part.first, first_out: rows.y.start, ..plan };
        let from = RealType::of(NAME, array.dtype)?.number();
        let to = RealType::of(NAME, output.dtype)?.number();
        let is_mean = u32::from(self.how == Binned::Mean);
        stream.launch(&BIN, (from, to, is_mean, plan, part.x, y))
    }
}
