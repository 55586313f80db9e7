//! The formats of the output, and the promise that a final name means a complete output.
//!
//! Rows go into `OUT.partial`, in any order, and `OUT.journal` notes which. `finish` renames the
//! partial output to `OUT` when no row is missing. An output that is dropped before stays as it is,
//! so that the run can be resumed.

mod flat;
pub(crate) mod images;
mod place;

use crate::fault;
use crate::format::npy::header_bytes;
use crate::format::{Array, Dtype, Input, Kind};
use crate::journal::{Fingerprint, Journal, Rows};
use flat::Flat;
use images::{Form, Images};
use place::Place;
use png::BitDepth;
use std::ffi::OsString;
use std::fs;
use std::ops::Range;
use std::path::Path;
use trijet::Result;
use trijet::pipeline::{Layout, Sink};

/// An output that may be written: where, what and how.
#[derive(Debug, Clone)]
pub struct Target {
    place: Place,
    array: Array,
    style: Style,
}

#[derive(Debug, Clone)]
enum Style {
    Npy,
    Raw,
    Images { form: Form, names: Vec<OsString> },
}

impl Target {
    /// The output of `array` at `path`. The name decides the format: `.npy`, a folder of images
    /// for a name without an extension, and raw for any other. Images keep the names of the
    /// input's.
    ///
    /// # Errors
    /// `InvalidValue` when something exists at `path`, when it is the input or lies inside of it,
    /// and when the array cannot be written in that format. `Io` when the folder of `path` is
    /// missing or cannot be read.
    pub fn new(path: &Path, array: Array, input: &Input) -> Result<Self> {
        let place = Place::new(path)?;
        place.check(input)?;
        let style = match place.out.extension() {
            Some(kind) if kind.eq_ignore_ascii_case("npy") => Style::Npy,
            Some(kind) if kind.eq_ignore_ascii_case("png") => {
                let cause = "images are written into a folder: give a name without .png";
                return Err(fault::refused("create", path, cause));
            }
            Some(_) => Style::Raw,
            None => images_style(path, &array, input.names())?,
        };
        Ok(Self { place, array, style })
    }

    /// The final name.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.place.out
    }

    /// What is written.
    #[must_use]
    pub fn array(&self) -> &Array {
        &self.array
    }

    /// The format.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self.style {
            Style::Npy => Kind::Npy,
            Style::Raw => Kind::Raw,
            Style::Images { .. } => Kind::Images,
        }
    }

    /// The rows of the output.
    #[must_use]
    pub fn layout(&self) -> Layout {
        Layout { granule: self.granule(), ..self.array.layout() }
    }

    /// Chunks must begin and end at multiples of this many rows: the height of an image for
    /// images, otherwise 1.
    #[must_use]
    pub fn granule(&self) -> u64 {
        match &self.style {
            Style::Npy | Style::Raw => 1,
            Style::Images { form, .. } => u64::from(form.height),
        }
    }

    fn header(&self) -> Vec<u8> {
        if matches!(self.style, Style::Npy) { header_bytes(&self.array) } else { Vec::new() }
    }

    fn create(&self) -> Result<Body> {
        let partial = &self.place.partial;
        let (bytes, row_bytes) = (self.array.bytes(), self.layout().row_bytes);
        match &self.style {
            Style::Npy | Style::Raw => {
                Flat::create(partial, &self.header(), bytes, row_bytes).map(Body::Flat)
            }
            Style::Images { form, names } => {
                Images::create(partial, names, *form).map(Body::Images)
            }
        }
    }

    fn reopen(&self, done: &Rows) -> Result<Option<Body>> {
        let partial = &self.place.partial;
        let (bytes, row_bytes) = (self.array.bytes(), self.layout().row_bytes);
        match &self.style {
            Style::Npy | Style::Raw => {
                let flat = Flat::reopen(partial, &self.header(), bytes, row_bytes)?;
                Ok(flat.map(Body::Flat))
            }
            Style::Images { form, names } => {
                let images = Images::reopen(partial, names, *form);
                let whole = images.filter(|images| {
                    let mut ranges = done.ranges().iter().map(|rows| self.images_of(rows));
                    ranges.all(|mut range| range.all(|index| images.has(index)))
                });
                Ok(whole.map(Body::Images))
            }
        }
    }

    fn images_of(&self, rows: &Range<u64>) -> Range<usize> {
        let index = |row: u64| usize::try_from(row / self.granule()).expect("an index of names");
        index(rows.start)..index(rows.end)
    }
}

