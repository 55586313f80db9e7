//! The description of an output: its path, its array and its format.

use super::place::Place;
use super::shard::Shard;
use crate::array::Array;
use crate::file_error;
use crate::format::promise::by_name;
use crate::format::{Format, HEADERLESS, Plan, of_output};
use crate::input::Input;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use trijet::pipeline::Layout;
use trijet::{ErrorKind, Result};

/// The description of an output. Nothing is written before [`Output::open`](crate::Output::open).
#[derive(Debug, Clone)]
pub struct Target {
    pub(crate) place: Place,
    array: Array,
    /// The number of the output's row 0 within the results of the whole input.
    first_row: u64,
    /// The number of rows of the results of one index of the input's first axis.
    rows_per_index: u64,
    format: &'static dyn Format,
    pub(crate) plan: Arc<dyn Plan>,
    /// Texts about the annotations of the input that the output does not have.
    left_out: Vec<String>,
    shard: Option<Shard>,
    /// The parts of the processes begin at multiples of this number of rows.
    shard_granule: u64,
    pub(super) overwrites: bool,
}

impl Target {
    /// Describes an output of `array` at `path`. If the input is a slice, `array` are the results
    /// of the slice, with the same number of rows for each index of the first axis. The name
    /// determines the format. `.npy` is an `.npy` file. `.tif`, `.tiff`, `.btf` and `.tf8` are TIFF
    /// files. `.zarr` is a Zarr array. `.raw`, `.bin` and `.dat` are files of plain bytes. A name
    /// without an
    /// extension, or with a slash at the end, is a folder of images. The images get the file names
    /// of the input's images.
    ///
    /// # Errors
    /// `InvalidValue` for any other extension, if `path` is the input or lies inside it, or if the
    /// format cannot hold the array. `Io` if the folder of `path` is missing or cannot be read.
    pub fn new(path: &Path, array: Array, input: &Input) -> Result<Self> {
        Self::of_format(format_of(path)?, path, array, input)
    }

    /// Refuses a name that does not determine a format for [`new`](Self::new).
    ///
    /// # Errors
    /// `InvalidValue`.
    pub fn check_name(path: &Path) -> Result<()> {
        format_of(path).map(drop)
    }

    /// Describes an output as [`new`](Self::new) does. But a name that determines no format is a
    /// file of plain bytes.
    ///
    /// # Errors
    /// Errors of [`new`](Self::new).
    pub fn or_headerless(path: &Path, array: Array, input: &Input) -> Result<Self> {
        Self::of_format(of_output(path).unwrap_or(HEADERLESS), path, array, input)
    }

    fn of_format(
        format: &'static dyn Format,
        path: &Path,
        array: Array,
        input: &Input,
    ) -> Result<Self> {
        let place = Place::new(path)?;
        place.check(input)?;
        let indices = input.indices();
        let mut annotations = input.annotations().of_results(input.part(), &array);
        if indices.is_some() {
            annotations.ome_xml = None;
        }
        let mut left_out = input.annotations().missing_in(&annotations);
        let plan = format.plan(path, &array, input.names_of_part(), &annotations)?;
        left_out.extend(plan.left_out());
        left_out.dedup();
        let count = input.part().shape()[0];
        let rows_per_index = array.layout().rows / count.max(1);
        let first_row = indices.map_or(0, |indices| indices.start * rows_per_index);
        let whole = input.array().shape()[0].saturating_mul(rows_per_index);
        let granule = plan.granule();
        if !first_row.is_multiple_of(granule) || !whole.is_multiple_of(granule) {
            let cause = "a slice of one image cannot be written as an image; use .npy";
            return Err(file_error::refused("create", path, cause));
        }
        let (shard, overwrites) = (None, false);
        Ok(Self {
            place,
            array,
            first_row,
            rows_per_index,
            format,
            plan,
            left_out,
            shard,
            shard_granule: 1,
            overwrites,
        })
    }

