//! A thread that creates the pages of a new file in advance.
//!
//! A new file has no pages. The creation of its pages takes most of the time of the writes. In a
//! file system in memory, any number of threads together write a new file at 5 GB/s. They write a
//! file whose pages exist at 20 to 30 GB/s (`files-ways.txt`). A run has other work before its
//! first row, such as starting CUDA. So the file is created without a name at once, and a thread
//! starts to create its pages. When the first row arrives, the file gets its name. If the process
//! dies before that, no file remains.
//!
//! The thread creates at most a limited number of bytes before the rows arrive. On a disk, pages
//! that were created too early would be written twice, and would displace the input from the page
//! cache.

use memmap2::{Advice, MmapOptions};
use rustix::fs::{AtFlags, CWD, FallocateFlags, OFlags, fallocate, fstatfs, fstatvfs, linkat};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

/// The number of bytes whose pages are created by one call of the system. In a file system in
/// memory, a write to the file waits until this call has ended.
const STEP_BYTES: u64 = 32 << 20;
/// Maximum number of bytes of pages that the thread creates before their rows arrive. The thread
/// creates this number of bytes in half a second, which is the time in which CUDA starts.
const AHEAD_BYTES: u64 = 4 << 30;
/// Minimum size of a file for which the thread is started. A smaller file would be complete before
/// the thread has started.
const FILE_MIN: u64 = 64 << 20;
/// The type of a file system in memory, as `statfs` reports it.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// The call of the system that creates the pages of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Make {
    /// `fallocate`. On a file system in memory, this call creates pages. On a disk, it only
    /// reserves space.
    Allocate,
    /// A mapping with `MADV_POPULATE_WRITE`, which creates pages on any file system.
    Populate,
}

/// The number of bytes of rows that were written to the file, and whether the thread is to end.
#[derive(Debug, Default)]
struct WrittenAhead {
    bytes: u64,
    is_over: bool,
}

/// The next step of the thread that creates pages.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Make(Range<u64>),
    /// The thread has created as many pages as it may, and waits for more rows.
    Wait,
    End,
}

impl WrittenAhead {
    /// The next step of the thread after it has created the pages of the first `at` bytes. The file
    /// has `bytes` bytes.
    fn next(&self, at: u64, bytes: u64) -> Next {
        // Rows arrive approximately in order, and writing a row creates its pages. So the thread
        // continues after the rows that have arrived.
        let start = at.max(self.bytes / STEP_BYTES * STEP_BYTES);
        if self.is_over || start >= bytes {
            Next::End
        } else if start >= self.bytes.saturating_add(AHEAD_BYTES) {
            Next::Wait
        } else {
            Next::Make(start..bytes.min(start + STEP_BYTES))
        }
    }
}

#[derive(Debug)]
struct Shared {
    file: File,
    bytes: u64,
    written: Mutex<WrittenAhead>,
    changed: Condvar,
}

/// A new file, and the thread that creates its pages. The thread ends when this value is dropped.
#[derive(Debug)]
pub struct Ahead {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Ahead {
    /// Creates a file of `bytes` bytes without a name in `folder`, and starts the thread that
    /// creates its pages. `None` if this is not possible, or would not make the run faster.
    /// `waits_for_disk` states that the run waits for the disk while it writes. On a disk, the
    /// thread is useless for such a run, because each wait would write pages to the disk before
    /// their rows arrive.
    pub(super) fn start(folder: &Path, bytes: u64, waits_for_disk: bool) -> Option<Self> {
        if bytes < FILE_MIN {
            return None;
        }
        let mut options = File::options();
        let flags = OFlags::TMPFILE.bits().cast_signed();
        let file = options.read(true).write(true).custom_flags(flags).open(folder).ok()?;
        let is_tmpfs = u64::try_from(fstatfs(&file).ok()?.f_type).ok()? == TMPFS_MAGIC;
        let make = match (is_tmpfs, waits_for_disk) {
            (true, _) => Make::Allocate,
            (false, false) => Make::Populate,
            (false, true) => return None,
        };
        file.set_len(bytes).ok()?;
        let (written, changed) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { file, bytes, written, changed });
        let own = Arc::clone(&shared);
        let thread = Builder::new().name("pages".to_owned()).spawn(move || {
            if make == Make::Populate {
                reserve(&own.file, own.bytes);
            }
            own.make_pages(make);
        });
        Some(Self { shared, thread: Some(thread.ok()?) })
    }

    /// Gives the file the name `path`, which must not exist yet. Returns a second handle of the
    /// file.
    ///
    /// # Errors
    /// Errors of the system. The file then stays without a name.
    pub(super) fn name(&self, path: &Path) -> io::Result<File> {
        let file = self.shared.file.try_clone()?;
        let own = format!("/proc/self/fd/{}", file.as_raw_fd());
        linkat(CWD, own, CWD, path, AtFlags::SYMLINK_FOLLOW)?;
        Ok(file)
    }

    /// Adds the number of bytes of rows that were written to the file.
    pub(super) fn wrote(&self, bytes: u64) {
        self.shared.written().bytes += bytes;
        self.shared.changed.notify_one();
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.shared.written().is_over = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // The thread returns no error; `make_pages` explains the reason.
            drop(thread.join());
        }
    }
}

