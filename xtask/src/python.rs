//! `python`, `recipes` and `wheel`: the Python package `trijet`.
//!
//! `python` builds the extension module without optimisation, puts it beside the sources of the
//! package, and runs the tests, the examples of the documentation, the recipes and the checks of the
//! types. `wheel` builds the wheel, and runs the tests on it in an empty environment.
#![forbid(unsafe_code)]

use crate::environment::environment;
use crate::tools::{Result, root, target};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The wheels of the tests, with their versions.
const WHEELS: &[&str] = &[
    "numpy==2.4.6",
    "scipy==1.17.1",
    "pytest==9.2.0",
    "h5py==3.16.0",
    "zarr==3.1.6",
    "tifffile==2026.3.3",
    "dask==2026.8.0",
    "mypy==2.4.1",
];
const MODULES: &str = "dask.array, h5py, mypy, numpy, pytest, scipy.ndimage, tifffile, zarr";

/// The engines of the recipes.
const ENGINES: &[&str] = &[
    "numpy==2.4.6",
    "pytest==9.2.0",
    "dask==2026.8.0",
    "distributed==2026.8.0",
    "ray[data]==2.60.0",
    "snakemake==9.27.1",
    "nbconvert==7.17.2",
    "ipykernel==7.4.0",
];
const ENGINE_MODULES: &str =
    "distributed, ipykernel, nbconvert, numpy, pytest, ray.data, snakemake";

/// The tool that builds wheels.
const MATURIN: &[&str] = &["maturin==1.16.0"];

/// Maximum size of the wheel in bytes.
const WHEEL_BYTES_MAX: u64 = 12 << 20;

/// The name of the extension module in the package.
const MODULE: &str = "_native.abi3.so";

/// The library that becomes the extension module.
const LIBRARY: &str = "lib_native.so";

/// The types of the extension module, which maturin generates.
const STUBS: &str = "_native.pyi";

/// Data of the package that cargo builds: the allocator.
const ALLOCATOR: &str = "libtrijet_alloc.so";

fn package() -> PathBuf {
    root().join("python")
}

fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}").into()) }
}

/// Builds `name` and returns the path of its library.
fn built(name: &str, library: &str, is_release: bool) -> Result<PathBuf> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--quiet", "-p", name]).current_dir(root());
    if is_release {
        cargo.arg("--release");
    }
    succeed(&mut cargo)?;
    Ok(target().join(if is_release { "release" } else { "debug" }).join(library))
}

/// Builds the extension module, generates the types of its functions, and compares them with the
/// file in the package.
fn compare_stubs() -> Result<()> {
    let maturin = environment(MATURIN, "maturin")?;
    let folder = target().join("tmp/stubs");
    let mut generate = Command::new(maturin);
    generate.args(["-m", "maturin", "generate-stubs", "--quiet", "--profile", "dev", "--out"]);
    generate.arg(&folder).arg("--target-dir").arg(target());
    succeed(generate.current_dir(package()))?;
    compare(&folder.join("trijet").join(STUBS), &package().join("trijet").join(STUBS))
}

/// Writes the reference from the docstrings, and compares it with the document.
fn compare_reference(python: &Path) -> Result<()> {
    let fresh = target().join("tmp/python-reference.md");
    let mut write = Command::new(python);
    write.args(["-B", "reference.py"]).arg(&fresh);
    succeed(write.current_dir(package()).env("PYTHONPATH", package()))?;
    compare(&fresh, &root().join("docs/python-reference.md"))
}

/// Compares a file with a fresh one. A file that differs is replaced, and is a mistake.
fn compare(fresh: &Path, kept: &Path) -> Result<()> {
    let fresh = fs::read_to_string(fresh)?;
    if fs::read_to_string(kept).is_ok_and(|text| text == fresh) {
        return Ok(());
    }
    fs::write(kept, fresh)?;
    Err(format!("{} was out of date; it is written anew", kept.display()).into())
}

