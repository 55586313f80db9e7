//! A file with a data set, and the errors about it.

use super::structure::Fault;
use crate::annotations::Annotations;
use crate::array::Array;
use crate::file_error;
use crate::format::contract::{Opened, Reader};
use crate::item::Item;
use crate::python::{literal, refused_with_line};
use crate::shown::shown;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trijet::{Error, Result};

/// A file whose structure is read.
#[derive(Debug)]
pub(super) struct DataSetFile<'a> {
    pub(super) path: &'a Path,
    /// The path of the data set in the file, for messages. Empty before one is chosen.
    pub(super) name: String,
    pub(super) file: File,
    pub(super) metadata: Metadata,
}

impl DataSetFile<'_> {
    /// The error for a damaged structure.
    pub(super) fn damaged(&self, cause: impl std::fmt::Display) -> Error {
        self.damaged_at(&self.name, cause)
    }

    fn damaged_at(&self, name: &str, cause: impl std::fmt::Display) -> Error {
        let cause = match name {
            "" => format!("the structure is damaged: {cause}"),
            name => format!("the structure of {} is damaged: {cause}", shown(name)),
        };
        file_error::damaged("open", self.path, cause)
    }

    /// Refuses a data set with the line of Python that converts it.
    pub(super) fn refused(&self, cause: &str) -> Error {
        self.refused_at(&self.name, cause)
    }

    fn refused_at(&self, name: &str, cause: &str) -> Error {
        self.refused_with_line(name, &format!("{}: {cause}", shown(name)))
    }

    /// Refuses a path, for example along an external link, with the line of Python that converts
    /// the data set. `by` is a note about the path.
    pub(super) fn unreached(&self, name: &str, by: &str, cause: &str) -> Error {
        self.refused_with_line(name, &format!("/{}{by} cannot be opened: {cause}", shown(name)))
    }

    fn refused_with_line(&self, name: &str, cause: &str) -> Error {
        // `hdf5plugin` reads filters that HDF5 itself does not have.
        let array = format!("h5py.File({{}})[{}][:]", literal(Path::new(name)));
        refused_with_line("open", self.path, cause, "hdf5plugin, h5py", &array)
    }

    /// The error for a part of the structure that is not read.
    pub(super) fn fault(&self, fault: Fault) -> Error {
        self.fault_at(&self.name, fault)
    }

    /// The error for a part of the structure of the object at a path.
    pub(super) fn fault_at(&self, name: &str, fault: Fault) -> Error {
        match fault {
            Fault::Damaged(cause) => self.damaged_at(name, cause),
            Fault::Unsupported(cause) | Fault::Missing(cause) => self.refused_at(name, &cause),
            Fault::Io(error) => file_error::io("open", self.path, error),
        }
    }
}

/// The description of an input that `reader` reads.
pub(super) fn opened_by(
    array: Array,
    whole_rows: u64,
    metadata: &Metadata,
    reader: Box<dyn Reader>,
) -> Opened {
    let items = vec![Item::new(OsString::new(), metadata)];
    let (left_out, annotations) = (Vec::new(), Annotations::default());
    Opened { array, granule: 1, whole_rows, items, left_out, annotations, reader }
}

/// Shares a file and its path with a reader of blocks.
pub(super) fn shared(place: &DataSetFile<'_>) -> Result<(Arc<File>, Arc<PathBuf>)> {
    let file = place.file.try_clone();
    let file = file.map_err(|error| file_error::io("open", place.path, error))?;
    Ok((Arc::new(file), Arc::new(place.path.to_owned())))
}
