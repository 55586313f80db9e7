//! A raw file: the elements of an array, and nothing else. The user describes the array. The
//! extension of the file is `.raw`, `.bin` or `.dat`. An output is little-endian.

use super::contract::{Format, Found, Opened, Plan, names_folder, open_regular};
use super::flat::{FlatPlan, FlatReader};
use super::promise::{is_free, is_plain, python_line};
use crate::annotations::Annotations;
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
        if let Some(mismatch) = mismatch(array, header, metadata.len()) {
            // If the file has a known format, the message does not suggest to skip the surplus
            // bytes. In such a file, they are not a header that can be skipped.
            let way = match (python_line(&Found::at(path)?), surplus(array, header, metadata.len()))
            {
                (Some(line), _) => {
                    format!("; this line of Python converts it to an .npy file: {line}")
                }
                (None, Some(more)) => format!(
                    "; if a header precedes the data, --header {} skips it",
                    header.saturating_add(more)
                ),
                (None, None) => String::new(),
            };
            return Err(file_error::refused("open", path, format!("{mismatch}{way}")));
        }
        let (array, order) = (array.clone(), plain.byte_order());
        Ok(FlatReader::opened(file, path, header, array, order, &metadata))
    }

    fn plan(
        &self,
        _path: &Path,
        array: &Array,
        _names: &[OsString],
        annotations: &Annotations,
    ) -> Result<Arc<dyn Plan>> {
        Ok(Arc::new(FlatPlan::new(Vec::new(), array).keeping(annotations, &Annotations::default())))
    }
}

/// The reason why a file of `found` bytes does not consist of a header of `header` bytes and this
/// array. `None` if the file has exactly this size.
fn mismatch(array: &Array, header: u64, found: u64) -> Option<String> {
    let wanted = array.bytes();
    let after = if header == 0 { String::new() } else { format!(" after a header of {header}") };
    let is_exact = found.checked_sub(header) == Some(wanted);
    (!is_exact).then(|| format!("{array} needs {wanted} bytes{after}, but the file has {found}"))
}

/// The number of bytes that the file has in addition to the header and the array. `None` if the
/// file is too short.
fn surplus(array: &Array, header: u64, found: u64) -> Option<u64> {
    found.checked_sub(header)?.checked_sub(array.bytes())
}
