//! The contract of a file format.

use super::ahead::Ahead;
use crate::annotations::Annotations;
use crate::array::Array;
use crate::byte_order::ByteOrder;
use crate::file_error;
use crate::item::Item;
use crate::plain::Plain;
use crate::rows::Rows;
use rustix::fs::OFlags;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use trijet::{Error, Result};

/// A file format. The documentation of the crate lists the laws that every implementation obeys.
pub trait Format: fmt::Debug + Sync {
    /// The name of the format in messages and journals.
    fn name(&self) -> &'static str;

    /// Whether an input is of this format.
    fn claims_input(&self, found: &Found<'_>) -> bool;

    /// Whether an output with this name is of this format.
    fn claims_output(&self, path: &Path) -> bool;

    /// Opens the input at `path`. `plain` is the description of the array, if the user has given
    /// one.
    ///
    /// `Io` for a file that cannot be read or is damaged. `InvalidValue` for a file that is not
    /// supported, for a format that needs a description if `plain` is `None`, and for a format that
    /// has its own description if `plain` is `Some`.
    fn open(&self, path: &Path, plain: Option<&Plain>) -> Result<Opened>;

    /// Opens the array `inner` of the input at `path`. `inner` is the text after `::` in the path
    /// of an input, such as `entry/data` for `scan.h5::/entry/data`.
    ///
    /// # Errors
    /// Errors of [`open`](Self::open). `InvalidValue` for a format whose files have one array.
    fn open_inner(&self, path: &Path, inner: &str, _plain: Option<&Plain>) -> Result<Opened> {
        let cause =
            format!("a {} input has one array, without a path; remove ::/{inner}", self.name());
        Err(file_error::refused("open", path, cause))
    }

    /// Prepares an output of `array` at `path`, and writes nothing. `names` are the file names of
    /// the input's images. Only a format with several files uses `names`. `annotations` are facts
    /// about the array, which the output keeps if the format has a place for them (see
    /// [`Plan::left_out`]).
    ///
    /// # Errors
    /// `InvalidValue` for an array that the format cannot hold.
    fn plan(
        &self,
        path: &Path,
        array: &Array,
        names: &[OsString],
        annotations: &Annotations,
    ) -> Result<Arc<dyn Plan>>;
}

/// The facts about an input that are known before a format opens it.
#[derive(Debug, Clone)]
pub struct Found<'a> {
    /// The path of the input.
    pub path: &'a Path,
    /// Whether the input is a folder.
    pub is_folder: bool,
    /// The first bytes of a regular file, enough to distinguish formats. Empty for anything else.
    pub start: Vec<u8>,
}

/// Maximum length of `Found::start`.
const START_BYTES: u64 = 352;

impl<'a> Found<'a> {
    /// Reads the facts about the input at `path`.
    ///
    /// # Errors
    /// `Io` when the input does not exist or cannot be read.
    pub fn at(path: &'a Path) -> Result<Self> {
        let io = |error| file_error::io("open", path, error);
        let metadata = fs::metadata(path).map_err(io)?;
        let mut start = Vec::new();
        // Opening a pipe would wait for a program that writes to the pipe.
        if metadata.is_file() {
            let file = File::open(path).map_err(io)?;
            file.take(START_BYTES).read_to_end(&mut start).map_err(io)?;
        }
        Ok(Self { path, is_folder: metadata.is_dir(), start })
    }

    /// Whether the file name has this extension, in upper or lower case.
    #[must_use]
    pub fn has_extension(&self, extension: &str) -> bool {
        has_extension(self.path, extension)
    }
}

/// Whether the file name of `path` has this extension, in upper or lower case.
pub(super) fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found.eq_ignore_ascii_case(extension))
}

/// Whether a path ends with a slash or `/.`, and so means a folder.
pub(super) fn names_folder(path: &Path) -> bool {
    let path = path.as_os_str().as_encoded_bytes();
    path.ends_with(b"/") || path.ends_with(b"/.")
}

/// An open input.
#[derive(Debug)]
pub struct Opened {
    /// The array that the input holds.
    pub array: Array,
    /// The granule of reads: a read starts and ends at multiples of this number of rows.
    pub granule: u64,
    /// The number of rows at whose multiples reads should start and end, so that no part of the
    /// files is decoded twice. A multiple of the granule. It need not divide the number of rows.
    pub whole_rows: u64,
    /// The files of the input, in the order of their rows. All files have the same number of rows.
    pub items: Vec<Item>,
    /// The parts of the input that are not in the array, and the file names that are missing in a
    /// numbered sequence. Each text is a part of a sentence for a message.
    pub left_out: Vec<String>,
    /// Facts about the array that the files state.
    pub annotations: Annotations,
    /// The reader of the rows of the input.
    pub reader: Box<dyn Reader>,
}

