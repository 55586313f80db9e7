//! The file formats: their contract, the table of formats, and a module for each format.

mod ahead;
mod blocks;
mod contract;
mod descr;
mod fields;
mod flat;
mod folder;
mod hdf5;
mod images;
pub(crate) mod inner_path;
mod mapping;
mod marks;
mod mrc;
mod nifti;
pub(crate) mod npy;
mod npz;
pub(crate) mod promise;
mod raw;
pub(crate) mod swapped;
mod table;
mod tiff;
mod transposed;
mod ways;
mod zarr;

pub use ahead::Ahead;
pub use contract::{Format, Found, Opened, Plan, Reader, Writer};
pub(crate) use contract::{NOFOLLOW, is_at, state_of, sync_folder};
pub use images::{Form, is_damaged_image};
pub(crate) use images::{PNG, open_skipping};
pub use promise::is_plain;
pub(crate) use table::NPY;
pub use table::{FORMATS, HEADERLESS, of_input, of_output};
