//! A raw file: the elements of an array and nothing else. The user describes the array. A file that
//! promises a format is not a raw file.

use super::contract::{Format, Found, Opened, Plan, open_regular};
use super::flat::{FlatPlan, FlatReader};
use super::promise::{by_name, is_free};
use crate::array::Array;
use crate::file_error;
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
        path.extension().is_some() && by_name(path).is_none()
    }

    fn open(&self, path: &Path, array: Option<Array>) -> Result<Opened> {
        let Some(array) = array else {
            let cause = "a raw file needs --shape and --dtype";
            return Err(file_error::refused("open", path, cause));
        };
        let (file, metadata) = open_regular(path)?;
        let (wanted, found) = (array.bytes(), metadata.len());
        if found != wanted {
            let cause = format!("{array} needs {wanted} bytes, but the file has {found}");
            return Err(file_error::refused("open", path, cause));
        }
        Ok(FlatReader::opened(file, path, 0, array, &metadata))
    }

    fn plan(&self, _path: &Path, array: &Array, _names: &[OsString]) -> Result<Arc<dyn Plan>> {
        Ok(Arc::new(FlatPlan::new(Vec::new(), array)))
    }
}
