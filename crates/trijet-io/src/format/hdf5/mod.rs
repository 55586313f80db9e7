//! A data set of an HDF5 or NeXus file.
//!
//! The module `structure` finds where the bytes of a data set are. A contiguous data set is read
//! like an `.npy` file, and a chunked one in blocks.
//!
//! `scan.h5::/entry/data` means the data set `/entry/data`. Without a path, the data set is the
//! default of a NeXus file, or the only data set with three or more axes, or the only one.
//!
//! An output has one contiguous data set, `/data`, whose header is known before its rows.

mod attributes;
mod choice;
mod chunks;
mod elements;
mod filters;
mod place;
mod read;
mod skeleton;
mod structure;
#[cfg(test)]
mod tests;

use super::contract::{
    Format, Found, Opened, Plan, has_extension, names_folder, refuse_description,
};
use super::flat::FlatPlan;
use super::promise::by_name;
use crate::annotations::Annotations;
use crate::array::Array;
use crate::file_error;
use crate::plain::Plain;
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
        read::open(path, None)
    }

    fn open_inner(&self, path: &Path, inner: &str, plain: Option<&Plain>) -> Result<Opened> {
        refuse_description(path, plain)?;
        read::open(path, Some(inner))
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
