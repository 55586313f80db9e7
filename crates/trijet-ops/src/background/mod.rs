//! Subtraction of a background that changes slowly.

mod kernel;

use crate::call::{Arrays, checked, row_bytes};
use crate::elements::RealType;
use crate::extremum::Extremum;
use crate::operation::{Operation, RowsOfCall};
use crate::stack::Typed;
use crate::window::{Reach, RowsOfArray, Volumes};
use std::ops::Range;
use trijet::kernels::median::Edges;
use trijet::{Device, Result, Stream, View, ViewMut};

/// The name in errors.
const NAME: &str = "background";

/// A filter that subtracts a background from each element.
///
/// The background is the opening of the array: its rolling minimum, then the rolling maximum of
/// that, with the same window (see [`Extremum`]). The result has the parts that are brighter than
/// their surroundings and smaller than the window. It is `scipy.ndimage.white_tophat` with a flat
/// box. With [`Background::minimum`], the background is the rolling minimum alone.
///
/// All real types are filtered, and the output has the type of the input. No element of unsigned
/// type is less than its background, so nothing saturates. Signed integers wrap, as in NumPy, where
/// the difference is larger than their type. Floats are rounded once; an infinity less an infinity
/// is NaN, and a NaN in the output has all bits but the sign.
///
/// ```
/// use trijet::kernels::median::Edges;
/// use trijet::{Device, Dtype, Select};
/// use trijet_ops::{Background, Operation, RowsOfCall, Typed};
/// let stream = Device::open(Select::Host(0))?.stream()?;
/// let row = Typed::new(Dtype::U8, vec![1, 8]);
/// let x = stream.upload(&[10_u8, 11, 50, 12, 13, 14, 15, 15])?;
/// let mut y = stream.alloc::<u8>(8)?;
/// let filter = Background::opening([0, 0, 1], Edges::Nearest)?;
/// filter.enqueue(&stream, &row, &RowsOfCall { x: 0..1, y: 0..1 }, x.view(), y.view_mut())?;
/// assert_eq!(stream.download(&y)?, [0, 0, 38, 0, 0, 0, 0, 0]);
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Background {
    reach: Reach,
    minimum: Extremum,
    /// The second half of an opening.
    maximum: Option<Extremum>,
}

impl Background {
    /// The filter that subtracts the opening with a window of this radius, as [`Extremum`] has it.
    ///
    /// # Errors
    /// `InvalidValue` for a radius above 31.
    pub fn opening(radius: [u32; 3], edges: Edges) -> Result<Self> {
        let maximum = Extremum::maximum(radius, edges)?;
        Ok(Self { maximum: Some(maximum), ..Self::minimum(radius, edges)? })
    }

    /// The filter that subtracts the rolling minimum.
    ///
    /// ```
    /// use trijet::kernels::median::Edges;
    /// use trijet_ops::{Background, Operation};
    /// let filter = Background::minimum([0, 10, 10], Edges::Reflect)?;
    /// let text = "x less its minimum, radius [0, 10, 10], edges reflect";
    /// assert_eq!(filter.description(), text);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidValue` for a radius above 31.
    pub fn minimum(radius: [u32; 3], edges: Edges) -> Result<Self> {
        let minimum = Extremum::minimum(radius, edges)?;
        Ok(Self { reach: Reach { radius, edges }, minimum, maximum: None })
    }

    /// The rows of the minimum that the rows `y` need.
    fn rows_of_minimum(&self, volumes: &Volumes, y: Range<u64>) -> Range<u64> {
        if self.maximum.is_some() { volumes.rows_of_windows(self.reach, y) } else { y }
    }
}

impl Operation for Background {
    fn description(&self) -> String {
        let background = if self.maximum.is_some() { "opening" } else { "minimum" };
        format!("x less its {background}, {}", self.reach.text())
    }

    fn output(&self, x: &Typed) -> Result<Typed> {
        RealType::of(NAME, x.dtype)?;
        self.minimum.output(x)
    }

    fn input_rows(&self, x: &Typed, y: Range<u64>) -> Range<u64> {
        Volumes::of(x).map_or(y.clone(), |volumes| {
            volumes.rows_of_windows(self.reach, self.rows_of_minimum(&volumes, y))
        })
    }

    fn load(&self, device: &Device, x: &Typed) -> Result<()> {
        self.minimum.load(device, x)?;
        device.load(&kernel::SUBTRACT)
    }

    /// The minimum of an opening is in memory of the stream that is freed after the call.
    fn enqueue(
        &self,
        stream: &Stream,
        array: &Typed,
        rows: &RowsOfCall,
        x: View<'_, u8>,
        mut y: ViewMut<'_, u8>,
    ) -> Result<()> {
        let number = RealType::of(NAME, array.dtype)?.number();
        let need = self.input_rows(array, rows.y.clone());
        let part = checked(NAME, Arrays { x: array, y: array }, &need, rows, x, &y)?;
        let Some(part) = part else { return Ok(()) };
        let row_bytes = row_bytes(array)?;
        if let Some(maximum) = &self.maximum {
            let between = self.rows_of_minimum(&Volumes::of(array)?, rows.y.clone());
            let bytes = (between.end - between.start).saturating_mul(row_bytes);
            let mut middle = stream.alloc::<u8>(usize::try_from(bytes).unwrap_or(usize::MAX))?;
            let first = RowsOfCall { x: need, y: between.clone() };
            self.minimum.enqueue(stream, array, &first, part.x, middle.view_mut())?;
            let second = RowsOfCall { x: between, y: rows.y.clone() };
            maximum.enqueue(stream, array, &second, middle.view(), y.reborrow())?;
        } else {
            let rows = RowsOfCall { x: need, y: rows.y.clone() };
            self.minimum.enqueue(stream, array, &rows, part.x, y.reborrow())?;
        }
        let input = RowsOfArray { first: part.first, row_bytes, bytes: part.x };
        stream.launch(&kernel::SUBTRACT, (number, input.part(&rows.y)?, y))
    }
}
