//! Blocks of elements whose type is known only at run time, as values.
//!
//! A twin reads a block, changes its values, and writes them as elements of another type. So there
//! is code for each type, and not for each pair of types.
#![forbid(unsafe_code)]

use super::element::{Element, elements};
use super::real_type::RealType;
use super::with_element;

/// The rounding of 64-bit integers that are read as `f64`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// To nearest.
    Nearest,
    /// To odd: see [`Element::odd`].
    Odd,
}

/// Reads the values of elements.
pub(crate) fn read(of: RealType, reading: Reading, x: &[u8], values: &mut [f64]) {
    with_element!(of, A => {
        let pairs = values.iter_mut().zip(elements::<A>(x));
        match reading {
            Reading::Nearest => pairs.for_each(|(v, x)| *v = x.real()),
            Reading::Odd => pairs.for_each(|(v, x)| *v = x.odd()),
        }
    });
}

/// Writes the elements that are nearest to values.
pub(crate) fn write(of: RealType, values: &[f64], y: &mut [u8]) {
    with_element!(of, A => {
        y.chunks_exact_mut(A::BYTES).zip(values).for_each(|(y, v)| A::nearest(*v).write(y));
    });
}

/// Writes integers modulo the number of values of the type.
pub(crate) fn write_whole(of: RealType, values: &[i128], y: &mut [u8]) {
    with_element!(of, A => {
        y.chunks_exact_mut(A::BYTES).zip(values).for_each(|(y, v)| A::wrapped(*v).write(y));
    });
}
