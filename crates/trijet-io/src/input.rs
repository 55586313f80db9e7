//! Inputs: arrays in files. An input is the source of a pipeline.
//!
//! A damaged or unreadable file is an `Io` error. An intact file that is not supported is an
//! `InvalidValue` error.

mod without_files;

use crate::annotations::Annotations;
use crate::array::Array;
use crate::byte_order::ByteOrder;
use crate::damaged::{DamagedImage, DamagedImages};
use crate::file_error;
use crate::format::promise::{PLAIN_BYTES, UNKNOWN, refusal_of};
use crate::format::swapped::swapped;
use crate::format::{Format, Found, HEADERLESS, Opened, PNG, inner_path, of_input, open_skipping};
use crate::item::Item;
use crate::plain::Plain;
use crate::shown::shown;
use crate::stream::StreamReader;
use std::ffi::OsString;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trijet::pipeline::{Blocks, Layout};
use trijet::{Result, Source};

// Kernels read the bytes of rows as elements, without a conversion of the byte order.
const _: () = assert!(cfg!(target_endian = "little"), "rows in memory are little-endian");

/// An open input. Several threads may read the input at the same time.
#[derive(Debug)]
pub struct Input {
    path: PathBuf,
    canonical: PathBuf,
    /// The path of the array inside the file, if the user has given one.
    inner: Option<String>,
    format: &'static dyn Format,
    opened: Opened,
    /// The number of header bytes before the data that the user has given for a file of plain
    /// bytes. Otherwise 0.
    header: u64,
    slice: Slice,
    names: Vec<OsString>,
    /// Whether the first two axes of the array are exchanged.
    has_swapped_axes: bool,
    granule: u64,
    /// Whether rows keep the byte order of the file.
    is_as_stored: bool,
    /// The damaged images that were found so far. `None` if the input does not skip damaged images.
    damaged: Option<Arc<DamagedImages>>,
    /// The stream of the input. `None` for files.
    stream: Option<Arc<StreamReader>>,
    /// Whether the path is the path of a file or a folder.
    has_files: bool,
}

/// The part of an input that a run processes.
#[derive(Debug, Clone)]
struct Slice {
    /// The indices of the first axis that are processed. `None` for the whole input.
    indices: Option<Range<u64>>,
    array: Array,
    first_row: u64,
}

impl Input {
    /// Opens the input at `path`. For a file of plain bytes (`.raw`, `.bin`, `.dat` or no
    /// extension), `array` describes the array. Any other input has its own description: an `.npy`
    /// file, a TIFF file, or a folder of images. A path such as `scan.zarr::/raw/0` means the array
    /// `/raw/0` inside the file or folder `scan.zarr`.
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
    /// supported, if `array` is missing for a file of plain bytes, and if `array` is given for any
    /// other input.
    pub fn open(path: &Path, array: Option<Array>) -> Result<Self> {
        Self::of_any(path, array.map(Plain::new))
    }

    /// Opens an input that describes its own shape and element type: an `.npy` file, a TIFF file or
    /// a folder of images.
    ///
    /// # Errors
    /// Errors of [`open`](Self::open). Their messages do not mention the options for files of plain
    /// bytes.
    pub fn self_described(path: &Path) -> Result<Self> {
        let (path, inner) = &split(path)?;
        let found = Found::at(path)?;
        match of_input(&found) {
            Some(format) if format.name() != HEADERLESS.name() => {
                Self::of_format(format, path, inner.as_deref(), None)
            }
            Some(_) => {
                let cause = "a file of plain bytes does not state its shape; use an .npy file, a TIFF \
                             file or a folder of images";
                Err(file_error::refused("open", path, cause))
            }
            None => {
                let ways = "use an .npy file, a TIFF file or a folder of images";
                Err(file_error::refused(
                    "open",
                    path,
                    refusal_of(&found, "unknown extension", ways),
                ))
            }
        }
    }

