//! Rolling minima and maxima.

mod kernel;
mod twin;

use crate::call::{Arrays, checked};
use crate::elements::RealType;
use crate::keys::Keys;
use crate::operation::{Operation, RowsOfCall};
use crate::stack::Typed;
use crate::window::{Place, Reach, Volumes};
use std::ops::Range;
use trijet::kernels::median::Edges;
use trijet::{Device, Result, Stream, View, ViewMut};

/// A filter that replaces each element by the smallest or the largest element of the window around
/// it, as `scipy.ndimage.minimum_filter` and `maximum_filter` do.
///
/// A window has `2 r + 1` elements along each axis, for the radius `r` of the axis. The radius has
/// three numbers, `[z, y, x]`: `x` along a row, `y` along the rows of an image, and `z` along the
/// images, the third axis from the last. Each number is 0 to 31. Windows do not leave their
/// volume: an array with more than three axes has many volumes. Beyond the edges, [`Edges`]
/// determines the elements.
///
/// All real types are filtered, and the output has the type of the input. Floats are in the order
/// of their values, -0 is below 0, and a NaN is above all numbers: a maximum is NaN if the window
/// has a NaN, and a minimum only if it has nothing else. A NaN in the output has all bits but the
/// sign. SciPy gives no order to NaN, takes -0 and 0 for equal, has no 16 bit floats, and rounds
/// integers of 64 bits to `float64`.
///
/// ```
/// use trijet::kernels::median::Edges;
/// use trijet::{Device, Dtype, Select};
/// use trijet_ops::{Extremum, Operation, RowsOfCall, Typed};
/// let stream = Device::open(Select::Host(0))?.stream()?;
/// let row = Typed::new(Dtype::I32, vec![1, 5]);
/// let x = stream.upload(trijet::bytemuck::cast_slice(&[3, -1, 4, 1, -5]))?;
/// let mut y = stream.alloc::<u8>(20)?;
/// let largest = Extremum::maximum([0, 0, 1], Edges::Nearest)?;
/// largest.enqueue(&stream, &row, &RowsOfCall { x: 0..1, y: 0..1 }, x.view(), y.view_mut())?;
/// let found = stream.download(&y)?;
/// assert_eq!(trijet::bytemuck::pod_collect_to_vec::<u8, i32>(&found), [3, 4, 4, 4, 1]);
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extremum {
    reach: Reach,
    end: End,
}

/// The end of the order that a filter takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Smallest,
    Largest,
}

impl Extremum {
    /// The filter for the smallest element of the window.
    ///
    /// ```
    /// use trijet::kernels::median::Edges;
    /// use trijet_ops::{Extremum, Operation};
    /// let smallest = Extremum::minimum([0, 31, 31], Edges::Wrap)?;
    /// assert_eq!(smallest.description(), "minimum, radius [0, 31, 31], edges wrap");
    /// assert!(Extremum::minimum([0, 0, 32], Edges::Wrap).is_err());
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidValue` for a radius above 31.
    pub fn minimum(radius: [u32; 3], edges: Edges) -> Result<Self> {
        let reach = Reach::new("minimum", radius, edges, kernel::RADIUS_MAX)?;
        Ok(Self { reach, end: End::Smallest })
    }

    /// The filter for the largest element of the window.
    ///
    /// # Errors
    /// `InvalidValue` for a radius above 31.
    pub fn maximum(radius: [u32; 3], edges: Edges) -> Result<Self> {
        let reach = Reach::new("maximum", radius, edges, kernel::RADIUS_MAX)?;
        Ok(Self { reach, end: End::Largest })
    }

    /// The name in errors.
    fn name(&self) -> &'static str {
        match self.end {
            End::Smallest => "minimum",
            End::Largest => "maximum",
        }
    }
}

impl Operation for Extremum {
    fn description(&self) -> String {
        format!("{}, {}", self.name(), self.reach.text())
    }

    fn output(&self, x: &Typed) -> Result<Typed> {
        RealType::of(self.name(), x.dtype)?;
        Volumes::of(x)?;
        Ok(x.clone())
    }

    fn input_rows(&self, x: &Typed, y: Range<u64>) -> Range<u64> {
        Volumes::of(x).map_or(y.clone(), |volumes| volumes.rows_of_windows(self.reach, y))
    }

    fn load(&self, device: &Device, x: &Typed) -> Result<()> {
        device.load(kernel::kernel(Keys::of(RealType::of(self.name(), x.dtype)?).bits))
    }

    fn enqueue(
        &self,
        stream: &Stream,
        array: &Typed,
        rows: &RowsOfCall,
        x: View<'_, u8>,
        y: ViewMut<'_, u8>,
    ) -> Result<()> {
        let keys = Keys::of(RealType::of(self.name(), array.dtype)?);
        let need = self.input_rows(array, rows.y.clone());
        let part = checked(self.name(), Arrays { x: array, y: array }, &need, rows, x, &y)?;
        let Some(part) = part else { return Ok(()) };
        let (x, place) = (part.x, Place::new(Volumes::of(array)?, &rows.y, part.first));
        let Reach { radius, edges } = self.reach;
        let invert = if self.end == End::Largest { u64::MAX } else { 0_u64 };
        let arguments = (place.words(), x, y, keys.words(), radius, edges.number(), invert);
        stream.launch(kernel::kernel(keys.bits), arguments)
    }
}
