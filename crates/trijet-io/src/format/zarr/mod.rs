//! A Zarr array (v2 and v3): a folder with metadata in JSON, and a file for each chunk or shard.
//!
//! This module reads the part of Zarr that stacks of images use: regular grids, the codecs of
//! [`codecs`], and shards. It refuses everything else by name. An input is an array, a group with
//! one array of three or more axes, or an image of OME-Zarr, whose largest level is read. The
//! `zarrs` crate is not used, because it needs 94 other crates, and would copy each chunk.
//!
//! An output is one shard without compression, whose index is at its start. So the rows are one run
//! of bytes in one file, and the output is written in place, as an `.npy` file is.

mod codecs;
mod elements;
mod json;
mod metadata;
mod nodes;
mod ome;
mod reason;
mod shape;
mod table;
mod versions;
mod write;

use self::metadata::Storage;
use self::reason::Reason;
use self::table::{ChunkFiles, Shards};
use super::blocks::{BlockEnds, BlockTable, BlocksReader, Grid};
use super::contract::{Format, Found, Opened, Plan, has_extension, refuse_description};
use crate::annotations::Annotations;
use crate::array::Array;
use crate::file_error;
use crate::item::Item;
use crate::plain::Plain;
use crate::shown::shown;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use trijet::Result;
use trijet_codecs::Chain;

/// The extension of the folder of an array or a group.
const EXTENSION: &str = "zarr";

#[derive(Debug)]
pub(super) struct Zarr;

/// Whether a folder is an array or a group of Zarr, and not a folder of images.
pub(super) fn is_zarr(found: &Found<'_>) -> bool {
    found.is_folder && (found.has_extension(EXTENSION) || nodes::is_node(found.path))
}

impl Format for Zarr {
    fn name(&self) -> &'static str {
        "zarr"
    }

    fn claims_input(&self, found: &Found<'_>) -> bool {
        is_zarr(found)
    }

    fn claims_output(&self, path: &Path) -> bool {
        has_extension(path, EXTENSION)
    }

    fn open(&self, path: &Path, plain: Option<&Plain>) -> Result<Opened> {
        self.open_inner(path, "", plain)
    }

    fn open_inner(&self, path: &Path, inner: &str, plain: Option<&Plain>) -> Result<Opened> {
        refuse_description(path, plain)?;
        open(path, inner)
    }

    fn plan(
        &self,
        path: &Path,
        array: &Array,
        _names: &[OsString],
        annotations: &Annotations,
    ) -> Result<Arc<dyn Plan>> {
        Ok(Arc::new(write::ZarrPlan::new(path, array, annotations)?))
    }
}

/// Opens the array `inner` of the input at `root`.
fn open(root: &Path, inner: &str) -> Result<Opened> {
    let nodes::FoundArray { metadata, folder, inner, spacing, smaller_levels } =
        nodes::find(root, inner)?;
    // The state of the files is taken before any chunk is read.
    let item = Item::of_folder(root, Path::new(&inner))
        .map_err(|error| file_error::io("open", &folder, error))?;
    let array = Array::new(metadata.elements.dtype, metadata.shape.clone())
        .map_err(|error| error.context(format!("open {}", shown(&folder))))?;
    let refused = |cause: String| Reason::Refused(cause).error(&folder, root, &inner);
    let block = metadata.storage.block(&metadata.chunk);
    let element_bytes = metadata.elements.dtype.bytes();
    let grid = Grid::new(&metadata.shape, block, element_bytes, BlockEnds::Padded);
    let grid = grid.ok_or_else(|| refused(format!("chunks of the shape {block:?}")))?;
    let keys = metadata.keys;
    let (codecs, table): (_, Box<dyn BlockTable>) = match metadata.storage {
        Storage::Chunks(codecs) => (codecs, Box::new(ChunkFiles { folder: folder.clone(), keys })),
        Storage::Shards(mut sharding) => {
            let codecs = std::mem::take(&mut sharding.codecs);
            let shards = Shards::new(folder.clone(), keys, &metadata.chunk, sharding);
            (codecs, Box::new(shards.map_err(refused)?))
        }
    };
    let reader = BlocksReader::new(grid, Chain::new(codecs), metadata.fill, table);
    let attributes = metadata.attributes;
    let left_out = match smaller_levels {
        0 => Vec::new(),
        1 => vec!["1 smaller level of the pyramid".to_owned()],
        count => vec![format!("{count} smaller levels of the pyramid")],
    };
    // An array without elements has no blocks.
    let whole_rows = if array.bytes() == 0 { 1 } else { reader.rows_of_blocks() };
    Ok(Opened {
        array,
        granule: 1,
        whole_rows,
        items: vec![item],
        left_out,
        annotations: Annotations { spacing, attributes, ..Annotations::default() },
        reader: Box::new(reader),
    })
}
