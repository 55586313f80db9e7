//! Gaussian filters.

mod kernel;
mod twin;
mod weights;

use crate::call::{Arrays, checked, refused, row_bytes};
use crate::elements::RealType;
use crate::operation::{Operation, RowsOfCall};
use crate::stack::Typed;
use crate::window::{Place, Reach, Volumes};
use std::ops::Range;
use trijet::kernels::median::Edges;
use trijet::{Device, Kernel, Result, Stream, View, ViewMut};
use weights::Pass;

/// The name in errors.
const NAME: &str = "gaussian";

/// A Gaussian filter, as `scipy.ndimage.gaussian_filter`.
///
/// The filter has a pass along each axis with a standard deviation above 0. The standard deviations
/// are three numbers of elements, `[z, y, x]`: `x` along a row, `y` along the rows of an image, and
/// `z` along the images, the third axis from the last. A pass reaches four standard deviations,
/// `floor(4 sigma + 0.5)` elements on each side, and at most 31 elements. Windows do not leave
/// their volume: an array with more than three axes has many volumes. Beyond the edges, [`Edges`]
/// determines the elements.
///
/// All real types are filtered, and the output has the type of the input. The arithmetic is
/// SciPy's: the passes go along `z`, then `y`, then `x`. Each adds in double precision, from the
/// outermost pair of elements inwards, and is then rounded to the type of the elements. As in
/// SciPy, integers drop the fraction. So a GPU, a host device and SciPy compute the same bits if
/// the weights have the same bits. NumPy's `exp` with AVX-512 differs in the last bit for some of
/// the weights. Then floats differ in their last bits, and an integer by 1 where the sum is next to
/// an integer. SciPy has no 16 bit floats; they are filtered in the same way, each pass rounded
/// once. A NaN in the output has all bits but the sign.
///
/// ```
/// use trijet::kernels::median::Edges;
/// use trijet::{Device, Dtype, Select};
/// use trijet_ops::{Gaussian, Operation, RowsOfCall, Typed};
/// let stream = Device::open(Select::Host(0))?.stream()?;
/// let row = Typed::new(Dtype::U8, vec![1, 5]);
/// let x = stream.upload(&[0_u8, 0, 100, 0, 0])?;
/// let mut y = stream.alloc::<u8>(5)?;
/// let filter = Gaussian::new([0.0, 0.0, 0.5], Edges::Constant)?;
/// filter.enqueue(&stream, &row, &RowsOfCall { x: 0..1, y: 0..1 }, x.view(), y.view_mut())?;
/// assert_eq!(stream.download(&y)?, [0, 10, 78, 10, 0]);
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Gaussian {
    sigma: [f64; 3],
    /// The passes along z, y and x.
    passes: [Option<Pass>; 3],
    edges: Edges,
}

