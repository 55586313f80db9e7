//! The partial output on the disk: one file, or a folder of images.

use super::flat::Flat;
use super::images::Images;
use super::target::{Style, Target};
use crate::journal::Rows;
use trijet::Result;

#[derive(Debug)]
pub(super) enum Body {
    Flat(Flat),
    Images(Images),
}

impl Body {
    /// Creates an empty partial output; an existing one is replaced.
    pub(super) fn create(target: &Target) -> Result<Self> {
        let partial = &target.place.partial;
        let (bytes, row_bytes) = (target.array.bytes(), target.layout().row_bytes);
        match &target.style {
            Style::Npy | Style::Raw => {
                Flat::create(partial, &target.header(), bytes, row_bytes).map(Self::Flat)
            }
            Style::Images { form, names } => {
                Images::create(partial, names, *form).map(Self::Images)
            }
        }
    }

    /// Opens the partial output of an earlier run; `None` if it does not have the rows `done`.
    pub(super) fn reopen(target: &Target, done: &Rows) -> Result<Option<Self>> {
        let partial = &target.place.partial;
        let (bytes, row_bytes) = (target.array.bytes(), target.layout().row_bytes);
        match &target.style {
            Style::Npy | Style::Raw => {
                let flat = Flat::reopen(partial, &target.header(), bytes, row_bytes)?;
                Ok(flat.map(Self::Flat))
            }
            Style::Images { form, names } => {
                let images = Images::reopen(partial, names, *form);
                let whole = images.filter(|images| {
                    let mut ranges = done.ranges().iter().map(|rows| target.images_of(rows));
                    ranges.all(|mut range| range.all(|index| images.has(index)))
                });
                Ok(whole.map(Self::Images))
            }
        }
    }
}
