//! Output files. A file or folder with the final name is always complete, except for the rows of
//! damaged images that the user has chosen to skip (`skipping.rs`).
//!
//! Rows are written to `OUT.partial`, in any order, and `OUT.journal` lists them. When no row is
//! missing, `finish` renames the partial output to `OUT`. If an output is dropped before that, the
//! partial output stays, so that a later run can resume it. The partial output of an earlier run is
//! not discarded before the first row of the new run arrives.

mod earlier;
mod finished;
mod journals;
mod overwrite;
mod partial;
pub(crate) mod place;
pub(crate) mod shard;
mod sharing;
mod sink;
mod skipping;
mod space;
pub(crate) mod target;

pub use earlier::Start;
pub use journals::JournalStatus;
pub use shard::Shard;
pub use space::Space;
pub use target::Target;

use self::earlier::{EarlierResult, Kept, kept};
use self::partial::Partial;
use self::place::Place;
use crate::damaged::SkippedImages;
use crate::file_error;
use crate::fingerprint::{Changes, DOUBTFUL, Fingerprint};
use crate::format::{Ahead, is_at, state_of};
use crate::journal::Journal;
use crate::rows::Rows;
use crate::shown::shown;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use trijet::{Bytes, Error, Result};

/// Whether a run waits for the disk. In both cases, the death of the process loses no rows, and a
/// run that continues after a loss of power has only correct rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// A thread brings rows to the disk during the run. When [`finish`](trijet::Sink::finish)
    /// returns, the output and its name are on the disk. After a loss of power, an output with the
    /// final name is complete. A run that was in progress loses the rows of its last moments.
    OnDisk,
    /// The system writes the output to the disk when it chooses, as it does for most programs.
    /// After a loss of power, a complete output may lack bytes, and a run that was in progress may
    /// lose all of its rows.
    InMemory,
}

/// The result of [`Output::stop`]: the files that remain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// No file remains.
    Nothing,
    /// A partial output with this number of rows remains. A later run can resume it.
    Rows(u64),
    /// The complete output remains, under its final name.
    Complete,
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
    fingerprint: Fingerprint,
    durability: Durability,
    /// Maximum number of bytes that writing takes in addition to the rows. `None`: the default.
    memory: Option<u64>,
    lost: Vec<Range<u64>>,
    /// The damaged images of the input, whose rows are left out. `None` if no rows are left out.
    damaged: Option<SkippedImages>,
    /// The state of the output before the first write. `None` after that write.
    ready: Mutex<Option<Ready>>,
    run: OnceLock<Run>,
    /// The reason why the partial output could not be created.
    failed: OnceLock<String>,
    /// The journal of a partial output that could not be begun and could not be deleted.
    left: OnceLock<Journal>,
    is_complete: AtomicBool,
    is_locked: bool,
}

/// With a limit of memory below this number of bytes, no pages are created ahead on a disk.
const AHEAD_MIN: u64 = 256 << 20;

/// An output to which this run has written nothing yet.
#[derive(Debug)]
enum Ready {
    /// The first write discards the partial output of an earlier run, which has `earlier` rows.
    New { journal: Journal, earlier: u64, ahead: Option<Ahead> },
    /// The run continues the partial output of an earlier run.
    Kept(Arc<Partial>),
}

/// An output to which this run writes.
#[derive(Debug)]
struct Run {
    partial: Arc<Partial>,
    synchronizer: Mutex<Option<JoinHandle<()>>>,
}

impl Output {
    /// Opens `target` for writing. An existing output at its path stays unchanged until the first
    /// row is written.
    ///
    /// # Errors
    /// `InvalidValue` in these cases: a partial output of this job exists and `start` is
    /// [`Start::New`]; there is a partial output or a journal of another job or of the user, which
    /// is never changed; the circumstances of a job that is resumed have changed; another run is
    /// writing the same output; several processes write the output and the file system has no
    /// locks. `Io` if a file cannot be created, or if the partial output lacks rows that the
    /// journal names.
    pub fn open(target: &Target, fingerprint: &Fingerprint, start: Start) -> Result<Self> {
        let mut journal = Journal::lock(&target.place.journal)?;
        let is_locked = journal.is_locked();
        if target.shard().is_some_and(|shard| shard.count() > 1) && !is_locked {
            let cause = "the file system has no locks, which several processes of one output need; \
                         write it with one process (--shard 0/1), or to another file system";
            let error = file_error::refused("journal", &target.place.journal, cause);
            return Err(if journal.is_new() { forget(&journal, error) } else { error });
        }
        let kept = match kept(target, fingerprint, start, &mut journal) {
            Ok(kept) => kept,
            Err(error) if journal.is_new() => return Err(forget(&journal, error)),
            Err(error) => return Err(error),
        };
        let (ready, lost) = match kept {
            EarlierResult::Kept(Kept { writer, done, lost }) => {
                let handle = journal.handle()?;
                let partial =
                    Partial::new(&target.place, fingerprint, writer, journal, handle, done);
                (Ready::Kept(Arc::new(partial)), lost)
            }
            EarlierResult::Nothing { earlier } => {
                (Ready::New { journal, earlier, ahead: None }, Vec::new())
            }
        };
        Ok(Self {
            target: target.clone(),
            fingerprint: fingerprint.clone(),
            durability: Durability::OnDisk,
            memory: None,
            lost,
            damaged: None,
            ready: Mutex::new(Some(ready)),
            run: OnceLock::new(),
            failed: OnceLock::new(),
            left: OnceLock::new(),
            is_complete: AtomicBool::new(false),
            is_locked,
        })
    }

