//! A folder of gray PNG images that all have one size and one depth (8 or 16 bits). The images are
//! one stack, in the natural order of their file names. Hidden files are skipped.

mod form;
mod gaps;
mod left_out;
mod order;
mod read;
mod write;

pub use form::{Form, is_damaged_image};
pub(in crate::format) use left_out::LeftOut;
pub(in crate::format) use order::sort;
pub(crate) use read::open_skipping;

use super::contract::{Format, Found, Opened, Plan, names_folder, refuse_description};
use super::folder::has_only_tiff;
use super::promise::by_name;
use super::zarr::is_zarr;
use crate::annotations::Annotations;
use crate::array::Array;
use crate::plain::Plain;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use trijet::Result;

/// The name of the format.
pub(crate) const PNG: &str = "png";

#[derive(Debug)]
pub(super) struct Images;

impl Format for Images {
    fn name(&self) -> &'static str {
        PNG
    }

    fn claims_input(&self, found: &Found<'_>) -> bool {
        // A Zarr array and an N5 array are also folders.
        let is_array = is_zarr(found) || by_name(found.path) == Some("N5");
        found.is_folder && !is_array && !has_only_tiff(found.path)
    }

    fn claims_output(&self, path: &Path) -> bool {
        let is_named = names_folder(path) || path.extension().is_none();
        is_named && by_name(path) != Some("Zarr")
    }

    fn open(&self, path: &Path, plain: Option<&Plain>) -> Result<Opened> {
        refuse_description(path, plain)?;
        read::open(path)
    }

    fn plan(
        &self,
        path: &Path,
        array: &Array,
        names: &[OsString],
        annotations: &Annotations,
    ) -> Result<Arc<dyn Plan>> {
        Ok(Arc::new(write::ImagesPlan::new(path, array, names, annotations)?))
    }
}
