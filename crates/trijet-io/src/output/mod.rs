//! Output files. A file or folder with the final name is always complete.
//!
//! Rows are written to `OUT.partial`, in any order, and `OUT.journal` lists them. `finish` renames
//! the partial output to `OUT` when no row is missing. An output that is dropped before stays on
//! the disk, so that the run can be resumed.

mod place;
pub(crate) mod target;

pub use target::Target;

use crate::file_error;
use crate::fingerprint::Fingerprint;
use crate::format::Writer;
use crate::journal::Journal;
use crate::rows::Rows;
use std::fs;
use std::ops::Range;
use trijet::{Result, Sink};

/// The first row of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Row 0; the partial output of an earlier run is discarded.
    Over,
    /// The first row that the earlier run did not write; row 0 if there is no partial output.
    Resume,
}

/// An output being written.
///
/// ```
/// use trijet::Sink;
/// use trijet_io::{Array, Dtype, Fingerprint, Input, Output, Start, Target};
/// let folder = tempfile::tempdir()?;
/// std::fs::write(folder.path().join("in.raw"), [1, 2, 3, 4])?;
/// let array = Array::new(Dtype::U8, vec![2, 2])?;
/// let input = Input::open(&folder.path().join("in.raw"), Some(array.clone()))?;
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
    writer: Box<dyn Writer>,
    journal: Journal,
    done: Rows,
}

impl Output {
    /// Opens `target` for writing. `Start::Resume` continues a partial output; if it or its journal
    /// is missing, the output starts over.
    ///
    /// # Errors
    /// `InvalidValue` when the partial output belongs to another run, and when another run is
    /// writing the same output. `Io` when a file cannot be created.
    pub fn open(target: &Target, fingerprint: &Fingerprint, start: Start) -> Result<Self> {
        let mut journal = Journal::lock(&target.place.journal)?;
        if start == Start::Resume
            && let Some(done) = journal.resume(fingerprint)?
            && let Some(writer) = target.plan.reopen(&target.place.partial, &done)?
        {
            return Ok(Self { target: target.clone(), writer, journal, done });
        }
        // The journal is empty while the partial output is replaced, so that an old journal never
        // describes a new partial output.
        journal.clear()?;
        let writer = match target.plan.create(&target.place.partial) {
            Ok(writer) => writer,
            Err(error) => {
                // The empty journal goes too; if that fails as well, the first error is reported.
                return match journal.remove() {
                    Ok(()) => Err(error),
                    Err(second) => Err(error.context(second.to_string())),
                };
            }
        };
        journal.create(fingerprint)?;
        Ok(Self { target: target.clone(), writer, journal, done: Rows::default() })
    }

    /// The rows that this run or an earlier one has written.
    #[must_use]
    pub fn done(&self) -> &Rows {
        &self.done
    }

    /// The rows that are not written yet, in ascending order.
    #[must_use]
    pub fn missing(&self) -> Vec<Range<u64>> {
        self.done.missing(self.target.layout().rows)
    }
}

impl Sink for Output {
    fn write(&mut self, rows: Range<u64>, bytes: &[u8]) -> Result<()> {
        let layout = self.target.layout();
        assert!(rows.start <= rows.end && rows.end <= layout.rows, "the rows are in the output");
        let wanted = (rows.end - rows.start) * layout.row_bytes;
        assert_eq!(bytes.len() as u64, wanted, "the bytes have the length of the rows");
        if rows.is_empty() {
            return Ok(());
        }
        self.writer.write(rows.clone(), bytes)?;
        self.journal.append(&rows)?;
        self.done.insert(rows);
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        let place = &self.target.place;
        if let Some(rows) = self.missing().first() {
            let cause = format!("rows {}..{} were not written", rows.start, rows.end);
            return Err(file_error::damaged("finish", &place.partial, cause));
        }
        // A file with this name may have appeared since the run began.
        place.check_free()?;
        fs::rename(&place.partial, &place.out)
            .map_err(|error| file_error::io("finish", &place.out, error))?;
        self.journal.remove()
    }
}
