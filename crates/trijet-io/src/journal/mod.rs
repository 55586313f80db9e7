//! The journal of a run. It lists the rows of the output that are written, so that a stopped run
//! can be resumed.
//!
//! The journal is a text file to which lines are appended. The first line is the header and
//! identifies the run. The line `{"root":n}` has the inode number of the partial output. A line
//! `{"rows":[a,b],"xxh3":"hash"}` is appended after the rows `a..b` were written. So every row that
//! the journal names exists in the output. The hash is the hash of the bytes of these rows. If the
//! bytes turn out to be lost, a line `{"lost":[a,b]}` follows. Before the first rows that
//! depend on a file of the input, a line `{"item":[n,[name,bytes,modified,inode,changed]]}` has the
//! state of this file. A line `{"synced":n}` means that all lines before the byte n have their rows
//! on the disk. If the process dies, the last line may be incomplete. A reader ignores an
//! incomplete line, and lines that a loss of power has replaced by zeros.
//!
//! If several processes write one output, each process has its own journal. In these journals, the
//! line `{"created":t}` has the time at which the partial output was created. The time shows
//! whether the partial output was deleted and created again. A process that has written all of its
//! rows appends `{"finished":true}` as its last line.
//!
//! A file is a journal if its first bytes are the first bytes of a header, or if it is empty. Any
//! other file with the name of a journal belongs to the user and is never changed. A symbolic link
//! is not followed. A lock on the journal keeps other runs from writing the same output. Some file
//! systems have no locks. On such a file system, a run of one process continues without a lock, and
//! a run of several processes is refused.

mod entry;

use self::entry::{Entry, entry_of};
use crate::file_error;
use crate::fingerprint::{Changes, DOUBTFUL, Fingerprint};
use crate::format::{NOFOLLOW, is_at};
use crate::rows::Rows;
use crate::verify::Written;
use rustix::io::Errno;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use trijet::{Error, Result};

/// The first bytes of every journal. The number 3 is the version of the format.
const MAGIC: &[u8] = br#"["trijet journal",3,"#;

/// The open and locked journal of one output.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    /// Whether this process has created the file of the journal.
    is_new: bool,
    /// Whether this process has locked the file of the journal.
    is_locked: bool,
    /// The error of the first failed write to the journal.
    failed: Option<Error>,
    /// The last state of each input file that a line of the journal has.
    stamps: Stamps,
}

/// States of input files as JSON values. The key is the index of the file.
type Stamps = BTreeMap<usize, Value>;

/// The content of a journal, which is the progress of one partial output.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Progress {
    /// The rows that are written.
    pub done: Rows,
    /// The change of the input or of the circumstances since the rows were written, as a text for
    /// messages. `None` if nothing has changed.
    pub changed: Option<String>,
    /// The ranges of rows that were written, with the hashes of their bytes. One call wrote each
    /// range.
    pub(crate) written: Vec<Written>,
    /// The ranges of `written` that may not be on the disk.
    pub(crate) unsynced: Vec<Written>,
    /// The inode number of the partial output.
    pub(crate) root: Option<u64>,
    /// The time at which the partial output was created, if several processes share it.
    pub(crate) created: Option<u64>,
    /// Whether the process of this journal has written all of its rows.
    pub(crate) is_finished: bool,
    /// The length of the complete lines together in bytes.
    end: u64,
    stamps: Stamps,
}

impl Journal {
    /// Opens or creates the journal at `path`, and locks it until this value is dropped. If the
    /// file system has no locks, the journal is not locked (see [`is_locked`](Self::is_locked)).
    ///
    /// # Errors
    /// `InvalidValue` if another run has locked the journal, or if the file is not a journal. `Io`
    /// if the file cannot be opened.
    pub fn lock(path: &Path) -> Result<Self> {
        let (file, is_new) = Self::open(path)?;
        match file.try_lock() {
            Ok(()) => Self::opened(file, path, is_new, true),
            Err(TryLockError::WouldBlock) => {
                let cause =
                    "another run is writing this output; wait for it or choose another output";
                Err(file_error::refused("journal", path, cause))
            }
            Err(TryLockError::Error(error)) if has_no_locks(&error) => {
                Self::opened(file, path, is_new, false)
            }
            Err(TryLockError::Error(error)) => Err(Self::not_locked(&file, path, is_new, error)),
        }
    }

