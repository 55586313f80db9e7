//! `trijet trace`: traces any CUDA program with a library that the CUDA driver loads into it.
#![forbid(unsafe_code)]

use super::{print, print_stderr};
use crate::args::TraceOptions;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, ErrorKind as Io};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use tempfile::TempDir;
use trijet::probe::{Library, RECORDINGS, libraries};
use trijet::trace::activity::ProcessTrace;
use trijet::trace::process_file;
use trijet::{Error, ErrorKind, Result};
use trijet_cli::profile::{Process, analyse, json, text};

/// The tracing library, which lies beside this program.
const LIBRARY: &str = "libtrijet_inject.so";
/// The environment variable that names another file for it.
const LIBRARY_VARIABLE: &str = "TRIJET_INJECT";
/// The environment variable that tells the CUDA driver which library to load.
const INJECTION: &str = "CUDA_INJECTION64_PATH";

/// The exit statuses of shells for a program that was not found or could not be started.
const NOT_FOUND: u8 = 127;
const NOT_STARTED: u8 = 126;

pub(crate) fn run(options: &TraceOptions) -> Result<ExitCode> {
    let Some((program, arguments)) = options.command.split_first() else {
        let file = options.read.as_deref().expect("clap demands a command or a file");
        show_file(file, options.json)?;
        return Ok(ExitCode::SUCCESS);
    };
    if std::env::var_os(INJECTION).is_some() {
        let cause = format!("{INJECTION} is set: another tool traces this program; unset it first");
        return Err(Error::new(ErrorKind::InvalidValue, "trace", cause));
    }
    let folder = TempDir::with_prefix("trijet-trace-")
        .map_err(|error| failed("create a folder for traces", &error))?;
    let library = library();
    if let Err(reason) = &library {
        print_stderr(format_args!("trijet trace: nothing will be traced: {reason}"));
    }
    let mut command = Command::new(program);
    command.args(arguments).env(RECORDINGS, folder.path());
    if let Ok(library) = &library {
        command.env(INJECTION, library);
    }
    // Ctrl-C ends the traced program; this one goes on to show the trace.
    if let Err(error) = ctrlc::set_handler(|| {}) {
        print_stderr(format_args!("trijet trace: the summary will be lost after Ctrl-C: {error}"));
    }
    let status = match command.status() {
        Ok(status) => status,
        Err(error) => return Ok(not_started(program, &error)),
    };
    // The exit status is that of the program, even if its trace cannot be shown.
    if let Err(error) = show_folder(folder.path(), library.err().as_deref(), options) {
        print_stderr(format_args!("error: {error}"));
    }
    Ok(code(status))
}

fn failed(doing: &'static str, error: &io::Error) -> Error {
    Error::new(ErrorKind::Io, doing, error.to_string())
}

/// The path of the tracing library, or why there is none.
fn library() -> std::result::Result<PathBuf, String> {
    let path = match std::env::var_os(LIBRARY_VARIABLE) {
        Some(path) => PathBuf::from(path),
        None => std::env::current_exe()
            .map_err(|error| format!("the path of this program is unknown: {error}"))?
            .with_file_name(LIBRARY),
    };
    // The traced program may change its working directory before it uses CUDA.
    std::path::absolute(&path).ok().filter(|path| path.is_file()).ok_or_else(|| {
        format!(
            "{} does not exist; set {LIBRARY_VARIABLE} to the path of the library",
            path.display()
        )
    })
}

fn not_started(program: &OsString, error: &io::Error) -> ExitCode {
    print_stderr(format_args!("error: cannot start {}: {error}", program.display()));
    ExitCode::from(if error.kind() == Io::NotFound { NOT_FOUND } else { NOT_STARTED })
}

/// The exit status of the program, or 128 plus the signal that ended it, as shells report it.
fn code(status: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// Reads the traces in a file.
fn load(file: &Path) -> Result<Vec<ProcessTrace>> {
    let name = || file.display().to_string();
    let open = File::open(file).map_err(|error| failed("open", &error).context(name()))?;
    process_file::read(BufReader::new(open)).map_err(|error| error.context(name()))
}

fn show_file(file: &Path, as_json: bool) -> Result<()> {
    let processes: Vec<Process> = load(file)?.iter().map(analyse).collect();
    if as_json {
        return print(format_args!("{:#}", json(&processes, None)));
    }
    print(text(&processes).trim_end())
}

/// Shows the traces of all processes of a run, and saves them if that was requested.
fn show_folder(folder: &Path, without: Option<&str>, options: &TraceOptions) -> Result<()> {
    let mut files = Vec::new();
    let entries = std::fs::read_dir(folder).map_err(|e| failed("list the traces", &e))?;
    for entry in entries {
        files.push(entry.map_err(|error| failed("list the traces", &error))?.path());
    }
    // The names are process numbers, which usually ascend.
    files.sort();
    if let Some(output) = &options.output {
        save(&files, output)?;
    }
    let mut processes = Vec::new();
    for file in &files {
        match load(file) {
            Ok(traces) => processes.extend(traces.iter().map(analyse)),
            Err(error) => print_stderr(format_args!("error: {error}")),
        }
    }
    let nothing = processes.iter().all(|process| process.end.is_some_and(|e| e.activities == 0));
    let missing = nothing.then(|| match (processes.is_empty(), files.is_empty()) {
        (true, false) => "the traces of the program cannot be read".to_owned(),
        _ => reason(&processes, without),
    });
    if options.json {
        return print(format_args!("{:#}", json(&processes, missing.as_deref())));
    }
    if let Some(reason) = missing {
        print_stderr(format_args!("trijet trace: nothing was traced: {reason}"));
    } else {
        print_stderr(text(&processes).trim_end());
    }
    Ok(())
}

/// Why there is no activity to show.
fn reason(processes: &[Process], without: Option<&str>) -> String {
    if let Some(reason) = without {
        return reason.to_owned();
    }
    if let Some(trouble) = processes.iter().flat_map(|process| &process.troubles).next() {
        return trouble.clone();
    }
    if !processes.is_empty() {
        return "the program initialised CUDA but made no call".to_owned();
    }
    let driver = libraries().into_iter().find(|report| report.library == Library::Driver);
    if let Some(error) = driver.and_then(|report| report.state.err()) {
        return format!("there is no CUDA driver: {error}");
    }
    "the program did not initialise CUDA".to_owned()
}

/// Joins the files into one.
fn save(files: &[PathBuf], output: &Path) -> Result<()> {
    let name = || output.display().to_string();
    let save_error = |error: io::Error| failed("save the trace", &error).context(name());
    let mut into = File::create(output).map_err(save_error)?;
    for file in files {
        let mut from = File::open(file).map_err(save_error)?;
        io::copy(&mut from, &mut into).map_err(save_error)?;
    }
    Ok(())
}
