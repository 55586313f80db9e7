//! Tilings: how the copy engine of a multiprocessor sees memory as a matrix and copies boxes of it.
//!
//! CUDA calls the encoded form a tensor map, and the unit that uses it the Tensor Memory
//! Accelerator. Every limit of `cuTensorMapEncodeTiled` (CUDA Driver API, "Tensor Map Object
//! Management") is checked here, since the driver gives no reason when it refuses a tiling.
#![forbid(unsafe_code)]

use crate::base::dtype::Dtype;
use bytemuck::Pod;

/// The size of an encoded tiling, which is a parameter of the kernel.
pub(crate) const MAP_BYTES: usize = 128;
/// Maximum number of rows and of columns.
const SIDE_MAX: u64 = 1 << 32;
/// The distance in bytes between the starts of consecutive rows must be less than this.
const PITCH_BYTES_END: u64 = 1 << 40;
/// Maximum number of rows and of columns of a box.
const BOX_MAX: u32 = 256;
/// The matrix starts at an address that is a multiple of this. The pitch in bytes and the size in
/// bytes of a row of a box are also multiples of this.
const UNIT_BYTES: u64 = 16;
/// Maximum size of a row of a box with [`Swizzle::Bytes128`], in bytes.
const SWIZZLED_BYTES: u64 = 128;

/// A type of elements that a tiling can have. The reductions of the copy engine use the arithmetic
/// of this type.
pub trait TiledElement: Pod + Send + Sync {
    /// The type of the elements in the arithmetic of the copy engine. This type has the same size
    /// as the Rust type.
    const TYPE: Dtype;
}

macro_rules! elements {
    ($($element:ty: $name:ident)*) => {$(
        impl TiledElement for $element {
            const TYPE: Dtype = Dtype::$name;
        }
    )*};
}
elements! {
    u8: U8 u16: U16 u32: U32 i32: I32 u64: U64 i64: I64 f32: F32 f64: F64
    half::f16: F16 half::bf16: BF16
}

/// The member of `CUtensorMapDataType` for a type of elements. `None` if the copy engine lacks the
/// type.
pub(crate) const fn engine_type(element: Dtype) -> Option<i32> {
    match element {
        Dtype::U8 => Some(0),
        Dtype::U16 => Some(1),
        Dtype::U32 => Some(2),
        Dtype::I32 => Some(3),
        Dtype::U64 => Some(4),
        Dtype::I64 => Some(5),
        Dtype::F16 => Some(6),
        Dtype::F32 => Some(7),
        Dtype::F64 => Some(8),
        Dtype::BF16 => Some(9),
        Dtype::I8 | Dtype::I16 | Dtype::C64 | Dtype::C128 => None,
    }
}

/// The order of the bytes of a box in shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Swizzle {
    /// The rows of the box follow each other.
    None,
    /// The rows of the box start 128 bytes apart. Each row has 8 parts of 16 bytes. Part `p` of row
    /// `r` is stored at the position of part `p ^ (r % 8)`. So the elements of a column in 8
    /// consecutive rows are in different banks. The box begins at a multiple of 1024 bytes.
    Bytes128,
}

/// How a kernel sees memory as a matrix. The kernel copies boxes of the matrix to and from shared
/// memory (`cp.async.bulk.tensor.2d`). Elements of a box outside of the matrix are read as zeros. A
/// write of a box does not change elements outside of the matrix, with one exception. In each row,
/// the write continues to the end of the unit of 16 bytes in which the columns of the row end
/// (measured on an H200 by the case `boxes_are_read_and_written_within_their_matrix`).
///
/// ```
/// use trijet::kernels::{Swizzle, Tiling};
/// // 100 rows of 50 elements, 64 elements apart, in boxes of 16 rows and 32 columns.
/// let tiling = Tiling::new([100, 50], [16, 32]).pitch(64).swizzle(Swizzle::Bytes128);
/// assert_eq!((tiling.rows, tiling.columns, tiling.pitch), (100, 50, 64));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Tiling {
    /// The number of rows of the matrix, at most 2^32. A launch whose grid has blocks needs at
    /// least one row.
    pub rows: usize,
    /// The number of columns of the matrix, at most 2^32. A launch whose grid has blocks needs at
    /// least one column.
    pub columns: usize,
    /// The number of elements from the start of one row to the start of the next: at least the
    /// number of columns, a multiple of 16 bytes, and less than 2^40 bytes.
    pub pitch: usize,
    /// The number of rows of a box: 1 to 256.
    pub box_rows: u32,
    /// The number of columns of a box: 1 to 256, a multiple of 16 bytes, and at most 128 bytes with
    /// [`Swizzle::Bytes128`].
    pub box_columns: u32,
    /// The order of the bytes of a box in shared memory.
    pub swizzle: Swizzle,
}

