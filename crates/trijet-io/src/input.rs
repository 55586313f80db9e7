//! Inputs: arrays in files, as sources of pipelines.
//!
//! A damaged or unreadable file is an `Io` error; an intact file that is not supported is
//! `InvalidValue`.

use crate::array::Array;
use crate::file_error;
use crate::format::promise::{by_name, by_start};
use crate::format::{Format, Found, HEADERLESS, Opened, of_input};
use crate::item::Item;
use std::ffi::OsString;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use trijet::pipeline::Layout;
use trijet::{Result, Source};

// Kernels take the bytes of a row as their elements, without conversion.
const _: () = assert!(cfg!(target_endian = "little"), "all formats here are little-endian");

/// An open input. Several threads may read it at once.
#[derive(Debug)]
pub struct Input {
    path: PathBuf,
    canonical: PathBuf,
    format: &'static dyn Format,
    opened: Opened,
    names: Vec<OsString>,
    granule: u64,
}

impl Input {
    /// Opens the input at `path`. A folder holds images, and an `.npy` file describes its own
    /// array. For a file that promises no format, `array` describes the array.
    ///
    /// ```
    /// use trijet::Source;
    /// use trijet_io::{Array, Dtype, Input};
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("scan.raw");
    /// std::fs::write(&path, [1, 0, 2, 0, 3, 0])?;
    /// let input = Input::open(&path, Some(Array::new(Dtype::U16, vec![3])?))?;
    /// let mut rows = [0; 4];
    /// input.read(1..3, &mut rows)?;
    /// assert_eq!(rows, [2, 0, 3, 0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Io` for a file that cannot be read or is damaged. `InvalidValue` for a format that is not
    /// supported, for a raw file if `array` is missing, and for any other file if `array` is given.
    pub fn open(path: &Path, array: Option<Array>) -> Result<Self> {
        refuse_stream(path)?;
        let found = Found::at(path)?;
        match of_input(&found) {
            Some(format) => Self::of_format(format, path, array),
            None => Err(file_error::refused("open", path, promise_of(&found))),
        }
    }

    /// Opens the file at `path` as headerless bytes, whatever its name and its first bytes promise.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn headerless(path: &Path, array: Array) -> Result<Self> {
        refuse_stream(path)?;
        Self::of_format(HEADERLESS, path, Some(array))
    }

    fn of_format(format: &'static dyn Format, path: &Path, array: Option<Array>) -> Result<Self> {
        let opened = format.open(path, array)?;
        let names = opened.items.iter().map(|item| item.name.clone());
        let names = names.filter(|name| !name.is_empty()).collect();
        let granule = opened.granule;
        let canonical = fs::canonicalize(path).map_err(|e| file_error::io("open", path, e))?;
        Ok(Self { path: path.to_owned(), canonical, format, opened, names, granule })
    }

    /// The element type and shape.
    #[must_use]
    pub fn array(&self) -> &Array {
        &self.opened.array
    }

    /// The format.
    #[must_use]
    pub fn format(&self) -> &'static dyn Format {
        self.format
    }

    /// The path as it was given to [`open`](Self::open).
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path without links and relative parts: the same for every path of the input.
    #[must_use]
    pub fn canonical_path(&self) -> &Path {
        &self.canonical
    }

    /// The files of the input when it was opened. Each holds an equal number of rows, in this
    /// order.
    #[must_use]
    pub fn items(&self) -> &[Item] {
        &self.opened.items
    }

    /// The file names of a folder of images, in the order of the stack; empty for other formats.
    #[must_use]
    pub fn names(&self) -> &[OsString] {
        &self.names
    }

    /// Makes chunks begin at multiples of `granule` rows, for an output that takes only whole ones
    /// ([`crate::Target::granule`]).
    ///
    /// # Panics
    /// When `granule` is not a multiple of the input's own granule.
    #[must_use]
    pub fn cut_at(mut self, granule: u64) -> Self {
        let own = self.opened.granule;
        assert!(granule > 0 && granule.is_multiple_of(own), "a chunk of whole images");
        self.granule = granule;
        self
    }

    /// The path of every file that must not be written to while this input is read.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let mut files = vec![self.path().to_owned()];
        files.extend(self.names().iter().map(|name| self.path().join(name)));
        files
    }
}

/// Refuses the name of the standard input.
fn refuse_stream(path: &Path) -> Result<()> {
    if path == Path::new("-") {
        let cause = "standard input is not supported yet; give the name of a file (./- if it is -)";
        return Err(file_error::refused("open", path, cause));
    }
    Ok(())
}

/// Why a file that promises a format is not an input.
fn promise_of(found: &Found<'_>) -> String {
    let (what, name) = match by_name(found.path) {
        Some(name) => ("the name promises", name),
        None => ("it begins as", by_start(&found.start).unwrap_or("unknown")),
    };
    let more = match name {
        "PNG" => "single images are not supported: give their folder",
        _ => "this format is not supported",
    };
    format!("{what} a file of {name}; {more}; --raw, --shape and --dtype take it for plain bytes")
}

impl Source for Input {
    fn layout(&self) -> Layout {
        self.array().layout().granule(self.granule)
    }

    fn is_parallel(&self) -> bool {
        true
    }

    fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        let wanted = (rows.end - rows.start) * self.array().layout().row_bytes;
        assert_eq!(into.len() as u64, wanted, "the buffer has the length of the rows");
        self.opened.reader.read(rows, into)
    }
}
