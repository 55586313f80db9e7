//! `trijet bench`: it runs the program `trijet-bench`. A shell stands for that program, and shows
//! what it gets.

use crate::ran::{Ran, quiet};
use crate::workdir::Workdir;
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;
use trijet_bench::benchmarks::named;

/// A folder with the command, and with a program of this name beside it if one is given.
struct Installed(TempDir);

impl Installed {
    fn new(beside: Option<&str>) -> Self {
        // The command looks into the folder where it lies, so a symbolic link would not do.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        fs::hard_link(env!("CARGO_BIN_EXE_trijet"), folder.path().join("trijet")).unwrap();
        if let Some(program) = beside {
            symlink(program, folder.path().join("trijet-bench")).unwrap();
        }
        Self(folder)
    }

    fn path(&self) -> PathBuf {
        self.0.path().to_owned()
    }

    /// The command in the folder, which finds only programs of `path`.
    fn bench(&self, args: &[&str], path: &Path) -> Command {
        let call = [&["bench"], args].concat();
        let mut command = quiet(&self.path().join("trijet"), &call, self.0.path());
        command.env("PATH", path);
        command
    }
}

#[test]
fn the_program_beside_the_command_gets_arguments_and_input_and_gives_output_and_status() {
    let installed = Installed::new(Some("/bin/sh"));
    let script = "read line; echo \"$line, $0, $1\"; echo trouble >&2; exit 7";
    let mut command = installed.bench(&["-c", script, "a b", "--json"], Path::new("/nowhere"));
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"hello\n").unwrap();
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.err.as_str()), (Some(7), "trouble\n"));
    assert_eq!(ran.out, "hello, a b, --json\n");
}

#[test]
fn a_program_of_the_path_is_run_if_there_is_none_beside_the_command() {
    let (alone, other) = (Installed::new(None), Installed::new(Some("/bin/echo")));
    let ran = Ran::from(alone.bench(&["gemm", "--help"], &other.path()).output().unwrap());
    assert_eq!(ran.done(), "gemm --help\n");
    let both = Installed::new(Some("/bin/sh"));
    let ran = Ran::from(both.bench(&["-c", "echo beside"], &other.path()).output().unwrap());
    assert_eq!(ran.done(), "beside\n");
}

#[test]
fn a_missing_program_is_an_error_that_names_it_and_the_command_that_builds_it() {
    let installed = Installed::new(None);
    let ran = Ran::from(installed.bench(&["gemm"], &installed.path()).output().unwrap());
    ran.refused(1, &["`trijet-bench`", "`cargo build --release -p trijet-bench` builds it"]);
    let (folder, none) = (installed.path().join("trijet-bench"), installed.path());
    fs::write(folder, "no program").unwrap();
    let ran = Ran::from(installed.bench(&["gemm"], &none).output().unwrap());
    ran.refused(1, &["`trijet-bench` cannot be started: Permission denied"]);
}

/// The help needs no program. Its examples reach the program as they are written.
#[test]
fn the_help_names_the_program_and_its_examples_are_passed_on() {
    let installed = Installed::new(Some("/bin/echo"));
    let help = Workdir::new().trijet(&["bench", "--help"]).done();
    assert!(help.contains("Usage: trijet bench [ARGUMENT]..."), "{help}");
    assert!(help.contains("`cargo build --release -p trijet-bench`"), "{help}");
    assert_eq!(help, Workdir::new().trijet(&["help", "bench"]).done());
    let examples: Vec<&str> =
        help.lines().filter_map(|line| line.trim().strip_prefix("trijet bench")).collect();
    assert_eq!(examples.len(), 4, "{help}");
    for example in examples {
        let call = example.split(" > ").next().unwrap_or_default().trim();
        let args: Vec<&str> = call.split_whitespace().collect();
        let ran = Ran::from(installed.bench(&args, Path::new("/nowhere")).output().unwrap());
        assert_eq!(ran.done(), format!("{call}\n"));
        let name = args.first().filter(|name| !name.starts_with('-'));
        assert!(name.is_none_or(|name| named(name).is_some()), "no benchmark of `{call}`");
    }
}
