//! The arrays of operations: an element type and a shape, and the same shape as a stack of images.
#![forbid(unsafe_code)]

use std::fmt;
use trijet::{Dtype, Error, ErrorKind, Result};

/// The element type and the shape of an array in C order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Typed {
    /// The type of the elements.
    pub dtype: Dtype,
    /// The lengths of the axes, slowest first.
    pub shape: Vec<u64>,
}

/// An array as a stack of images. Rows are numbered over the whole stack: row `r` belongs to image
/// `r / height`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stack {
    /// The number of images, which is the product of all axes but the last two.
    pub images: u64,
    /// The number of rows of an image.
    pub height: u64,
    /// The number of elements of a row.
    pub width: u64,
}

impl Typed {
    /// An array with elements of `dtype` and this shape.
    #[must_use]
    pub fn new(dtype: Dtype, shape: Vec<u64>) -> Self {
        Self { dtype, shape }
    }

    /// The array as a stack of images. An array of one axis is one image with rows of one element.
    ///
    /// ```
    /// use trijet::Dtype;
    /// use trijet_ops::{Stack, Typed};
    /// let movie = Typed::new(Dtype::U16, vec![5, 10, 480, 640]);
    /// assert_eq!(movie.stack()?, Stack { images: 50, height: 480, width: 640 });
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidValue` for a shape without axes, or with more than 2^63 elements.
    pub fn stack(&self) -> Result<Stack> {
        let refused =
            |cause: &str| Error::new(ErrorKind::InvalidValue, "shape", format!("{self}: {cause}"));
        let (outer, height, width) = match self.shape[..] {
            [] => return Err(refused("the array has no axes")),
            [length] => (&[][..], length, 1),
            [ref outer @ .., height, width] => (outer, height, width),
        };
        let stack = |images| Stack { images, height, width };
        let images = outer.iter().try_fold(1_u64, |all, &axis| all.checked_mul(axis));
        let elements = images.and_then(|images| stack(images).elements());
        match (images, elements) {
            (Some(images), Some(elements)) if i64::try_from(elements).is_ok() => Ok(stack(images)),
            _ => Err(refused("the array has more than 2^63 elements")),
        }
    }
}

impl Typed {
    /// The size of the array in bytes.
    pub(crate) fn bytes(&self) -> Result<usize> {
        let elements = self.stack()?.elements();
        let bytes = elements.and_then(|elements| elements.checked_mul(self.dtype.bytes()));
        bytes.and_then(|bytes| usize::try_from(bytes).ok()).ok_or_else(|| {
            let cause = format!("{self}: memory cannot hold the array");
            Error::new(ErrorKind::InvalidValue, "shape", cause)
        })
    }
}

impl Stack {
    /// The number of rows of all images.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.images.saturating_mul(self.height)
    }

    fn elements(&self) -> Option<u64> {
        self.images.checked_mul(self.height)?.checked_mul(self.width)
    }
}

impl fmt::Display for Typed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.dtype, self.shape)
    }
}
