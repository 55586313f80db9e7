//! Rank filters: medians, percentiles and any other rank of a window.

mod kernel;
mod twin;

use crate::call::{Arrays, checked, refused};
use crate::elements::RealType;
use crate::keys::Keys;
use crate::operation::{Operation, RowsOfCall};
use crate::stack::Typed;
use crate::window::{Place, Reach, Volumes};
use std::ops::Range;
use trijet::kernels::median::{self, Edges, MedianPixel};
use trijet::{Device, Dtype, Kernel, Result, Stream, View, ViewMut};

/// The name in errors.
const NAME: &str = "rank";

/// The largest radius of a window in one image.
const RADIUS_MAX: u32 = 7;

/// The largest radius of a window along the images.
const RADIUS_MAX_OF_VOLUMES: u32 = 3;

/// A filter that replaces each element by the element of a given rank in the window around it, as
/// `scipy.ndimage.rank_filter`, `percentile_filter` and `median_filter` do.
///
/// A window has `2 r + 1` elements along each axis, for the radius `r` of the axis. The radius has
/// three numbers, `[z, y, x]`: `x` along a row, `y` along the rows of an image, and `z` along the
/// images, the third axis from the last. A window in one image (`z` is 0) has a radius of up to 7,
/// and any other window of up to 3. Windows do not leave their volume: an array with more than
/// three axes has many volumes. Beyond the edges, [`Edges`] determines the elements.
///
/// All real types are filtered, and the output has the type of the input. The result is exact: it
/// is one of the elements of the window. Floats are in the order of their values, -0 is below 0,
/// and a NaN is above all numbers. A NaN in the output has all bits but the sign. SciPy gives no
/// order to NaN, takes -0 and 0 for equal, has no 16 bit floats, and rounds integers of 64 bits to
/// `float64`.
///
/// ```
/// use trijet::kernels::median::Edges;
/// use trijet::{Device, Dtype, Select};
/// use trijet_ops::{Operation, Rank, RowsOfCall, Typed};
/// let stream = Device::open(Select::Host(0))?.stream()?;
/// let image = Typed::new(Dtype::U8, vec![3, 3]);
/// let x = stream.upload(&[1_u8, 2, 3, 4, 5, 6, 7, 8, 9])?;
/// let mut y = stream.alloc::<u8>(9)?;
/// let largest = Rank::percentile([0, 1, 1], 100.0, Edges::Nearest)?;
/// largest.enqueue(&stream, &image, &RowsOfCall { x: 0..3, y: 0..3 }, x.view(), y.view_mut())?;
/// assert_eq!(stream.download(&y)?, [5, 6, 6, 8, 9, 9, 8, 9, 9]);
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rank {
    reach: Reach,
    rank: u32,
}

