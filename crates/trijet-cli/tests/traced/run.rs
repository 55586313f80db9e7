//! Running `trijet trace` on a program of this test.

use crate::built::{empty_driver, library};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

/// The variable that names the program.
pub(crate) const PROGRAM: &str = "TRACED_PROGRAM";

/// A folder in which a program is traced.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir(place.path("tmp")).unwrap();
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The call of `trijet trace` on this program.
    pub(crate) fn command(&self, program: &str) -> Command {
        self.command_with(&["-o", "kept.trijet"], program)
    }

    /// The same with other options.
    pub(crate) fn command_with(&self, options: &[&str], program: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trijet"));
        command
            .args(["trace", "--json"])
            .args(options)
            .arg("--")
            .arg(std::env::current_exe().unwrap())
            .current_dir(&self.0)
            .env(PROGRAM, program)
            .env("TMPDIR", self.path("tmp"))
            .env("TRIJET_LIBCUDA", empty_driver())
            .env("TRIJET_LIBCUPTI", library("libempty_cupti.so"))
            .env("TRIJET_LIBSANITIZER", library("libempty_cupti.so"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// The call of `trijet check` on this program.
    pub(crate) fn checking(&self, options: &[&str], program: &str) -> Command {
        let trace = self.command(program);
        let mut check = Command::new(trace.get_program());
        check.arg("check").args(options).arg("--").arg(std::env::current_exe().unwrap());
        let set = trace.get_envs().filter_map(|(name, value)| Some((name, value?)));
        check.envs(set).current_dir(&self.0);
        check.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        check
    }

    /// Traces a program.
    pub(crate) fn trace(&self, program: &str) -> Traced {
        self.finished(self.command(program).spawn().unwrap())
    }

    /// Waits for the end of a call, and checks that it left nothing behind.
    pub(crate) fn finished(&self, child: Child) -> Traced {
        let output = child.wait_with_output().unwrap();
        let left: Vec<_> = std::fs::read_dir(self.path("tmp")).unwrap().collect();
        assert!(left.is_empty(), "{left:?} was left behind");
        Traced::of(output)
    }

    /// Kills a call whose program waits for a signal. The recorder then removes its files, and the
    /// program is not disturbed.
    pub(crate) fn kill_while_its_program_runs(&self, command: &mut Command) {
        let mut child = command.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let of = child.id().to_string();
        let program = Command::new("pgrep").arg("-P").arg(of).output().unwrap();
        let program: i32 = String::from_utf8(program.stdout).unwrap().trim().parse().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        while std::fs::read_dir(self.path("tmp")).unwrap().next().is_some() {
            std::thread::yield_now();
        }
        kill(Pid::from_raw(program), Signal::SIGTERM).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    /// The processes in the kept file.
    pub(crate) fn kept(&self) -> usize {
        let kept = trijet::trace::process_file::read(self.read("kept.trijet").as_slice());
        kept.unwrap().len()
    }
}

/// The output of a call of `trijet trace`.
#[derive(Debug)]
pub(crate) struct Traced {
    pub(crate) status: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
    json: Value,
}

impl Traced {
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (out, err) = (text(output.stdout), text(output.stderr));
        let begin = out.find('{').unwrap_or_else(|| panic!("no JSON in {out}{err}"));
        let json = serde_json::from_str(&out[begin..]).unwrap();
        Self { status: output.status.code(), out: out[..begin].to_owned(), err, json }
    }

    /// The reason why nothing was traced.
    pub(crate) fn missing(&self) -> &str {
        self.json["missing"].as_str().unwrap_or("")
    }

    /// For each process the activities that were recorded, and whether it has an end.
    pub(crate) fn processes(&self) -> Vec<(u64, bool)> {
        let processes = self.json["processes"].as_array().unwrap();
        processes
            .iter()
            .map(|one| (one["activities"].as_u64().unwrap(), one["complete"].as_bool().unwrap()))
            .collect()
    }

    /// A field of the first process.
    pub(crate) fn first(&self, field: &str) -> &Value {
        &self.json["processes"][0][field]
    }
}

/// Whether a file exists.
pub(crate) fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
