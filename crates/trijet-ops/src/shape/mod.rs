//! Operations that change the shape of an array.

mod bin;
mod crop;
mod how;
mod kernel;
mod params;
mod project;
mod twin;

pub use bin::Bin;
pub use crop::Crop;
pub use how::{Binned, Projection};
pub use project::Project;
