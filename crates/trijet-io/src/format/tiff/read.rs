//! Reads the pixels of pages.
//!
//! Pixels that are stored without compression and in one run are read like the data of an `.npy`
//! file. All others are blocks: strips or tiles. Strips without compression that
//! follow one another in a page are one block.

use super::page::PageForm;
use super::pages::{PagesFile, one_run, read_all};
use super::refused::refused;
use super::series::{Series, series_of};
use super::table::{PageFiles, PageTable};
use crate::annotations::Annotations;
use crate::array::Array;
use crate::byte_order::ByteOrder;
use crate::format::contract::Opened;
use crate::format::flat::FlatReader;
use crate::item::Item;
use crate::shown::shown;
use serde_json::Map;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use trijet::Result;

/// Opens the file at `path`.
pub(super) fn open(path: &Path) -> Result<Opened> {
    let PagesFile { file, metadata, pages } = read_all(path)?;
    let mut series = series_of(path, &pages)?;
    let array = array_of(path, &pages.form, series.shape.clone())?;
    let (annotations, left_out) =
        (annotations_of(&mut series, &pages.form), std::mem::take(&mut series.left_out));
    let run = match series.order {
        None => one_run(&pages, if series.is_one_run { 1 } else { series.pages }),
        Some(_) => None,
    };
    // A byte has no order.
    let order = if array.dtype().bytes() == 1 { ByteOrder::Little } else { pages.order };
    if let Some(start) = run {
        let opened = FlatReader::opened(file, path, start, array, order, &metadata);
        return Ok(Opened { annotations, left_out, ..opened });
    }
    let files = PageFiles::One(Arc::new(file), Arc::new(path.to_owned()));
    let table = PageTable::new(files, &pages.form, pages.places, series.order);
    let reader = table.reader(path, &pages.form, pages.order, &array)?;
    let items = vec![Item::new(OsString::new(), &metadata)];
    let (granule, whole_rows, reader) = (1, reader.rows_of_blocks(), Box::new(reader));
    Ok(Opened { array, granule, whole_rows, items, left_out, annotations, reader })
}

/// The array of pages of a form. `shape` is the shape of the array.
pub(super) fn array_of(path: &Path, form: &PageForm, shape: Vec<u64>) -> Result<Array> {
    let dtype = form.dtype().ok_or_else(|| refused(path, "has an unknown type of pixels"))?;
    Array::new(dtype, shape).map_err(|error| error.context(format!("open {}", shown(path))))
}

/// The facts beside the pixels that a file states.
pub(super) fn annotations_of(series: &mut Series, form: &PageForm) -> Annotations {
    let (spacing, ome_xml) = (series.spacing, series.ome_xml.take());
    let has_colours = form.samples > 1;
    Annotations { spacing, ome_xml, has_colours, attributes: Map::new() }
}