fn images_style(path: &Path, array: &Array, names: &[OsString]) -> Result<Style> {
    let refused = |cause: String| Err(fault::refused("create", path, cause));
    let depth = match array.dtype() {
        Dtype::U8 => BitDepth::Eight,
        Dtype::U16 => BitDepth::Sixteen,
        Dtype::F32 => return refused(format!("{array} does not fit into PNG images: use .npy")),
    };
    let Some((width, height, count)) = array.image() else {
        return refused(format!("{array} is no image and no stack of images: use .npy"));
    };
    // PNG's own limit for a side.
    let side = |side: u64| u32::try_from(side).ok().filter(|side| (1..1 << 31).contains(side));
    let (Some(width), Some(height)) = (side(width), side(height)) else {
        return refused(format!("a PNG image cannot be {width}x{height}"));
    };
    let names = if names.len() as u64 == count {
        names.to_vec()
    } else {
        let digits = count.saturating_sub(1).to_string().len().max(6);
        (0..count).map(|n| OsString::from(format!("{n:0digits$}.png"))).collect()
    };
    Ok(Style::Images { form: Form { width, height, depth }, names })
}

/// Where a run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At the first row, whatever an earlier run left.
    Over,
    /// After what an earlier run left, if it left anything.
    Resume,
}

/// An output being written.
///
/// ```
/// use trijet::pipeline::Sink;
/// use trijet_cli::format::{self, Array, Dtype};
/// use trijet_cli::journal::Fingerprint;
/// use trijet_cli::output::{Output, Start, Target};
/// let folder = tempfile::tempdir()?;
/// std::fs::write(folder.path().join("in.raw"), [1, 2, 3, 4])?;
/// let array = Array::new(Dtype::U8, vec![2, 2])?;
/// let input = format::open(&folder.path().join("in.raw"), Some(array.clone()))?;
/// let target = Target::new(&folder.path().join("out.raw"), array, &input)?;
/// let run = Fingerprint::new(&input, "copy", &target);
/// let mut output = Output::open(&target, &run, Start::Over)?;
/// output.write(0..1, &[1, 2])?;
/// drop(output);
/// let mut output = Output::open(&target, &run, Start::Resume)?;
/// assert_eq!(output.missing(), [1..2]);
/// output.write(1..2, &[3, 4])?;
/// output.finish()?;
/// assert_eq!(std::fs::read(target.path())?, [1, 2, 3, 4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Output {
    target: Target,
    body: Body,
    journal: Journal,
    done: Rows,
}

#[derive(Debug)]
enum Body {
    Flat(Flat),
    Images(Images),
}

impl Output {
    /// Begins to write `target`, or goes on. A partial output without its journal starts over, and
    /// so does a journal without its partial output.
    ///
    /// # Errors
    /// `InvalidValue` when what is resumed belongs to another run, and when another run is writing
    /// the same output. `Io` when a file cannot be created.
    pub fn open(target: &Target, fingerprint: &Fingerprint, start: Start) -> Result<Self> {
        let mut journal = Journal::lock(&target.place.journal)?;
        if start == Start::Resume
            && let Some(done) = journal.resume(fingerprint)?
            && let Some(body) = target.reopen(&done)?
        {
            return Ok(Self { target: target.clone(), body, journal, done });
        }
        // Until the header stands there is nothing to resume, so no old journal can describe a new
        // partial output.
        journal.clear()?;
        let body = match target.create() {
            Ok(body) => body,
            Err(error) => {
                // An empty journal is not worth keeping, but the first error is worth more.
                return match journal.remove() {
                    Ok(()) => Err(error),
                    Err(second) => Err(error.context(second.to_string())),
                };
            }
        };
        journal.create(fingerprint)?;
        Ok(Self { target: target.clone(), body, journal, done: Rows::default() })
    }

    /// The rows that are written already, by this run or an earlier one.
    #[must_use]
    pub fn done(&self) -> &Rows {
        &self.done
    }

    /// The rows that are still to be written, in order.
    #[must_use]
    pub fn missing(&self) -> Vec<Range<u64>> {
        self.done.missing(self.target.layout().rows)
    }
}

impl Sink for Output {
    fn write(&mut self, rows: Range<u64>, bytes: &[u8]) -> Result<()> {
        let layout = self.target.layout();
        assert!(rows.start <= rows.end && rows.end <= layout.rows, "rows outside of the output");
        let wanted = (rows.end - rows.start) * layout.row_bytes;
        assert_eq!(bytes.len() as u64, wanted, "the bytes are as many as the rows");
        if rows.is_empty() {
            return Ok(());
        }
        match &self.body {
            Body::Flat(flat) => flat.write(rows.start, bytes)?,
            Body::Images(images) => {
                let whole = rows.start.is_multiple_of(layout.granule)
                    && rows.end.is_multiple_of(layout.granule);
                assert!(whole, "images are written whole: see `Target::granule`");
                images.write(self.target.images_of(&rows).start, bytes)?;
            }
        }
        self.journal.append(&rows)?;
        self.done.insert(rows);
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        let place = &self.target.place;
        if let Some(rows) = self.missing().first() {
            let cause = format!("rows {} to {} were never written", rows.start, rows.end);
            return Err(fault::damaged("finish", &place.partial, cause));
        }
        // Somebody may have taken the name since the run began.
        place.check_free()?;
        fs::rename(&place.partial, &place.out)
            .map_err(|error| fault::io("finish", &place.out, error))?;
        self.journal.remove()
    }
}