    /// Opens a folder of images. For a damaged image, the input reads zeros (see
    /// [`damaged`](Self::damaged)). It is still an error if the system cannot read an image, or if
    /// an image has another form than the other images.
    ///
    /// Errors of [`open`](Self::open). `InvalidValue` for an input that is not a folder of images.
    /// `Io` if the headers of all images are damaged.
    pub fn skipping_damaged(path: &Path) -> Result<Self> {
        refuse_stream(path)?;
        match of_input(&Found::at(path)?) {
            Some(format) if format.name() == PNG => {
                let (opened, damaged) = open_skipping(path)?;
                Self::of_opened(format, path, None, opened, None, Some(damaged))
            }
            _ => {
                let cause = "damaged images can be skipped only in a folder of PNG images";
                Err(file_error::refused("open", path, cause))
            }
        }
    }

    fn of_any(path: &Path, plain: Option<Plain>) -> Result<Self> {
        let (path, inner) = &split(path)?;
        let found = Found::at(path)?;
        match of_input(&found) {
            Some(format) => Self::of_format(format, path, inner.as_deref(), plain),
            None => {
                Err(file_error::refused("open", path, refusal_of(&found, UNKNOWN, PLAIN_BYTES)))
            }
        }
    }

    /// Opens the file of plain bytes at `path`.
    ///
    /// Errors of [`open`](Self::open). `InvalidValue` if the file has more or fewer bytes than
    /// `plain` describes.
    pub fn plain(path: &Path, plain: Plain) -> Result<Self> {
        if !plain.has_any_name() {
            return Self::of_any(path, Some(plain));
        }
        refuse_stream(path)?;
        Self::of_format(HEADERLESS, path, None, Some(plain))
    }

    fn of_format(
        format: &'static dyn Format,
        path: &Path,
        inner: Option<&str>,
        plain: Option<Plain>,
    ) -> Result<Self> {
        let opened = match inner {
            Some(inner) => format.open_inner(path, inner, plain.as_ref())?,
            None => format.open(path, plain.as_ref())?,
        };
        Self::of_opened(format, path, inner, opened, plain, None)
    }

    fn of_opened(
        format: &'static dyn Format,
        path: &Path,
        inner: Option<&str>,
        opened: Opened,
        plain: Option<Plain>,
        damaged: Option<Arc<DamagedImages>>,
    ) -> Result<Self> {
        let names = opened.items.iter().map(|item| item.name.clone());
        let names = names.filter(|name| !name.is_empty()).collect();
        let granule = opened.granule;
        let canonical = fs::canonicalize(path).map_err(|e| file_error::io("open", path, e))?;
        let stream = None;
        let slice = Slice { indices: None, array: opened.array.clone(), first_row: 0 };
        let header = plain.map_or(0, |plain| plain.header_bytes());
        let (path, inner) = (path.to_owned(), inner.map(str::to_owned));
        let (has_swapped_axes, is_as_stored) = (false, false);
        Ok(Self {
            path,
            canonical,
            inner,
            format,
            opened,
            header,
            slice,
            names,
            has_swapped_axes,
            granule,
            is_as_stored,
            damaged,
            stream,
            has_files: true,
        })
    }

    /// Whether the input is a [stream](Self::from_stream).
    #[must_use]
    pub fn is_stream(&self) -> bool {
        self.stream.is_some()
    }

    /// Refuses a stream, which is read in order.
    fn refuse_order(&self, what: &str) -> Result<()> {
        if !self.is_stream() {
            return Ok(());
        }
        let cause = format!("{what} cannot be read from a stream; use the name of a file");
        Err(file_error::refused("open", &self.path, cause))
    }

    /// Exchanges the first two axes: a stack of projections becomes a stack of sinograms. The array
    /// `[a, b, ...]` becomes `[b, a, ...]`, and rows are numbered in the new order. To be called
    /// before [`slice`](Self::slice).
    ///
    /// ```
    /// use trijet::Source;
    /// use trijet_io::{Array, Dtype, Input};
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("scan.raw");
    /// // Two images of three rows.
    /// std::fs::write(&path, [1, 2, 3, 4, 5, 6])?;
    /// let input = Input::open(&path, Some(Array::new(Dtype::U8, vec![2, 3, 1])?))?;
    /// let input = input.swap_first_axes()?;
    /// assert_eq!(input.array().shape(), [3, 2, 1]);
    /// let mut rows = [0; 6];
    /// input.read(0..6, &mut rows)?;
    /// assert_eq!(rows, [1, 4, 2, 5, 3, 6]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidValue` for an array with fewer than three axes, and for an input that can only be
    /// read by whole images or from its start, such as a folder of PNG images or a `.nii.gz` file.
    pub fn swap_first_axes(mut self) -> Result<Self> {
        self.refuse_order("exchanged axes")?;
        self.opened = swapped(self.opened).map_err(|e| e.context(shown(&self.path).to_string()))?;
        self.granule = self.opened.granule;
        self.slice = Slice { indices: None, array: self.opened.array.clone(), first_row: 0 };
        self.names = Vec::new();
        self.has_swapped_axes = true;
        Ok(self)
    }

