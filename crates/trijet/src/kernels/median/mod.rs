//! An exact median filter of images with 8 or 16 bit integers, with a radius of 1 to 7.
//!
//! The data are a stack of images, each with `height` rows of `width` pixels. Rows are numbered
//! over the whole stack: row `g` belongs to image `g / height`. Work can be divided between any two
//! rows of the output. The values of a window beyond the edges of its image follow from the pixels
//! of this image ([`Edges`]). So a chunk needs a halo of up to `radius` rows on each side. With
//! [`Edges::Wrap`], a chunk needs whole images. The kernel and its twin need not know where the
//! images of other chunks are.

pub(crate) mod plan;

use crate::base::error::{Error, ErrorKind, Result};
use crate::device::LaunchConfig;
use crate::device::args::ArgBlock;
use crate::device::twin::{Cost, Tile, Twin};
use crate::launch::{Code, Kernel, KernelSpec, Read, Shape, Write};
use crate::memory::{Element, View, ViewMut};
use crate::stream::{Device, Stream};
pub use trijet_twins::{Edges, RADIUS_MAX};
use trijet_twins::{Geometry, Median, Pixel};

/// The device code, generated from `median.cu`.
pub(crate) const PTX: &str = include_str!("median.ptx");

/// The number of output rows of one tile of the twin.
const TILE_ROWS: u64 = 16;

/// The parameters of a filter: `(width, height, first_out_row, first_in_row, x, y, edges)`.
pub type MedianParams<T> = (u32, u32, u64, u64, Read<T>, Write<T>, u32);

/// The window of the filter: a square with sides of `2 * radius + 1` pixels around a pixel.
///
/// A radius alone converts to a window with this radius and [`Edges::Nearest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The number of pixels of the window on each side of its middle pixel, 1 to 7.
    pub radius: u32,
    /// The values of the window beyond the edges of the image.
    pub edges: Edges,
}

impl From<u32> for Window {
    fn from(radius: u32) -> Self {
        Self { radius, edges: Edges::default() }
    }
}

/// The location of the input and output rows of one call in the stack of images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows {
    /// The number of pixels of a row.
    pub width: u32,
    /// The number of rows of an image.
    pub height: u32,
    /// The number of the first row of the output. Row 0 is the first row of the stack.
    pub first_out: u64,
    /// The number of the first row of the input. Row 0 is the first row of the stack.
    pub first_in: u64,
}

/// A pixel type of the filter: `u8` or `u16`.
pub trait MedianPixel: Element {
    /// The kernel for a radius from 1 to 7.
    ///
    /// # Errors
    /// `InvalidValue` for another radius.
    fn kernel(radius: u32) -> Result<&'static Kernel<MedianParams<Self>>>;
}

fn pick<T>(
    kernels: &'static [Kernel<MedianParams<T>>],
    radius: u32,
) -> Result<&'static Kernel<MedianParams<T>>> {
    let index = (radius as usize).wrapping_sub(1);
    kernels.get(index).ok_or_else(|| {
        let cause = format!("the radius is {radius}; choose 1 to {RADIUS_MAX}");
        Error::new(ErrorKind::InvalidValue, "median", cause)
    })
}

impl MedianPixel for u8 {
    fn kernel(radius: u32) -> Result<&'static Kernel<MedianParams<Self>>> {
        pick(&MEDIAN_U8, radius)
    }
}

impl MedianPixel for u16 {
    fn kernel(radius: u32) -> Result<&'static Kernel<MedianParams<Self>>> {
        pick(&MEDIAN_U16, radius)
    }
}

/// Enqueues the median filter of `x` into `y`: each pixel becomes the median of the window around
/// the pixel. A window uses only pixels of one image. Beyond the edges of the image, [`Edges`]
/// determines the values of the window. If `window` is only a radius, these are the values of the
/// nearest pixels at the edge, as in SciPy's `median_filter(.., mode='nearest')`. `x` has the rows
/// of `y` and all other rows that the windows of `y` reach. With [`Edges::Wrap`], if a window
/// leaves an image, `x` has all rows of this image.
///
/// ```
/// use trijet::kernels::median::{Edges, Rows, Window, median};
/// use trijet::{Device, Select};
/// let device = Device::open(Select::Host(0))?;
/// let s = device.stream()?;
/// let (mut x, mut y) = (device.pinned::<u8>(9)?, device.pinned::<u8>(9)?);
/// x.write()?.copy_from_slice(&[1, 1, 1, 1, 255, 1, 1, 1, 1]);
/// let rows = Rows { width: 3, height: 3, first_out: 0, first_in: 0 };
/// median(&s, x.view(), y.view_mut(), rows, 1)?;
/// assert_eq!(&*y.read()?, &[1; 9]);
/// let zeros_around = Window { radius: 1, edges: Edges::Constant };
/// median(&s, x.view(), y.view_mut(), rows, zeros_around)?;
/// assert_eq!(&*y.read()?, &[0, 1, 0, 1, 1, 1, 0, 1, 0]);
/// # Ok::<(), trijet::Error>(())
/// ```
///
/// # Errors
/// `InvalidValue` for a radius outside 1 to 7, spans that are not whole rows, or an input that
/// lacks rows.
#[track_caller]
pub fn median<T: MedianPixel>(
    stream: &Stream,
    x: View<'_, T>,
    y: ViewMut<'_, T>,
    rows: Rows,
    window: impl Into<Window>,
) -> Result<()> {
    let Rows { width, height, first_out, first_in } = rows;
    let Window { radius, edges } = window.into();
    let args = (width, height, first_out, first_in, x, y, edges.number());
    stream.launch(T::kernel(radius)?, args)
}