    /// Refuses an output that exists or that cannot be overwritten. [`crate::Output::open`] also
    /// refuses such an output. This function is for a program that has much work to do before it
    /// opens the output.
    ///
    /// # Errors
    /// `InvalidValue` if something that must not be overwritten exists at the final path. `Io` if
    /// the state of that path cannot be read.
    pub fn check_free(&self) -> Result<()> {
        if self.overwrites {
            // The second name is the name of the partial output. The run discards the partial
            // output, so the output loses only this name.
            return match self.place.has_both_names() {
                true => Ok(()),
                false => self.plan.check_reuse(&self.place.out),
            };
        }
        let is_free = self.place.check_free();
        match self.shard {
            Some(_) => is_free,
            None => is_free.map_err(|error| match error.kind() {
                ErrorKind::InvalidValue => {
                    let cause = "already exists; use --overwrite to write over it";
                    file_error::refused("create", &self.place.out, cause)
                }
                _ => error,
            }),
        }
    }

    /// Allows writing over an existing output of the same format at the final path. The new output
    /// reuses the pages of the existing output, which is faster than creating new pages. The output
    /// loses its final name at the first row, and gets it back after the last row. A run that is
    /// interrupted in between can be resumed, but the old rows are lost.
    ///
    /// # Panics
    /// If the target describes the part of one of several processes.
    #[must_use]
    pub fn overwrite(mut self) -> Self {
        assert!(self.shard.is_none(), "an output of several processes cannot be written over");
        self.overwrites = true;
        self
    }

    /// Keeps the partial output and all other files of the job in the folder `state` instead of
    /// the folder of the output. A job whose output has another path each time it is started, with
    /// the same file name, is continued from there.
    ///
    /// # Errors
    /// `InvalidValue` if `state` is on another file system than the output. `Io`.
    ///
    /// # Panics
    /// If the target already describes the part of a process, or has claims.
    pub fn in_state(mut self, state: &Path) -> Result<Self> {
        let is_whole = self.shard.is_none() && self.place.claims.is_none();
        assert!(is_whole, "the folder of the state is chosen first");
        self.place = self.place.in_state(Some(state))?;
        Ok(self)
    }

    /// Describes an output that any number of processes write together, for
    /// [`ClaimedOutput`](crate::ClaimedOutput). Ranges of rows begin at multiples of `granule`
    /// rows. All processes pass the same number.
    ///
    /// # Panics
    /// If the target describes the part of a process, or allows overwriting, and if `granule` is
    /// not a multiple of [`granule`](Self::granule).
    #[must_use]
    pub fn with_claims(mut self, granule: u64) -> Self {
        assert!(self.shard.is_none(), "the target describes a fixed part of the output");
        assert!(!self.overwrites, "an output of several processes cannot be written over");
        assert!(
            granule > 0 && granule.is_multiple_of(self.granule()),
            "`granule` must be a multiple of the granule of the output"
        );
        self.place = self.place.with_claims();
        self.shard_granule = granule;
        self
    }

    /// The number of rows at whose multiples ranges begin.
    pub(crate) fn claim_granule(&self) -> u64 {
        self.shard_granule
    }

    /// Describes the part of the output that one of several processes writes. The process that
    /// finishes last gives the output its final name. The parts begin at multiples of `granule`
    /// rows, so that the granules that a job computes whole are of one process. All processes pass
    /// the same number.
    ///
    /// # Panics
    /// If the target already describes the part of a process, or allows overwriting, and if
    /// `granule` is not a multiple of [`granule`](Self::granule).
    #[must_use]
    pub fn of_shard(mut self, shard: Shard, granule: u64) -> Self {
        assert!(self.shard.is_none(), "the target already describes a part of an output");
        assert!(
            granule > 0 && granule.is_multiple_of(self.granule()),
            "`granule` must be a multiple of the granule of the output"
        );
        assert!(!self.overwrites, "an output of several processes cannot be written over");
        self.place = self.place.of_shard(shard);
        (self.shard, self.shard_granule) = (Some(shard), granule);
        self
    }