    /// Whether the first two axes of the array are exchanged.
    pub(crate) fn has_swapped_axes(&self) -> bool {
        self.has_swapped_axes
    }

    /// Restricts the run to these indices of the first axis, which are images of a stack or rows of
    /// an image. Rows of the slice have the same numbers as before, and rows outside the slice can
    /// still be read. So a result that depends on neighbouring rows is the same as for the whole
    /// input. [`part`](Self::part) describes the slice.
    ///
    /// # Errors
    /// `InvalidValue` if the input does not have these indices, or if the range is empty.
    pub fn slice(mut self, indices: Range<u64>) -> Result<Self> {
        self.refuse_order("a slice")?;
        let array = self.array();
        let count = array.shape()[0];
        if indices.is_empty() || indices.end > count {
            let cause = format!(
                "the slice {}:{} is not a part of {array}: the start must be 0 to {}, and the end \
                 must be above the start and at most {count}",
                indices.start,
                indices.end,
                count.saturating_sub(1)
            );
            return Err(file_error::refused("open", &self.path, cause));
        }
        if indices == (0..count) {
            return Ok(self);
        }
        let first_row = array.layout().rows / count * indices.start;
        let mut shape = array.shape().to_vec();
        shape[0] = indices.end - indices.start;
        let array = Array::new(array.dtype(), shape)?;
        self.slice = Slice { indices: Some(indices), array, first_row };
        Ok(self)
    }

    /// The element type and shape of the whole input.
    #[must_use]
    pub fn array(&self) -> &Array {
        &self.opened.array
    }

    /// The element type and shape of the part that is processed, which is the whole input or a
    /// [`slice`](Self::slice).
    #[must_use]
    pub fn part(&self) -> &Array {
        &self.slice.array
    }

    /// The indices of the first axis that are processed. `None` for the whole input.
    pub(crate) fn indices(&self) -> Option<Range<u64>> {
        self.slice.indices.clone()
    }

    /// The first row that is processed.
    pub(crate) fn first_row(&self) -> u64 {
        self.slice.first_row
    }

    /// The number of header bytes before the data that the user has given for a file of plain
    /// bytes. Otherwise 0.
    pub(crate) fn header_bytes(&self) -> u64 {
        self.header
    }

    /// The file names of the images that are processed. Empty if the input is not a folder of
    /// images.
    pub(crate) fn names_of_part(&self) -> &[OsString] {
        let Some(Range { start, end }) = self.indices() else { return &self.names };
        let place = |index: u64| usize::try_from(index).unwrap_or(usize::MAX);
        self.names.get(place(start)..place(end)).unwrap_or(&[])
    }