impl Shared {
    fn written(&self) -> MutexGuard<'_, WrittenAhead> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the pages that do not exist yet. Stops at an error without reporting it. If pages
    /// are missing for this reason, the write of their rows reports the cause.
    fn make_pages(&self, make: Make) {
        let mut at = 0;
        while let Some(pages) = self.wait(at) {
            let made = match make {
                Make::Allocate => allocate(&self.file, pages.start, pages.end - pages.start),
                Make::Populate => populate(&self.file, pages.start, pages.end - pages.start),
            };
            if made.is_err() {
                return;
            }
            at = pages.end;
        }
    }

    /// Waits until more pages may be created, and returns the byte range of these pages. The range
    /// starts at `at` or later. `None` if no more pages are to be created.
    fn wait(&self, at: u64) -> Option<Range<u64>> {
        let mut written = self.written();
        loop {
            match written.next(at, self.bytes) {
                Next::Make(pages) => return Some(pages),
                Next::End => return None,
                Next::Wait => {}
            }
            written = self.changed.wait(written).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Reserves the space of a new file on a disk in one piece. This makes the writes to the file
/// faster. Errors are ignored, because an error that matters occurs again when the rows are
/// written. If the file takes more than half of the free space, nothing is reserved. Other programs
/// can then use this space until the rows are written.
pub(super) fn reserve(file: &File, bytes: u64) {
    let free = fstatvfs(file).map(|state| state.f_bavail.saturating_mul(state.f_frsize));
    if free.is_ok_and(|free| bytes <= free / 2) {
        drop(allocate(file, 0, bytes));
    }
}

fn allocate(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    Ok(fallocate(file, FallocateFlags::empty(), offset, bytes)?)
}

fn populate(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    let len = usize::try_from(bytes).map_err(io::Error::other)?;
    MmapOptions::new().offset(offset).len(len).map_raw(file)?.advise(Advice::PopulateWrite)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::fstat;
    use std::os::unix::fs::MetadataExt;

    /// Whatever happens to the file without a name, the folder stays empty until the first row
    /// arrives.
    #[test]
    fn a_file_without_a_name_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let ahead = Ahead::start(folder.path(), FILE_MIN, false)
            .expect("the system can create a file without a name, and a thread");
        drop(ahead);
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn a_name_that_exists_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        std::fs::write(&path, "mine").unwrap();
        let ahead = Ahead::start(folder.path(), FILE_MIN, false)
            .expect("the system can create a file without a name, and a thread");
        let error = ahead.name(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    }

    #[test]
    fn a_named_file_has_its_length_and_one_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let ahead = Ahead::start(folder.path(), FILE_MIN, false)
            .expect("the system can create a file without a name, and a thread");
        let file = ahead.name(&path).unwrap();
        ahead.wrote(FILE_MIN);
        drop(ahead);
        let (named, opened) = (path.metadata().unwrap(), file.metadata().unwrap());
        assert_eq!((named.ino(), named.len(), named.nlink()), (opened.ino(), FILE_MIN, 1));
    }

    #[test]
    fn both_ways_make_pages_and_change_no_byte() {
        let folder = tempfile::tempdir().unwrap();
        for make in [Make::Allocate, Make::Populate] {
            let file = tempfile::tempfile_in(folder.path()).unwrap();
            let bytes = 3 * STEP_BYTES / 2;
            file.set_len(bytes).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&file, b"row", STEP_BYTES + 7).unwrap();
            let (written, changed) = (Mutex::default(), Condvar::new());
            let shared = Shared { file, bytes, written, changed };
            shared.make_pages(make);
            let state = fstat(&shared.file).unwrap();
            let has = u64::try_from(state.st_blocks).unwrap() * 512;
            assert!(has >= bytes, "{make:?}: {has} of {bytes} bytes have pages");
            let mut found = vec![1; usize::try_from(bytes).unwrap()];
            std::os::unix::fs::FileExt::read_exact_at(&shared.file, &mut found, 0).unwrap();
            let at = usize::try_from(STEP_BYTES).unwrap() + 7;
            assert_eq!(&found[at..at + 3], b"row");
            found[at..at + 3].fill(0);
            assert!(found.iter().all(|byte| *byte == 0), "{make:?}");
        }
    }

    #[test]
    fn pages_are_made_a_limited_number_of_bytes_ahead() {
        let written = |bytes, is_over| WrittenAhead { bytes, is_over };
        let file = 3 * AHEAD_BYTES + 5;
        assert_eq!(written(0, false).next(0, file), Next::Make(0..STEP_BYTES));
        assert_eq!(written(0, false).next(AHEAD_BYTES, file), Next::Wait);
        let after = AHEAD_BYTES..AHEAD_BYTES + STEP_BYTES;
        assert_eq!(written(1, false).next(AHEAD_BYTES, file), Next::Make(after));
        // The writes of rows have created the pages of these rows, so the next step starts after
        // these pages.
        let far = 2 * AHEAD_BYTES;
        assert_eq!(written(far + 7, false).next(0, file), Next::Make(far..far + STEP_BYTES));
        assert_eq!(written(file - 2, false).next(0, file), Next::Make(file - 5..file));
        assert_eq!(written(file, false).next(file - 5, file), Next::Make(file - 5..file));
        assert_eq!(written(far, false).next(file, file), Next::End);
        assert_eq!(written(0, true).next(0, file), Next::End);
    }
}
