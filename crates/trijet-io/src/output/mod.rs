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
use crate::format::{Writer, state_of};
use crate::journal::{Journal, Progress};
use crate::rows::Rows;
use crate::verify::{Written, differing};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use trijet::pipeline::ParallelSink;
use trijet::{Error, Result, Sink};

/// What becomes of the partial output of an earlier run of the same job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// It is kept, and the new run is refused. A partial output without rows is replaced.
    New,
    /// It is continued. Rows that are not as they were written are written again. Without a partial
    /// output, the output starts over.
    Resume,
    /// It is continued, and its rows are not verified.
    ResumeUnverified,
    /// It is discarded.
    Restart,
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
/// let mut output = Output::open(&target, &run, Start::New)?;
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
    record: Mutex<Record>,
    lost: Vec<Range<u64>>,
    fingerprint: Fingerprint,
}

/// The rows that are done, in memory and in the journal.
#[derive(Debug)]
struct Record {
    journal: Journal,
    done: Rows,
}

impl Output {
    /// Opens `target` for writing.
    ///
    /// # Errors
    /// `InvalidValue` when a partial output of this job exists and [`Start::New`] does not say what
    /// becomes of it; when a partial output or a journal of another job or of the user lies there,
    /// which is never changed; when the circumstances of a job that is resumed have changed; when
    /// another run is writing the same output. `Io` when a file cannot be created, and when the
    /// partial output lacks rows that the journal names.
    pub fn open(target: &Target, fingerprint: &Fingerprint, start: Start) -> Result<Self> {
        let mut journal = Journal::lock(&target.place.journal)?;
        let kept = match kept(target, fingerprint, start, &mut journal) {
            Ok(kept) => kept,
            Err(error) if journal.is_new() => return Err(forget(&journal, error)),
            Err(error) => return Err(error),
        };
        let of = |kept: Kept, journal| Self {
            target: target.clone(),
            writer: kept.writer,
            record: Mutex::new(Record { journal, done: kept.done }),
            lost: kept.lost,
            fingerprint: fingerprint.clone(),
        };
        if let Some(kept) = kept {
            return Ok(of(kept, journal));
        }
        // The old partial output goes first, so that no partial output is without its journal.
        target.plan.discard(&target.place.partial)?;
        journal.begin(fingerprint)?;
        match target.plan.create(&target.place.partial) {
            Ok(writer) => Ok(of(Kept { writer, done: Rows::default(), lost: Vec::new() }, journal)),
            Err(error) => Err(forget(&journal, error)),
        }
    }

    /// Ends a run that has failed or was cancelled. A partial output without rows is deleted, with
    /// its journal; any other is kept, to be resumed. Returns the number of rows that are kept.
    ///
    /// # Errors
    /// `Io` when a file cannot be deleted.
    pub fn stop(self) -> Result<u64> {
        let rows = self.record().done.count();
        if rows == 0 {
            self.target.plan.discard(&self.target.place.partial)?;
            self.record().journal.remove()?;
        }
        Ok(rows)
    }

    /// The rows that this run or an earlier one has written.
    #[must_use]
    pub fn done(&self) -> Rows {
        self.record().done.clone()
    }

    /// The rows of an earlier run that were not as that run had written them, in ascending order.
    /// They are missing until they are written again.
    #[must_use]
    pub fn lost(&self) -> &[Range<u64>] {
        &self.lost
    }