/// Tests the package from its sources.
pub(crate) fn check() -> Result<()> {
    let python = match environment(WHEELS, MODULES) {
        Ok(python) => python,
        Err(reason) => {
            println!("== python: SKIPPED: {reason}");
            return Ok(());
        }
    };
    compare_stubs()?;
    // The stubs are read from the library that the step above has built.
    let module = target().join("maturin").join(LIBRARY);
    fs::copy(module, package().join("trijet").join(MODULE))?;
    let allocator = built("trijet-alloc", ALLOCATOR, false)?;
    fs::copy(allocator, package().join("trijet").join(ALLOCATOR))?;
    compare_reference(&python)?;
    // Stand-ins for the driver and for CUPTI.
    let stand_ins = built("empty-driver", "libempty_cuda.so", false)?;
    built("empty-cupti", "libempty_cupti.so", false)?;
    let with_sources = |command: &mut Command| {
        let folder = stand_ins.parent().ok_or("the target folder has no path")?;
        command.env("TRIJET_STAND_INS", folder).env("PYTHONPATH", package());
        succeed(command.current_dir(package()))
    };
    // No compiled modules among the sources.
    let pytest = ["-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--doctest-modules"];
    with_sources(Command::new(&python).args(pytest).args(["trijet", "tests"]))?;
    let cache = target().join("tmp/mypy");
    let mypy = |arguments: &[&str]| {
        let mut command = Command::new(&python);
        command.args(["-B", "-m"]).args(arguments).env("MYPY_CACHE_DIR", &cache);
        with_sources(&mut command)
    };
    mypy(&["mypy", "trijet"])?;
    mypy(&["mypy.stubtest", "trijet._native"])
}

/// Runs the recipes of the documents with the engines that they are for, over the extension module
/// that `python` has built.
pub(crate) fn recipes() -> Result<()> {
    let python = match environment(ENGINES, ENGINE_MODULES) {
        Ok(python) => python,
        Err(reason) => {
            println!("== recipes: SKIPPED: {reason}");
            return Ok(());
        }
    };
    let pytest = ["-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "recipes"];
    let mut command = Command::new(python);
    command.args(pytest).current_dir(package()).env("PYTHONPATH", package());
    succeed(&mut command)
}

/// Builds the wheel, and tests it in an environment without anything else than the tests need.
pub(crate) fn wheel() -> Result<()> {
    let maturin = environment(MATURIN, "maturin")?;
    let allocator = package().join("trijet").join(ALLOCATOR);
    fs::copy(built("trijet-alloc", ALLOCATOR, true)?, &allocator)?;
    succeed(Command::new("strip").arg(&allocator))?;
    for name in ["LICENSE-APACHE", "LICENSE-MIT"] {
        fs::copy(root().join(name), package().join(name))?;
    }
    let folder = target().join("wheels");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let mut build = Command::new(maturin);
    build.args(["-m", "maturin", "build", "--release", "--strip", "--quiet", "--out"]).arg(&folder);
    succeed(build.current_dir(package()).env("CARGO_TARGET_DIR", target()))?;
    let wheel = only_wheel(&folder)?;
    let bytes = fs::metadata(&wheel)?.len();
    println!("{} ({:.1} MB)", wheel.display(), bytes as f64 / 1e6);
    if bytes > WHEEL_BYTES_MAX {
        return Err(format!("the wheel has {bytes} bytes; at most {WHEEL_BYTES_MAX}").into());
    }
    let empty = target().join("tmp/empty-environment");
    if empty.exists() {
        fs::remove_dir_all(&empty)?;
    }
    succeed(Command::new("python3").args(["-m", "venv"]).arg(&empty))?;
    let python = empty.join("bin/python");
    let pip = ["-m", "pip", "install", "--quiet", "pytest==9.2.0"];
    succeed(Command::new(&python).args(pip).arg(&wheel))?;
    let tests = root().join("python/tests");
    let pytest = ["-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"];
    succeed(Command::new(&python).args(pytest).arg(tests).current_dir(&empty))?;
    succeed(Command::new(empty.join("bin/trijet")).arg("--version"))
}

fn only_wheel(folder: &Path) -> Result<PathBuf> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "whl") {
            return Ok(path);
        }
    }
    Err(format!("maturin built no wheel in {}", folder.display()).into())
}
