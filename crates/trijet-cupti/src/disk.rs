//! The trace file of this process on the disk.
//!
//! The traced program may close any descriptor, and may then get the same number for its own file.
//! So the recorder has no descriptor in the descriptor table of the program. Instead, the thread of
//! the recorder has its own descriptor table. If the system does not support such tables, the file
//! is opened for each write, and its identity is compared with the file that was created.

use crate::system;
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The name of the file in the folder of a trace that `trijet trace` keeps locked while it runs.
pub const TRACER: &str = "tracer";
/// The extension of the trace file of a process.
pub const EXTENSION: &str = "trijet";
/// The name of the tracing library in the folder of a trace.
pub const LIBRARY: &str = "libtrijet_trace.so";

/// Minimum number of bytes that the recorder leaves free on the disk. The traced program may need
/// them.
const FREE_BYTES_MIN: u64 = 256 << 20;
/// `O_NOFOLLOW` of Linux. With this flag, opening a symbolic link fails.
const NO_FOLLOW: i32 = 0o400_000;

/// The reason why the recorder writes nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The disk is nearly full.
    Full,
    /// `trijet trace` has ended.
    Ended,
    /// A write failed, or the file is gone.
    Lost,
}

/// The trace file of this process.
#[derive(Debug)]
pub(crate) struct Disk {
    folder: PathBuf,
    path: PathBuf,
    folder_name: CString,
    identity: (u64, u64),
    /// The open trace file, which this process keeps locked. `None` if the thread of the recorder
    /// has no descriptor table of its own.
    kept: Option<File>,
    /// The open file [`TRACER`], which `trijet trace` keeps locked. `None` in the same case as
    /// `kept`.
    tracer: Option<File>,
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).custom_flags(NO_FOLLOW).open(path)
}

impl Disk {
    /// Creates the file of this process, and writes `first` to it. The name of the file contains
    /// the number of the process and the present time. The time is needed because a process may
    /// replace its program (`exec`), and because process numbers are reused.
    pub(crate) fn create(folder: PathBuf, extension: &str, first: &[u8]) -> io::Result<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let path = folder.join(format!("{}-{now}.{extension}", std::process::id()));
        let mut file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(NO_FOLLOW)
            .open(&path)?;
        let found = file.metadata()?;
        file.write_all(first)?;
        let folder_name = CString::new(folder.as_os_str().as_bytes())?;
        Ok(Self {
            folder,
            path,
            folder_name,
            identity: (found.dev(), found.ino()),
            kept: None,
            tracer: None,
        })
    }

    /// Opens and locks the trace file for as long as this process lives. Must be called on a thread
    /// with its own descriptor table. `trijet trace` waits while the file is locked.
    pub(crate) fn keep_open(&mut self) {
        let opened = append(&self.path).and_then(|file| {
            file.try_lock()?;
            Ok(file)
        });
        self.kept = opened.ok();
        self.tracer = File::open(self.folder.join(TRACER)).ok();
    }

    /// Appends whole blocks to the trace file, if enough space on the disk stays free.
    pub(crate) fn append(&mut self, blocks: &[u8]) -> Result<(), Stop> {
        if system::free_bytes(&self.folder_name)
            .is_some_and(|free| free < FREE_BYTES_MIN.saturating_add(blocks.len() as u64))
        {
            return Err(Stop::Full);
        }
        self.append_now(blocks)
    }

    /// Appends whole blocks to the trace file, even if the disk is nearly full. This is for the end
    /// of a trace.
    pub(crate) fn append_now(&mut self, blocks: &[u8]) -> Result<(), Stop> {
        if let Some(file) = &mut self.kept {
            return file.write_all(blocks).map_err(|_| Stop::Lost);
        }
        let mut file = append(&self.path).map_err(|_| Stop::Lost)?;
        let found = file.metadata().map_err(|_| Stop::Lost)?;
        if (found.dev(), found.ino()) != self.identity {
            return Err(Stop::Lost);
        }
        file.write_all(blocks).map_err(|_| Stop::Lost)
    }

    /// Whether `trijet trace` still runs. While it runs, it keeps the file [`TRACER`] locked. If
    /// that file exists but cannot be opened, the result is `true`.
    pub(crate) fn is_wanted(&self) -> bool {
        if let Some(tracer) = &self.tracer {
            return tracer.try_lock_shared().is_err();
        }
        match File::open(self.folder.join(TRACER)) {
            Ok(tracer) => tracer.try_lock_shared().is_err(),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }

    /// Removes the trace file. If the folder has no trace file of another process, removes the
    /// files of `trijet trace` and the folder as well. A file that cannot be removed stays.
    pub(crate) fn remove(&self) {
        let is_trace = |file: &std::fs::DirEntry| file.path().extension() == self.path.extension();
        let removed = std::fs::remove_file(&self.path)
            .and_then(|()| std::fs::read_dir(&self.folder))
            .and_then(|files| {
                if files.flatten().any(|file| is_trace(&file)) {
                    return Ok(());
                }
                std::fs::remove_file(self.folder.join(TRACER))?;
                std::fs::remove_file(self.folder.join(LIBRARY))?;
                std::fs::remove_dir(&self.folder)
            });
        drop(removed);
    }
}
