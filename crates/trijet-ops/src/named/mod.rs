//! Operations by their names: `affine:0.5,3`, as on a command line.
#![forbid(unsafe_code)]

mod elements;
mod entry;
mod filters;
mod shapes;
mod table;
mod text;
mod values;

pub use entry::{LoadImage, Named};
pub use table::OPERATIONS;
pub use text::OperationText;
pub use values::{Parameter, Values};