    /// Whether this run has locked the output, so that no other run writes it at the same time. The
    /// result is `false` if the file system has no locks.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.is_locked
    }

    /// Chooses whether the run waits for the disk. By default the run waits.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Limits the memory that writing takes in addition to the rows. Writing takes memory for
    /// example for mapped parts of the file. The default limit is half a GiB.
    #[must_use]
    pub fn host_memory(mut self, most: Bytes) -> Self {
        self.memory = Some(most.0);
        self
    }

    /// Refuses a run if the rows that are still to be written do not fit on the disk of the output.
    /// Images are not checked, because they take less space than their rows. The output is not
    /// checked either if its file system compresses files or does not report its free space.
    ///
    /// # Errors
    /// `Io` with the space that is needed and the space that is free.
    pub fn check_space(&self) -> Result<()> {
        let place = &self.target.place;
        let Some(space) = self.target.space()? else { return Ok(()) };
        let rows: u64 = self.missing().iter().map(|rows| rows.end - rows.start).sum();
        let missing = rows.saturating_mul(self.target.layout().row_bytes);
        let needed = Bytes(missing.min(space.needed.0));
        if needed <= space.free {
            return Ok(());
        }
        let cause = format!(
            "{needed} are still to be written, but the disk has only {} free; make room, or write \
             the output to another disk",
            space.free
        );
        Err(file_error::damaged("create", &place.out, cause))
    }

    /// Starts a thread that creates the pages of a new output. This makes a run faster that has
    /// other work before its first row. Until the first row arrives, the pages belong to a file
    /// without a name, which disappears if the process ends. Does nothing if several processes
    /// write the output, or if an existing output is continued or written over.
    #[must_use]
    pub fn begin_ahead(self) -> Self {
        let Target { place, plan, overwrites, .. } = &self.target;
        let reuses = *overwrites && !matches!(state_of("create", &place.out), Ok(None));
        if let Some(Ready::New { earlier: 0, ahead, .. }) = &mut *self.ready()
            && place.shared.is_none()
            && !reuses
        {
            // Creating the pages of a file on a disk takes memory of the process.
            let is_limited = self.memory.is_some_and(|most| most < AHEAD_MIN);
            let waits = self.durability == Durability::OnDisk || is_limited;
            *ahead = plan.begin_ahead(place.folder(), waits);
        }
        self
    }

    /// Ends a run that has failed or was cancelled. Deletes a partial output without rows, and its
    /// journal. A partial output with rows is kept, so that a later run can resume it.
    ///
    /// # Errors
    /// `Io` if a file cannot be deleted or cannot be brought to the disk.
    pub fn stop(mut self) -> Result<Stopped> {
        self.end_thread();
        if self.is_complete.load(Ordering::Relaxed) {
            return Ok(Stopped::Complete);
        }
        let ready = self.ready().take();
        let partial = match ready {
            Some(Ready::New { journal, earlier, .. }) if journal.is_new() => {
                journal.remove()?;
                return Ok(Stopped::of(earlier));
            }
            Some(Ready::New { earlier, .. }) => return Ok(Stopped::of(earlier)),
            Some(Ready::Kept(partial)) => partial,
            None => match self.run.take() {
                Some(run) => run.partial,
                None => return self.discard_left(),
            },
        };
        let rows = partial.record().done.count();
        if rows == 0 {
            return self.discard(partial).map(|()| Stopped::Nothing);
        }
        // An error that a write has already returned is not reported again.
        let is_reported = partial.record().is_failure_reported();
        let synced = match self.durability {
            Durability::OnDisk if !is_reported => partial.sync(),
            _ => Ok(()),
        };
        synced.map(|()| Stopped::Rows(rows))
    }

    /// Deletes the remains of a partial output that could not be begun, if there are any.
    fn discard_left(&mut self) -> Result<Stopped> {
        if let Some(journal) = self.left.take() {
            let partial = &self.target.place.partial;
            let left = |error: Error| {
                let way = "remains without a finished row; --restart deletes it";
                error.context(format!("{} {way}", shown(partial)))
            };
            self.target.plan.discard(partial).and_then(|()| journal.remove()).map_err(left)?;
        }
        Ok(Stopped::Nothing)
    }

    /// Deletes a partial output without rows, and the journal of that output.
    fn discard(&self, partial: Arc<Partial>) -> Result<()> {
        if let Some(shared) = &self.target.place.shared {
            return self.leave(shared, &partial.record().journal);
        }
        // Discarding opens files, and the process may already have the maximum number open.
        partial.writer().close();
        let place = &self.target.place;
        match Arc::into_inner(partial) {
            Some(partial) => {
                let journal = partial.into_journal();
                self.target.plan.discard(&place.partial)?;
                journal.remove()
            }
            None => Err(file_error::damaged("discard", &place.partial, "is still in use")),
        }
    }

    /// The rows that this run or an earlier run has written.
    #[must_use]
    pub fn done(&self) -> Rows {
        let of = |partial: &Partial| partial.record().done.clone();
        match (&*self.ready(), self.run.get()) {
            (Some(Ready::Kept(partial)), _) => of(partial),
            (_, Some(run)) => of(&run.partial),
            _ => Rows::default(),
        }
    }

    /// The rows of an earlier run whose bytes have changed since that run wrote them, in ascending
    /// order. These rows count as missing until this run writes them again.
    #[must_use]
    pub fn lost(&self) -> &[Range<u64>] {
        &self.lost
    }

    /// The rows that are not written yet, in ascending order and with their numbers in the input.
    /// The rows of a slice have these numbers as well.
    #[must_use]
    pub fn missing(&self) -> Vec<Range<u64>> {
        self.missing_beside(&self.done())
    }

    /// The rows that this run writes, with the numbers of [`missing`](Self::missing).
    #[must_use]
    pub fn rows(&self) -> Range<u64> {
        self.target.rows_of_whole()
    }

    /// Whether this run has given the output its final name. If several processes write the output,
    /// the process that finishes last gives the output its name.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.is_complete.load(Ordering::Relaxed)
    }

    fn ready(&self) -> MutexGuard<'_, Option<Ready>> {
        // If a thread panicked while it had this lock, the output was not begun.
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The partial output. The first call creates it.
    fn partial(&self) -> Result<&Partial> {
        if let Some(run) = self.run.get() {
            return Ok(&run.partial);
        }
        let mut ready = self.ready();
        if let Some(run) = self.run.get() {
            return Ok(&run.partial);
        }
        let keep = |error: &Error| drop(self.failed.set(error.to_string()));
        let partial = match ready.take() {
            Some(Ready::Kept(partial)) => self.taken_back(partial).inspect_err(keep)?,
            Some(Ready::New { journal, ahead, .. }) => {
                Arc::new(self.create(journal, ahead).inspect_err(keep)?)
            }
            None => {
                // The run may report the error of any thread. So every thread returns the cause
                // that the first failed call has stored.
                let cause = self.failed.get().map_or("the output was stopped", String::as_str);
                return Err(file_error::damaged("write", &self.target.place.out, cause));
            }
        };
        if let Some(bytes) = self.memory {
            partial.writer().limit_memory(bytes);
        }
        let run = self.run.get_or_init(|| Run { partial, synchronizer: Mutex::new(None) });
        if self.durability == Durability::OnDisk {
            let thread = spawn(&self.target.place, &run.partial)?;
            *run.synchronizer.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        }
        Ok(&run.partial)
    }

    /// Creates the partial output, and discards the partial output of an earlier run.
    fn create(&self, mut journal: Journal, ahead: Option<Ahead>) -> Result<Partial> {
        let (place, plan) = (&self.target.place, &self.target.plan);
        if let Some(shared) = &place.shared {
            return self.join(shared, journal);
        }
        // The old partial output is deleted before the old journal is overwritten. So there is
        // never a partial output without its journal.
        plan.discard(&place.partial)?;
        journal.begin(&self.fingerprint)?;
        if self.durability == Durability::OnDisk {
            journal.sync()?;
        }
        let created = match self.take_over() {
            Ok(None) => plan.create(&place.partial, ahead).map(|writer| (writer, false)),
            Ok(Some(writer)) => Ok((writer, true)),
            Err(error) => Err(error),
        };
        let (writer, is_reused) = match created {
            Ok(created) => created,
            Err(error) => return Err(forget(&journal, error)),
        };
        let named = writer.root().metadata();
        let named = named.map_err(|error| file_error::io("create", &place.partial, error));
        let named = named.and_then(|state| journal.name_root(state.ino()));
        let named = named.and_then(|()| if is_reused { writer.reset() } else { Ok(()) });
        match named.and_then(|()| journal.handle()) {
            Ok(handle) => {
                Ok(Partial::new(place, &self.fingerprint, writer, journal, handle, Rows::default()))
            }
            // The reused output stays. It is a partial output without rows, because its journal
            // exists and names no rows.
            Err(error) if is_reused => Err(error),
            Err(error) => {
                // Discarding opens files, and the process may already have the maximum number open.
                drop(writer);
                Err(match plan.discard(&place.partial) {
                    Ok(()) => forget(&journal, error),
                    Err(second) => {
                        // `stop` tries again to delete the partial output, when other files of the
                        // run are closed.
                        drop(self.left.set(journal));
                        error.context(second.to_string())
                    }
                })
            }
        }
    }

    /// Ends the thread that brings rows to the disk.
    fn end_thread(&self) {
        let Some(run) = self.run.get() else { return };
        run.partial.end();
        let mut synchronizer = run.synchronizer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = synchronizer.take() {
            // The thread panics only if an allocation fails. The rows that it was bringing to the
            // disk are then synchronized again.
            drop(thread.join());
        }
    }

    /// Refuses to finish an output if its input has changed during the run. The rows that depend on
    /// a changed file are discarded, unless only the `ctime` of the file has changed.
    fn check_input(&self, partial: &Partial) -> Result<()> {
        let Changes { changed, doubtful } = self.fingerprint.changes_of_run();
        if changed.is_empty() && doubtful.is_empty() {
            return Ok(());
        }
        if changed.is_empty() {
            let names = self.fingerprint.names_of(doubtful);
            let cause = format!(
                "the state of the input (ctime) has changed during the run: {names}: {DOUBTFUL}"
            );
            return Err(file_error::damaged("finish", &self.target.place.out, cause));
        }
        let mut record = partial.record();
        let written = record.journal.read(&self.fingerprint)?.map_or_else(Vec::new, |p| p.written);
        let is_affected = |rows: &Range<u64>| {
            self.fingerprint.items_of(rows).any(|index| changed.contains(&index))
        };
        let ranges: Vec<_> = written.into_iter().map(|one| one.rows).filter(is_affected).collect();
        record.lose(&ranges)?;
        let cause = format!(
            "the input has changed during the run: {}; the rows that depend on it are not kept",
            self.fingerprint.names_of(changed)
        );
        Err(file_error::damaged("finish", &self.target.place.out, cause))
    }
}

