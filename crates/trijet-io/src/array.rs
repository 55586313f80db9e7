//! Element types and shapes of arrays.

use std::fmt;
use trijet::pipeline::Layout;
use trijet::{Dtype, Error, ErrorKind, Result};

/// Maximum number of axes of an array, as in numpy (`NPY_MAXDIMS`, since numpy 2.0).
const AXES_MAX: usize = 64;
/// Maximum size of an array in bytes. A file offset is a signed 64-bit number, and a file may also
/// have a header before the data.
const BYTES_MAX: u64 = i64::MAX as u64 - 65_536;

/// The element type and the shape of an array in C order. The size of the array fits in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Array {
    dtype: Dtype,
    shape: Vec<u64>,
}

impl Array {
    /// Describes an array with elements of `dtype`. `shape` has the lengths of the axes, slowest
    /// axis first.
    ///
    /// ```
    /// use trijet_io::{Array, Dtype};
    /// let stack = Array::new(Dtype::U16, vec![10, 480, 640])?;
    /// assert_eq!(stack.image(), Some((640, 480, 10)));
    /// assert_eq!((stack.layout().rows, stack.layout().row_bytes), (4800, 1280));
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidValue` if the shape has no axes or more than 64 axes, or if the array has more bytes
    /// than a file can hold. A row must fit also if there are none.
    pub fn new(dtype: Dtype, shape: Vec<u64>) -> Result<Self> {
        let refuse = |cause: String| Err(Error::new(ErrorKind::InvalidValue, "shape", cause));
        if shape.is_empty() {
            return refuse("the array has no axes, so it cannot be cut into chunks".to_owned());
        }
        if shape.len() > AXES_MAX {
            return refuse(format!("{} axes; at most {AXES_MAX} are supported", shape.len()));
        }
        let bytes = product(&shape).and_then(|elements| elements.checked_mul(dtype.bytes()));
        // Rows have a size also if there are none.
        let row_bytes = width(&shape).checked_mul(dtype.bytes());
        let bytes = bytes.zip(row_bytes).map(|(all, row)| all.max(row));
        if bytes.is_none_or(|bytes| bytes > BYTES_MAX) {
            return refuse(format!("the size of {dtype} {shape:?} overflows 64 bits"));
        }
        Ok(Self { dtype, shape })
    }

    /// The type of the elements.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The lengths of the axes, slowest first.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// The size of the array in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        product(&self.shape).map_or(0, |elements| elements * self.dtype.bytes())
    }

    /// The rows of the array. The rows of a stack are the rows of all its images, one image after
    /// another. So a chunk may start in the middle of an image. An array without elements has no
    /// rows.
    #[must_use]
    pub fn layout(&self) -> Layout {
        let row_bytes = width(&self.shape) * self.dtype.bytes();
        Layout::rows(self.bytes() / row_bytes, row_bytes)
    }

    /// The width and height of an image, and the number of images. `None` unless the array has two
    /// or three axes.
    #[must_use]
    pub fn image(&self) -> Option<(u64, u64, u64)> {
        match self.shape[..] {
            [height, width] => Some((width, height, 1)),
            [count, height, width] => Some((width, height, count)),
            _ => None,
        }
    }
}

impl fmt::Display for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.dtype, self.shape)
    }
}

/// The number of elements of a row, at least 1. A row of an array with one axis is one element.
fn width(shape: &[u64]) -> u64 {
    match shape {
        [] | [_] => 1,
        [.., last] => (*last).max(1),
    }
}

/// The number of elements of an array with this shape. `None` if the number overflows. If one axis
/// is 0, the number is 0, even if the product of the other axes overflows.
fn product(shape: &[u64]) -> Option<u64> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1_u64, |all, &axis| all.checked_mul(axis))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Once, the size of a row overflowed.
    #[test]
    fn a_row_fits_also_into_an_array_without_elements() {
        let error = Array::new(Dtype::U16, vec![0, 1 << 63]).unwrap_err();
        assert!(error.to_string().contains("overflows 64 bits"), "{error}");
        let array = Array::new(Dtype::U16, vec![1 << 63, 0, 1 << 60]).unwrap();
        assert_eq!((array.bytes(), array.layout().rows), (0, 0));
    }
}
