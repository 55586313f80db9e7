//! The table of the blocks of pages.

use super::folder_files::FolderFiles;
use super::page::{PageForm, PartPlace, Parts};
use super::pages::run_of;
use super::refused::refused;
use crate::array::Array;
use crate::byte_order::ByteOrder;
use crate::file_error;
use crate::format::blocks::{BlockEnds, BlockTable, BlocksReader, Grid, StoredBlock};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trijet::Result;
use trijet_codecs::Chain;

/// The size of a block that is not compressed, but decoded because its byte order is another one.
const PLAIN_BLOCK_BYTES: u64 = 1 << 20;

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
    places: Vec<PartPlace>,
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
        mut places: Vec<PartPlace>,
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
        order: ByteOrder,
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
            refused(path, cause)
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
