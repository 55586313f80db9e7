//! Operations on arrays and image stacks, as stages of pipelines of
//! [trijet](https://docs.rs/trijet).
//!
//! An operation may change the shape and the element type of its array. [`Operation`] is the
//! contract: the array that an operation makes, the rows of the input that some rows of the output
//! need, and the kernels of one call.

mod apply;
mod background;
mod call;
mod elements;
mod extremum;
mod gaussian;
mod keys;
mod named;
mod operation;
mod pointwise;
mod rank;
mod shape;
mod stack;
mod window;

pub use apply::apply;
pub use background::Background;
pub use extremum::Extremum;
pub use gaussian::Gaussian;
pub use named::{LoadImage, Named, OPERATIONS, OperationText, Parameter, Values};
pub use operation::{Operation, RowsOfCall};
pub use pointwise::{Affine, Clip, Convert, FlatField, Image, Rescale, Swap, Threshold};
pub use rank::Rank;
pub use shape::{Bin, Binned, Crop, Project, Projection};
pub use stack::{Stack, Typed};

#[cfg(doctest)]
#[doc = include_str!("../../../docs/operations.md")]
mod page {}
