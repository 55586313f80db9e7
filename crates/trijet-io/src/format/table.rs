//! The table of formats.

use super::contract::{Format, Found};
use super::hdf5::Hdf5;
use super::images::Images;
use super::mrc::Mrc;
use super::nifti::Nifti;
use super::npy::Npy;
use super::npz::Npz;
use super::raw::Raw;
use super::tiff::Tiff;
use super::zarr::Zarr;
use std::path::Path;

/// All formats. At most one format claims a given file.
pub static FORMATS: [&dyn Format; 9] =
    [&Images, &Npy, &Npz, &Tiff, &Hdf5, &Zarr, &Mrc, &Nifti, &Raw];

/// The format of a file that is read or written as headerless bytes, whatever its name or its first
/// bytes are.
pub static HEADERLESS: &dyn Format = &Raw;

/// The format of `.npy` files.
pub(crate) static NPY: &dyn Format = &Npy;

/// The format that claims an input; `None` if no format does.
#[must_use]
pub fn of_input(found: &Found<'_>) -> Option<&'static dyn Format> {
    FORMATS.into_iter().find(|format| format.claims_input(found))
}

/// The format that claims an output with this name; `None` if no format does.
#[must_use]
pub fn of_output(path: &Path) -> Option<&'static dyn Format> {
    FORMATS.into_iter().find(|format| format.claims_output(path))
}