impl Stopped {
    fn of(rows: u64) -> Self {
        if rows == 0 { Self::Nothing } else { Self::Rows(rows) }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.end_thread();
        if let Some(Ready::New { journal, .. }) = &*self.ready()
            && journal.is_new()
        {
            // An error is ignored, because an empty journal does no harm.
            drop(journal.remove());
        }
    }
}

/// Starts the thread that brings rows to the disk.
fn spawn(place: &Place, partial: &Arc<Partial>) -> Result<JoinHandle<()>> {
    let partial = Arc::clone(partial);
    let thread = thread::Builder::new().name("synchronizer".to_owned());
    thread.spawn(move || partial.synchronize()).map_err(|error| {
        let cause = "the thread that brings the output to the disk cannot be created";
        file_error::io("synchronize", &place.out, error).context(cause)
    })
}

/// Deletes the journal of an output that could not be created, and returns `error`.
fn forget(journal: &Journal, error: Error) -> Error {
    match journal.remove() {
        Ok(()) => error,
        Err(second) => error.context(second.to_string()),
    }
}

impl Output {
    /// Gives the complete output its final name. Then `forget` deletes what remains of the run.
    fn publish(
        &self,
        partial: &Partial,
        forget: impl FnOnce(&Partial) -> Result<()>,
    ) -> Result<()> {
        let place = &self.target.place;
        let is_durable = self.durability == Durability::OnDisk;
        partial.set_finished(is_durable)?;
        let complete = format!("{} is complete", shown(&place.out));
        let root = partial.writer().root();
        if let Err(error) = place.publish(root) {
            // The rename may return an error although the output has already got its name.
            if !is_at(root, &place.out).unwrap_or(false) {
                return Err(error);
            }
            self.is_complete.store(true, Ordering::Relaxed);
            if is_at(root, &place.partial).unwrap_or(true) {
                return Err(error.context(format!(
                    "{complete}, but the name of its partial output was not deleted"
                )));
            }
        }
        self.is_complete.store(true, Ordering::Relaxed);
        let named = if is_durable { partial.sync_names() } else { Ok(()) };
        named.map_err(|error| {
            error.context(format!("{complete}, but its name may be lost in a loss of power"))
        })?;
        forget(partial).map_err(|error| {
            error.context(format!("{complete}, but its journal could not be deleted"))
        })
    }
}