impl Tiling {
    /// A matrix of `[rows, columns]`, whose rows follow each other, in boxes of `[rows, columns]`.
    /// The boxes are not swizzled.
    #[must_use]
    pub const fn new(matrix: [usize; 2], boxes: [u32; 2]) -> Self {
        let ([rows, columns], [box_rows, box_columns]) = (matrix, boxes);
        Self { rows, columns, pitch: columns, box_rows, box_columns, swizzle: Swizzle::None }
    }

    /// The same tiling, with rows that start `elements` apart.
    #[must_use]
    pub const fn pitch(mut self, elements: usize) -> Self {
        self.pitch = elements;
        self
    }

    /// The same tiling with another order of the bytes of a box in shared memory.
    #[must_use]
    pub const fn swizzle(mut self, swizzle: Swizzle) -> Self {
        self.swizzle = swizzle;
        self
    }

    /// The bytes from the start of one row to the start of the next. Only for a tiling that passed
    /// [`Tiling::check`].
    pub(crate) fn pitch_bytes(&self, element: Dtype) -> u64 {
        self.pitch as u64 * element.bytes()
    }

    /// Whether the matrix has no element. The copy engine does not accept such a matrix.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows == 0 || self.columns == 0
    }

    /// The index in the span after the last element that a write of a box can change. Only for a
    /// tiling that passed [`Tiling::check`].
    pub(crate) fn written_end(&self, element: Dtype) -> u128 {
        if self.is_empty() {
            return 0;
        }
        let unit = UNIT_BYTES / element.bytes();
        let row = (self.columns as u128).next_multiple_of(u128::from(unit));
        (self.rows as u128 - 1) * self.pitch as u128 + row
    }

    /// Checks the tiling of `elements` elements at `address` against the limits of every device.
    ///
    /// # Errors
    /// A text that names the wrong quantity, its value and its limit.
    pub(crate) fn check(
        &self,
        element: Dtype,
        address: u64,
        elements: usize,
    ) -> Result<(), String> {
        if engine_type(element).is_none() {
            return Err(format!("the copy engine has no elements of {element}"));
        }
        for (what, side) in [("rows", self.rows), ("columns", self.columns)] {
            if side as u64 > SIDE_MAX {
                return Err(format!(
                    "the matrix has {side} {what}; at most {SIDE_MAX} are allowed"
                ));
            }
        }
        if self.pitch < self.columns {
            let Self { pitch, columns, .. } = self;
            return Err(format!(
                "the pitch is {pitch} elements, but the rows have {columns} columns"
            ));
        }
        let bytes = element.bytes();
        let pitch_bytes = (self.pitch as u64).checked_mul(bytes);
        if !pitch_bytes.is_some_and(|b| b < PITCH_BYTES_END && b.is_multiple_of(UNIT_BYTES)) {
            return Err(format!(
                "a pitch of {} elements of {bytes} bytes; a multiple of {UNIT_BYTES} bytes, less than \
                 {PITCH_BYTES_END}, is needed",
                self.pitch
            ));
        }
        // The product does not overflow, because both factors are at most 2^40.
        let end = (self.rows as u128).saturating_sub(1) * self.pitch as u128
            + if self.rows == 0 { 0 } else { self.columns as u128 };
        if end > elements as u128 {
            return Err(format!(
                "the matrix ends at element {end}, but the view has only {elements} elements"
            ));
        }
        if !address.is_multiple_of(UNIT_BYTES) {
            return Err(format!(
                "the matrix begins at address {address:#x}; a multiple of {UNIT_BYTES} is needed"
            ));
        }
        self.check_box(bytes)
    }

    fn check_box(&self, element_bytes: u64) -> Result<(), String> {
        for (what, side) in [("rows", self.box_rows), ("columns", self.box_columns)] {
            if side == 0 || side > BOX_MAX {
                return Err(format!("a box has {side} {what}; 1 to {BOX_MAX} are allowed"));
            }
        }
        let row_bytes = u64::from(self.box_columns) * element_bytes;
        if !row_bytes.is_multiple_of(UNIT_BYTES) {
            return Err(format!(
                "the rows of a box have {row_bytes} bytes; a multiple of {UNIT_BYTES} is needed"
            ));
        }
        if self.swizzle == Swizzle::Bytes128 && row_bytes > SWIZZLED_BYTES {
            return Err(format!(
                "the rows of a box have {row_bytes} bytes; at most {SWIZZLED_BYTES} are allowed \
                 with `Swizzle::Bytes128`"
            ));
        }
        Ok(())
    }
}

/// An argument of a launch that is a tiling of one of its spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TiledArg {
    /// The index of the tiling among the arguments. The span of the tiling has the same index.
    pub index: usize,
    /// The tiling.
    pub tiling: Tiling,
    /// The type of the elements of the matrix.
    pub element: Dtype,
}

/// A matrix that a kernel reads box by box, as its twin gets it.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a, T> {
    pub(crate) elements: &'a [T],
    /// The tiling that the launch passed.
    pub tiling: Tiling,
}

