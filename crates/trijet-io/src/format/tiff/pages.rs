//! The pages of a TIFF file: the chain of its directories.

use super::directory::{Directory, TiffFile};
use super::page::{PageForm, PartPlace, Parts};
use super::refused::refused;
use crate::byte_order::ByteOrder;
use crate::file_error;
use crate::format::contract::open_regular;
use std::collections::HashSet;
use std::fs::{File, Metadata};
use std::path::Path;
use trijet::Result;

const SUBFILE: u16 = 254;
const DESCRIPTION: u16 = 270;
const X_RESOLUTION: u16 = 282;
const Y_RESOLUTION: u16 = 283;
const RESOLUTION_UNIT: u16 = 296;
const LEVELS: u16 = 330;
const NO_DATA: u16 = 42_113;

/// Maximum number of pages of a file.
const PAGES_MAX: usize = 1 << 32;

/// The relation of a page to page 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageKind {
    /// A page of the form of page 0.
    Alike,
    /// A smaller version of another page.
    Reduced,
    Other,
}

/// The pages of a file.
#[derive(Debug)]
pub(super) struct Pages {
    pub(super) form: PageForm,
    pub(super) order: ByteOrder,
    pub(super) kinds: Vec<PageKind>,
    /// The places of the parts of all pages that are [`Alike`](PageKind::Alike), one page after
    /// another.
    pub(super) places: Vec<PartPlace>,
    /// The offset of the directory of page 1. `None` if there is only one page.
    pub(super) second: Option<u64>,
    pub(super) description: Option<String>,
    /// The number of pixels per unit along the height and the width, and the unit in metres, which
    /// is `None` for an unknown unit.
    pub(super) resolution: [Option<f64>; 2],
    pub(super) unit: Option<f64>,
    /// Whether page 0 has smaller versions in directories of their own.
    pub(super) has_levels: bool,
    /// The size of the file.
    pub(super) file_bytes: u64,
}

impl Pages {
    /// Reads the directories of a file of `bytes` bytes.
    pub(super) fn read(file: &File, path: &Path, bytes: u64) -> Result<Self> {
        let (mut tiff, first) = TiffFile::open(file, path, bytes)?;
        let mut page = Directory::default();
        if first == 0 {
            return Err(tiff.damaged("the file has no page"));
        }
        tiff.read(first, &mut page)?;
        let mut pages = Self::of_first(&mut tiff, &page, path)?;
        let mut budget = Budget { tags: bytes, places: bytes, seen: HashSet::new() };
        budget.see(&tiff, first, &page)?;
        pages.add(&mut tiff, &page, PageKind::Alike, &mut budget)?;
        while page.next != 0 {
            let at = page.next;
            pages.second.get_or_insert(at);
            tiff.read(at, &mut page)?;
            budget.see(&tiff, at, &page)?;
            if pages.kinds.len() >= PAGES_MAX {
                return Err(refused(path, "the file has more than 2^32 pages"));
            }
            let kind = pages.kind_of(&mut tiff, &page)?;
            pages.add(&mut tiff, &page, kind, &mut budget)?;
        }
        Ok(pages)
    }

    /// The facts about the file that page 0 states, without the page.
    fn of_first(tiff: &mut TiffFile<'_>, page: &Directory, path: &Path) -> Result<Self> {
        let form = PageForm::read(tiff, page)?;
        if let Some(cause) = form.refusal() {
            return Err(refused(path, cause));
        }
        let unit = match tiff.number(page, RESOLUTION_UNIT, 2)? {
            2 => Some(0.0254),
            3 => Some(0.01),
            _ => None,
        };
        Ok(Self {
            form,
            order: tiff.order(),
            kinds: Vec::new(),
            places: Vec::new(),
            second: None,
            description: tiff.text(page, DESCRIPTION)?,
            resolution: [tiff.fraction(page, Y_RESOLUTION)?, tiff.fraction(page, X_RESOLUTION)?],
            unit,
            has_levels: page.find(LEVELS).is_some(),
            file_bytes: tiff.bytes(),
        })
    }

