//! The ways to reduce elements to one.
#![forbid(unsafe_code)]

use std::fmt;

/// The element that [`Bin`](crate::Bin) makes of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binned {
    /// The mean, in the type of the input. For integers it is computed exactly, and rounded to
    /// nearest, ties to even. For floats it is computed in `f64`, and rounded once.
    Mean,
    /// The sum. Its type is wider than the type of the input, so that no sum is too large: `u8` and
    /// `u16` give `u32`, and 32-bit integers give 64 bits. Sums of integers of 64 bits wrap, as in
    /// NumPy. Sums of floats are computed in `f64`, and become `f32`, or `f64` for `f64`.
    Sum,
}

/// The element that [`Project`](crate::Project) makes of the elements of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Projection {
    /// The largest element, in the type of the input. NaN if any element is NaN.
    Max,
    /// The smallest element, in the type of the input. NaN if any element is NaN.
    Min,
    /// The mean, computed in `f64`: `f32`, or `f64` for `f64`.
    Mean,
    /// The sum: `u64` or `i64` for integers, where it wraps as in NumPy. For floats it is computed
    /// in `f64`: `f32`, or `f64` for `f64`.
    Sum,
    /// The standard deviation of the elements from their mean, divided by their number (`ddof=0` of
    /// NumPy), computed in `f64` in two passes: `f32`, or `f64` for `f64`.
    Std,
}

impl Projection {
    const ALL: [Self; 5] = [Self::Max, Self::Min, Self::Mean, Self::Sum, Self::Std];

    /// The number that the kernel uses.
    pub(super) const fn number(self) -> u32 {
        self as u32
    }

    /// The projection with a number.
    pub(super) fn numbered(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.number() == number)
    }
}

impl fmt::Display for Binned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mean => "mean",
            Self::Sum => "sum",
        })
    }
}

impl fmt::Display for Projection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Max => "max",
            Self::Min => "min",
            Self::Mean => "mean",
            Self::Sum => "sum",
            Self::Std => "std",
        })
    }
}
