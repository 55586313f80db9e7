//! The operations on single elements, and the operations that change the shape of an array: the
//! contract, values computed in another way, and values of NumPy and scikit-image.
#![expect(clippy::unwrap_used, reason = "a helper that fails should fail its test")]
#![expect(clippy::cast_possible_truncation, reason = "casts of floats are what is tested")]

mod draw;
mod naive;
mod pointwise;
mod reference;
mod refusals;
mod rows;
mod shape;
mod twin;
mod value;
