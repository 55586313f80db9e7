//! Saved runs: the texts, the JSON and the pages of `trijet check FILE` and `trijet trace --read`,
//! for programs that use this library. Also [`Recording`], with which a program traces itself.

use crate::cmd::program::{Folder, INJECTION, Injected, RANGES_INJECTION, files_in};
use crate::cmd::{check, trace};
use serde_json::Value;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use trijet::check::Assume;
use trijet::trace::activity::ProcessTrace;
use trijet::{Error, ErrorKind, Result};
use trijet_cupti::choice::{RECORD, value_of};
use trijet_cupti::disk::EXTENSION;
use trijet_cupti::file::{HEAD_BYTES, MAGIC};
use trijet_cupti::recorder::RECORDINGS;
use trijet_io::{Existing, NewFile, file_error, shown};
use trijet_ledger::profile::{FiguresOf, Profile, analyse, text};
use trijet_tools::allocations::text_of;
use trijet_traces::{is_json, nsys};

/// A saved run.
#[derive(Debug)]
pub struct Saved(Kind);

#[derive(Debug)]
enum Kind {
    Ledger { path: PathBuf, checked: check::Checked },
    Trace(Trace),
}

#[derive(Debug)]
struct Trace {
    files: Vec<PathBuf>,
    traces: Vec<ProcessTrace>,
    profile: Profile,
    /// The reason why there is nothing to show.
    missing: Option<String>,
    /// Files of a folder that was removed. `files` names them by their descriptors.
    _removed: Vec<File>,
}

impl Trace {
    /// Reads trace files. With `whole`, the figures are about the whole run, and not its steps.
    fn read(files: Vec<PathBuf>, whole: bool) -> Result<Self> {
        let extent = if whole { FiguresOf::Whole } else { FiguresOf::Steps };
        let mut traces = Vec::new();
        for file in &files {
            traces.extend(trace::load(file)?);
        }
        let profile = Profile::of(traces.iter_mut().map(|one| analyse(one, extent)).collect());
        let missing = trace::missing(&profile.processes, files.len());
        Ok(Self { files, traces, profile, missing, _removed: Vec::new() })
    }
}

/// Whether a file is a trace of processes, by its first bytes: of `trijet trace`, of PyTorch's
/// profiler, or of Nsight Systems. A file without the bytes of any of these formats is one if it
/// has the extension of one.
fn is_trace(path: &Path) -> Result<bool> {
    let mut start = Vec::new();
    let read = File::open(path)
        .and_then(|file| file.take((HEAD_BYTES + MAGIC.len()) as u64).read_to_end(&mut start));
    read.map_err(|error| file_error::io("read", path, error))?;
    let is_named = path.extension().is_some_and(|extension| extension == EXTENSION);
    let is_own = start.get(HEAD_BYTES..).is_some_and(|magic| magic == MAGIC);
    Ok(is_own || is_named || is_json(&start) || nsys::is_sqlite(&start))
}

fn refused(op: &'static str, cause: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidValue, op, cause.into())
}

impl Saved {
    /// Reads a ledger file, a trace of `trijet trace`, PyTorch's profiler or Nsight Systems, or a
    /// folder with files of `trijet trace`. With `whole`, the figures of a trace are about the
    /// whole run, and not about its steps.
    ///
    /// # Errors
    /// `Io`; `InvalidValue` for a folder without traces.
    pub fn read(path: &Path, whole: bool) -> Result<Self> {
        if path.is_dir() {
            let files = files_in(path, Injected::Trace)?;
            if files.is_empty() {
                let cause =
                    format!("{}: no file in the folder ends with .{EXTENSION}", shown(path));
                return Err(refused("read", cause));
            }
            return Ok(Self(Kind::Trace(Trace::read(files, whole)?)));
        }
        if is_trace(path)? {
            let trace = Trace::read(vec![path.to_owned()], whole)?;
            if trace.traces.is_empty() {
                let cause = format!("{}: the file is empty", shown(path));
                return Err(Error::new(ErrorKind::Io, "read", cause));
            }
            return Ok(Self(Kind::Trace(trace)));
        }
        let checked = check::check_file(path, Assume::Documented)?;
        Ok(Self(Kind::Ledger { path: path.to_owned(), checked }))
    }