    /// The process for which this target describes a part. `None` if one process writes the whole
    /// output.
    #[must_use]
    pub fn shard(&self) -> Option<Shard> {
        self.shard
    }

    /// The rows of the output that this run writes.
    #[must_use]
    pub fn rows(&self) -> Range<u64> {
        let layout = self.layout();
        let cut = layout.granule(self.shard_granule);
        self.shard.map_or(0..layout.rows, |shard| shard.rows(cut))
    }

    /// The numbers of the [rows](Self::rows) that this run writes, within the results of the whole
    /// input. For an output of a [slice](Input::slice), these numbers start at the first row of the
    /// slice. Without a slice, they are the numbers of the rows in the output.
    #[must_use]
    pub fn rows_of_whole(&self) -> Range<u64> {
        let rows = self.rows();
        self.first_row + rows.start..self.first_row + rows.end
    }

    /// The rows of a part of the output, counted from its first row.
    ///
    /// # Panics
    /// If the rows are not rows of the output, or `bytes` has another length than they have.
    pub(crate) fn part(&self, rows: &Range<u64>, bytes: &[u8]) -> Range<u64> {
        let (layout, first) = (self.layout(), self.first_row());
        let is_own = first <= rows.start && rows.start <= rows.end;
        assert!(is_own && rows.end - first <= layout.rows, "the rows must be rows of the output");
        let wanted = (rows.end - rows.start) * layout.row_bytes;
        assert_eq!(bytes.len() as u64, wanted, "the bytes must have the length of the rows");
        rows.start - first..rows.end - first
    }

    /// The number of the output's row 0 within the results of the whole input.
    pub(crate) fn first_row(&self) -> u64 {
        self.first_row
    }

    /// The number of rows of the results of one index of the input's first axis, for example of one
    /// image of a stack.
    pub(crate) fn rows_per_index(&self) -> u64 {
        self.rows_per_index
    }

    /// The final path of the output.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.place.out
    }

    /// The array that the complete output has.
    #[must_use]
    pub fn array(&self) -> &Array {
        &self.array
    }

    /// Texts about the [annotations](Input::annotations) of the input that the output does not
    /// have, because they do not hold for its array or because the format has no place for them.
    /// Each is a part of a sentence for a message.
    #[must_use]
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// The format of the output.
    #[must_use]
    pub fn format(&self) -> &'static dyn Format {
        self.format
    }

    /// Whether the files of the output have a description of their array. Files of plain bytes have
    /// none.
    #[must_use]
    pub fn has_header(&self) -> bool {
        self.format.name() != HEADERLESS.name()
    }

    /// The layout of the rows of the output.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.array.layout().granule(self.granule())
    }

    /// The number of rows of a granule. A chunk must start and end at multiples of this number. The
    /// number is the height of an image for images, and otherwise 1.
    #[must_use]
    pub fn granule(&self) -> u64 {
        self.plan.granule()
    }
}

fn format_of(path: &Path) -> Result<&'static dyn Format> {
    of_output(path).ok_or_else(|| file_error::refused("create", path, unknown_output(path)))
}

/// The message for an output whose name no format claims.
fn unknown_output(path: &Path) -> String {
    let what = match by_name(path) {
        Some("PNG") => {
            return "images are written to a folder: use a name without .png, or one that ends with a slash"
                .to_owned();
        }
        Some(name) => {
            format!("the name has the extension of {name} files, which cannot be written")
        }
        None => "unknown extension".to_owned(),
    };
    format!(
        "{what}; use .npy, .tif, .h5, .zarr, .mrc, a folder of images (a name without extension, or one that ends with a slash), or \
         plain bytes (.raw, .bin, .dat, or any name with --raw)"
    )
}
