//! Commands that tests run, and their results.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A driver library that does not exist, so that tests behave the same on a machine with a GPU.
const NO_DRIVER: &str = "/nonexistent/libcuda.so.1";

/// A run-time compiler that does not exist, so that tests behave the same on a machine with a
/// compiler, too.
const NO_COMPILER: &str = "/nonexistent/libnvrtc.so";

/// The variables that the command needs from the environment of the tests.
const KEPT: [&str; 3] = ["PATH", "HOME", "TMPDIR"];

/// The result of a run of the command: its exit status and output.
#[derive(Debug, Clone)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Asserts success and an empty error stream, and returns the output.
    #[track_caller]
    pub(crate) fn done(self) -> String {
        let words: Vec<&str> = self.err.lines().filter(|line| !is_progress(line)).collect();
        assert_eq!((self.code, words), (Some(0), vec![]), "{}", self.out);
        self.out
    }

    /// The lines of progress on standard error.
    pub(crate) fn progress(&self) -> Vec<&str> {
        self.err.lines().filter(|line| is_progress(line)).collect()
    }

    /// Asserts success and returns the JSON that was printed.
    #[track_caller]
    pub(crate) fn json(self) -> Value {
        let out = self.done();
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}"))
    }

    /// Asserts that the command failed with `code`, that its error contains all of `words`, and
    /// that it printed nothing else.
    #[track_caller]
    pub(crate) fn refused(self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{}{}", self.out, self.err);
        assert_eq!(self.out, "");
        let causes: Vec<&str> = self.err.lines().collect();
        let twice = causes.windows(2).any(|pair| {
            pair[1].strip_prefix("  caused by: ").is_some_and(|cause| pair[0].ends_with(cause))
        });
        assert!(!twice, "`{}` has its cause twice", self.err);
        for word in words {
            assert!(self.err.contains(word), "`{}` does not contain `{word}`", self.err);
        }
    }
}

/// Whether a line shows which of how many steps starts, `[2/6] measuring the link`, or the progress
/// of a run that takes longer than half a minute: `14 % of 2048 rows`.
fn is_progress(line: &str) -> bool {
    if line.contains(" % of ") && line.ends_with(" rows") {
        return true;
    }
    let numbers = line.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    let numbers = numbers.and_then(|(numbers, _)| numbers.split_once('/'));
    numbers.is_some_and(|(number, of)| number.parse::<u64>().ok() <= of.parse::<u64>().ok())
}

/// A program with these arguments, not yet started. It finds no GPU and no compiler.
pub(crate) fn quiet(program: &Path, args: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .args(args)
        // The environment of the tests may ask for colours, ranks and devices.
        .env_clear()
        .envs(KEPT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
        .current_dir(folder)
        .env("TRIJET_LIBCUDA", NO_DRIVER)
        .env("TRIJET_LIBNVRTC", NO_COMPILER)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}