    /// The format of the input.
    #[must_use]
    pub fn format(&self) -> &'static dyn Format {
        self.format
    }

    /// The path as it was given to [`open`](Self::open), without the path of an array inside.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The absolute path without symbolic links. This path is the same for all paths that lead to
    /// the input.
    #[must_use]
    pub fn canonical_path(&self) -> &Path {
        &self.canonical
    }

    /// The path of the array inside the file, without a slash at its start or end. `None` if the
    /// path that was given to [`open`](Self::open) has none.
    #[must_use]
    pub fn inner_path(&self) -> Option<&str> {
        self.inner.as_deref()
    }

    /// The files of the input in the order of their rows, with their states when the input was
    /// opened. All files have the same number of rows.
    #[must_use]
    pub fn items(&self) -> &[Item] {
        &self.opened.items
    }

    /// The file names of all images of a folder, in the order of the stack. Empty if the input is
    /// not a folder of images.
    #[must_use]
    pub fn names(&self) -> &[OsString] {
        &self.names
    }

    /// Texts about the parts of the input that are not in the array, and about the file names that
    /// are missing in a numbered sequence. Parts that are not in the array are images of other
    /// formats in a folder, frames of animations, ancillary chunks of PNG files, and pages of TIFF
    /// files after the first array.
    #[must_use]
    pub fn left_out(&self) -> &[String] {
        &self.opened.left_out
    }

    /// Facts about the array that the files of the input state.
    #[must_use]
    pub fn annotations(&self) -> &Annotations {
        &self.opened.annotations
    }

    /// The damaged images that were found so far in the part that is processed. The list is empty
    /// unless the input [skips damaged images](Self::skipping_damaged).
    #[must_use]
    pub fn damaged(&self) -> Vec<DamagedImage> {
        let rows = self.first_row()..self.first_row() + self.part().layout().rows;
        self.damaged
            .as_ref()
            .map_or_else(Vec::new, |damaged| damaged.among(&rows, self.opened.granule))
    }

    /// The list of the damaged images that were found so far. `None` if the input does not skip
    /// damaged images.
    pub(crate) fn skipped(&self) -> Option<Arc<DamagedImages>> {
        self.damaged.clone()
    }

    /// The number of rows at whose multiples chunks should start, so that no part of the input is
    /// decoded twice.
    #[must_use]
    pub fn whole_rows(&self) -> u64 {
        self.opened.whole_rows
    }

    /// Makes chunks start at multiples of `granule` rows. This is needed if the output accepts only
    /// whole granules ([`crate::Target::granule`]).
    ///
    /// # Panics
    /// If `granule` is not a multiple of the granule of the input's format.
    #[must_use]
    pub fn cut_at(mut self, granule: u64) -> Self {
        let own = self.opened.granule;
        assert!(
            granule > 0 && granule.is_multiple_of(own),
            "`granule` must be a multiple of the granule of the input"
        );
        self.granule = granule;
        self
    }

    /// The byte order of the elements in the file, for formats whose elements can be read as they
    /// are stored. Otherwise [`ByteOrder::Little`].
    #[must_use]
    pub fn byte_order(&self) -> ByteOrder {
        self.opened.reader.byte_order()
    }

    /// Makes reads keep the byte order [`byte_order`](Self::byte_order) of the elements. Without
    /// this call, the elements of rows are little-endian, whatever the file has. This is for a
    /// program that converts the elements on the device. The rows of both are the same job.
    #[must_use]
    pub fn as_stored(mut self) -> Self {
        self.is_as_stored = true;
        self
    }

    /// The paths of the files that must not be written while this input is read.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        if !self.has_files {
            return Vec::new();
        }
        let mut files = vec![self.path().to_owned()];
        files.extend(self.names().iter().map(|name| self.path().join(name)));
        files
    }
}

/// Refuses the path `-`, which means the standard input.
fn refuse_stream(path: &Path) -> Result<()> {
    if path == Path::new("-") {
        let cause = "standard input is not supported here; use the name of a file (./- for a file \
                     named -)";
        return Err(file_error::refused("open", path, cause));
    }
    Ok(())
}

/// Splits the path of an input into the path of a file or folder, and the path of an array inside
/// it.
fn split(path: &Path) -> Result<(PathBuf, Option<String>)> {
    refuse_stream(path)?;
    Ok(inner_path::split(path))
}

impl Source for Input {
    fn layout(&self) -> Layout {
        self.array().layout().granule(self.granule)
    }

    fn is_parallel(&self) -> bool {
        !self.is_stream() && self.opened.reader.is_parallel()
    }

    fn blocks(&self) -> Option<Blocks> {
        let Opened { whole_rows: rows, reader, .. } = &self.opened;
        (*rows > 1).then(|| Blocks { rows: *rows, count: reader.blocks_across() })
    }

    fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        let wanted = (rows.end - rows.start) * self.array().layout().row_bytes;
        assert_eq!(into.len() as u64, wanted, "the buffer must have the length of the rows");
        match self.is_as_stored {
            true => self.opened.reader.read_as_stored(rows, into),
            false => self.opened.reader.read(rows, into),
        }
    }
}
