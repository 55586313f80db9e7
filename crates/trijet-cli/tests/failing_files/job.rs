//! Small jobs of every format, and runs of them in which one file call fails.

use crate::files::{GRAY8, dictionary, npy, png};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// The side of an image, and the number of images.
const SIDE: usize = 8;
const IMAGES: usize = 4;
/// The side of the large input: 4 MiB.
const LARGE_SIDE: usize = 2048;
/// A run that takes this many seconds hangs.
const SECONDS_MAX: &str = "120";

/// The input and the output of a job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job {
    pub(crate) input: &'static str,
    pub(crate) output: &'static str,
    /// The calls that the file system does not have.
    pub(crate) without: &'static str,
}

pub(crate) const JOBS: [Job; 4] = [
    Job { input: "in.npy", output: "out.npy", without: "" },
    Job { input: "in.raw", output: "out.raw", without: "" },
    Job { input: "in", output: "out", without: "" },
    Job { input: "in", output: "out.npy", without: "" },
];

/// The fault of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Error(i32),
    Short,
    Tear,
    Before,
    After,
    /// Another program creates a file with the name of the output.
    Appear,
}

impl Fault {
    fn words(self, place: &Place) -> String {
        match self {
            Self::Appear => format!("appear={}", place.path(place.job.output).display()),
            Self::Error(number) => format!("error={number}"),
            Self::Short => "short".to_owned(),
            Self::Tear => "tear".to_owned(),
            Self::Before => "before".to_owned(),
            Self::After => "after".to_owned(),
        }
    }

    /// Whether the process dies of it.
    pub(crate) fn kills(self) -> bool {
        matches!(self, Self::Tear | Self::Before | Self::After)
    }
}

/// The end of a run.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The exit status; `None` for a process that was killed.
    pub(crate) code: Option<i32>,
    pub(crate) error: String,
    /// The calls on files, in their order.
    pub(crate) calls: Vec<String>,
}

/// The library that lets calls fail, which cargo built with the tests.
pub(crate) fn library() -> PathBuf {
    let library = std::env::current_exe().unwrap().with_file_name("libfailing_files.so");
    assert!(library.exists(), "{} is built with the tests", library.display());
    library
}

/// A folder with the input of a job.
pub(crate) struct Place {
    folder: TempDir,
    job: Job,
}