impl Gaussian {
    /// The filter with the standard deviations `[z, y, x]` in elements. There is no pass along an
    /// axis with 0.
    ///
    /// ```
    /// use trijet::kernels::median::Edges;
    /// use trijet_ops::{Gaussian, Operation};
    /// let filter = Gaussian::new([0.0, 2.0, 2.5], Edges::Reflect)?;
    /// assert_eq!(filter.description(), "gaussian, sigma [0.0, 2.0, 2.5], edges reflect");
    /// assert!(Gaussian::new([0.0, 8.0, 8.0], Edges::Reflect).is_err());
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidValue` for a number below 0, or of 7.875 and more, whose radius is above 31.
    pub fn new(sigma: [f64; 3], edges: Edges) -> Result<Self> {
        let mut passes = [None; 3];
        for (&sigma_of_axis, pass) in sigma.iter().zip(&mut passes) {
            // The limit below which SciPy has no pass.
            if (0.0..=1e-15).contains(&sigma_of_axis) {
                continue;
            }
            let found = Some(sigma_of_axis).filter(|&one| one > 0.0).and_then(Pass::new);
            let found = found.ok_or_else(|| {
                let cause = format!(
                    "sigma is {sigma:?}; each of its numbers is at least 0 and less than 7.875"
                );
                refused(NAME, cause)
            })?;
            *pass = Some(found);
        }
        Ok(Self { sigma, passes, edges })
    }

    fn reach(&self) -> Reach {
        let radius = self.passes.map(|pass| pass.map_or(0, |pass| pass.radius));
        Reach { radius, edges: self.edges }
    }

    /// The window of the passes in an image.
    fn plane(&self) -> Reach {
        let [_, y, x] = self.reach().radius;
        Reach { radius: [0, y, x], edges: self.edges }
    }

    fn kernel_of_plane(x: &Typed) -> Result<&'static Kernel<kernel::PlaneParams>> {
        let found = kernel::plane(RealType::of(NAME, x.dtype)?);
        found.ok_or_else(|| refused(NAME, format!("no kernel for elements of {}", x.dtype)))
    }

    fn enqueue_stack(
        &self,
        stream: &Stream,
        array: &Typed,
        place: &Place,
        x: View<'_, u8>,
        y: ViewMut<'_, u8>,
    ) -> Result<()> {
        let Pass { radius, weights } = self.passes[0].unwrap_or(Pass::NONE);
        let (radius, edges) = ([radius, 0, 0], self.edges.number());
        let number = RealType::of(NAME, array.dtype)?.number();
        stream.launch(&kernel::STACK, (number, place.words(), x, y, radius, edges, weights))
    }

    fn enqueue_plane(
        &self,
        stream: &Stream,
        array: &Typed,
        place: &Place,
        x: View<'_, u8>,
        y: ViewMut<'_, u8>,
    ) -> Result<()> {
        let [_, along_y, along_x] = self.passes.map(|pass| pass.unwrap_or(Pass::NONE));
        let (radius, edges) = (self.plane().radius, self.edges.number());
        let (y_weights, x_weights) = (along_y.weights, along_x.weights);
        let arguments = (place.words(), x, y, radius, edges, y_weights, x_weights);
        stream.launch(Self::kernel_of_plane(array)?, arguments)
    }
}

impl Operation for Gaussian {
    fn description(&self) -> String {
        format!("gaussian, sigma {:?}, edges {}", self.sigma, self.edges)
    }

    fn output(&self, x: &Typed) -> Result<Typed> {
        RealType::of(NAME, x.dtype)?;
        Volumes::of(x)?;
        Ok(x.clone())
    }

    fn input_rows(&self, x: &Typed, y: Range<u64>) -> Range<u64> {
        Volumes::of(x).map_or(y.clone(), |volumes| volumes.rows_of_windows(self.reach(), y))
    }

    fn load(&self, device: &Device, x: &Typed) -> Result<()> {
        if self.passes[0].is_some() {
            device.load(&kernel::STACK)?;
        }
        if self.passes[1].is_some() || self.passes[2].is_some() {
            device.load(Self::kernel_of_plane(x)?)?;
        }
        Ok(())
    }

    /// With passes along the images and in an image, the rows between them are in memory of the
    /// stream that is freed after the call.
    fn enqueue(
        &self,
        stream: &Stream,
        array: &Typed,
        rows: &RowsOfCall,
        x: View<'_, u8>,
        mut y: ViewMut<'_, u8>,
    ) -> Result<()> {
        RealType::of(NAME, array.dtype)?;
        let need = self.input_rows(array, rows.y.clone());
        let part = checked(NAME, Arrays { x: array, y: array }, &need, rows, x, &y)?;
        let Some(part) = part else { return Ok(()) };
        let (x, place) = (part.x, Place::new(Volumes::of(array)?, &rows.y, part.first));
        match self.passes {
            [None, None, None] => stream.copy(&x, &mut y),
            [None, ..] => self.enqueue_plane(stream, array, &place, x, y),
            [Some(_), None, None] => self.enqueue_stack(stream, array, &place, x, y),
            [Some(_), ..] => {
                let between = place.volumes.rows_of_windows(self.plane(), rows.y.clone());
                let bytes = (between.end - between.start).saturating_mul(row_bytes(array)?);
                let mut middle =
                    stream.alloc::<u8>(usize::try_from(bytes).unwrap_or(usize::MAX))?;
                let of_stack = Place { first_out: between.start, ..place };
                self.enqueue_stack(stream, array, &of_stack, x, middle.view_mut())?;
                let of_plane = Place { first_in: between.start, ..place };
                self.enqueue_plane(stream, array, &of_plane, middle.view(), y)
            }
        }
    }
}
