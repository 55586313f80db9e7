//! A data set of an HDF5 or NeXus file.
//!
//! The structure of a file is read by the crate `hdf5-pure`, if the cargo feature `hdf5` is on. It
//! states where the bytes of a data set are, and Trijet reads and decodes these bytes itself. A
//! contiguous data set is read like an `.npy` file, and a chunked one in blocks.
//!
//! `scan.h5::/entry/data` means the data set `/entry/data`. Without a path, the data set is the
//! default of a NeXus file, or the only data set with three or more axes, or the only one.
//!
//! An output has one contiguous data set, `/data`. It is written without that crate, because its
//! header is known before its rows.

#[cfg(feature = "hdf5")]
mod attributes;
#[cfg(feature = "hdf5")]
mod choice;
#[cfg(feature = "hdf5")]
mod chunks;
#[cfg(feature = "hdf5")]
mod elements;
#[cfg(feature = "hdf5")]
mod filters;
#[cfg(feature = "hdf5")]
mod place;
#[cfg(feature = "hdf5")]
mod read;
mod skeleton;

use super::contract::{
    Format, Found, Opened, Plan, has_extension, names_folder, refuse_description,
};
use super::flat::FlatPlan;
use super::promise::by_name;
use crate::annotations::Annotations;
use crate::array::Array;
use crate::file_error;
use crate::plain::Plain;
#[cfg(not(feature = "hdf5"))]
use crate::python::{literal, refused_with_line};
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use trijet::Result;

const EXTENSIONS: [&str; 6] = ["h5", "hdf5", "hdf", "he5", "ims", "nxs"];
const SIGNATURE: &[u8] = b"\x89HDF\r\n\x1a\n";

#[derive(Debug)]
pub(super) struct Hdf5;

impl Format for Hdf5 {
    fn name(&self) -> &'static str {
        "hdf5"
    }

    fn claims_input(&self, found: &Found<'_>) -> bool {
        let is_named = EXTENSIONS.iter().any(|extension| found.has_extension(extension));
        let starts_so = found.start.starts_with(SIGNATURE) && by_name(found.path).is_none();
        !found.is_folder && (is_named || starts_so)
    }

    fn claims_output(&self, path: &Path) -> bool {
        !names_folder(path) && EXTENSIONS.iter().any(|extension| has_extension(path, extension))
    }

    fn open(&self, path: &Path, plain: Option<&Plain>) -> Result<Opened> {
        refuse_description(path, plain)?;
        open(path, None)
    }

    fn open_inner(&self, path: &Path, inner: &str, plain: Option<&Plain>) -> Result<Opened> {
        refuse_description(path, plain)?;
        open(path, Some(inner))
    }

    fn plan(
        &self,
        path: &Path,
        array: &Array,
        _names: &[OsString],
        annotations: &Annotations,
    ) -> Result<Arc<dyn Plan>> {
        let (header, kept) = skeleton::header(array, annotations)
            .map_err(|cause| file_error::refused("create", path, cause))?;
        Ok(Arc::new(FlatPlan::new(header, array).keeping(annotations, &kept)))
    }
}

#[cfg(feature = "hdf5")]
fn open(path: &Path, inner: Option<&str>) -> Result<Opened> {
    read::open(path, inner)
}

/// Refuses a file, because this program was built without the reader of its structure.
#[cfg(not(feature = "hdf5"))]
fn open(path: &Path, inner: Option<&str>) -> Result<Opened> {
    let cause = "this program was built without the reader of HDF5 files (the cargo feature \
                 formats of trijet-cli, or hdf5 of trijet-io)";
    let name = literal(Path::new(inner.unwrap_or("DATASET")));
    let array = format!("h5py.File({{}})[{name}][:]");
    Err(refused_with_line("open", path, cause, "h5py", &array))
}