/// Loads the filter for a radius, so that the first use of the filter does not wait for running
/// work (law [A42](crate::laws#a42)).
///
/// # Errors
/// `InvalidValue` for a radius outside 1 to 7; an error of the driver.
pub fn load<T: MedianPixel>(device: &Device, radius: u32) -> Result<()> {
    device.load(T::kernel(radius)?)
}

/// Checks the arguments: the spans are whole rows, and the input has every row that the windows
/// reach.
fn check<const R: u32>(args: &ArgBlock) -> std::result::Result<(), String> {
    let (width, height) = (args.scalar::<u32>(0), args.scalar::<u32>(1));
    let (first_out, first_in) = (args.scalar::<u64>(2), args.scalar::<u64>(3));
    let number = args.scalar::<u32>(8);
    let edges = Edges::numbered(number)
        .ok_or_else(|| format!("{number} is not the number of an `Edges`"))?;
    if width == 0 || height == 0 {
        return Err(format!("images of {width} x {height} pixels are empty"));
    }
    let rows = |index: usize| {
        let arg = &args.spans()[index];
        let pixels = arg.bytes() / arg.element_bytes;
        if pixels.is_multiple_of(u64::from(width)) {
            Ok(pixels / u64::from(width))
        } else {
            Err(format!("{pixels} pixels is not a whole number of rows of {width}"))
        }
    };
    let (in_rows, out_rows) = (rows(0)?, rows(1)?);
    let geometry = Geometry { width, height, first_in_row: first_in };
    let end = first_out.checked_add(out_rows).ok_or("the row numbers overflow")?;
    let needed = geometry.in_rows(R, edges, first_out..end);
    let held = first_in..first_in.checked_add(in_rows).ok_or("the row numbers overflow")?;
    if out_rows > 0 && (needed.start < held.start || needed.end > held.end) {
        return Err(format!("the input has rows {held:?}, and the windows reach rows {needed:?}"));
    }
    Ok(())
}

fn shape<T: Pixel, const R: u32>(args: &ArgBlock) -> Result<LaunchConfig> {
    let width = args.scalar::<u32>(0);
    let arg = &args.spans()[1];
    let rows = arg.bytes() / arg.element_bytes / u64::from(width);
    let plan = plan::plan(R, T::BITS);
    let grid = if rows == 0 { [0; 3] } else { plan.grid(width, rows) };
    Ok(LaunchConfig::new(grid, plan.block).shared_bytes(plan.shared_bytes))
}

fn tile_elements(args: &ArgBlock) -> u64 {
    u64::from(args.scalar::<u32>(0)) * TILE_ROWS
}

fn tile<T: Median + bytemuck::Pod, const R: u32>(tile: &mut Tile<'_>) {
    let (width, height, first_out, first_in_row, x, y, edges) = tile.args::<MedianParams<T>>();
    let edges = Edges::numbered(edges).expect("the check refuses an unknown number");
    let geometry = Geometry { width, height, first_in_row };
    let first = first_out + tile.first as u64 / u64::from(width);
    let rows = y.len() as u64 / u64::from(width);
    T::median(&geometry, R, edges, x, first..first + rows, y);
}

/// The cost of a launch. The instructions per pixel and bit were counted in disassembled code for
/// radius 1, 2 and 7, and are estimated for other radii.
fn cost<T: Pixel, const R: u32>(args: &ArgBlock) -> Cost {
    let bytes: u64 = args.spans().iter().map(|arg| arg.bytes()).sum();
    let pixels = args.spans()[1].bytes() * 8 / u64::from(T::BITS);
    let bits = u64::from(T::BITS);
    let per_pixel = match R {
        1 => 2 * bits,
        2 => 8 * bits,
        r => (28 + 11 * (u64::from(r) - 3)) * bits,
    };
    Cost { bytes, ops: pixels * per_pixel }
}

macro_rules! declared {
    ($type:ty, $radius:literal, $name:literal) => {
        // SAFETY: each `median_r<radius>_<type>` takes (u32, u32, u64, u64, const T*, u64, T*, u64,
        // u32). The kernel reads only `x[..x_len]`, writes only `y[..y_len]`, and needs blocks of
        // 256 threads.
        unsafe {
            let shape = Shape::Computed(shape::<$type, $radius>);
            let (run, cost) = (tile::<$type, $radius>, cost::<$type, $radius>);
            Kernel::declare(
                KernelSpec::new($name, Code::ptx(PTX), shape).check(check::<$radius>).twin(Twin {
                    tile_elements,
                    run,
                    cost,
                }),
            )
        }
    };
}

static MEDIAN_U8: [Kernel<MedianParams<u8>>; 7] = [
    declared!(u8, 1, "median_r1_u8"),
    declared!(u8, 2, "median_r2_u8"),
    declared!(u8, 3, "median_r3_u8"),
    declared!(u8, 4, "median_r4_u8"),
    declared!(u8, 5, "median_r5_u8"),
    declared!(u8, 6, "median_r6_u8"),
    declared!(u8, 7, "median_r7_u8"),
];

static MEDIAN_U16: [Kernel<MedianParams<u16>>; 7] = [
    declared!(u16, 1, "median_r1_u16"),
    declared!(u16, 2, "median_r2_u16"),
    declared!(u16, 3, "median_r3_u16"),
    declared!(u16, 4, "median_r4_u16"),
    declared!(u16, 5, "median_r5_u16"),
    declared!(u16, 6, "median_r6_u16"),
    declared!(u16, 7, "median_r7_u16"),
];
