//! A partial output and its journal: which rows are written, and which rows are on the disk.
//!
//! Each write of rows appends a line to the journal at once, so that a process that is killed loses
//! no rows. The system may bring the line to the disk before the rows. So after a loss of power,
//! rows that the journal names may be missing. After each synchronization of the partial output, a
//! further line states which earlier lines have their rows on the disk. A run that continues always
//! verifies the rows of all lines that no such line covers.

use super::finished;
use super::place::Place;
use crate::file_error;
use crate::fingerprint::Fingerprint;
use crate::format::{Writer, sync_folder};
use crate::journal::Journal;
use crate::rows::Rows;
use crate::verify::Written;
use std::fs::File;
use std::mem;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use trijet::{Error, Result};

/// A synchronization starts when this number of bytes waits for it. With a larger number, more
/// bytes would wait for the last synchronization at the end of the run. With a smaller number, the
/// disk would write small pieces.
const BATCH_BYTES: u64 = 16 << 20;
/// Maximum time that rows wait for the start of a synchronization.
const INTERVAL: Duration = Duration::from_millis(250);

/// A partial output, which the threads of a run share.
#[derive(Debug)]
pub(super) struct Partial {
    writer: Box<dyn Writer>,
    fingerprint: Fingerprint,
    folder: PathBuf,
    /// The path of the mark of a finished output, where the file system has no attributes.
    mark: PathBuf,
    /// A second handle of the journal, through which the journal is synchronized while lines are
    /// appended.
    journal: File,
    record: Mutex<Record>,
    changed: Condvar,
}

/// The rows of a partial output, and the state of their synchronization.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) journal: Journal,
    pub(super) done: Rows,
    /// The rows of damaged images that this run leaves out.
    pub(super) left_out: Rows,
    /// The ranges of rows that are written but are not synchronized yet. `unsynced_bytes` is the
    /// total size of these ranges.
    unsynced: Vec<Range<u64>>,
    unsynced_bytes: u64,
    /// Whether the name of the partial output is on the disk.
    is_named: bool,
    /// The error of the first failed synchronization of the output or of its journal. A later
    /// synchronization that succeeds proves nothing, because the system reports a lost write only
    /// once.
    failed: Option<Error>,
    /// Whether a call of a user of the output has returned the error in `failed`.
    is_reported: bool,
    /// Whether the thread that synchronizes in the background is to end.
    is_over: bool,
}

impl Partial {
    /// Makes a partial output whose rows `writer` writes. The journal already names the rows
    /// `done`.
    pub(super) fn new(
        place: &Place,
        fingerprint: &Fingerprint,
        writer: Box<dyn Writer>,
        journal: Journal,
        handle: File,
        done: Rows,
    ) -> Self {
        Self {
            writer,
            fingerprint: fingerprint.clone(),
            folder: place.folder().to_owned(),
            mark: place.mark.clone(),
            journal: handle,
            record: Mutex::new(Record {
                journal,
                done,
                left_out: Rows::default(),
                unsynced: Vec::new(),
                unsynced_bytes: 0,
                is_named: false,
                failed: None,
                is_reported: false,
                is_over: false,
            }),
            changed: Condvar::new(),
        }
    }

    pub(super) fn record(&self) -> MutexGuard<'_, Record> {
        // If a thread panicked while it had this lock, the journal lacks the line of some rows. A
        // later run writes these rows again.
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn writer(&self) -> &dyn Writer {
        &*self.writer
    }

    /// Closes the partial output, and returns the journal.
    pub(super) fn into_journal(self) -> Journal {
        self.record.into_inner().unwrap_or_else(PoisonError::into_inner).journal
    }

    /// Writes `rows`, and appends a line for them to the journal.
    pub(super) fn write(&self, rows: Range<u64>, bytes: &[u8]) -> Result<()> {
        self.writer.write(rows.clone(), bytes)?;
        let written = Written::new(rows.clone(), bytes);
        let mut record = self.record();
        record.check()?;
        record.journal.append(&self.fingerprint, &written)?;
        record.done.insert(rows.clone());
        self.bring_to_disk(record, rows, bytes.len() as u64);
        Ok(())
    }

