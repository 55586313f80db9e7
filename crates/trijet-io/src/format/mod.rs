//! Input formats: `.npy` arrays, raw files, and folders of PNG images.
//!
//! A damaged or unreadable file is an `Io` error; an intact file that is not supported is
//! `InvalidValue`.

mod array;
mod flat;
pub(crate) mod images;
pub(crate) mod npy;
mod state;

pub use array::{Array, Dtype};
pub use state::InputState;

use crate::file_error;
use flat::Flat;
use images::Images;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use trijet::pipeline::Layout;
use trijet::{Result, Source};

// Kernels take the bytes of a row as their elements, without conversion.
const _: () = assert!(cfg!(target_endian = "little"), "all formats here are little-endian");

/// How an array is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One `.npy` file.
    Npy,
    /// One file that holds the elements and nothing else.
    Raw,
    /// A folder of PNG images.
    Images,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Npy => "npy",
            Self::Raw => "raw",
            Self::Images => "png",
        })
    }
}

/// An open input. Several threads may read it at once.
#[derive(Debug)]
pub struct Input {
    array: Array,
    kind: Kind,
    state: InputState,
    granule: u64,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Flat(Flat),
    Images(Images),
}

/// Opens the input at `path`. A folder holds images, and an `.npy` file describes its own array.
/// For any other file, `raw` describes the array.
///
/// ```
/// use trijet::Source;
/// use trijet_io::format::{self, Array, Dtype};
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("scan.raw");
/// std::fs::write(&path, [1, 0, 2, 0, 3, 0])?;
/// let input = format::open(&path, Some(Array::new(Dtype::U16, vec![3])?))?;
/// let mut rows = [0; 4];
/// input.read(1..3, &mut rows)?;
/// assert_eq!(rows, [2, 0, 3, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// `Io` for a file that cannot be read or is damaged. `InvalidValue` for a format that is not
/// supported, for a raw file if `raw` is missing, and for any other file if `raw` is given.
pub fn open(path: &Path, raw: Option<Array>) -> Result<Input> {
    let metadata = fs::metadata(path).map_err(|error| file_error::io("open", path, error))?;
    let kind = if metadata.is_dir() {
        Kind::Images
    } else if path.extension().is_some_and(|kind| kind.eq_ignore_ascii_case("npy")) {
        Kind::Npy
    } else {
        Kind::Raw
    };
    let (body, array, state) = match (kind, raw) {
        (Kind::Raw, Some(array)) => {
            let (flat, array, state) = Flat::raw(path, array)?;
            (Body::Flat(flat), array, state)
        }
        (Kind::Raw, None) => {
            let cause = "a raw file needs --shape and --dtype";
            return Err(file_error::refused("open", path, cause));
        }
        (_, Some(_)) => {
            let cause = "the file defines its own shape and dtype; remove --shape and --dtype";
            return Err(file_error::refused("open", path, cause));
        }
        (Kind::Npy, None) => {
            let (flat, array, state) = Flat::npy(path)?;
            (Body::Flat(flat), array, state)
        }
        (Kind::Images, None) => {
            let (images, array, state) = Images::open(path)?;
            (Body::Images(images), array, state)
        }
    };
    let granule = match &body {
        Body::Flat(_) => 1,
        Body::Images(images) => images.granule(),
    };
    Ok(Input { array, kind, state, granule, body })
}

impl Input {
    /// The element type and shape.
    #[must_use]
    pub fn array(&self) -> &Array {
        &self.array
    }

    /// The format.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The path as it was given to [`open`].
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.state.path
    }

    /// The state of the input when it was opened.
    #[must_use]
    pub fn state(&self) -> &InputState {
        &self.state
    }

    /// The file names of a folder of images, in the order of the stack; empty for other formats.
    #[must_use]
    pub fn names(&self) -> &[OsString] {
        match &self.body {
            Body::Flat(_) => &[],
            Body::Images(images) => &images.names,
        }
    }

    /// Makes chunks begin at multiples of `granule` rows, for an output that takes only whole ones
    /// ([`crate::output::Target::granule`]).
    ///
    /// # Panics
    /// When `granule` is not a multiple of the input's own granule.
    #[must_use]
    pub fn cut_at(mut self, granule: u64) -> Self {
        assert!(granule > 0 && granule.is_multiple_of(self.granule), "a chunk of whole images");
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

impl Source for Input {
    fn layout(&self) -> Layout {
        self.array.layout().granule(self.granule)
    }

    fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        let wanted = (rows.end - rows.start) * self.array.layout().row_bytes;
        assert_eq!(into.len() as u64, wanted, "the buffer has the length of the rows");
        match &self.body {
            Body::Flat(flat) => flat.read(&rows, into),
            Body::Images(images) => images.read(&rows, into),
        }
    }
}