    /// The rows that are not written yet, in ascending order.
    #[must_use]
    pub fn missing(&self) -> Vec<Range<u64>> {
        self.record().done.missing(self.target.layout().rows)
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        // A thread that panics under this lock leaves a journal without one of its lines, and rows
        // that are written again.
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Deletes the journal of an output that could not be created. If that fails too, the first error
/// is reported.
fn forget(journal: &Journal, error: Error) -> Error {
    match journal.remove() {
        Ok(()) => error,
        Err(second) => error.context(second.to_string()),
    }
}

/// A partial output with its rows.
struct Kept {
    writer: Box<dyn Writer>,
    done: Rows,
    lost: Vec<Range<u64>>,
}

/// Opens the partial output of an earlier run to continue it; `None` if the output starts over.
/// Changes nothing when it fails.
fn kept(
    target: &Target,
    fingerprint: &Fingerprint,
    start: Start,
    journal: &mut Journal,
) -> Result<Option<Kept>> {
    let place = &target.place;
    // Another run may have finished this output before it gave up the lock.
    place.check_free()?;
    if !journal.is_begun(fingerprint)? {
        return match state_of("create", &place.partial)? {
            None => Ok(None),
            Some(_) => {
                let cause = "exists, but has no journal that names its job; move it elsewhere";
                Err(file_error::refused("create", &place.partial, cause))
            }
        };
    }
    if start == Start::Restart {
        return Ok(None);
    }
    let Some(progress) = journal.read(fingerprint)?.filter(|progress| progress.done.count() > 0)
    else {
        return Ok(None);
    };
    if start == Start::New {
        return Err(unfinished(target, fingerprint, journal, &progress));
    }
    if let Some(changed) = &progress.changed {
        let cause = format!(
            "cannot be resumed: {changed}; use --restart to discard the {} rows that are done",
            progress.done.count()
        );
        return Err(file_error::refused("resume", &place.out, cause));
    }
    let writer = target.plan.reopen(&place.partial, &progress.done)?;
    let lost = match start {
        Start::ResumeUnverified => Vec::new(),
        _ => differing(&*writer, &progress.written, target.layout()),
    };
    journal.resume(&progress)?;
    journal.lose(&lost)?;
    let mut done = Rows::default();
    let is_lost = |rows: &Range<u64>| {
        let key = |rows: &Range<u64>| (rows.start, rows.end);
        lost.binary_search_by_key(&key(rows), key).is_ok()
    };
    for one in progress.written.iter().filter(|one| !is_lost(&one.rows)) {
        done.insert(one.rows.clone());
    }
    Ok(Some(Kept { writer, done, lost }))
}

/// The refusal to start a job over of which a part is done.
fn unfinished(
    target: &Target,
    fingerprint: &Fingerprint,
    journal: &Journal,
    progress: &Progress,
) -> Error {
    let (done, rows) = (progress.done.count(), target.layout().rows);
    let when = match journal.modified() {
        Ok(when) => when,
        Err(error) => return error,
    };
    let cause = format!(
        "{done} of {rows} rows of this job ({}) are done in {}, the last on {when}; use --resume to \
         continue, or --restart to discard them",
        fingerprint.operation(),
        target.place.partial.display(),
    );
    file_error::refused("create", &target.place.out, cause)
}

impl ParallelSink for Output {
    fn write_part(&self, rows: Range<u64>, bytes: &[u8]) -> Result<()> {
        let layout = self.target.layout();
        assert!(rows.start <= rows.end && rows.end <= layout.rows, "the rows are in the output");
        let wanted = (rows.end - rows.start) * layout.row_bytes;
        assert_eq!(bytes.len() as u64, wanted, "the bytes have the length of the rows");
        if rows.is_empty() {
            return Ok(());
        }
        self.writer.write(rows.clone(), bytes)?;
        let written = Written::new(rows.clone(), bytes);
        let mut record = self.record();
        record.journal.append(&self.fingerprint, &written)?;
        record.done.insert(rows);
        Ok(())
    }
}

impl Sink for Output {
    fn write(&mut self, rows: Range<u64>, bytes: &[u8]) -> Result<()> {
        self.write_part(rows, bytes)
    }

    fn parallel(&self) -> Option<&dyn ParallelSink> {
        Some(self)
    }

    fn finish(&mut self) -> Result<()> {
        let place = &self.target.place;
        if let Some(rows) = self.missing().first() {
            let cause = format!("rows {}..{} were not written", rows.start, rows.end);
            return Err(file_error::damaged("finish", &place.partial, cause));
        }
        self.writer.check_complete()?;
        place.publish(self.writer.root())?;
        self.record().journal.remove()
    }
}