    fn kind_of(&self, tiff: &mut TiffFile<'_>, page: &Directory) -> Result<PageKind> {
        if tiff.number(page, SUBFILE, 0)? & 1 == 1 {
            return Ok(PageKind::Reduced);
        }
        let is_alike = PageForm::read(tiff, page)? == self.form;
        Ok(if is_alike { PageKind::Alike } else { PageKind::Other })
    }

    fn add(
        &mut self,
        tiff: &mut TiffFile<'_>,
        page: &Directory,
        kind: PageKind,
        budget: &mut Budget,
    ) -> Result<()> {
        let pages = if kind == PageKind::Alike { self.form.planes } else { 1 };
        self.kinds.extend((0..pages).map(|_| kind));
        if kind != PageKind::Alike {
            return Ok(());
        }
        let from = self.places.len();
        self.form.places(tiff, page, &mut budget.places, &mut self.places)?;
        let has_gap = self.places[from..].iter().any(|place| place.is_left_out());
        if has_gap && page.find(NO_DATA).is_some() {
            let cause = "parts of the pixels are not stored, and have the value of GDAL_NODATA";
            return Err(refused(tiff.path(), cause));
        }
        Ok(())
    }

    /// For each page of the file, the number of pages of the form of page 0 before it.
    pub(super) fn numbers_among_alike(&self) -> Vec<u64> {
        let mut before = 0;
        let number = |kind: &PageKind| {
            let own = before;
            before += u64::from(*kind == PageKind::Alike);
            own
        };
        self.kinds.iter().map(number).collect()
    }

    /// The number of places of a page.
    pub(super) fn parts(&self) -> usize {
        let (down, across) = self.form.counts();
        usize::try_from(down.saturating_mul(across)).unwrap_or(usize::MAX)
    }
}

/// An open file, and its pages.
#[derive(Debug)]
pub(super) struct PagesFile {
    pub(super) file: File,
    pub(super) metadata: Metadata,
    pub(super) pages: Pages,
}

/// Limits of the work and of the memory that the directories of a file cause. Without them, a small
/// file whose directories lie over one another could cause much of both.
struct Budget {
    /// The number of bytes of the file that no directory has taken.
    tags: u64,
    /// The number of bytes of the file that no list of places has taken.
    places: u64,
    seen: HashSet<u64>,
}

impl Budget {
    fn see(&mut self, tiff: &TiffFile<'_>, at: u64, page: &Directory) -> Result<()> {
        if !self.seen.insert(at) {
            return Err(
                tiff.damaged(format!("the chain of pages returns to the page at byte {at}"))
            );
        }
        match self.tags.checked_sub(page.bytes) {
            Some(rest) => self.tags = rest,
            None => return Err(tiff.damaged("the directories of the pages overlap")),
        }
        Ok(())
    }
}

/// The offset of the first pixel, if the pixels of the first `count` pages follow one another
/// without compression.
pub(super) fn one_run(pages: &Pages, count: u64) -> Option<u64> {
    let count = usize::try_from(count).ok()?.checked_mul(pages.parts())?;
    run_of(&pages.form, pages.places.get(..count)?, pages.parts())
}

/// The offset of the first pixel, if the pixels of strips follow one another. `parts` is the number
/// of strips of a page.
pub(super) fn run_of(form: &PageForm, places: &[PartPlace], parts: usize) -> Option<u64> {
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

/// Opens a file and reads its pages.
pub(super) fn read_all(path: &Path) -> Result<PagesFile> {
    let (file, metadata) = open_regular(path)?;
    let pages = Pages::read(&file, path, metadata.len())?;
    Ok(PagesFile { file, metadata, pages })
}

/// The error for a file whose pages do not match its description.
pub(super) fn cut(path: &Path, cause: String) -> trijet::Error {
    file_error::damaged("open", path, cause)
}