    /// `ledger` or `trace`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match &self.0 {
            Kind::Ledger { .. } => "ledger",
            Kind::Trace(_) => "trace",
        }
    }

    /// The text that the command prints.
    #[must_use]
    pub fn summary(&self) -> String {
        match &self.0 {
            Kind::Ledger { path, checked } => check::lines(path, checked).join("\n"),
            Kind::Trace(Trace { missing: Some(reason), .. }) => {
                format!("nothing was traced: {reason}")
            }
            Kind::Trace(trace) => text(&trace.profile).trim_end().to_owned(),
        }
    }

    /// The fields that the command prints with `--json`.
    #[must_use]
    pub fn json(&self) -> Value {
        match &self.0 {
            Kind::Ledger { path, checked } => check::json(path, checked),
            Kind::Trace(trace) => trace::json(&trace.profile, trace.missing.as_deref()),
        }
    }

    /// The verdict of the checker, and whether it has no error. `None` for a trace, because it does
    /// not contain the accesses of kernels.
    #[must_use]
    pub fn verdict(&self) -> Option<(String, bool)> {
        match &self.0 {
            Kind::Ledger { checked, .. } => Some((checked.verdict(), checked.is_clean())),
            Kind::Trace(_) => None,
        }
    }

    /// The reason why a trace has nothing to show. `None` if it has something, and for a ledger.
    #[must_use]
    pub fn missing(&self) -> Option<&str> {
        match &self.0 {
            Kind::Ledger { .. } => None,
            Kind::Trace(trace) => trace.missing.as_deref(),
        }
    }

    fn trace(&self, op: &'static str) -> Result<&Trace> {
        match &self.0 {
            Kind::Ledger { .. } => {
                let cause = "a ledger has only a text and JSON; the run itself writes a page, with \
                             `--trace run.html` of `trijet map` or `save` of its report";
                Err(refused(op, cause))
            }
            Kind::Trace(Trace { missing: Some(reason), .. }) => {
                Err(refused(op, format!("nothing was traced: {reason}")))
            }
            Kind::Trace(trace) => Ok(trace),
        }
    }

    /// The page of a trace, as HTML.
    ///
    /// # Errors
    /// `InvalidValue` for a ledger, and for a trace without activities.
    pub fn page(&self) -> Result<Vec<u8>> {
        let trace = self.trace("save the page")?;
        Ok(trace::page_of(&trace.traces, &trace.profile, None))
    }

    /// Saves a trace: a page if the name ends with `.html`, and otherwise a file for `trijet trace
    /// --read`. An existing file is replaced.
    ///
    /// # Errors
    /// `InvalidValue` as for [`Saved::page`], and for a file that the trace was read from; `Io`.
    pub fn save(&self, path: &Path) -> Result<()> {
        let trace = self.trace("save the trace")?;
        let sources: Vec<&Path> = trace.files.iter().map(PathBuf::as_path).collect();
        let output = NewFile::new("save the trace", path, Existing::Replaced, &sources)?;
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("html")) {
            let page = self.page()?;
            return output.write(|file| file.write_all(&page));
        }
        output.write(|file| trace::join(&trace.files, file))
    }

    /// The allocations of a trace, as text for `trijet replay`.
    ///
    /// # Errors
    /// `InvalidValue` as for [`Saved::page`], and if no device memory was allocated.
    pub fn memory(&self) -> Result<String> {
        let trace = self.trace("save the allocations")?;
        Ok(text_of(&trace::traces_of(&trace.traces)?))
    }
}

/// A folder in which this process, and the processes that it starts, record themselves if they
/// initialise CUDA while the variables of [`Recording::environment`] are set. When this value is
/// dropped, the folder is removed, and the recording ends.
#[derive(Debug)]
pub struct Recording {
    folder: Folder,
    /// The value of the variable that chooses the records.
    chosen: Option<String>,
}

impl Recording {
    /// Makes the folder. `record` and `graphs` are the options of `trijet trace`; `record` is
    /// `None` for its default.
    ///
    /// # Errors
    /// `InvalidValue` for a word that is no such option, and if another tool traces this process;
    /// `Io`; `Unsupported` if the driver could not load a library from the folder.
    pub fn create(record: Option<&[String]>, graphs: &str) -> Result<Self> {
        let chosen = value_of(record, graphs).map_err(|why| refused("trace", why))?;
        Ok(Self { folder: Folder::of_this_process(Injected::Trace)?, chosen })
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The path of the tracing library.
    #[must_use]
    pub fn library(&self) -> PathBuf {
        self.folder.library()
    }

    /// The variables of the environment, and their values.
    #[must_use]
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        let library = || self.library().into_os_string();
        let mut variables =
            vec![(RECORDINGS, self.path().as_os_str().to_owned()), (INJECTION, library())];
        // A tool for the ranges alone, which the user has chosen, gets them.
        if std::env::var_os(RANGES_INJECTION).is_none() {
            variables.push((RANGES_INJECTION, library()));
        }
        variables.extend(self.chosen.iter().map(|value| (RECORD, value.into())));
        variables
    }

    /// Ends the recording, and removes the folder. The recorder of this process was paused before.
    ///
    /// # Errors
    /// `Io`.
    pub fn finish(self, whole: bool) -> Result<Saved> {
        let mut open = Vec::new();
        for path in files_in(self.path(), Injected::Trace)? {
            open.push(File::open(&path).map_err(|error| file_error::io("trace", &path, error))?);
        }
        let path = |file: &File| PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let trace = Trace::read(open.iter().map(path).collect(), whole)?;
        Ok(Saved(Kind::Trace(Trace { _removed: open, ..trace })))
    }
}
