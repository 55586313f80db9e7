//! `trijet trace`: a program of anybody's, recorded from inside of it by a library that the CUDA
//! driver loads.
#![forbid(unsafe_code)]

use super::{print, tell};
use crate::args::TraceOptions;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, ErrorKind as Io};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use tempfile::TempDir;
use trijet::device::probe::{Library, RECORDINGS, libraries};
use trijet::trace::activity::Recording;
use trijet::trace::raw;
use trijet::{Error, ErrorKind, Result};
use trijet_cli::profile::{Process, analyse, json, text};

/// The library, which lies beside this program.
const LIBRARY: &str = "libtrijet_inject.so";
/// Names another file in its place.
const LIBRARY_VARIABLE: &str = "TRIJET_INJECT";
/// Of the CUDA driver: the library that it loads.
const INJECTION: &str = "CUDA_INJECTION64_PATH";

/// As shells say it: the program was not found, or could not be started.
const NOT_FOUND: u8 = 127;
const NOT_STARTED: u8 = 126;

pub(crate) fn run(options: &TraceOptions) -> Result<ExitCode> {
    let Some((program, arguments)) = options.command.split_first() else {
        let file = options.read.as_deref().expect("clap demands a command or a file");
        show_file(file, options.json)?;
        return Ok(ExitCode::SUCCESS);
    };
    if std::env::var_os(INJECTION).is_some() {
        let cause = format!("{INJECTION} is set: another tool records this program already");
        return Err(Error::new(ErrorKind::InvalidValue, "trace", cause));
    }
    let folder = TempDir::with_prefix("trijet-trace-")
        .map_err(|error| failed("make a folder for recordings", &error))?;
    let library = library();
    if let Err(words) = &library {
        tell(format_args!("trijet trace: nothing will be recorded: {words}"));
    }
    let mut command = Command::new(program);
    command.args(arguments).env(RECORDINGS, folder.path());
    if let Ok(library) = &library {
        command.env(INJECTION, library);
    }
    // Ctrl-C goes to the program too, and what it left is still to be shown.
    if let Err(error) = ctrlc::set_handler(|| {}) {
        tell(format_args!("trijet trace: Ctrl-C will lose the summary: {error}"));
    }
    let status = match command.status() {
        Ok(status) => status,
        Err(error) => return Ok(not_started(program, &error)),
    };
    // The program's exit code is the answer, whatever becomes of its recording.
    if let Err(error) = show_folder(folder.path(), library.err().as_deref(), options) {
        tell(format_args!("error: {error}"));
    }
    Ok(code(status))
}

fn failed(doing: &'static str, error: &io::Error) -> Error {
    Error::new(ErrorKind::Io, doing, error.to_string())
}

/// The library to be loaded, or why there is none.
fn library() -> std::result::Result<PathBuf, String> {
    let path = match std::env::var_os(LIBRARY_VARIABLE) {
        Some(path) => PathBuf::from(path),
        None => std::env::current_exe()
            .map_err(|error| format!("this program does not know where it lies: {error}"))?
            .with_file_name(LIBRARY),
    };
    // The program may change its folder before it uses CUDA.
    std::path::absolute(&path).ok().filter(|path| path.is_file()).ok_or_else(|| {
        format!("there is no {}; {LIBRARY_VARIABLE} names another place", path.display())
    })
}

fn not_started(program: &OsString, error: &io::Error) -> ExitCode {
    tell(format_args!("error: start {}: {error}", program.display()));
    ExitCode::from(if error.kind() == Io::NotFound { NOT_FOUND } else { NOT_STARTED })
}

/// The program's own exit code; 128 and the signal when one ended it, as shells count.
fn code(status: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// The recordings of a file.
fn load(file: &Path) -> Result<Vec<Recording>> {
    let name = || file.display().to_string();
    let open = File::open(file).map_err(|error| failed("open", &error).context(name()))?;
    raw::read(BufReader::new(open)).map_err(|error| error.context(name()))
}

fn show_file(file: &Path, as_json: bool) -> Result<()> {
    let processes: Vec<Process> = load(file)?.iter().map(analyse).collect();
    if as_json {
        return print(format_args!("{:#}", json(&processes, None)));
    }
    print(text(&processes).trim_end())
}

/// Shows what the processes of a run left, and keeps it where that was asked for.
fn show_folder(folder: &Path, without: Option<&str>, options: &TraceOptions) -> Result<()> {
    let mut files = Vec::new();
    let entries = std::fs::read_dir(folder).map_err(|e| failed("list the recordings", &e))?;
    for entry in entries {
        files.push(entry.map_err(|error| failed("list the recordings", &error))?.path());
    }
    // By process, and most systems count them upwards.
    files.sort();
    if let Some(output) = &options.output {
        keep(&files, output)?;
    }
    let mut processes = Vec::new();
    for file in &files {
        match load(file) {
            Ok(recordings) => processes.extend(recordings.iter().map(analyse)),
            Err(error) => tell(format_args!("error: {error}")),
        }
    }
    let nothing = processes.iter().all(|process| process.end.is_some_and(|e| e.activities == 0));
    let missing = nothing.then(|| match (processes.is_empty(), files.is_empty()) {
        (true, false) => "what the program left cannot be read".to_owned(),
        _ => reason(&processes, without),
    });
    if options.json {
        return print(format_args!("{:#}", json(&processes, missing.as_deref())));
    }
    if let Some(words) = missing {
        tell(format_args!("trijet trace: nothing was recorded: {words}"));
    } else {
        tell(text(&processes).trim_end());
    }
    Ok(())
}

/// Why there is nothing to show.
fn reason(processes: &[Process], without: Option<&str>) -> String {
    if let Some(words) = without {
        return words.to_owned();
    }
    if let Some(trouble) = processes.iter().flat_map(|process| &process.troubles).next() {
        return trouble.clone();
    }
    if !processes.is_empty() {
        return "the program initialised CUDA and made no call".to_owned();
    }
    let driver = libraries().into_iter().find(|report| report.library == Library::Driver);
    if let Some(error) = driver.and_then(|report| report.state.err()) {
        return format!("there is no CUDA driver: {error}");
    }
    "the program did not initialise CUDA".to_owned()
}

/// Joins the files into one.
fn keep(files: &[PathBuf], output: &Path) -> Result<()> {
    let name = || output.display().to_string();
    let fault = |error: io::Error| failed("keep the recording", &error).context(name());
    let mut into = File::create(output).map_err(fault)?;
    for file in files {
        let mut from = File::open(file).map_err(fault)?;
        io::copy(&mut from, &mut into).map_err(fault)?;
    }
    Ok(())
}