    /// Leaves `rows` out. The journal gets no line for them.
    pub(super) fn leave_out(&self, rows: Range<u64>, zeros: &[u8]) -> Result<()> {
        self.writer.leave_out(rows.clone(), zeros)?;
        let mut record = self.record();
        record.check()?;
        record.left_out.insert(rows.clone());
        self.bring_to_disk(record, rows, zeros.len() as u64);
        Ok(())
    }

    /// Marks `rows` as not synchronized, and wakes the thread of [`synchronize`](Self::synchronize)
    /// if there is work for it.
    fn bring_to_disk(&self, mut record: MutexGuard<'_, Record>, rows: Range<u64>, bytes: u64) {
        let is_first = record.unsynced.is_empty();
        record.unsynced.push(rows);
        record.unsynced_bytes += bytes;
        let is_due = record.unsynced_bytes >= BATCH_BYTES;
        drop(record);
        if is_first || is_due {
            self.changed.notify_one();
        }
    }

    /// Brings rows to the disk while other rows are written, until [`end`](Self::end) is called.
    /// Ends at the first error, which is not returned here: the next write returns it.
    pub(super) fn synchronize(&self) {
        loop {
            let mut record = self.record();
            while record.unsynced.is_empty() && !record.is_over {
                record = self.changed.wait(record).unwrap_or_else(PoisonError::into_inner);
            }
            let is_early =
                |record: &mut Record| record.unsynced_bytes < BATCH_BYTES && !record.is_over;
            let waited = self.changed.wait_timeout_while(record, INTERVAL, is_early);
            let (record, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if record.is_over {
                return;
            }
            drop(record);
            if self.sync_rows().is_err() {
                return;
            }
        }
    }

    /// Makes [`synchronize`](Self::synchronize) return.
    pub(super) fn end(&self) {
        self.record().is_over = true;
        self.changed.notify_all();
    }

    /// Waits until all rows that were written before this call are on the disk, and appends a line
    /// to the journal that states this. If an error may have lost rows, the journal no longer names
    /// them, and a later run writes them again.
    pub(super) fn sync(&self) -> Result<()> {
        self.record().check()?;
        self.sync_rows().inspect_err(|_| self.record().is_reported = true)
    }

    /// Synchronizes the partial output for [`sync`](Self::sync) and
    /// [`synchronize`](Self::synchronize). An error is stored in the record before another thread
    /// can see a consequence of the error. So every thread reports the same cause.
    fn sync_rows(&self) -> Result<()> {
        let mut record = self.record();
        let end = match record.journal.end() {
            Ok(end) => end,
            Err(error) => return Err(record.fail(error)),
        };
        let ranges = mem::take(&mut record.unsynced);
        record.unsynced_bytes = 0;
        let is_named = record.is_named;
        drop(record);
        if ranges.is_empty() {
            return Ok(());
        }
        let named = || if is_named { Ok(()) } else { self.sync_names() };
        let synced = self.writer.sync().and_then(|()| named());
        let mut record = self.record();
        if let Err(error) = synced {
            let unsynced = mem::take(&mut record.unsynced);
            let all: Vec<Range<u64>> = ranges.into_iter().chain(unsynced).collect();
            let error = match record.lose(&all) {
                Ok(()) => error,
                Err(second) => error.context(second.to_string()),
            };
            return Err(record.fail(error));
        }
        record.is_named = true;
        if let Err(error) = record.journal.mark_synced(end) {
            return Err(record.fail(error));
        }
        drop(record);
        self.journal.sync_data().map_err(|error| {
            let error = file_error::io("journal", &self.folder, error);
            self.record().fail(error)
        })
    }

    /// Marks the complete output as finished, unless rows were left out. If `is_durable`, waits
    /// after that until the state of the output is on the disk.
    pub(super) fn set_finished(&self, is_durable: bool) -> Result<()> {
        let root = self.writer.root();
        if self.record().left_out.count() == 0 {
            // An error is ignored, because the output is complete even without the mark.
            drop(finished::set(&self.fingerprint, root, &self.mark));
        }
        if !is_durable {
            return Ok(());
        }
        sync_folder(root).map_err(|error| file_error::io("synchronize", &self.folder, error))
    }

    /// Waits until the names in the folder of the output are on the disk.
    pub(super) fn sync_names(&self) -> Result<()> {
        File::open(&self.folder)
            .and_then(|folder| sync_folder(&folder))
            .map_err(|error| file_error::io("synchronize", &self.folder, error))
    }
}

impl Record {
    /// Notes that the rows of these ranges are lost. One call wrote each range.
    pub(super) fn lose(&mut self, ranges: &[Range<u64>]) -> Result<()> {
        for range in ranges {
            self.done.remove(range.clone());
        }
        self.journal.lose(ranges)
    }

