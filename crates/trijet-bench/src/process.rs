//! A command that a benchmark runs: how long its process took, and what it printed.
//!
//! The output goes to files without names, so a command that prints much is not held up by a pipe
//! that is read later. A command that takes too long is ended.
#![forbid(unsafe_code)]

use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The most characters of an error that are repeated.
const ERROR_CHARS_MAX: usize = 200;

/// A process that succeeded.
#[derive(Debug)]
pub(crate) struct Ran {
    /// From the start of the process to its end.
    pub(crate) seconds: f64,
    /// Its standard output.
    pub(crate) out: String,
}

/// Runs a program with its arguments and waits until it ends.
///
/// # Errors
/// Why it did not succeed, with the line of its standard error that says so.
pub(crate) fn run(words: &[String], limit: Duration) -> Result<Ran, String> {
    let [program, arguments @ ..] = words else { return Err("no command is given".to_owned()) };
    let file = || tempfile::tempfile().map_err(|error| format!("no temporary file: {error}"));
    let copy = |file: &File| {
        file.try_clone().map(Stdio::from).map_err(|error| format!("no temporary file: {error}"))
    };
    let (mut out, mut err) = (file()?, file()?);
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(copy(&out)?).stderr(copy(&err)?);
    let start = Instant::now();
    let child = command.spawn().map_err(|e| format!("`{program}` cannot be started: {e}"))?;
    let status = wait(child, limit)?;
    let seconds = start.elapsed().as_secs_f64();
    if !status.success() {
        let text = text_of(&mut err);
        let why: String = telling(&text).chars().take(ERROR_CHARS_MAX).collect();
        return Err(format!("{status}: {why}"));
    }
    Ok(Ran { seconds, out: text_of(&mut out) })
}

/// The first line that begins with `error`, as ours do, or else the last line, as Python's.
fn telling(text: &str) -> &str {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let last = lines.clone().next_back();
    lines.find(|line| line.starts_with("error")).or(last).unwrap_or("without a word")
}

/// Waits until the process ends, and ends it after `limit`.
fn wait(mut child: Child, limit: Duration) -> Result<ExitStatus, String> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let (ended, status) = channel();
    // The receiver is alive until the thread has sent.
    let waiting = thread::spawn(move || drop(ended.send(child.wait())));
    let first = status.recv_timeout(limit);
    if let (Err(RecvTimeoutError::Timeout), Some(pid)) = (&first, pid) {
        // The thread has not seen the end of the process, so the number still belongs to it, or the
        // process has ended meanwhile and is not to be ended any more.
        let _ = kill_process(pid, Signal::KILL);
    }
    if waiting.join().is_err() {
        return Err("the thread that waited for the process panicked".to_owned());
    }
    match first {
        Ok(Ok(status)) => Ok(status),
        Ok(Err(error)) => Err(format!("cannot wait for the process: {error}")),
        Err(_) => Err(format!("was ended, because it took longer than {} s", limit.as_secs_f64())),
    }
}

/// The text of a file from its begin. What is no UTF-8 is replaced.
fn text_of(file: &mut File) -> String {
    let mut bytes = Vec::new();
    match file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut bytes)) {
        Ok(_) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => format!("its output cannot be read: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Result<Ran, String> {
        run(&["sh".to_owned(), "-c".to_owned(), script.to_owned()], limit)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_command_has_a_time_and_an_output() {
        let ran = shell("echo one; echo two >&2", LONG).unwrap();
        assert_eq!(ran.out, "one\n");
        assert!(ran.seconds > 0.0);
    }

    #[test]
    fn an_output_larger_than_a_pipe_is_read_whole() {
        let ran = shell("head -c 1000000 /dev/zero | tr '\\0' x", LONG).unwrap();
        assert_eq!(ran.out.len(), 1_000_000);
    }

    #[test]
    fn a_failure_is_told_with_the_line_that_says_why() {
        let told =
            shell("echo 'error: no --x'; printf 'error: no --x\n\nUsage: y\n' >&2; false", LONG);
        assert_eq!(told.unwrap_err(), "exit status: 1: error: no --x");
        let told = shell("echo first >&2; echo 'No module named cupy' >&2; exit 3", LONG);
        assert_eq!(told.unwrap_err(), "exit status: 3: No module named cupy");
        let told = shell("kill -9 $$", LONG).unwrap_err();
        assert!(told.contains("signal: 9") && told.contains("without a word"), "{told}");
    }

    #[test]
    fn a_program_that_does_not_exist_is_named() {
        let told = run(&["no-such-program-here".to_owned()], LONG).unwrap_err();
        assert!(told.contains("`no-such-program-here` cannot be started"), "{told}");
    }

    #[test]
    fn a_command_that_takes_too_long_is_ended() {
        let told = shell("exec tail -f /dev/null", Duration::from_millis(20)).unwrap_err();
        assert_eq!(told, "was ended, because it took longer than 0.02 s");
    }
}
