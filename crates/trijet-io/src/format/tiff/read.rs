//! Reads the pixels of pages.
//!
//! Pixels that are stored without compression, in one run and little-endian, are read like the
//! data of an `.npy` file. All others are blocks: strips or tiles. Strips without compression that
//! follow one another in a page are one block.

use super::directory::TiffOrder;
use super::folder::FolderFiles;
use super::page::{PageForm, Parts, Place};
use super::pages::{Pages, read_all};
use super::series::{Series, series_of};
use crate::annotations::Annotations;
use crate::array::Array;
use crate::byte_order::ByteOrder;
use crate::file_error;
use crate::format::blocks::{BlockEnds, BlockTable, BlocksReader, Grid, StoredBlock};
use crate::format::contract::Opened;
use crate::format::flat::FlatReader;
use crate::item::Item;
use crate::shown::shown;
use serde_json::Map;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trijet::Result;
use trijet_codecs::Chain;

/// The pixels of a block that is not compressed but decoded, because its byte order is another one.
const PLAIN_BLOCK_BYTES: u64 = 1 << 20;

/// Opens the file at `path`.
pub(super) fn open(path: &Path) -> Result<Opened> {
    let (file, metadata, mut pages) = read_all(path)?;
    let mut series = series_of(path, &pages)?;
    let array = array_of(path, &pages.form, series.shape.clone())?;
    let (annotations, left_out) =
        (annotations_of(&mut series), std::mem::take(&mut series.left_out));
    let run = match series.order {
        None => one_run(&pages, if series.is_one_run { 1 } else { series.pages }),
        Some(_) => None,
    };
    let is_little = pages.order == TiffOrder::Little || array.dtype().bytes() == 1;
    if let Some(start) = run.filter(|_| is_little) {
        let opened = FlatReader::opened(file, path, start, array, ByteOrder::Little, &metadata);
        return Ok(Opened { annotations, left_out, ..opened });
    }
    if series.is_one_run {
        pages.places = pages_of_run(&pages, series.pages);
        pages.form.parts = Parts::Strips { rows: pages.form.height };
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
    let dtype =
        form.dtype().ok_or_else(|| super::refused(path, "has an unknown type of pixels"))?;
    Array::new(dtype, shape).map_err(|error| error.context(format!("open {}", shown(path))))
}

/// The facts beside the pixels that a file states.
pub(super) fn annotations_of(series: &mut Series) -> Annotations {
    let (spacing, ome_xml) = (series.spacing, series.ome_xml.take());
    Annotations { spacing, ome_xml, attributes: Map::new() }
}

/// The offset of the first pixel, if the pixels of the first `count` pages follow one another
/// without compression.
pub(super) fn one_run(pages: &Pages, count: u64) -> Option<u64> {
    let count = usize::try_from(count).ok()?.checked_mul(pages.parts())?;
    run_of(&pages.form, pages.places.get(..count)?, pages.parts())
}

/// The offset of the first pixel, if the pixels of strips follow one another. `parts` is the number
/// of strips of a page.
fn run_of(form: &PageForm, places: &[Place], parts: usize) -> Option<u64> {
    if form.is_compressed() || matches!(form.parts, Parts::Tiles { .. }) {
        return None;
    }
    let start = places.first().filter(|place| !place.is_left_out())?.offset;
    let mut at = start;
    for (strip, place) in places.iter().enumerate() {
        if place.offset != at {
            return None;
        }
        at = at.checked_add(form.plain_bytes((strip % parts) as u64))?;
    }
    Some(start)
}

/// The places of pages whose pixels follow the pixels of page 0.
fn pages_of_run(pages: &Pages, count: u64) -> Vec<Place> {
    let page = pages.form.row_bytes().unwrap_or(0).saturating_mul(pages.form.height);
    let start = pages.places.first().map_or(0, |place| place.offset);
    let place = |n: u64| Place { offset: start + n * page, bytes: Some(page) };
    (0..count).map(place).collect()
}

/// The files that have the pages of an array.
#[derive(Debug)]
pub(super) enum PageFiles {
    One(Arc<File>, Arc<PathBuf>),
    /// A file for each page.
    Folder(FolderFiles),
}

/// The table of the blocks of all pages.
#[derive(Debug)]
pub(super) struct PageTable {
    files: PageFiles,
    form: PageForm,
    /// The places of the stored parts of all pages, one page after another.
    places: Vec<Place>,
    /// The number of a page in `places` for each page of the array. `None` if the pages are in
    /// order.
    order: Option<Vec<u64>>,
    /// The number of rows of a stored part.
    part_rows: u64,
    /// The number of rows of a block, which is a stored part or some of its rows.
    block_rows: u64,
}

impl PageTable {
    /// A table of these places. Parts of a page that follow one another without compression become
    /// one part.
    pub(super) fn new(
        files: PageFiles,
        form: &PageForm,
        mut places: Vec<Place>,
        order: Option<Vec<u64>>,
    ) -> Self {
        let (mut part_rows, _) = form.part();
        let (down, across) = form.counts();
        let parts = usize::try_from(down.saturating_mul(across)).unwrap_or(usize::MAX);
        let are_runs = places.chunks(parts).all(|page| run_of(form, page, parts).is_some());
        if are_runs {
            places = places.into_iter().step_by(parts).collect();
            part_rows = form.height;
        }
        Self { files, form: form.clone(), places, order, part_rows, block_rows: part_rows }
    }

    /// The reader of the array `array`, whose pages have this form.
    pub(super) fn reader(
        mut self,
        path: &Path,
        form: &PageForm,
        order: TiffOrder,
        array: &Array,
    ) -> Result<BlocksReader> {
        let codecs = form.codecs(order);
        if !form.is_compressed() && !codecs.is_empty() {
            self.block_rows = self.rows_of_plain_block();
        }
        let grid = self.grid(array).ok_or_else(|| {
            let cause = format!(
                "the description states the shape {:?}, which is not made of the rows of its pages",
                array.shape()
            );
            super::refused(path, cause)
        })?;
        let fill = vec![0; usize::try_from(array.dtype().bytes()).unwrap_or(1)];
        Ok(BlocksReader::new(grid, Chain::new(codecs), fill, Box::new(self)))
    }

    /// The number of rows of a block of about `PLAIN_BLOCK_BYTES`, without a block in two parts.
    fn rows_of_plain_block(&self) -> u64 {
        let row = self.form.row_bytes().unwrap_or(1).max(1);
        let most = (PLAIN_BLOCK_BYTES / row).clamp(1, self.part_rows);
        if self.part_rows == self.form.height || matches!(self.form.parts, Parts::Tiles { .. }) {
            return if matches!(self.form.parts, Parts::Tiles { .. }) {
                self.part_rows
            } else {
                most
            };
        }
        (1..=most).rev().find(|rows| self.part_rows.is_multiple_of(*rows)).unwrap_or(1)
    }

    /// The grid of the blocks, with rows of the length of the rows of `array`.
    fn grid(&self, array: &Array) -> Option<Grid> {
        let PageForm { width, height, samples, .. } = self.form;
        let element = array.dtype().bytes();
        let (page_row, own_row) = (width.checked_mul(samples)?, array.layout().row_bytes / element);
        let (_, part_width) = self.form.part();
        let part_row = part_width.checked_mul(samples)?;
        let pages = array.bytes() / element / page_row.checked_mul(height)?;
        let (mut shape, mut block) = (vec![pages, height], vec![1, self.block_rows]);
        if own_row == page_row {
            shape.push(page_row);
            block.push(part_row);
        } else if page_row.is_multiple_of(own_row) && part_row.is_multiple_of(own_row) {
            shape.extend([page_row / own_row, own_row]);
            block.extend([part_row / own_row, own_row]);
        } else {
            return None;
        }
        let ends = match self.form.parts {
            Parts::Strips { .. } => BlockEnds::Clipped,
            Parts::Tiles { .. } => BlockEnds::Padded,
        };
        Grid::new(&shape, &block, element, ends)
    }
}

impl BlockTable for PageTable {
    fn find(&self, index: &[u64]) -> Result<Option<StoredBlock>> {
        let (page, down, across) = match index {
            [page, down, across, ..] => (*page, *down, *across),
            _ => return Ok(None),
        };
        let to_usize = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let stored_page = match &self.order {
            Some(order) => order.get(to_usize(page)).copied().unwrap_or(u64::MAX),
            None => page,
        };
        let columns = self.form.counts().1;
        let parts = self.form.height.div_ceil(self.part_rows) * columns;
        let row = down * self.block_rows;
        let part = row / self.part_rows * columns + across;
        let place = stored_page.checked_mul(parts).and_then(|first| first.checked_add(part));
        let place = place.and_then(|place| self.places.get(to_usize(place)).copied());
        let (file, path) = self.files.of(page)?;
        let Some(place) = place else {
            return Err(file_error::damaged("read", &path, "a page is missing"));
        };
        if place.is_left_out() {
            return Ok(None);
        }
        let (offset, bytes) = match (self.form.is_compressed(), place.bytes) {
            (true, Some(bytes)) => (place.offset, bytes),
            _ => self.plain(place.offset, row),
        };
        Ok(Some(StoredBlock { file, path, offset, bytes, mask: 0 }))
    }
}

impl PageTable {
    /// The place of the block without compression that begins at the row `row` of a page. `part` is
    /// the offset of its part.
    fn plain(&self, part: u64, row: u64) -> (u64, u64) {
        match self.form.parts {
            Parts::Tiles { .. } => (part, self.form.plain_bytes(0)),
            Parts::Strips { .. } => {
                let row_bytes = self.form.row_bytes().unwrap_or(0);
                let rows = self.block_rows.min(self.form.height - row);
                (part + row % self.part_rows * row_bytes, rows * row_bytes)
            }
        }
    }
}

impl PageFiles {
    /// The file of a page of the array.
    fn of(&self, page: u64) -> Result<(Arc<File>, Arc<PathBuf>)> {
        match self {
            Self::One(file, path) => Ok((Arc::clone(file), Arc::clone(path))),
            Self::Folder(files) => files.open(page),
        }
    }
}
