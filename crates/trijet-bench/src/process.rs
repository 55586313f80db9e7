//! Commands that a benchmark runs: the time of the process, and its standard output.
//!
//! The output goes to files without names, so a command that prints much text does not wait for a
//! reader. A command that takes longer than its limit is killed.
#![forbid(unsafe_code)]

use rustix::io::retry_on_intr;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum number of characters of a line of standard error that an error repeats.
const ERROR_CHARS_MAX: usize = 200;

/// A process that succeeded.
#[derive(Debug)]
pub(crate) struct Ran {
    /// The time from the start of the process to its end.
    pub(crate) seconds: f64,
    /// The standard output of the process.
    pub(crate) out: String,
}

/// Runs a program with its arguments, and waits until the program ends.
///
/// # Errors
/// A program that cannot be started, fails, takes longer than `limit`, or prints output that cannot
/// be read. If the program fails, the error contains the line of standard error that names the
/// cause.
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
        let text = text_of(&mut err)?;
        let cause: String = cause_in(&text).chars().take(ERROR_CHARS_MAX).collect();
        return Err(format!("{status}: {cause}"));
    }
    Ok(Ran { seconds, out: text_of(&mut out)? })
}

/// The line of standard error that names the cause. It is the first line that starts with `error`,
/// as trijet prints it. If there is no such line, it is the last line, as in Python.
fn cause_in(text: &str) -> &str {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let last = lines.clone().next_back();
    lines.find(|line| line.starts_with("error")).or(last).unwrap_or("standard error is empty")
}

/// Waits until the process ends, and kills it after `limit`.
fn wait(mut child: Child, limit: Duration) -> Result<ExitStatus, String> {
    let pid = Pid::from_child(&child);
    let (ended, has_ended) = channel();
    thread::spawn(move || {
        // With `NOWAIT`, the status is left for `child` to read. Until `child` has read the status,
        // no other process gets the number of the process, so `kill` below is safe.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let waited = retry_on_intr(|| waitid(WaitId::Pid(pid), options));
        // The send fails if the limit has passed, because the receiver is gone then.
        ended.send(waited.map(|_| ()))
    });
    let wait_failed = |error: io::Error| format!("cannot wait for the process: {error}");
    let in_time = match has_ended.recv_timeout(limit) {
        Ok(waited) => waited.map(|()| true).map_err(|error| wait_failed(error.into()))?,
        Err(RecvTimeoutError::Timeout) => {
            child.kill().map_err(|error| format!("cannot be killed: {error}"))?;
            false
        }
        Err(RecvTimeoutError::Disconnected) => {
            return Err("the thread that waited for the process panicked".to_owned());
        }
    };
    let status = child.wait().map_err(wait_failed)?;
    if in_time {
        return Ok(status);
    }
    Err(format!("was killed, because it took longer than {} s", limit.as_secs_f64()))
}

/// The text of a file from its start. Bytes that are not UTF-8 are replaced.
fn text_of(file: &mut File) -> Result<String, String> {
    let mut bytes = Vec::new();
    let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut bytes));
    read.map_err(|error| format!("its output cannot be read: {error}"))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
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
    fn a_failure_has_the_line_that_names_its_cause() {
        let told =
            shell("echo 'error: no --x'; printf 'error: no --x\n\nUsage: y\n' >&2; false", LONG);
        assert_eq!(told.unwrap_err(), "exit status: 1: error: no --x");
        let told = shell("echo first >&2; echo 'No module named cupy' >&2; exit 3", LONG);
        assert_eq!(told.unwrap_err(), "exit status: 3: No module named cupy");
        let told = shell("kill -9 $$", LONG).unwrap_err();
        assert!(told.contains("signal: 9") && told.contains("standard error is empty"), "{told}");
    }

    #[test]
    fn an_output_that_cannot_be_read_is_an_error() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let mut only_written = File::create(folder.path().join("out"))?;
        let told = text_of(&mut only_written).unwrap_err();
        assert!(told.starts_with("its output cannot be read: "), "{told}");
        Ok(())
    }

    #[test]
    fn a_program_that_does_not_exist_is_named() {
        let told = run(&["no-such-program-here".to_owned()], LONG).unwrap_err();
        assert!(told.contains("`no-such-program-here` cannot be started"), "{told}");
    }

    #[test]
    fn a_command_that_takes_too_long_is_killed() {
        let told = shell("exec tail -f /dev/null", Duration::from_millis(20)).unwrap_err();
        assert_eq!(told, "was killed, because it took longer than 0.02 s");
    }
}
