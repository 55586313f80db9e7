//! The table of formats.

use super::contract::{Format, Found};
use super::images::Images;
use super::npy::Npy;
use super::raw::Raw;
use std::path::Path;

/// Every format. The first one that claims a file has it; raw files come last, because they are
/// recognized by nothing.
pub static FORMATS: [&dyn Format; 3] = [&Images, &Npy, &Raw];

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
