//! The correction of the dark signal and of the gain of each pixel.
#![forbid(unsafe_code)]

use super::image::Image;
use super::kernel::FIELD;
use crate::call::{Arrays, Part, checked, refused};
use crate::elements::RealType;
use crate::operation::{Operation, RowsOfCall};
use crate::stack::Typed;
use std::ops::Range;
use trijet::{Device, Dtype, Result, Stream, View, ViewMut};

/// The name of the operation in errors.
const NAME: &str = "flat field";

/// Corrects each image of a stack by an image without light, `dark`, and an image of a uniform
/// field, `flat`: `scale * ((x - dark) / (flat - dark))`. Where the divisor is 0, the result is 0,
/// so that a dead pixel stays finite.
///
/// Values are computed in `f64`, and rounded after each step. The output has the type `f32`, or
/// another [type](Self::to), and its elements are rounded as in [`Convert`](crate::Convert).
/// Where the divisor is 0, other programs put small values: `tomopy.normalize` divides by `1e-6`,
/// also instead of smaller divisors; the `Normaliser` of CIL puts its `tolerance` for the result.
///
/// ```
/// use trijet::{Device, Dtype, Select};
/// use trijet_ops::{FlatField, Image, Typed, apply};
/// let device = Device::open(Select::Host(0))?;
/// let dark = Image::new(Dtype::U8, [1, 3], &[10, 10, 10])?;
/// let flat = Image::new(Dtype::U8, [1, 3], &[110, 210, 10])?;
/// let stack = Typed::new(Dtype::U8, vec![2, 1, 3]);
/// let percent = FlatField::new(dark, flat).scale(100.0).to(Dtype::U8);
/// let y = apply(&device, &percent, &stack, &[60, 110, 99, 10, 60, 10])?;
/// assert_eq!(y, [50, 50, 0, 0, 25, 0]);
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug)]
pub struct FlatField {
    images: Images,
    scale: f64,
    to: Dtype,
}

/// The images of a correction.
#[derive(Debug)]
enum Images {
    Both { dark: Image, flat: Image },
    Dark(Image),
    Flat(Image),
}

impl FlatField {
    /// The correction by both images.
    #[must_use]
    pub fn new(dark: Image, flat: Image) -> Self {
        Self::of(Images::Both { dark, flat })
    }

    /// Subtracts an image from each image: `x - dark`.
    ///
    /// ```
    /// use trijet::{Device, Dtype, Select};
    /// use trijet_ops::{FlatField, Image, Typed, apply};
    /// let device = Device::open(Select::Host(0))?;
    /// let dark = Image::new(Dtype::U8, [1, 2], &[10, 20])?;
    /// let stack = Typed::new(Dtype::U8, vec![2, 1, 2]);
    /// let difference = FlatField::subtract(dark).to(Dtype::U8);
    /// assert_eq!(apply(&device, &difference, &stack, &[11, 12, 30, 40])?, [1, 0, 20, 20]);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    #[must_use]
    pub fn subtract(dark: Image) -> Self {
        Self::of(Images::Dark(dark))
    }

    /// Divides each image by an image: `x / flat`, and 0 where `flat` is 0.
    ///
    /// ```
    /// use trijet::{Device, Dtype, Select};
    /// use trijet_ops::{FlatField, Image, Typed, apply};
    /// let device = Device::open(Select::Host(0))?;
    /// let flat = Image::new(Dtype::U8, [1, 2], &[10, 0])?;
    /// let stack = Typed::new(Dtype::U8, vec![2, 1, 2]);
    /// let quotient = FlatField::divide(flat).to(Dtype::U8);
    /// assert_eq!(apply(&device, &quotient, &stack, &[20, 9, 30, 7])?, [2, 0, 3, 0]);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    #[must_use]
    pub fn divide(flat: Image) -> Self {
        Self::of(Images::Flat(flat))
    }

    fn of(images: Images) -> Self {
        Self { images, scale: 1.0, to: Dtype::F32 }
    }

    /// Multiplies the result by a factor, which is finite.
    #[must_use]
    pub fn scale(self, scale: f64) -> Self {
        Self { scale, ..self }
    }

    /// Sets the type of the output.
    #[must_use]
    pub fn to(self, dtype: Dtype) -> Self {
        Self { to: dtype, ..self }
    }

    fn images(&self) -> impl Iterator<Item = (&'static str, &Image)> {
        let (dark, flat) = match &self.images {
            Images::Both { dark, flat } => (Some(dark), Some(flat)),
            Images::Dark(dark) => (Some(dark), None),
            Images::Flat(flat) => (None, Some(flat)),
        };
        dark.map(|image| ("dark", image)).into_iter().chain(flat.map(|image| ("flat", image)))
    }

    /// Enqueues the kernel. An image that is missing has no pixels.
    fn launch(
        &self,
        stream: &Stream,
        array: &Typed,
        part: &Part<'_>,
        images: [View<'_, f64>; 2],
        y: ViewMut<'_, u8>,
    ) -> Result<()> {
        let stack = array.stack()?;
        let (from, to) = (RealType::of(NAME, array.dtype)?, RealType::of(NAME, self.to)?);
        let first = part.first % stack.height * stack.width;
        let area = stack.height * stack.width;
        let ([dark, flat], scale) = (images, self.scale);
        let args = (from.number(), to.number(), first, area, scale, part.x, dark, flat, y);
        stream.launch(&FIELD, args)
    }
}

impl Operation for FlatField {
    fn description(&self) -> String {
        let images = self.images().map(|(name, image)| format!(" {name} {image}"));
        let images: String = images.collect();
        format!("flat field{images} scale {:?} to {}", self.scale, self.to)
    }

    fn output(&self, x: &Typed) -> Result<Typed> {
        RealType::of(NAME, x.dtype)?;
        RealType::of(NAME, self.to)?;
        if !self.scale.is_finite() {
            return Err(refused(NAME, format!("the scale is {:?}; choose a number", self.scale)));
        }
        let stack = x.stack()?;
        for (name, image) in self.images() {
            let [height, width] = image.size();
            if [height, width] != [stack.height, stack.width] {
                let cause = format!(
                    "`{name}` has {height} x {width} pixels, and the images of the array have {} x {}",
                    stack.height, stack.width
                );
                return Err(refused(NAME, cause));
            }
        }
        Ok(Typed::new(self.to, x.shape.clone()))
    }

    fn input_rows(&self, _: &Typed, y: Range<u64>) -> Range<u64> {
        y
    }

    fn load(&self, device: &Device, _: &Typed) -> Result<()> {
        self.images().try_for_each(|(_, image)| image.load(device))?;
        device.load(&FIELD)
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
        match &self.images {
            Images::Both { dark, flat } => dark.with(stream, |dark| {
                flat.with(stream, |flat| {
                    self.launch(stream, array, &part, [dark.view(), flat.view()], y)
                })
            }),
            Images::Dark(dark) => dark.with(stream, |dark| {
                self.launch(stream, array, &part, [dark.view(), dark.slice(..0)], y)
            }),
            Images::Flat(flat) => flat.with(stream, |flat| {
                self.launch(stream, array, &part, [flat.slice(..0), flat.view()], y)
            }),
        }
    }
}
