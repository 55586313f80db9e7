//! A temporary working directory for a test, in which the command is run.

use crate::ran::{Ran, quiet};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

pub(crate) struct Workdir(TempDir);

impl Workdir {
    /// A folder on the file system of the program, so that it can have hard links to it.
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The command with these arguments, not yet started.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        quiet(Path::new(env!("CARGO_BIN_EXE_trijet-bench")), args, self.0.path())
    }

    /// Runs the command.
    pub(crate) fn bench(&self, args: &[&str]) -> Ran {
        Ran::from(self.command(args).output().unwrap())
    }
}
