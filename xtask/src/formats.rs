//! `formats`: reads files that the tests have written with the libraries of their formats, and runs
//! `trijet map` on files that these libraries have written.
//!
//! The libraries come from wheels, which are installed under `target`. If they cannot be installed,
//! the task prints SKIPPED.
#![forbid(unsafe_code)]

use crate::environment::environment;
use crate::tools::{Result, root, target};
use std::path::Path;
use std::process::Command;

/// The wheels with their versions, and the modules that must be found in them.
const WHEELS: &[&str] = &[
    "tifffile==2026.3.3",
    "imagecodecs==2026.3.6",
    "zarr==3.1.6",
    "numcodecs==0.16.6",
    "ome-zarr-models==1.7",
    "h5py==3.16.0",
    "hdf5plugin==7.1.0",
    "imageio==2.38.1",
    "pillow==13.0.0",
    "mrcfile==1.5.4",
    "nibabel==5.4.2",
    "numpy==2.4.6",
];
const MODULES: &str = "h5py, hdf5plugin, imagecodecs, imageio, mrcfile, nibabel, numcodecs, numpy, \
                       ome_zarr_models, PIL, tifffile, zarr";

/// The test programs of `trijet-io` that write files, and the folders of the files.
const WRITTEN: &[&str] = &["tiff", "zarr"];

/// Reads the files of the tests, and runs the matrix of files of other libraries.
pub(crate) fn run() -> Result<()> {
    let python = match environment(WHEELS, MODULES) {
        Ok(python) => python,
        Err(reason) => {
            println!("== formats: SKIPPED: {reason}");
            return Ok(());
        }
    };
    let wrong = read_written(&python)?;
    run_matrix(&python)?;
    match wrong.as_slice() {
        [] => Ok(()),
        wrong => Err(format!("formats: the files of {} are wrong", wrong.join(", ")).into()),
    }
}

/// Writes the files of the tests, and reads them. Returns the formats whose files are wrong.
fn read_written(python: &Path) -> Result<Vec<&'static str>> {
    let mut wrong = Vec::new();
    for format in WRITTEN {
        let status = Command::new("cargo")
            .args(["test", "-p", "trijet-io", "--quiet", "--test", format])
            .args(["for_other_libraries"])
            .current_dir(root())
            .status()?;
        if !status.success() {
            return Err(format!("formats: the test `{format}` failed").into());
        }
        let status = Command::new(python)
            .arg(root().join("xtask/src/formats/check.py"))
            .arg(target().join("tmp/formats").join(format))
            .status()?;
        if !status.success() {
            wrong.push(*format);
        }
    }
    Ok(wrong)
}

/// Builds the command, and runs the matrix with it.
fn run_matrix(python: &Path) -> Result<()> {
    let status = Command::new("cargo")
        .args(["build", "-p", "trijet-cli", "--quiet", "--features", "formats"])
        .current_dir(root())
        .status()?;
    if !status.success() {
        return Err("formats: the command cannot be built".into());
    }
    let status = Command::new(python)
        // No compiled modules among the sources.
        .arg("-B")
        .arg(root().join("xtask/src/formats/matrix.py"))
        .arg(target().join("debug/trijet"))
        .arg(target().join("tmp/formats/matrix"))
        .status()?;
    if status.success() { Ok(()) } else { Err("formats: a row of the matrix is wrong".into()) }
}
