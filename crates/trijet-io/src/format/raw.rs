//! A raw file: the elements of an array, little-endian, and nothing else. The user describes the array.
//! Its extension is `.raw`, `.bin` or `.dat`.

use super::contract::{Format, Found, Opened, Plan, names_folder, open_regular};
use super::flat::{FlatPlan, FlatReader};
use super::promise::{is_free, is_plain};
use crate::array::Array;
use crate::file_error;
use crate::plain::Plain;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use trijet::Result;

#[derive(Debug)]
pub(super) struct Raw;

impl Format for Raw {
    fn name(&self) -> &'static str {
        "raw"
    }

    fn claims_input(&self, found: &Found<'_>) -> bool {
        !found.is_folder && is_free(found)
    }

    fn claims_output(&self, path: &Path) -> bool {
        !names_folder(path) && is_plain(path)
    }

    fn open(&self, path: &Path, plain: Option<&Plain>) -> Result<Opened> {
        let (file, metadata) = open_regular(path)?;
        let Some(plain) = plain else {
            let cause = "a file of plain bytes needs --shape and --dtype";
            return Err(file_error::refused("open", path, cause));
        };
        let (array, header) = (plain.array(), plain.header_bytes());
        check_size(array, header, metadata.len())
            .map_err(|cause| file_error::refused("open", path, cause))?;
        Ok(FlatReader::opened(file, path, header, array.clone(), &metadata))
    }

    fn plan(&self, _path: &Path, array: &Array, _names: &[OsString]) -> Result<Arc<dyn Plan>> {
        Ok(Arc::new(FlatPlan::new(Vec::new(), array)))
    }
}

/// Says why a file of `found` bytes does not have exactly a header and this array.
fn check_size(array: &Array, header: u64, found: u64) -> std::result::Result<(), String> {
    let wanted = array.bytes();
    let after = if header == 0 { String::new() } else { format!(" after a header of {header}") };
    let data = found.checked_sub(header);
    if data == Some(wanted) {
        return Ok(());
    }
    let mismatch = format!("{array} needs {wanted} bytes{after}, but the file has {found}");
    Err(match data.and_then(|data| data.checked_sub(wanted)) {
        Some(more) => format!(
            "{mismatch}; if a header precedes the data, --header {} skips it",
            header.saturating_add(more)
        ),
        None => mismatch,
    })
}