    /// Opens or creates the journal that several processes share. Waits until no other process has
    /// locked this journal. Each process locks the shared journal only for a short time.
    ///
    /// # Errors
    /// Errors of [`lock`](Self::lock), except the error for a journal that another run has locked.
    pub(crate) fn wait(path: &Path) -> Result<Self> {
        let io = |error| file_error::io("journal", path, error);
        loop {
            let (file, is_new) = Self::open(path)?;
            let is_locked = match file.lock() {
                Ok(()) => true,
                Err(error) if has_no_locks(&error) => false,
                Err(error) => return Err(Self::not_locked(&file, path, is_new, error)),
            };
            // The process that had the lock before may have deleted the journal.
            if is_at(&file, path).map_err(io)? {
                return Self::opened(file, path, is_new, is_locked);
            }
        }
    }

    /// Returns the error for a journal that cannot be locked. If this process has created the
    /// journal, deletes it.
    fn not_locked(file: &File, path: &Path, is_new: bool, error: io::Error) -> Error {
        let error = file_error::io("journal", path, error);
        if !is_new || !is_at(file, path).unwrap_or(false) {
            return error;
        }
        match fs::remove_file(path) {
            Ok(()) => error,
            Err(second) => error.context(second.to_string()),
        }
    }

    /// Reads the journal at `path`. A running process may write to the journal at the same time.
    /// `None` if there is no journal, or if the header is incomplete.
    ///
    /// # Errors
    /// Errors of [`read`](Self::read).
    pub(crate) fn peek(path: &Path, fingerprint: &Fingerprint) -> Result<Option<Progress>> {
        let file = match File::options().read(true).custom_flags(NOFOLLOW).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(file_error::io("journal", path, error)),
        };
        Self::of(file, path).read(fingerprint)
    }

    /// Opens or creates the file of a journal. Returns the file, and whether this call has created
    /// it.
    fn open(path: &Path) -> Result<(File, bool)> {
        let io = |error| file_error::io("journal", path, error);
        let mut options = File::options();
        options.read(true).write(true).custom_flags(NOFOLLOW);
        loop {
            match fs::symlink_metadata(path) {
                Ok(metadata) if !metadata.is_file() => {
                    return Err(file_error::refused("journal", path, NOT_OURS));
                }
                Ok(_) => match options.open(path) {
                    // Another process has deleted the file.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    opened => return Ok((opened.map_err(io)?, false)),
                },
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    match options.clone().create_new(true).open(path) {
                        // Another process has created the file.
                        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                        opened => return Ok((opened.map_err(io)?, true)),
                    }
                }
                Err(error) => return Err(io(error)),
            }
        }
    }

    /// Makes a journal of an open file. Refuses the file if it was replaced, if it has a second
    /// name, or if it is not a journal.
    fn opened(file: File, path: &Path, is_new: bool, is_locked: bool) -> Result<Self> {
        let io = |error| file_error::io("journal", path, error);
        let refused = |cause| Err(file_error::refused("journal", path, cause));
        // Before this process got the lock, another file may have got the name `path`.
        if !is_at(&file, path).map_err(io)? {
            return refused("the file was replaced while it was opened; run the command again");
        }
        if file.metadata().map_err(io)?.nlink() != 1 {
            return refused(
                "the file has a second name (a hard link), and would change under both names; \
                 replace the file by a copy",
            );
        }
        let mut start = Vec::new();
        let most = MAGIC.len() as u64;
        (&file).take(most).read_to_end(&mut start).map_err(io)?;
        if !MAGIC.starts_with(&start) {
            return refused(NOT_OURS);
        }
        Ok(Self { is_new, is_locked, ..Self::of(file, path) })
    }

    /// The journal in an open file. This function does not read the file.
    fn of(file: File, path: &Path) -> Self {
        let (path, stamps) = (path.to_owned(), Stamps::new());
        Self { file, path, is_new: false, is_locked: false, failed: None, stamps }
    }

    /// Whether this process has locked the journal, so that no other run writes the output. The
    /// result is `false` if the file system has no locks.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.is_locked
    }

    /// Whether this process has created the file of the journal.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// The time at which the last line was written, as a text for messages.
    pub(crate) fn modified(&self) -> Result<String> {
        let io = |error| file_error::io("journal", &self.path, error);
        let modified = self.file.metadata().and_then(|metadata| metadata.modified()).map_err(io)?;
        Ok(jiff::Timestamp::try_from(modified).map_or_else(
            |_| "an unknown date".to_owned(),
            |at| at.strftime("%F %T UTC").to_string(),
        ))
    }

    /// Begins the journal of the run that `fingerprint` identifies: deletes the content of the
    /// file, and writes the header.
    ///
    /// # Errors
    /// `Io`.
    pub fn begin(&mut self, fingerprint: &Fingerprint) -> Result<()> {
        self.cut(0)?;
        self.stamps.clear();
        self.write(&format!("{}\n", json!(["trijet journal", 3, fingerprint.fields()])))
    }

    /// Reads the progress of the job that `fingerprint` identifies. `None` if the header is
    /// incomplete. In this case, the run died before it had created a partial output.
    ///
    /// # Errors
    /// `InvalidValue` if the journal belongs to another job. The message names the field that
    /// differs. `Io` if the header or a complete line is damaged.
    pub fn read(&self, fingerprint: &Fingerprint) -> Result<Option<Progress>> {
        match self.read_sound(fingerprint)? {
            Some((_, Some(damage))) => Err(damage),
            read => Ok(read.map(|(progress, _)| progress)),
        }
    }

    /// Reads the progress like [`read`](Self::read), but stops at the first damaged line. The
    /// second value is the error of the damaged line.
    ///
    /// # Errors
    /// Errors of [`read`](Self::read), except errors of damaged lines after the header.
    pub(crate) fn read_sound(
        &self,
        fingerprint: &Fingerprint,
    ) -> Result<Option<(Progress, Option<Error>)>> {
        let Some((header, mut end)) = self.header(fingerprint)? else { return Ok(None) };
        let (mut hashes, mut stamps) = (BTreeMap::new(), Stamps::new());
        // The states that the input files had when the rows that depend on them were written.
        let mut used = Stamps::new();
        let (mut root, mut created, mut synced, mut is_finished) = (None, None, 0, false);
        let mut damage = None;
        let mut reader = self.reader(end)?;
        let mut line = Vec::new();
        loop {
            line.clear();
            let bytes = reader.read_until(b'\n', &mut line).map_err(|error| self.io(error))?;
            // After a loss of power, a line that never reached the disk is replaced by zeros.
            if line.pop() != Some(b'\n') || line.contains(&0) {
                break;
            }
            let next = end + bytes as u64;
            match entry_of(&line, fingerprint) {
                Some(Entry::Root(number)) => root = Some(number),
                Some(Entry::Item(index, stamp)) => drop(stamps.insert(index, stamp)),
                Some(Entry::Rows(one)) => {
                    for index in fingerprint.items_of(&one.rows) {
                        used.insert(index, stamps.get(&index).cloned().unwrap_or(Value::Null));
                    }
                    hashes.insert((one.rows.start, one.rows.end), (one.hash, next));
                    is_finished = false;
                }
                Some(Entry::Lost(rows)) => {
                    hashes.remove(&(rows.start, rows.end));
                    is_finished = false;
                }
                Some(Entry::Synced(before)) => synced = before.min(end),
                Some(Entry::Created(time)) => created = Some(time),
                Some(Entry::Finished) => is_finished = true,
                None => {
                    let cause =
                        format!("the line at byte {end} is damaged; use --restart to start over");
                    damage = Some(file_error::damaged("journal", &self.path, cause));
                    break;
                }
            }
            end = next;
        }
        let mut progress =
            Progress { root, created, end, stamps, is_finished, ..Progress::default() };
        let mut needed = BTreeSet::new();
        for ((start, end), (hash, at)) in hashes {
            let one = Written { rows: start..end, hash };
            needed.extend(fingerprint.items_of(&one.rows));
            progress.done.insert(one.rows.clone());
            if at > synced {
                progress.unsynced.push(one.clone());
            }
            progress.written.push(one);
        }
        used.retain(|index, _| needed.contains(index));
        progress.changed =
            fingerprint.changed(&header).or_else(|| changed_items(&used, fingerprint));
        Ok(Some((progress, damage)))
    }

    /// Prepares the journal for further lines, and deletes an incomplete last line.
    ///
    /// # Errors
    /// `Io`.
    pub fn resume(&mut self, progress: &Progress) -> Result<()> {
        self.stamps.clone_from(&progress.stamps);
        self.cut(progress.end)
    }

    /// Appends a line for rows that are written. Before that line, appends a line for each input
    /// file on which the rows depend, unless the journal already has the state of that file.
    ///
    /// # Errors
    /// `Io`.
    pub fn append(&mut self, fingerprint: &Fingerprint, written: &Written) -> Result<()> {
        let Written { rows, hash } = written;
        let (mut lines, mut stamps) = (String::new(), Stamps::new());
        for index in fingerprint.items_of(rows) {
            let Some(stamp) = fingerprint.stamp(index) else { continue };
            if self.stamps.get(&index) != Some(&stamp) {
                lines.push_str(&format!("{}\n", json!({ "item": [index, stamp] })));
                stamps.insert(index, stamp);
            }
        }
        let line = json!({ "rows": [rows.start, rows.end], "xxh3": format!("{hash:016x}") });
        lines.push_str(&format!("{line}\n"));
        self.write(&lines)?;
        self.stamps.extend(stamps);
        Ok(())
    }

    /// Appends a line for each of these ranges. The line states that the rows of the range are
    /// lost. One call wrote each range.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn lose(&mut self, ranges: &[Range<u64>]) -> Result<()> {
        let line = |rows: &Range<u64>| format!("{}\n", json!({ "lost": [rows.start, rows.end] }));
        self.write(&ranges.iter().map(line).collect::<String>())
    }

    /// Appends a line with the inode number of the partial output.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn name_root(&mut self, root: u64) -> Result<()> {
        self.write(&format!("{}\n", json!({ "root": root })))
    }

    /// Appends a line which states that all lines before the byte `end` have their rows on the
    /// disk.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn mark_synced(&mut self, end: u64) -> Result<()> {
        self.write(&format!("{}\n", json!({ "synced": end })))
    }

    /// Appends a line with the time at which the partial output that several processes share was
    /// created.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn name_created(&mut self, time: u64) -> Result<()> {
        self.write(&format!("{}\n", json!({ "created": time })))
    }

    /// Appends a line which states that this process has written all of its rows.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn mark_finished(&mut self) -> Result<()> {
        self.write(&format!("{}\n", json!({ "finished": true })))
    }

    /// The length of the journal in bytes.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn end(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(|error| self.io(error))?.len())
    }

    /// Opens a second handle of the journal. The file stays locked until both handles are closed.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn handle(&self) -> Result<File> {
        self.file.try_clone().map_err(|error| self.io(error))
    }

    /// Makes every later append fail, for a test.
    #[cfg(test)]
    pub(crate) fn become_read_only(&mut self) {
        self.file = File::open(&self.path).expect("the journal exists");
    }

    /// Waits until the lines of the journal are on the disk.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| self.io(error))
    }

    /// Deletes the journal of a run that is finished, or that has written nothing.
    ///
    /// # Errors
    /// `Io`.
    pub fn remove(&self) -> Result<()> {
        if !is_at(&self.file, &self.path).map_err(|error| self.io(error))? {
            let cause = "the journal was replaced during the run, and is not deleted";
            return Err(file_error::refused("journal", &self.path, cause));
        }
        fs::remove_file(&self.path).map_err(|error| self.io(error))
    }

    /// The fields of the header, and the length of the header in bytes. `None` if the header is
    /// incomplete.
    fn header(&self, fingerprint: &Fingerprint) -> Result<Option<(Value, u64)>> {
        let mut line = Vec::new();
        let bytes = self.reader(0)?.read_until(b'\n', &mut line).map_err(|error| self.io(error))?;
        if line.pop() != Some(b'\n') {
            return Ok(None);
        }
        let header = serde_json::from_slice::<Value>(&line);
        let Some(fields) = header.ok().and_then(|mut header| Some(header.get_mut(2)?.take()))
        else {
            let cause = "the header is damaged; delete the file and the partial output next to it";
            return Err(file_error::damaged("journal", &self.path, cause));
        };
        if let Some(difference) = fingerprint.other_job(&fields) {
            let cause = format!(
                "the journal belongs to another job: {difference}; finish that job, or delete this \
                 file and the partial output next to it"
            );
            return Err(file_error::refused("journal", &self.path, cause));
        }
        Ok(Some((fields, bytes as u64)))
    }

    fn reader(&self, start: u64) -> Result<BufReader<&File>> {
        let mut reader = BufReader::new(&self.file);
        reader.seek(SeekFrom::Start(start)).map_err(|error| self.io(error))?;
        Ok(reader)
    }

    fn io(&self, error: io::Error) -> Error {
        file_error::io("journal", &self.path, error)
    }

    /// Cuts the file off after `bytes` bytes.
    fn cut(&mut self, bytes: u64) -> Result<()> {
        self.file.set_len(bytes).map_err(|error| self.io(error))
    }

    /// Appends lines with one write, so that only the end of the file can be incomplete. After a
    /// failed write, nothing more is appended, so that an incomplete line stays the last line.
    /// Every later call returns the error of the first failure, because the run may report the
    /// error of any thread.
    fn write(&mut self, lines: &str) -> Result<()> {
        if let Some(first) = &self.failed {
            return Err(first.again());
        }
        let end = self.end()?;
        self.file.write_all_at(lines.as_bytes(), end).map_err(|error| {
            let error = self.io(error);
            self.failed = Some(error.again());
            error
        })
    }
}

