//! A run that stops itself before each call on one file. A test examines it at a point that it has
//! reached, and not at a time.

use crate::built::library;
use crate::workdir::Ran;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use std::cell::Cell;
use std::path::Path;
use std::process::{Child, Command};

/// A running command, which is killed when the test ends.
pub(crate) struct Held {
    child: Option<Child>,
    /// Whether it has stopped, and has not been told to continue.
    is_stopped: Cell<bool>,
}

impl Held {
    /// Starts the command, which stops before each call on `file`.
    pub(crate) fn start(mut command: Command, file: &Path) -> Self {
        let folder = file.parent().unwrap().canonicalize().unwrap();
        command
            .env("LD_PRELOAD", library("libfailing_files.so"))
            .env("FAILING_FILES_ROOT", folder.join(file.file_name().unwrap()))
            .env("FAILING_FILES_LOG", "/dev/null")
            .env("FAILING_FILES_AT", "1")
            .env("FAILING_FILES_FAULT", "stop");
        Self { child: Some(command.spawn().unwrap()), is_stopped: Cell::new(false) }
    }

    pub(crate) fn process(&self) -> Pid {
        Pid::from_raw(self.child.as_ref().unwrap().id().try_into().unwrap())
    }

    /// Lets the run continue until it stops again. Returns whether it has not ended.
    pub(crate) fn goes_on(&self) -> bool {
        if self.is_stopped.replace(false) {
            kill(self.process(), Signal::SIGCONT).unwrap();
        }
        let wait = |flags| waitid(Id::Pid(self.process()), flags).unwrap();
        let stops = WaitPidFlag::WSTOPPED;
        // An end is left for the caller of `end`.
        match wait(stops | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) {
            WaitStatus::Stopped(..) => {
                wait(stops);
                self.is_stopped.set(true);
            }
            _ended => {}
        }
        self.is_stopped.get()
    }

    /// Lets the run go on until it has reached a point.
    #[track_caller]
    pub(crate) fn until(self, is_reached: impl Fn() -> bool) -> Self {
        while !self.is_stopped.get() || !is_reached() {
            if !self.goes_on() {
                panic!("it ended before that point: {:?}", self.end());
            }
        }
        self
    }

    /// Sends a signal. A stopped run gets it when it goes on.
    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.process(), signal).unwrap();
    }

    /// Lets the run go on to its end.
    pub(crate) fn end(mut self) -> Ran {
        while self.goes_on() {}
        Ran::from(self.child.take().unwrap().wait_with_output().unwrap())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // An error means that the process has already ended.
            drop(child.kill());
            drop(child.wait());
        }
    }
}