    /// Returns the error of an earlier failed synchronization, if there was one. Every thread
    /// returns this error, because the run may report the error of any thread.
    fn check(&mut self) -> Result<()> {
        let Some(first) = &self.failed else { return Ok(()) };
        self.is_reported = true;
        Err(first.again())
    }

    /// Stores the error of a synchronization if it is the first one, and returns it.
    fn fail(&mut self, error: Error) -> Error {
        self.failed.get_or_insert_with(|| error.again());
        error
    }

    /// Whether a call of a user of the output has returned the stored error of a synchronization.
    pub(super) fn is_failure_reported(&self) -> bool {
        self.is_reported
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Array;
    use crate::input::Input;
    use crate::output::target::Target;
    use std::fs;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread;
    use tempfile::TempDir;
    use trijet::Dtype;
    use trijet::ErrorKind;

    /// A writer whose synchronization sends a message when it starts, and ends when the test allows
    /// this.
    #[derive(Debug)]
    struct Slow {
        file: File,
        begun: Sender<()>,
        end: Mutex<Receiver<Result<()>>>,
    }

    impl Writer for Slow {
        fn write(&self, _rows: Range<u64>, _bytes: &[u8]) -> Result<()> {
            Ok(())
        }

        fn read(&self, _rows: Range<u64>, _into: &mut [u8]) -> Result<()> {
            Ok(())
        }

        fn share(&self) {}

        fn root(&self) -> &File {
            &self.file
        }

        fn sync(&self) -> Result<()> {
            self.begun.send(()).expect("the test waits");
            self.end.lock().expect("no thread panics").recv().expect("the test sends")
        }

        fn check_complete(&self) -> Result<()> {
            Ok(())
        }
    }

    /// A partial output of four rows, its folder, and two channels: the first one reports the
    /// starts of synchronizations, and the second one ends them.
    fn partial() -> (TempDir, Partial, Receiver<()>, Sender<Result<()>>) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("in.raw");
        fs::write(&path, [1, 2, 3, 4]).expect("a small file");
        let array = Array::new(Dtype::U8, vec![4]).expect("a small array");
        let input = Input::open(&path, Some(array.clone())).expect("a sound file");
        let target =
            Target::new(&folder.path().join("out.raw"), array, &input).expect("the output is new");
        let fingerprint = Fingerprint::new(&input, "copy", &target);
        let mut journal = Journal::lock(&target.place.journal).expect("no other run has the lock");
        journal.begin(&fingerprint).expect("a small file");
        let (begun, begins) = channel();
        let (ends, end) = channel();
        let file = File::open(&path).expect("the input exists");
        let writer = Box::new(Slow { file, begun, end: Mutex::new(end) });
        let handle = journal.handle().expect("a handle");
        let partial =
            Partial::new(&target.place, &fingerprint, writer, journal, handle, Rows::default());
        (folder, partial, begins, ends)
    }

    fn journal(folder: &TempDir) -> String {
        fs::read_to_string(folder.path().join("out.raw.journal")).expect("the journal exists")
    }