/// Whether an error means that the file system has no locks. Examples are Lustre without `flock`,
/// and NFS without a lock daemon. Some of these file systems return an error number that is
/// internal to the kernel.
fn has_no_locks(error: &io::Error) -> bool {
    const ENOTSUPP: i32 = 524;
    let lacks = [Errno::NOSYS, Errno::NOLCK, Errno::OPNOTSUPP].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|number| number == ENOTSUPP || lacks.contains(&number))
}

/// The reason to refuse a file that is not a journal.
const NOT_OURS: &str = "is not a journal of this program; move it elsewhere";

/// A text about the input files that have changed since the rows that depend on them were written.
/// `None` if no input file has changed.
fn changed_items(used: &Stamps, fingerprint: &Fingerprint) -> Option<String> {
    let stamps = used.iter().map(|(index, stamp)| (*index, stamp));
    let Changes { changed, doubtful } = fingerprint.changes_since(stamps);
    let since = "since rows that depend on it were written";
    if !changed.is_empty() {
        return Some(format!("the input has changed {since}: {}", fingerprint.names_of(changed)));
    }
    if doubtful.is_empty() {
        return None;
    }
    let names = fingerprint.names_of(doubtful);
    Some(format!("the state of the input (ctime) has changed {since}: {names}: {DOUBTFUL}"))
}
