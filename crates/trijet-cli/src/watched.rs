//! The calls of this process to the CUDA driver, judged while it runs.

use crate::cmd::check::of_program;
use crate::cmd::program::{Folder, INJECTION, Injected, files_in};
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use trijet::check::Assume;
use trijet::{Error, ErrorKind, Result};
use trijet_calls::GrowingCalls;
use trijet_cupti::calls::{CALLS, KERNELS, ONLY};
use trijet_io::{file_error, shown};

/// A finding in the calls of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramFinding {
    /// The text of `trijet check -- PROGRAM`.
    pub text: String,
    /// Whether it is an error. If not, it is a possible conflict.
    pub is_error: bool,
}

/// The recording of the calls of this process. The driver loads the recorder when the process
/// initialises CUDA. When this value is dropped, the recorder ends, and its folder is removed.
#[derive(Debug)]
pub struct WatchedProcess {
    folder: Folder,
    has_kernels: bool,
    /// The file of this process, and the number of its bytes that were read.
    file: Option<(PathBuf, u64)>,
    calls: GrowingCalls,
}

impl WatchedProcess {
    /// Makes the folder. `has_kernels` records the memory that kernels access too, by the Compute
    /// Sanitizer API.
    ///
    /// # Errors
    /// `InvalidValue` if another tool traces this process; `Io`; `Unsupported` if the driver could
    /// not load a library from the folder.
    pub fn create(has_kernels: bool) -> Result<Self> {
        let folder = Folder::of_this_process(Injected::Calls)?;
        let calls = GrowingCalls::new(Assume::DriverObserved);
        Ok(Self { folder, has_kernels, file: None, calls })
    }

    /// The path of the recorder.
    #[must_use]
    pub fn library(&self) -> PathBuf {
        self.folder.library()
    }

    /// The variables of the environment, and their values.
    #[must_use]
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        let folder = self.folder.path().as_os_str().to_owned();
        let own = std::process::id().to_string().into();
        let library = self.library().into_os_string();
        let mut all = vec![(CALLS, folder), (ONLY, own), (INJECTION, library)];
        all.extend(self.has_kernels.then(|| (KERNELS, "1".into())));
        all
    }

    /// The findings since the last look, after the recorder has written its calls.
    ///
    /// # Errors
    /// `Io`; `InvalidValue` if the file contradicts itself.
    pub fn look(&mut self) -> Result<Vec<ProgramFinding>> {
        let own = format!("{}-", std::process::id());
        if self.file.is_none() {
            let is_own = |path: &PathBuf| {
                path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&own))
            };
            let files = files_in(self.folder.path(), Injected::Calls)?;
            self.file = files.into_iter().find(is_own).map(|path| (path, 0));
        }
        let Some((path, read)) = &mut self.file else { return Ok(Vec::new()) };
        let mut bytes = Vec::new();
        let opened = File::open(&*path).and_then(|mut file| {
            file.seek(SeekFrom::Start(*read))?;
            file.read_to_end(&mut bytes)
        });
        opened.map_err(|error| file_error::io("check", path, error))?;
        *read += bytes.len() as u64;
        self.calls.push(&bytes).map_err(|error| {
            let cause = format!("{}: {error}", shown(path));
            Error::new(ErrorKind::InvalidValue, "check", cause)
        })?;
        Ok(self.calls.look().map_or_else(Vec::new, |judged| {
            let finding = |(text, is_error)| ProgramFinding { text, is_error };
            of_program(&judged).into_iter().map(finding).collect()
        }))
    }

    /// The number of calls that were read.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls.calls()
    }

    /// The reason why the calls were not recorded or not judged, if some were not.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        let waits =
            "kernels have not ended, so the calls from their launches on are not judged yet";
        let waiting = || self.calls.is_waiting().then(|| waits.to_owned());
        self.calls.troubles().first().cloned().or_else(waiting)
    }
}