    #[test]
    fn the_journal_says_that_rows_are_on_the_disk_when_they_are() {
        let (folder, partial, begins, ends) = partial();
        partial.write(0..1, &[1]).expect("nothing fails");
        thread::scope(|scope| {
            scope.spawn(|| partial.synchronize());
            begins.recv().expect("a synchronization begins");
            // Rows that are written during a synchronization do not wait for it. They are not part
            // of it.
            let before = journal(&folder).len();
            partial.write(1..2, &[2]).expect("nothing fails");
            assert!(!journal(&folder).contains("synced"));
            ends.send(Ok(())).expect("the writer waits");
            begins.recv().expect("another synchronization begins for the second row");
            assert!(journal(&folder).contains(&format!("{{\"synced\":{before}}}\n")));
            ends.send(Ok(())).expect("the writer waits");
            partial.end();
        });
        assert_eq!(partial.record().done.count(), 2);
    }

    /// The system reports a failed synchronization only once. After that, it treats the lost rows
    /// as written.
    #[test]
    fn rows_are_lost_when_their_synchronization_fails() {
        let (folder, partial, begins, ends) = partial();
        partial.write(0..1, &[1]).expect("nothing fails");
        ends.send(Ok(())).expect("the writer is there");
        partial.sync().expect("the first synchronization succeeds");
        partial.write(1..2, &[2]).expect("nothing fails");
        thread::scope(|scope| {
            scope.spawn(|| partial.synchronize());
            begins.recv().expect("the first synchronization began");
            begins.recv().expect("a synchronization begins");
            partial.write(2..3, &[3]).expect("the failure is not known yet");
            let error = Error::new(ErrorKind::Io, "synchronize", "the disk is broken");
            ends.send(Err(error)).expect("the writer waits");
        });
        assert_eq!(partial.record().done.count(), 1);
        let text = journal(&folder);
        assert!(text.ends_with("{\"lost\":[1,2]}\n{\"lost\":[2,3]}\n"), "{text}");
        let error = partial.write(3..4, &[4]).expect_err("the run has failed");
        assert!(error.to_string().contains("the disk is broken"), "{error}");
        partial.sync().expect_err("a later synchronization proves nothing");
        assert_eq!(partial.record().done.count(), 1);
    }

    /// In an earlier version, the second of two writers reported only "see the first error", and
    /// the first error was never shown.
    #[test]
    fn every_call_after_a_failed_synchronization_names_its_cause() {
        let (_folder, partial, begins, ends) = partial();
        partial.write(0..1, &[1]).expect("nothing fails");
        let error = Error::new(ErrorKind::Io, "synchronize", "the disk is broken");
        ends.send(Err(error)).expect("the writer is there");
        thread::scope(|scope| {
            scope.spawn(|| partial.synchronize());
            begins.recv().expect("a synchronization begins");
        });
        for row in 1..4 {
            let error = partial.write(row..row + 1, &[2]).expect_err("the run has failed");
            assert!(error.to_string().contains("the disk is broken"), "{error}");
        }
        let error = partial.sync().expect_err("a later synchronization proves nothing");
        assert!(error.to_string().contains("the disk is broken"), "{error}");
    }

    #[test]
    fn every_line_after_one_that_failed_names_its_cause() {
        let (_folder, partial, _begins, _ends) = partial();
        partial.record().journal.become_read_only();
        for row in 0..3 {
            let error = partial.write(row..row + 1, &[1]).expect_err("the journal has failed");
            assert!(error.to_string().contains("Bad file descriptor"), "{error}");
        }
    }

    /// In an earlier version, the error was lost when the thread ended. The next write reported
    /// only that there had been an earlier error.
    #[test]
    fn an_error_of_the_journal_in_the_background_is_reported_by_the_next_write() {
        let (_folder, partial, begins, ends) = partial();
        partial.write(0..1, &[1]).expect("nothing fails");
        thread::scope(|scope| {
            scope.spawn(|| partial.synchronize());
            begins.recv().expect("a synchronization begins");
            partial.record().journal.become_read_only();
            ends.send(Ok(())).expect("the writer waits");
        });
        let error = partial.write(1..2, &[2]).expect_err("the journal has failed");
        assert!(error.to_string().contains("Bad file descriptor"), "{error}");
        partial.sync().expect_err("a later synchronization proves nothing");
        assert_eq!(partial.record().done.count(), 1);
    }
}