impl Place {
    pub(crate) fn new(job: Job) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = Self { folder, job };
        let pixels: Vec<u8> =
            (0..IMAGES * SIDE * SIDE).map(|n| u8::try_from(n * 7 % 251).unwrap()).collect();
        let path = place.path(job.input);
        match job.input {
            "in" => {
                fs::create_dir(&path).unwrap();
                let side = u32::try_from(SIDE).unwrap();
                for (n, image) in pixels.chunks(SIDE * SIDE).enumerate() {
                    png(&path.join(format!("{n}.png")), [side, side], GRAY8, image);
                }
            }
            "in.npy" => {
                let shape = format!("({IMAGES}, {SIDE}, {SIDE})");
                fs::write(&path, npy(&dictionary("|u1", "False", &shape), &pixels)).unwrap();
            }
            _ => fs::write(&path, &pixels).unwrap(),
        }
        place
    }

    /// A folder with 4 MiB of input.
    pub(crate) fn large() -> Self {
        let place = Self::new(JOBS[1]);
        fs::write(place.path("in.raw"), vec![7; LARGE_SIDE * LARGE_SIDE]).unwrap();
        place
    }

    /// Runs the job over the large input. The threads with the numbers `first` and higher cannot be
    /// started.
    pub(crate) fn run_with_threads(&self, first: usize, more: &[&str]) -> Ended {
        let mut command = self.call();
        command
            .args(["--op", "affine:2", "--chunk", "1MiB", "--dtype", "u8"])
            .arg(format!("--shape={LARGE_SIDE}x{LARGE_SIDE}"))
            .args(more)
            .env("LD_PRELOAD", library())
            .env("FAILING_FILES_THREADS", first.to_string())
            .stdout(Stdio::null());
        let output = command.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        Ended { code: output.status.code(), error, calls: Vec::new() }
    }

    pub(crate) fn remove_output(&self) {
        drop(fs::remove_file(self.path(self.job.output)));
    }

    /// The folder, without links.
    fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// The bytes of the output by file name; `None` if nothing has the final name.
    pub(crate) fn output(&self) -> Option<BTreeMap<PathBuf, Vec<u8>>> {
        let path = self.path(self.job.output);
        let state = fs::symlink_metadata(&path).ok()?;
        let read = |path: &Path| fs::read(path).unwrap();
        if !state.is_dir() {
            return Some(BTreeMap::from([(PathBuf::new(), read(&path))]));
        }
        let entries = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap());
        Some(entries.map(|entry| (entry.file_name().into(), read(&entry.path()))).collect())
    }

    /// Gives the output other bytes, as an older run of another job would.
    pub(crate) fn age(&self) {
        let path = self.path(self.job.output);
        let names = self.output().unwrap().into_keys();
        for file in
            names.map(|name| if name == Path::new("") { path.clone() } else { path.join(name) })
        {
            let mut bytes = fs::read(&file).unwrap();
            *bytes.last_mut().unwrap() ^= 1;
            fs::write(&file, bytes).unwrap();
        }
    }

    /// The names in the folder, without the input and the output.
    pub(crate) fn others(&self) -> Vec<String> {
        let entries = fs::read_dir(self.root()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name != self.job.input && name != self.job.output).collect()
    }

    /// The call of the job on the host device, without its operation. It finds no GPU.
    fn call(&self) -> Command {
        let mut command = Command::new("timeout");
        command
            .args(["--kill-after=5", SECONDS_MAX, env!("CARGO_BIN_EXE_trijet"), "map"])
            .arg(self.path(self.job.input))
            .arg("-o")
            .arg(self.path(self.job.output))
            .args(["--device", "host"])
            .env("TRIJET_LIBCUDA", "/nonexistent/libcuda.so.1")
            .stdin(Stdio::null());
        command
    }

    fn command(&self, more: &[&str]) -> Command {
        let mut command = self.call();
        command
            .args(["--op", "affine", "--scale", "2", "--chunk", "64"])
            .args(more)
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        if self.job.input == "in.raw" {
            let shape = format!("{IMAGES}x{SIDE}x{SIDE}");
            command.args(["--shape", &shape, "--dtype", "u8"]);
        }
        command
    }

    /// Starts the job.
    pub(crate) fn start(&self, more: &[&str]) -> Child {
        self.command(more).spawn().unwrap()
    }

    /// The job with the library in front, which appends the calls to a log.
    pub(crate) fn watched(&self, more: &[&str], log: &Path) -> Command {
        let mut command = self.command(more);
        command
            .env("LD_PRELOAD", library())
            .env("FAILING_FILES_ROOT", self.root())
            .env("FAILING_FILES_LOG", log)
            .env("FAILING_FILES_WITHOUT", self.job.without);
        command
    }

    /// Runs the job. The call with this number has the fault.
    pub(crate) fn run(&self, more: &[&str], fault: Option<(usize, Fault)>) -> Ended {
        let fault = fault.map(|(at, fault)| (at.to_string(), fault));
        self.run_with(more, fault.as_ref().map(|(at, fault)| (at.as_str(), *fault)))
    }

    /// Runs the job. The call with this number or with this line in the log has the fault.
    pub(crate) fn run_with(&self, more: &[&str], fault: Option<(&str, Fault)>) -> Ended {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut command = self.watched(more, log.path());
        if let Some((at, fault)) = fault {
            command.env("FAILING_FILES_AT", at);
            command.env("FAILING_FILES_FAULT", fault.words(self));
        }
        Ended::of(&mut command, log.path())
    }
}

impl Ended {
    /// Runs a command that appends its calls to a log.
    pub(crate) fn of(command: &mut Command, log: &Path) -> Self {
        let output = command.output().unwrap();
        let log = fs::read(log).unwrap();
        let calls = String::from_utf8_lossy(&log).lines().map(str::to_owned).collect();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        Self { code: output.status.code(), error, calls }
    }
}
