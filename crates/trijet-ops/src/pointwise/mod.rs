//! Operations on each element alone.

mod affine;
mod clip;
mod convert;
mod flat_field;
mod image;
mod kernel;
mod params;
mod rescale;
mod swap;
mod threshold;
mod twin;

pub use affine::Affine;
pub use clip::Clip;
pub use convert::Convert;
pub use flat_field::FlatField;
pub use image::Image;
pub use rescale::Rescale;
pub use swap::Swap;
pub use threshold::Threshold;