impl<'a, T: Pod> Matrix<'a, T> {
    /// The element at this row and column; zero outside of the matrix, as in a box.
    #[must_use]
    #[inline]
    pub fn at(&self, row: usize, column: usize) -> T {
        let Tiling { rows, columns, pitch, .. } = self.tiling;
        if row < rows && column < columns {
            self.elements[row * pitch + column]
        } else {
            T::zeroed()
        }
    }

    /// A row of the matrix.
    ///
    /// # Panics
    /// When there is no such row.
    #[must_use]
    pub fn row(&self, row: usize) -> &'a [T] {
        assert!(row < self.tiling.rows, "there is no row {row}");
        &self.elements[row * self.tiling.pitch..][..self.tiling.columns]
    }
}

#[cfg(test)]
mod tests {
    use super::{Dtype, Matrix, Swizzle, Tiling};

    /// A tiling of u32 that every device accepts.
    const RIGHT: Tiling = Tiling::new([10, 20], [8, 32]);

    #[test]
    fn the_smallest_and_the_largest_tilings_are_accepted() {
        let right = |tiling: Tiling, elements| {
            assert_eq!(tiling.check(Dtype::U32, 0x100, elements), Ok(()), "{tiling:?}");
        };
        right(RIGHT, 200);
        // The last row need not have the whole pitch.
        right(RIGHT.pitch(24), 9 * 24 + 20);
        right(RIGHT.swizzle(Swizzle::Bytes128), 200);
        right(Tiling::new([1, 1], [1, 4]).pitch(4), 1);
        right(Tiling::new([1 << 32, 4], [256, 256]), 1 << 34);
        right(Tiling::new([1, 1 << 32], [256, 256]), 1 << 32);
        right(Tiling::new([1, 1], [1, 4]).pitch((1 << 38) - 4), 1);
    }

    #[test]
    fn each_limit_is_named_with_the_value_that_breaks_it() {
        let told = |tiling: Tiling| tiling.check(Dtype::U32, 0x100, 200).unwrap_err();
        let with = |change: fn(&mut Tiling)| {
            let mut tiling = RIGHT;
            change(&mut tiling);
            told(tiling)
        };
        let whole = "at most 4294967296 are allowed";
        assert_eq!(
            with(|t| t.columns = (1 << 32) + 1),
            format!("the matrix has 4294967297 columns; {whole}")
        );
        assert_eq!(
            with(|t| t.pitch = 19),
            "the pitch is 19 elements, but the rows have 20 columns"
        );
        let pitch = |elements: usize| {
            format!(
                "a pitch of {elements} elements of 4 bytes; a multiple of 16 bytes, less than \
                 1099511627776, is needed"
            )
        };
        assert_eq!(with(|t| t.pitch = 21), pitch(21));
        assert_eq!(with(|t| t.pitch = 1 << 38), pitch(1 << 38));
        assert_eq!(with(|t| t.pitch = usize::MAX), pitch(usize::MAX));
        let end = "the matrix ends at element 220, but the view has only 200 elements";
        assert_eq!(with(|t| t.rows = 11), end);
        assert_eq!(with(|t| t.box_rows = 0), "a box has 0 rows; 1 to 256 are allowed");
        assert_eq!(with(|t| t.box_rows = 257), "a box has 257 rows; 1 to 256 are allowed");
        assert_eq!(with(|t| t.box_columns = 260), "a box has 260 columns; 1 to 256 are allowed");
        assert_eq!(
            with(|t| t.box_columns = 3),
            "the rows of a box have 12 bytes; a multiple of 16 is needed"
        );
        assert_eq!(
            told(Tiling { box_columns: 36, swizzle: Swizzle::Bytes128, ..RIGHT }),
            "the rows of a box have 144 bytes; at most 128 are allowed with `Swizzle::Bytes128`"
        );
        assert_eq!(
            RIGHT.check(Dtype::I16, 0x100, 200).unwrap_err(),
            "the copy engine has no elements of i16"
        );
        assert_eq!(
            RIGHT.check(Dtype::U32, 0x108, 200).unwrap_err(),
            "the matrix begins at address 0x108; a multiple of 16 is needed"
        );
        let bytes = Tiling::new([4, 40], [4, 16]).check(Dtype::U8, 0, 160).unwrap_err();
        assert!(bytes.starts_with("a pitch of 40 elements of 1 bytes"), "{bytes}");
    }

    #[test]
    fn a_matrix_is_zero_outside() {
        let elements: Vec<u8> = (1..=40).collect();
        let matrix = Matrix { elements: &elements, tiling: Tiling::new([3, 5], [1, 16]).pitch(16) };
        assert_eq!([matrix.at(0, 0), matrix.at(1, 4), matrix.at(2, 0)], [1, 21, 33]);
        assert_eq!([matrix.at(0, 5), matrix.at(3, 0), matrix.at(usize::MAX, 9)], [0; 3]);
        assert_eq!(matrix.row(2), [33, 34, 35, 36, 37]);
    }
}
