//! `files`: file calls that fail, in every place, and losses of power.
//!
//! The tests of the command let some file calls fail; this task lets all of them fail. A loss of power
//! is a copy of a disk at a moment at which nothing is written to it: the file of an ext4 file system
//! lies in a second one, which is frozen while the file is copied. This needs root and loop devices.
#![forbid(unsafe_code)]

use crate::tools::{Result, root, target};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::yield_now;

/// The losses of power for each output.
const CUTS: u64 = 12;
/// Those of them that come after the end of the run.
const CUTS_AFTER: u64 = 4;
/// The sides of the images, and their number: 64 MiB, which the run takes about a second to write.
const SIDE: usize = 1024;
const IMAGES: usize = 64;
/// The outputs. The last one is a folder of images.
const OUTPUTS: [&str; 3] = ["out.npy", "out.raw", "out"];

pub(crate) fn run() -> Result<()> {
    let status = Command::new("cargo")
        .args(["test", "--package", "trijet-cli", "--test", "failing_files"])
        .env("TRIJET_FILES", "all")
        .current_dir(root())
        .status()?;
    if !status.success() {
        return Err("files: a file call that fails has a wrong end".into());
    }
    fs::create_dir_all(folder())?;
    // A task that was killed leaves its file systems.
    unmount()?;
    let cut = power_cuts();
    unmount()?;
    match cut? {
        Some(reason) => println!("SKIPPED losses of power: {reason}"),
        None => println!("{} losses of power had no wrong bytes", CUTS * OUTPUTS.len() as u64),
    }
    Ok(())
}

/// The folder of the file systems.
fn folder() -> PathBuf {
    target().join("tmp/power")
}

/// Runs a line of the shell.
fn shell(line: &str) -> Result<Output> {
    Ok(Command::new("sh").args(["-c", line]).current_dir(folder()).output()?)
}

/// Runs a line of the shell, which must succeed.
fn demand(line: &str) -> Result<()> {
    let output = shell(line)?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{line}: {}", String::from_utf8_lossy(&output.stderr)).into())
}

/// Cuts the power at many moments. Returns why there were none.
fn power_cuts() -> Result<Option<String>> {
    let make = "mkdir -p outer inner copy && truncate -s 3G outer.img && mkfs.ext4 -q -F outer.img \
                && mount -o loop outer.img outer";
    if let Err(error) = demand(make) {
        return Ok(Some(format!("there is no loop device: {error}")));
    }
    let pixels: std::result::Result<Vec<u8>, _> =
        (0..SIDE * SIDE * IMAGES).map(|n| u8::try_from(1 + n * n / 128 % 251)).collect();
    fs::write(folder().join("in.raw"), pixels?)?;
    for output in OUTPUTS {
        let reference = folder().join(format!("reference-{output}"));
        drop(fs::remove_dir_all(&reference));
        drop(fs::remove_file(&reference));
        fs::create_dir(&reference)?;
        let reference = reference.join(output);
        let ended = map(&reference, &[])?.wait_with_output()?;
        if !ended.status.success() {
            return Err(String::from_utf8_lossy(&ended.stderr).into());
        }
        for cut in 0..CUTS {
            let case = format!("{output}, cut {cut}");
            demand(
                "truncate -s 0 outer/inner.img && truncate -s 512M outer/inner.img \
                 && mkfs.ext4 -q -F outer/inner.img && mount -o loop outer/inner.img inner",
            )?;
            let mut run = map(&folder().join("inner").join(output), &[])?;
            // The last cuts come at once after the end of the run.
            if cut + CUTS_AFTER >= CUTS {
                run.wait()?;
            } else {
                until_written(&mut run, output, cut)?;
            }
            let has_ended = run.try_wait()?.is_some_and(|status| status.success());
            demand("fsfreeze -f outer")?;
            let copied = demand("cp --sparse=always outer/inner.img copy.img");
            demand("fsfreeze -u outer")?;
            copied?;
            if run.try_wait()?.is_none() {
                run.kill()?;
                run.wait()?;
            }
            demand("umount inner && mount -o loop copy.img copy")?;
            check(&folder().join("copy").join(output), &reference, has_ended, &case)?;
            demand("umount copy")?;
            println!("{case}: right{}", if has_ended { ", after the end of the run" } else { "" });
        }
    }
    Ok(None)
}

/// Waits until the run has written a share of its chunks, which grows with the number of the cut, and
/// then a number of steps more.
fn until_written(run: &mut Child, output: &str, cut: u64) -> Result<()> {
    let journal = folder().join("inner").join(format!("{output}.journal"));
    let chunks = IMAGES as u64 * cut / (CUTS - CUTS_AFTER);
    let mut steps = 1 + cut * cut * 20;
    while run.try_wait()?.is_none() && steps > 0 {
        let lines = fs::read_to_string(&journal).map_or(0, |text| text.matches("\"rows\"").count());
        if lines as u64 >= chunks {
            steps -= 1;
        }
        yield_now();
    }
    Ok(())
}

/// Takes the file systems away, where there are some.
fn unmount() -> Result<()> {
    shell("fsfreeze -u outer; umount inner; umount copy; umount outer").map(drop)
}

/// Starts a run. Its input is outside of the disk that loses its power.
fn map(output: &Path, more: &[&str]) -> Result<Child> {
    // The tests have built it.
    Ok(Command::new(target().join("debug/trijet"))
        .arg("map")
        .arg(folder().join("in.raw"))
        .arg("-o")
        .arg(output)
        .args(["--shape", &format!("{IMAGES}x{SIDE}x{SIDE}"), "--dtype", "u8"])
        .args(["--op", "affine", "--scale", "0.5", "--device", "host", "--chunk", "1MiB"])
        .args(more)
        .env("TRIJET_LIBCUDA", "/nonexistent/libcuda.so.1")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?)
}

/// Checks what a loss of power has left, and that a run continues it.
fn check(output: &Path, reference: &Path, has_ended: bool, case: &str) -> Result<()> {
    let is_equal = || -> Result<bool> {
        let compare = format!("diff -r '{}' '{}'", output.display(), reference.display());
        Ok(shell(&compare)?.status.success())
    };
    let is_there = fs::symlink_metadata(output).is_ok();
    if is_there && !is_equal()? {
        return Err(format!("{case}: the final name has wrong bytes").into());
    }
    if has_ended && !is_there {
        return Err(format!("{case}: the output of a run that had succeeded is lost").into());
    }
    let ended = map(output, &["--resume"])?.wait_with_output()?;
    if !ended.status.success() {
        return Err(format!("{case}: {}", String::from_utf8_lossy(&ended.stderr)).into());
    }
    if is_equal()? { Ok(()) } else { Err(format!("{case}: --resume gave wrong bytes").into()) }
}
