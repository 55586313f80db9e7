//! `bundle`: builds a folder with everything that a GPU host without Rust needs to test and measure
//! one commit.
//!
//! The folder `bundle/` contains stripped release binaries, the examples, the GPU tests, and two
//! scripts. One script runs the examples and the GPU tests. The other script runs cases of kernels
//! under compute-sanitizer. The messages of cargo name the files that cargo built, so this code
//! does not depend on the layout of the target folder. The commit is compiled in (`TRIJET_COMMIT`)
//! and written beside the binaries. The commit of a tree with changes is marked, because its
//! results belong to no commit.

use crate::tools::root;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// The test programs of the tasks `explore` and `programs`. They need no GPU, but a host with many
/// cores.
const EXPLORERS: [&str; 2] = ["oracle", "soundness"];

/// Builds the folder. `options` must be empty.
pub(crate) fn run(options: &[String]) -> io::Result<()> {
    if let Some(option) = options.first() {
        return Err(io::Error::other(format!("unknown option `{option}`: bundle has no options")));
    }
    let root = root();
    let commit = commit(&root)?;
    let mut programs = build(
        &root,
        &commit,
        &[
            "build",
            "-p",
            "trijet",
            "-p",
            "trijet-cli",
            "-p",
            "trijet-bench",
            "--bins",
            "--examples",
            "--features",
            "trijet-cli/formats",
        ],
    )?;
    programs.extend(build(&root, &commit, &["build", "-p", "empty-driver"])?);
    // The allocator is for PyTorch and other programs, and for `trijet bench training`. If cargo
    // builds the allocator together with `trijet`, both use the library with all features, which is
    // built already.
    programs.extend(build(&root, &commit, &["build", "-p", "trijet", "-p", "trijet-alloc"])?);
    programs.extend(build(&root, &commit, &["build", "-p", "xtask", "--features", "formats"])?);
    for name in EXPLORERS {
        programs.push(explorer(&root, &commit, name)?);
    }
    if has_gpu_tests(&root) {
        let tests = ["test", "--no-run", "-p", "trijet", "--test", "gpu"];
        programs.extend(build(&root, &commit, &tests)?.into_iter().filter(|p| p.kind == "test"));
    }
    // The tests of the operations run on any device.
    let tests = ["test", "--no-run", "-p", "trijet-ops", "--test", "shapes", "--test", "windows"];
    programs.extend(build(&root, &commit, &tests)?.into_iter().filter(|p| p.kind == "test"));

    let folder = root.join("bundle");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let mut total_bytes = 0;
    for program in &programs {
        let place = folder.join(program.place());
        fs::create_dir_all(place.parent().unwrap_or(&folder))?;
        fs::copy(&program.built, &place)?;
        succeed(Command::new("strip").arg(&place))?;
        let bytes = fs::metadata(&place)?.len();
        println!("{:>12}  {}", bytes, program.place().display());
        total_bytes += bytes;
    }
    fs::write(folder.join("COMMIT"), format!("{commit}\n"))?;
    for script in ["run.sh", "sanitize.sh"] {
        fs::copy(root.join("xtask/src").join(format!("bundle_{script}")), folder.join(script))?;
    }
    println!("{total_bytes:>12}  bytes in {} programs at {commit}", programs.len());
    Ok(())
}

/// A program that cargo built; `kind` is cargo's name for the kind of its target.
pub(crate) struct Program {
    pub(crate) name: String,
    kind: String,
    pub(crate) built: PathBuf,
}

impl Program {
    /// The path in the bundle. `run.sh` runs the programs of each folder in its own way.
    fn place(&self) -> PathBuf {
        if self.name.ends_with(".so") {
            return PathBuf::from(&self.name);
        }
        match self.kind.as_str() {
            "example" => Path::new("examples").join(&self.name),
            "test" if !EXPLORERS.contains(&self.name.as_str()) => {
                Path::new("tests").join(&self.name)
            }
            _ => PathBuf::from(&self.name),
        }
    }
}

fn has_gpu_tests(root: &Path) -> bool {
    let tests = root.join("crates/trijet/tests");
    tests.join("gpu.rs").exists() || tests.join("gpu/main.rs").exists()
}

fn explorer(root: &Path, commit: &str, name: &str) -> io::Result<Program> {
    let built = build(root, commit, &["test", "--no-run", "-p", "trijet", "--test", name])?;
    let found = built.into_iter().find(|program| program.name == name);
    found.ok_or_else(|| io::Error::other(format!("cargo did not build the test program `{name}`")))
}

/// The path of one of [`EXPLORERS`], and its commit. If this program is in a bundle, the test
/// program comes from the bundle. Otherwise the test program is built.
pub(crate) fn explorer_here(name: &str) -> io::Result<(PathBuf, String)> {
    let here = env::current_exe()?;
    if let Some(bundle) = here.parent()
        && let Ok(commit) = fs::read_to_string(bundle.join("COMMIT"))
    {
        return Ok((bundle.join(name), commit.trim().to_owned()));
    }
    let root = root();
    let commit = commit(&root)?;
    Ok((explorer(&root, &commit, name)?.built, commit))
}

/// The commit. It ends in `-dirty` if the tree has changed files or new files.
pub(crate) fn commit(root: &Path) -> io::Result<String> {
    let head = output(Command::new("git").current_dir(root).args(["rev-parse", "HEAD"]))?;
    let status = output(Command::new("git").current_dir(root).args(["status", "--porcelain"]))?;
    let mark = if status.trim().is_empty() { "" } else { "-dirty" };
    Ok(format!("{}{mark}", head.trim()))
}

/// Runs cargo and returns the programs that it built or that were up to date.
pub(crate) fn build(root: &Path, commit: &str, arguments: &[&str]) -> io::Result<Vec<Program>> {
    let messages = output(
        Command::new(env!("CARGO"))
            .current_dir(root)
            .args(arguments)
            .args(["--release", "--message-format=json-render-diagnostics"])
            .env("TRIJET_COMMIT", commit),
    )?;
    let mut programs = Vec::new();
    for line in messages.lines() {
        let message: Value = serde_json::from_str(line)?;
        let target = &message["target"];
        let kind = target["kind"][0].as_str();
        // A benchmark opens the empty driver, which is a dynamic library, so the list includes such
        // libraries.
        let library = target["crate_types"][0].as_str() == Some("cdylib");
        let built = if library { &message["filenames"][0] } else { &message["executable"] };
        if let (Some(built), Some(name), Some(kind)) =
            (built.as_str(), target["name"].as_str(), kind)
        {
            let name = if library { format!("lib{name}.so") } else { name.to_owned() };
            programs.push(Program { name, kind: kind.to_owned(), built: PathBuf::from(built) });
        }
    }
    Ok(programs)
}

fn output(command: &mut Command) -> io::Result<String> {
    let output = command.stderr(Stdio::inherit()).output().map_err(|e| named(command, &e))?;
    if !output.status.success() {
        return Err(io::Error::other(format!("{command:?} failed: {}", output.status)));
    }
    String::from_utf8(output.stdout).map_err(io::Error::other)
}

fn succeed(command: &mut Command) -> io::Result<()> {
    output(command).map(drop)
}

fn named(command: &Command, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", command.get_program().display()))
}
