//! The formats of the input: `.npy` arrays, raw files, and folders of PNG images.
//!
//! A damaged or unreadable file is an `Io` error; a sound one that is not taken is `InvalidValue`.

mod array;
mod flat;
pub(crate) mod images;
pub(crate) mod npy;
mod stamp;

pub use array::{Array, Dtype};
pub use stamp::Stamp;

use crate::fault;
use flat::Flat;
use images::Images;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use trijet::Result;
use trijet::pipeline::{Layout, Source};

// The bytes of a row are the elements of the kernels, without conversion.
const _: () = assert!(cfg!(target_endian = "little"), "all formats here are little-endian");

/// How an array is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One `.npy` file.
    Npy,
    /// One file of nothing but elements.
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

/// An opened input. Several threads may read it at once.
#[derive(Debug)]
pub struct Input {
    array: Array,
    kind: Kind,
    stamp: Stamp,
    granule: u64,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Flat(Flat),
    Images(Images),
}

/// Opens `path`: a folder holds images, `.npy` says what it holds, and for any other file `raw`
/// says it.
///
/// ```
/// use trijet::pipeline::Source;
/// use trijet_cli::format::{self, Array, Dtype};
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
/// `Io` for a file that cannot be read or is damaged. `InvalidValue` for one of a form that is not
/// taken, for a raw file without its array, and for an array given for a file that has its own.
pub fn open(path: &Path, raw: Option<Array>) -> Result<Input> {
    let metadata = fs::metadata(path).map_err(|error| fault::io("open", path, error))?;
    let kind = if metadata.is_dir() {
        Kind::Images
    } else if path.extension().is_some_and(|kind| kind.eq_ignore_ascii_case("npy")) {
        Kind::Npy
    } else {
        Kind::Raw
    };
    let (body, array, stamp) = match (kind, raw) {
        (Kind::Raw, Some(array)) => {
            let (flat, array, stamp) = Flat::raw(path, array)?;
            (Body::Flat(flat), array, stamp)
        }
        (Kind::Raw, None) => {
            let cause = "a raw file needs its shape and its dtype (--shape and --dtype)";
            return Err(fault::refused("open", path, cause));
        }
        (_, Some(_)) => {
            let cause = "it says its own shape and dtype: leave --shape and --dtype out";
            return Err(fault::refused("open", path, cause));
        }
        (Kind::Npy, None) => {
            let (flat, array, stamp) = Flat::npy(path)?;
            (Body::Flat(flat), array, stamp)
        }
        (Kind::Images, None) => {
            let (images, array, stamp) = Images::open(path)?;
            (Body::Images(images), array, stamp)
        }
    };
    let granule = match &body {
        Body::Flat(_) => 1,
        Body::Images(images) => images.granule(),
    };
    Ok(Input { array, kind, stamp, granule, body })
}

impl Input {
    /// What it holds.
    #[must_use]
    pub fn array(&self) -> &Array {
        &self.array
    }

    /// How it is stored.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Where it lies, as it was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.stamp.path
    }

    /// Its state when it was opened.
    #[must_use]
    pub fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    /// The file names of a folder of images, in the order of the stack; nothing otherwise.
    #[must_use]
    pub fn names(&self) -> &[OsString] {
        match &self.body {
            Body::Flat(_) => &[],
            Body::Images(images) => &images.names,
        }
    }

    /// Has chunks begin at multiples of `granule` rows, for an output that takes no less
    /// ([`crate::output::Target::granule`]).
    ///
    /// # Panics
    /// When `granule` is no multiple of the input's own.
    #[must_use]
    pub fn cut_at(mut self, granule: u64) -> Self {
        assert!(granule > 0 && granule.is_multiple_of(self.granule), "cuts inside an image");
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
        Layout { granule: self.granule, ..self.array.layout() }
    }

    fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        let wanted = (rows.end - rows.start) * self.array.layout().row_bytes;
        assert_eq!(into.len() as u64, wanted, "the buffer is as long as the rows");
        match &self.body {
            Body::Flat(flat) => flat.read(&rows, into),
            Body::Images(images) => images.read(&rows, into),
        }
    }
}