impl Rank {
    /// The filter for the element with `rank` smaller or equal elements in its window, sorted
    /// before it. Rank 0 is the smallest element.
    ///
    /// ```
    /// use trijet::kernels::median::Edges;
    /// use trijet_ops::{Operation, Rank};
    /// let rank = Rank::nth([0, 1, 1], 4, Edges::Nearest)?;
    /// assert_eq!(rank, Rank::median([0, 1, 1], Edges::Nearest)?);
    /// assert_eq!(rank.description(), "rank 4 of 9, radius [0, 1, 1], edges nearest");
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidValue` for a rank that the window does not have, or a radius that is too large.
    pub fn nth(radius: [u32; 3], rank: u32, edges: Edges) -> Result<Self> {
        let reach = reach(radius, edges)?;
        if rank >= reach.size() {
            let cause = format!("the rank is {rank}; a window has ranks 0 to {}", reach.size() - 1);
            return Err(refused(NAME, cause));
        }
        Ok(Self { reach, rank })
    }

    /// The filter for the median of the window.
    ///
    /// # Errors
    /// `InvalidValue` for a radius that is too large.
    pub fn median(radius: [u32; 3], edges: Edges) -> Result<Self> {
        let reach = reach(radius, edges)?;
        Ok(Self { reach, rank: reach.size() / 2 })
    }

    /// The filter for a percentile, from 0 to 100. It takes the rank `size * percentile / 100`
    /// without its fraction, for a window of `size` elements, and the largest element for 100. This
    /// is the choice of `scipy.ndimage.percentile_filter`. Nothing is interpolated.
    ///
    /// # Errors
    /// `InvalidValue` for a percentile below 0 or above 100, or a radius that is too large.
    pub fn percentile(radius: [u32; 3], percentile: f64, edges: Edges) -> Result<Self> {
        let reach = reach(radius, edges)?;
        if !(0.0..=100.0).contains(&percentile) {
            return Err(refused(NAME, format!("the percentile is {percentile}; it is 0 to 100")));
        }
        let size = reach.size();
        let share = f64::from(size) * percentile / 100.0;
        let rank = (0..size).take_while(|&rank| f64::from(rank) <= share).last().unwrap_or(0);
        Ok(Self { reach, rank })
    }

    /// The radius of a median that a kernel of trijet computes.
    fn fast_radius(&self, x: &Typed) -> Result<Option<u32>> {
        let Volumes { height, width, .. } = Volumes::of(x)?;
        let [z, r, other] = self.reach.radius;
        let is_square = z == 0 && r == other && (1..=median::RADIUS_MAX).contains(&r);
        let is_small = u32::try_from(height).is_ok() && u32::try_from(width).is_ok();
        let is_fast = matches!(x.dtype, Dtype::U8 | Dtype::U16) && is_square && is_small;
        Ok((is_fast && self.rank == self.reach.size() / 2).then_some(r))
    }

    fn kernel(&self, x: &Typed) -> Result<(Keys, &'static Kernel<kernel::RankParams>)> {
        let keys = Keys::of(RealType::of(NAME, x.dtype)?);
        let radius = self.reach.radius;
        let found = kernel::kernel(keys.bits, radius, self.rank);
        let kernel =
            found.ok_or_else(|| refused(NAME, format!("no kernel for radius {radius:?}")))?;
        Ok((keys, kernel))
    }

    fn fast<T: MedianPixel>(
        &self,
        stream: &Stream,
        place: &Place,
        x: View<'_, u8>,
        y: ViewMut<'_, u8>,
    ) -> Result<()> {
        let Volumes { height, width, .. } = place.volumes;
        let side = |length: u64| u32::try_from(length).map_err(|_| refused(NAME, "too long"));
        let rows = median::Rows {
            width: side(width)?,
            height: side(height)?,
            first_out: place.first_out,
            first_in: place.first_in,
        };
        let window = median::Window { radius: self.reach.radius[1], edges: self.reach.edges };
        median::median::<T>(stream, x.cast()?, y.cast()?, rows, window)
    }
}

fn reach(radius: [u32; 3], edges: Edges) -> Result<Reach> {
    let most = if radius[0] == 0 { RADIUS_MAX } else { RADIUS_MAX_OF_VOLUMES };
    Reach::new(NAME, radius, edges, most)
}

impl Operation for Rank {
    fn description(&self) -> String {
        let Self { reach, rank } = self;
        format!("rank {rank} of {}, {}", reach.size(), reach.text())
    }

    fn output(&self, x: &Typed) -> Result<Typed> {
        RealType::of(NAME, x.dtype)?;
        Volumes::of(x)?;
        Ok(x.clone())
    }

    fn input_rows(&self, x: &Typed, y: Range<u64>) -> Range<u64> {
        Volumes::of(x).map_or(y.clone(), |volumes| volumes.rows_of_windows(self.reach, y))
    }

    fn load(&self, device: &Device, x: &Typed) -> Result<()> {
        match (self.fast_radius(x)?, x.dtype) {
            (Some(radius), Dtype::U8) => median::load::<u8>(device, radius),
            (Some(radius), _) => median::load::<u16>(device, radius),
            (None, _) => device.load(self.kernel(x)?.1),
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
        RealType::of(NAME, array.dtype)?;
        let need = self.input_rows(array, rows.y.clone());
        let part = checked(NAME, Arrays { x: array, y: array }, &need, rows, x, &y)?;
        let Some(part) = part else { return Ok(()) };
        let (x, place) = (part.x, Place::new(Volumes::of(array)?, &rows.y, part.first));
        let Reach { radius, edges } = self.reach;
        match (self.fast_radius(array)?, array.dtype) {
            (Some(_), Dtype::U8) => return self.fast::<u8>(stream, &place, x, y),
            (Some(_), _) => return self.fast::<u16>(stream, &place, x, y),
            (None, _) => {}
        }
        let (keys, kernel) = self.kernel(array)?;
        let tile_rows = kernel::tile_rows(keys.bits, radius, self.rank);
        let (rank, edges) = (self.rank, edges.number());
        let arguments = (place.words(), x, y, keys.words(), radius, rank, edges, tile_rows);
        stream.launch(kernel, arguments)
    }
}
