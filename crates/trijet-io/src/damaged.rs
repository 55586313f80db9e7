//! The damaged images of an input. A run that uses this list skips them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A damaged image of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedImage {
    /// The file name of the image.
    pub name: OsString,
    /// A description of the damage, for messages.
    pub why: String,
}

/// The damaged images of an input that were found so far. Several threads read the input, and add
/// the damaged images that they find.
#[derive(Debug, Default)]
pub(crate) struct DamagedImages {
    /// The damaged images. The key of an image is its index in the stack.
    found: Mutex<BTreeMap<u64, DamagedImage>>,
}

impl DamagedImages {
    fn found(&self) -> MutexGuard<'_, BTreeMap<u64, DamagedImage>> {
        // Each insertion is complete or has not happened, so the map is valid even after a panic.
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, index: u64, image: DamagedImage) {
        self.found().insert(index, image);
    }

    /// The damaged images that have at least one row in `rows`, in the order of the stack. Each
    /// image has `image_rows` rows.
    pub(crate) fn among(&self, rows: &Range<u64>, image_rows: u64) -> Vec<DamagedImage> {
        let images = images_of(rows, image_rows);
        self.found().range(images).map(|(_, image)| image.clone()).collect()
    }

    /// Cuts `rows` into parts of sound rows and parts of damaged rows, and returns the parts in
    /// ascending order. Each image has `image_rows` rows.
    pub(crate) fn parts(&self, rows: &Range<u64>, image_rows: u64) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut start = rows.start;
        for index in self.found().range(images_of(rows, image_rows)).map(|(index, _)| index) {
            let image = index * image_rows..(index + 1) * image_rows;
            let (from, to) = (image.start.max(rows.start), image.end.min(rows.end));
            parts.push(Part { rows: start..from, is_damaged: false });
            parts.push(Part { rows: from..to, is_damaged: true });
            start = to;
        }
        parts.push(Part { rows: start..rows.end, is_damaged: false });
        parts.retain(|part| !part.rows.is_empty());
        parts
    }
}

/// The damaged images of an input, and the number of rows of the results of one image.
#[derive(Debug)]
pub(crate) struct SkippedImages {
    pub(crate) images: Arc<DamagedImages>,
    pub(crate) rows: u64,
}

/// The indices of the images that have at least one row in `rows`. An `image_rows` of 0 counts as
/// 1.
fn images_of(rows: &Range<u64>, image_rows: u64) -> Range<u64> {
    rows.start / image_rows.max(1)..rows.end.div_ceil(image_rows.max(1))
}

/// A range of rows that are all sound, or that all belong to one damaged image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) rows: Range<u64>,
    pub(crate) is_damaged: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_rows_are_the_rows() {
        for damaged in 0..16_u64 {
            let images = DamagedImages::default();
            let is_damaged = |index: u64| damaged >> index & 1 == 1;
            for index in (0..4).filter(|index| is_damaged(*index)) {
                images.add(index, DamagedImage { name: OsString::new(), why: String::new() });
            }
            for (start, end) in (0..=12).flat_map(|start| (start..=12).map(move |end| (start, end)))
            {
                let parts = images.parts(&(start..end), 3);
                let rows: Vec<u64> = parts.iter().flat_map(|part| part.rows.clone()).collect();
                assert_eq!(rows, (start..end).collect::<Vec<_>>(), "{damaged:b}");
                for part in parts {
                    let same = |row: u64| is_damaged(row / 3) == part.is_damaged;
                    assert!(part.rows.clone().all(same), "{damaged:b}: {part:?}");
                }
            }
        }
    }
}
