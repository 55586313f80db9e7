//! TIFF and BigTIFF files, and folders of TIFF files with one page each.
//!
//! Read: both byte orders; the shapes that tifffile, OME-XML and ImageJ state; strips and tiles;
//! the compressions that `page.rs` lists. Written: the layout of tifffile, without compression,
//! little-endian.

mod directory;
mod folder;
mod folder_files;
mod ome;
mod page;
mod pages;
mod read;
mod refused;
mod series;
mod table;
mod tags;
mod write;

use super::contract::{Format, Found, Opened, Plan, names_folder, refuse_description};
use super::folder::{has_only_tiff, is_tiff};
use super::promise::by_name;
use crate::annotations::Annotations;
use crate::array::Array;
use crate::plain::Plain;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use trijet::Result;

/// The first bytes of TIFF and BigTIFF files in both byte orders.
const STARTS: [&[u8]; 4] = [b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"];

#[derive(Debug)]
pub(super) struct Tiff;

impl Format for Tiff {
    fn name(&self) -> &'static str {
        "tiff"
    }

    fn claims_input(&self, found: &Found<'_>) -> bool {
        if found.is_folder {
            return by_name(found.path) != Some("Zarr") && has_only_tiff(found.path);
        }
        let begins_so = STARTS.iter().any(|start| found.start.starts_with(start));
        is_tiff(found.path) || begins_so && by_name(found.path).is_none()
    }

    fn claims_output(&self, path: &Path) -> bool {
        !names_folder(path) && is_tiff(path)
    }

    fn open(&self, path: &Path, plain: Option<&Plain>) -> Result<Opened> {
        refuse_description(path, plain)?;
        if path.is_dir() { folder::open(path) } else { read::open(path) }
    }

    fn plan(
        &self,
        path: &Path,
        array: &Array,
        _names: &[OsString],
        annotations: &Annotations,
    ) -> Result<Arc<dyn Plan>> {
        write::plan(path, array, annotations)
    }
}