/// Reads the rows of an open input, from several threads at once.
pub trait Reader: fmt::Debug + Send + Sync {
    /// Reads `rows` into the buffer `into`, which has the length of these rows. `rows` start and
    /// end at multiples of the granule. The elements of the rows are little-endian, in C order.
    ///
    /// # Errors
    /// `Io` for a file that cannot be read or is damaged.
    fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()>;

    /// Whether several parts of a chunk are read at once, in any order. If not, the parts of a run
    /// are read one after another, because the reader decodes its files from their start.
    fn is_parallel(&self) -> bool {
        true
    }

    /// The number of blocks that have the same rows, where a block is decoded as a whole. A read
    /// decodes them in parallel.
    fn blocks_across(&self) -> u64 {
        1
    }

    /// The byte order of the elements that [`read_as_stored`](Self::read_as_stored) gives.
    fn byte_order(&self) -> ByteOrder {
        ByteOrder::Little
    }

    /// Reads `rows` as [`read`](Self::read) does, but with the elements in the byte order
    /// [`byte_order`](Self::byte_order). A format whose files are big-endian leaves out the
    /// conversion.
    ///
    /// # Errors
    /// Errors of [`read`](Self::read).
    fn read_as_stored(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        self.read(rows, into)
    }
}

/// A planned output. [`Plan::create`], [`Plan::reuse`] or [`Plan::reopen`] makes the writer of its
/// rows.
pub trait Plan: fmt::Debug + Send + Sync {
    /// The granule of writes: a write starts and ends at multiples of this number of rows.
    fn granule(&self) -> u64;

    /// The size of the complete output in bytes, if it is known before the output is written.
    fn bytes(&self) -> Option<u64> {
        None
    }

    /// The annotations that the output does not keep. Each text is a part of a sentence
    /// for a message, for example `the pixel size`.
    fn left_out(&self) -> Vec<String> {
        Vec::new()
    }

    /// Starts to create the pages of a new output in `folder`. If the returned value is dropped
    /// without a call of [`create`](Self::create), the pages are deleted. `waits_for_disk` states
    /// whether the run brings rows to the disk while it writes other rows. `None` if this is not
    /// possible, or would not make the run faster.
    fn begin_ahead(&self, _folder: &Path, _waits_for_disk: bool) -> Option<Ahead> {
        None
    }

    /// Creates the partial output at `partial`, where nothing exists. `ahead` is the result of
    /// [`begin_ahead`](Self::begin_ahead). After an error, no file remains.
    ///
    /// # Errors
    /// `Io`.
    fn create(&self, partial: &Path, ahead: Option<Ahead>) -> Result<Box<dyn Writer>>;

    /// Checks whether [`reuse`](Self::reuse) could write over the output at `path`. If nothing is
    /// at `path`, the check succeeds.
    ///
    /// `InvalidValue` if something else than an output of this format is at `path`. `Io`.
    fn check_reuse(&self, path: &Path) -> Result<()>;

    /// Opens the complete output of an earlier run to write all of its rows again. The output now
    /// has the path `partial`. This function changes nothing; [`Writer::reset`] is the first
    /// change.
    ///
    /// # Errors
    /// Errors of [`check_reuse`](Self::check_reuse).
    fn reuse(&self, partial: &Path) -> Result<Box<dyn Writer>>;

    /// Opens the partial output of an earlier run.
    ///
    /// # Errors
    /// `Io` if the partial output cannot have the rows `done`. The format checks this without
    /// reading the rows.
    fn reopen(&self, partial: &Path, done: &Rows) -> Result<Box<dyn Writer>>;

    /// Checks whether [`discard`](Self::discard) can delete the partial output at `partial`.
    ///
    /// # Errors
    /// `InvalidValue` when `partial` is, or contains, something else than a partial output. `Io`.
    fn check_discard(&self, partial: &Path) -> Result<()>;

    /// Deletes the partial output of an earlier run, if there is one.
    ///
    /// # Errors
    /// Errors of [`check_discard`](Self::check_discard). After such an error, nothing is changed.
    /// `Io` if a file cannot be deleted.
    fn discard(&self, partial: &Path) -> Result<()>;
}

/// Writes the rows of a partial output, in any order and from several threads at once.
pub trait Writer: fmt::Debug + Send + Sync {
    /// Writes `rows`, which start and end at multiples of the granule. Rows that were written
    /// before are replaced. No two threads write the same rows at the same time.
    ///
    /// # Errors
    /// `Io`.
    fn write(&self, rows: Range<u64>, bytes: &[u8]) -> Result<()>;

    /// Leaves out `rows`, which start and end at multiples of the granule. If an earlier run has
    /// written these rows, they are discarded. A format with one file writes `zeros` instead, which
    /// has the length of the rows.
    ///
    /// # Errors
    /// `Io`.
    fn leave_out(&self, rows: Range<u64>, zeros: &[u8]) -> Result<()> {
        self.write(rows, zeros)
    }

