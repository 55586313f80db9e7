//! The table of formats.

use super::contract::{Format, Found};
use super::images::Images;
use super::npy::Npy;
use super::raw::Raw;
use std::path::Path;

/// Every format. No two claim one file.
pub static FORMATS: [&dyn Format; 3] = [&Images, &Npy, &Raw];

/// The format of a file that is read as headerless bytes, whatever its name or start promises.
pub static HEADERLESS: &dyn Format = &Raw;

/// The format of an input.
#[must_use]
pub fn of_input(found: &Found<'_>) -> Option<&'static dyn Format> {
    FORMATS.into_iter().find(|format| format.claims_input(found))
}

/// The format of an output with this name.
#[must_use]
pub fn of_output(path: &Path) -> Option<&'static dyn Format> {
    FORMATS.into_iter().find(|format| format.claims_output(path))
}
