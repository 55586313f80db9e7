//! The folder of a run: the library that the driver loads, the files of the processes, and a locked
//! file. While the file is locked, the processes know that this program still runs.
#![forbid(unsafe_code)]

use super::error::failed;
use super::injected::{INJECTION, Injected};
use rustix::fs::{StatVfsMountFlags, statvfs};
use std::collections::HashSet;
use std::fmt;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use trijet::{Error, ErrorKind, Result};
use trijet_cupti::disk::{LIBRARY, TRACER};
use trijet_io::shown;

/// The tracing library, which the build script compiled.
const LIBRARY_BYTES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libtrijet_trace.so"));

/// The folder of one run. When this value is dropped, the folder is removed.
#[derive(Debug)]
pub(crate) struct Folder {
    folder: TempDir,
    /// The process that made the folder. A forked child does not remove it.
    process: u32,
    pub(super) injected: Injected,
    /// The file that stays locked until this program ends.
    _tracer: File,
}

impl Folder {
    /// The folder for a recording of this process itself.
    pub(crate) fn of_this_process(injected: Injected) -> Result<Self> {
        if std::env::var_os(INJECTION).is_some() {
            let cause =
                format!("{INJECTION} is set: another tool traces this program; unset it first");
            return Err(Error::new(ErrorKind::InvalidValue, injected.verb(), cause));
        }
        Self::create(injected)
    }

    pub(crate) fn create(injected: Injected) -> Result<Self> {
        let folder = TempDir::with_prefix(format!("trijet-{}-", injected.verb()))
            .map_err(|error| failed("create a folder for the run", &error))?;
        let here = folder.path();
        let write = || fs::write(here.join(LIBRARY), LIBRARY_BYTES);
        write().map_err(|error| failed("write the library for the driver", &error))?;
        let tracer = File::create(here.join(TRACER)).and_then(|file| {
            file.lock()?;
            Ok(file)
        });
        let tracer = tracer.map_err(|error| {
            let cause = format!(
                "{}: {error}; set TMPDIR to a folder of a file system that has locks",
                shown(here)
            );
            Error::new(ErrorKind::Io, "lock the folder for the run", cause)
        })?;
        let mounted = statvfs(here).map_err(|error| failed("examine the folder", &error.into()))?;
        if mounted.f_flag.contains(StatVfsMountFlags::NOEXEC) {
            let cause = format!(
                "{} is mounted noexec, so the driver cannot load the library; set TMPDIR to \
                 another folder",
                shown(here)
            );
            return Err(Error::new(ErrorKind::Unsupported, injected.verb(), cause));
        }
        Ok(Self { folder, process: std::process::id(), injected, _tracer: tracer })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn library(&self) -> PathBuf {
        self.path().join(LIBRARY)
    }

    /// The files of the processes, in the order in which the files were created.
    pub(crate) fn files(&self) -> Result<Vec<PathBuf>> {
        files_in(self.path(), self.injected)
    }

    /// The processes of this run that have not ended: the processes that still write a trace, and
    /// the processes with the environment of this run.
    pub(super) fn running(&self) -> Vec<Running> {
        let mut running = self.with_environment();
        for file in self.files().unwrap_or_default() {
            let is_locked = File::open(&file)
                .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)));
            let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let number = name.split('-').next().and_then(|number| number.parse().ok());
            if let Some(number) = number.filter(|_| is_locked)
                && running.iter().all(|one| one.number != number)
            {
                running.push(Running { number, name: String::new() });
            }
        }
        running
    }

    /// The processes whose environment names this folder. If any of these processes still runs, at
    /// least one is found. A process that ends during the search may have started another process.
    /// So the list of processes is read again until a process of the run is found, or until the
    /// list has no new process.
    fn with_environment(&self) -> Vec<Running> {
        let wanted =
            format!("{}={}", self.injected.variable(), self.path().to_string_lossy()).into_bytes();
        let (mut seen, mut found) = (HashSet::new(), Vec::new());
        for _ in 0..LISTS_MAX {
            let before = seen.len();
            for number in processes() {
                if !seen.insert(number) {
                    continue;
                }
                let folder = PathBuf::from(format!("/proc/{number}"));
                if environment(&folder).split(|byte| *byte == 0).any(|one| one == wanted) {
                    let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
                    found.push(Running { number, name: name.trim_end().to_owned() });
                }
            }
            if !found.is_empty() || seen.len() == before {
                break;
            }
        }
        found
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            self.folder.disable_cleanup(true);
        }
    }
}

/// The files of processes in a folder, in the order in which they were created.
pub(crate) fn files_in(folder: &Path, injected: Injected) -> Result<Vec<PathBuf>> {
    let list = |error| failed("list the files of processes", &error);
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(list)? {
        let path = entry.map_err(list)?.path();
        if path.extension().is_some_and(|extension| extension == injected.extension()) {
            // The name of the file consists of the number of the process and a time.
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let time: u128 =
                name.rsplit('-').next().and_then(|time| time.parse().ok()).unwrap_or(0);
            files.push((time, path));
        }
    }
    files.sort();
    Ok(files.into_iter().map(|(_, path)| path).collect())
}

/// Maximum number of times that one search reads the list of processes.
const LISTS_MAX: usize = 10_000;

/// The numbers of all processes.
fn processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Reads the environment of the process whose folder in `/proc` is `folder`. The result is empty if
/// the process has no environment, or if this program has no permission to read it. While a process
/// replaces its program (`exec`), the process has no environment for a moment. This function waits
/// until that moment is over.
fn environment(folder: &Path) -> Vec<u8> {
    loop {
        let found = fs::read(folder.join("environ")).unwrap_or_default();
        let is_new = || {
            // Threads of the Linux kernel and processes that have ended have no program.
            let stat = fs::read_link(folder.join("exe")).and(fs::read(folder.join("stat")));
            // The 51st field is the address of the end of the environment. The second field is the
            // name of the program in parentheses, and may contain any bytes.
            let stat = stat.unwrap_or_default();
            let after = stat.iter().rposition(|byte| *byte == b')').map_or(0, |at| at + 1);
            let mut fields = stat[after..].split(|byte| *byte == b' ').skip(1);
            fields.nth(51 - 3).is_some_and(|end| end == b"0")
        };
        if !found.is_empty() || !is_new() {
            return found;
        }
        std::thread::yield_now();
    }
}

/// A process that still runs.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) number: i32,
    name: String,
}

impl fmt::Display for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", format!("{} {}", self.number, self.name).trim_end())
    }
}