    /// Limits the memory that the writer uses in addition to the rows to `_bytes` bytes. Called
    /// before the first row is written.
    fn limit_memory(&self, _bytes: u64) {}

    /// States that other processes, which may run on other machines, may write rows of this output
    /// at the same time, even the same rows with the same bytes. From then on, the writer changes
    /// no byte outside of the rows that it is given, and it replaces a file as a whole. Called
    /// before the first row is written.
    fn share(&self);

    /// Restores everything in a reused output except its rows, for example the length and the
    /// header of the file.
    ///
    /// # Errors
    /// `Io`.
    fn reset(&self) -> Result<()> {
        Ok(())
    }

    /// Reads `rows` into the buffer `into`, which has the length of these rows. `rows` start and
    /// end at multiples of the granule, and were written before. Several threads may read at once.
    ///
    /// # Errors
    /// `Io` for a file that cannot be read or is damaged.
    fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()>;

    /// The open file or folder that is the partial output. It stays the same if the partial output
    /// is renamed.
    fn root(&self) -> &File;

    /// Waits until everything that was written before this call is on the disk, including the names
    /// of the files in the output. Other threads may write during this call.
    ///
    /// `Io`. After an error, the rows that were written since the last successful call may be lost,
    /// even if a later call succeeds.
    fn sync(&self) -> Result<()>;

    /// Closes files that are open only for [`sync`](Self::sync). Nothing may be written after this
    /// call.
    fn close(&self) {}

    /// Checks that a partial output to which all rows were written is a complete output.
    ///
    /// `InvalidValue` if the partial output contains something that does not belong to it. `Io`.
    fn check_complete(&self) -> Result<()>;
}

/// Refuses a description of the array that the user has given, because the files of the format
/// describe the array.
pub(super) fn refuse_description(path: &Path, plain: Option<&Plain>) -> Result<()> {
    if plain.is_some() {
        let cause = "the file defines its own shape and dtype; remove --shape and --dtype";
        return Err(file_error::refused("open", path, cause));
    }
    Ok(())
}

/// The flag with which opening a symbolic link fails.
pub(crate) const NOFOLLOW: i32 = OFlags::NOFOLLOW.bits().cast_signed();

/// The reason to refuse a path at which there is something that is not a partial output.
pub(super) const NOT_PARTIAL: &str = "is not a partial output of this job; move it elsewhere";

/// The error for a partial output in which rows are missing that an earlier run had written.
pub(super) fn lost(path: &Path, cause: impl fmt::Display) -> Error {
    let cause = format!("{cause}; --restart discards the partial output and starts over");
    file_error::damaged("resume", path, cause)
}

/// Checks a file of a partial output before its bytes are replaced. Refuses a file that is not a
/// regular file. Also refuses a file with a second name, because the second name may belong to a
/// backup.
pub(super) fn check_own(op: &'static str, path: &Path, state: &Metadata) -> Result<()> {
    if !state.is_file() {
        return Err(file_error::refused(op, path, NOT_PARTIAL));
    }
    if state.nlink() != 1 {
        let cause = "the file has a second name (a hard link), and would change under both names; \
                     replace the file by a copy";
        return Err(file_error::refused(op, path, cause));
    }
    Ok(())
}

/// The state of the file or folder at `path`. If `path` is a symbolic link, the state of the link.
/// `None` if nothing is at `path`.
pub(crate) fn state_of(op: &'static str, path: &Path) -> Result<Option<Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(file_error::io(op, path, error)),
    }
}

/// Whether `path` is the open file or folder `file`, and not a symbolic link.
pub(crate) fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let opened = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(named) => Ok((named.dev(), named.ino()) == (opened.dev(), opened.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Waits until the file names in a folder are on the disk. If the file system does not support this
/// call, the function does nothing, because such file systems bring names to the disk in another
/// way.
pub(crate) fn sync_folder(folder: &File) -> io::Result<()> {
    match folder.sync_all() {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        done => done,
    }
}

/// Opens a regular file. The kind of the file is checked first, because opening a pipe would wait
/// for a program that writes to the pipe.
pub(super) fn open_regular(path: &Path) -> Result<(File, Metadata)> {
    let metadata = fs::metadata(path).map_err(|error| file_error::io("open", path, error))?;
    if metadata.is_dir() {
        return Err(file_error::refused("open", path, "is a folder"));
    }
    if !metadata.is_file() {
        return Err(file_error::refused("open", path, "is not a regular file"));
    }
    let file = File::open(path).map_err(|error| file_error::io("open", path, error))?;
    let metadata = file.metadata().map_err(|error| file_error::io("open", path, error))?;
    Ok((file, metadata))
}
