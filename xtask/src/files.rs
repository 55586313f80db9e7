//! `files`: makes each file call of a run fail, and simulates losses of power.
//!
//! The tests of the command make some file calls fail. This task makes all of them fail. It also
//! traces ten million records, but the tests trace only two million. A loss of power is simulated
//! by a copy of a disk at one moment. The output is on an ext4 file system in an image file. The
//! image file is on a second file system, which is frozen while the image file is copied. This
//! needs root and loop devices. Before that, runs into each format are killed at many moments, and
//! continued. With names of outputs, only these are killed and lose their power.
#![forbid(unsafe_code)]

use crate::tools::{Result, root, target};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::yield_now;
use std::time::Instant;

/// The number of simulated losses of power for each output.
const CUTS: u64 = 12;
/// The number of losses of power that come after the end of the run. They are included in [`CUTS`].
const CUTS_AFTER: u64 = 4;
/// The width and the height of an image in pixels. A pixel is one byte.
const SIDE: usize = 1024;
/// The number of images. With 64 MiB in total, a run writes for long enough to be cut at many
/// moments.
const IMAGES: usize = 64;
/// The names of the outputs. The last output is a folder of images. MRC files have no elements of
/// the type u8, and are written as HDF5 files are.
const OUTPUTS: [&str; 6] = ["out.npy", "out.raw", "out.tif", "out.h5", "out.zarr", "out"];
/// The number of times that runs of each output are killed.
const KILLS: u64 = 200;

pub(crate) fn run(names: &[&str]) -> Result<()> {
    let outputs: Vec<&str> = match names {
        [] => OUTPUTS.to_vec(),
        _ => OUTPUTS.into_iter().filter(|output| names.contains(output)).collect(),
    };
    if outputs.len() < names.len() {
        return Err(format!("files: the outputs are {}", OUTPUTS.join(", ")).into());
    }
    let calls: &[&str] = match names {
        [] => &["test", "--package", "trijet-cli", "--test", "failing_files", "--test", "traced"],
        _ => &["build", "--package", "trijet-cli"],
    };
    let mut cargo = Command::new("cargo");
    let status = cargo.args(calls).env("TRIJET_FILES", "all").current_dir(root()).status()?;
    if !status.success() {
        let error =
            "files: after a failed file call or a large trace, a run did not end as it should";
        return Err(error.into());
    }
    prepare(&outputs)?;
    kills(&outputs)?;
    if !shell("command -v mkfs.ext4 && command -v fsfreeze && command -v mountpoint")? {
        println!("SKIPPED losses of power: mkfs.ext4, fsfreeze or mountpoint is missing");
        return Ok(());
    }
    demand("mkdir outer inner copy && truncate -s 3G outer.img && mkfs.ext4 -q -F outer.img")?;
    if let Err(error) = demand("mount -o loop outer.img outer") {
        println!("SKIPPED losses of power: {error}");
        return Ok(());
    }
    let cut = power_cuts(&outputs);
    let unmounted = unmount();
    cut?;
    unmounted?;
    println!("{} simulated losses of power led to no wrong bytes", CUTS * outputs.len() as u64);
    Ok(())
}

/// The folder that has the file systems of this task.
fn folder() -> PathBuf {
    target().join("tmp/power")
}

/// Runs a line of the shell. Returns whether it succeeds.
fn shell(line: &str) -> Result<bool> {
    Ok(Command::new("sh").args(["-c", line]).output()?.status.success())
}

/// Runs a line of the shell in the folder of the file systems. It must succeed.
fn demand(line: &str) -> Result<()> {
    let output = Command::new("sh").args(["-c", line]).current_dir(folder()).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{line}: {}", String::from_utf8_lossy(&output.stderr)).into())
}

/// Makes the folder of this task, with an input and with an output in each format.
fn prepare(outputs: &[&str]) -> Result<()> {
    // If an earlier task was killed, its file systems may still be mounted.
    if folder().exists() {
        unmount()?;
        fs::remove_dir_all(folder())?;
    }
    fs::create_dir_all(folder())?;
    let pixels: std::result::Result<Vec<u8>, _> =
        (0..SIDE * SIDE * IMAGES).map(|n| u8::try_from(1 + n * n / 128 % 251)).collect();
    fs::write(folder().join("in.raw"), pixels?)?;
    for output in outputs {
        fs::create_dir(folder().join(format!("reference-{output}")))?;
        finish(map(&reference(output), &[])?, output)?;
    }
    Ok(())
}

/// The complete output with this name.
fn reference(output: &str) -> PathBuf {
    folder().join(format!("reference-{output}")).join(output)
}

/// Waits for the end of a run, which must succeed.
fn finish(run: Child, case: &str) -> Result<()> {
    let ended = run.wait_with_output()?;
    if ended.status.success() {
        return Ok(());
    }
    Err(format!("{case}: {}", String::from_utf8_lossy(&ended.stderr)).into())
}

/// Kills runs of each output at many moments. Each run continues the run before it, until the
/// output is complete.
fn kills(outputs: &[&str]) -> Result<()> {
    for output in outputs {
        let out = folder().join("killed").join(output);
        fs::create_dir_all(folder().join("killed"))?;
        let begin = Instant::now();
        finish(map(&out, &[])?, output)?;
        let whole = begin.elapsed();
        fs::remove_dir_all(folder().join("killed"))?;
        fs::create_dir_all(folder().join("killed"))?;
        let (mut kills, mut runs) = (0_u64, 0);
        while kills < KILLS {
            let begin = Instant::now();
            let mut run = map(&out, &["--resume"])?;
            // The moments move through the whole time of a run, and a little beyond its end.
            let moment = whole * u32::try_from(kills * 37 % 100)? / 80;
            while run.try_wait()?.is_none() && begin.elapsed() < moment {
                yield_now();
            }
            let ended = run.try_wait()?;
            run.kill()?;
            let told = run.wait_with_output()?;
            match ended {
                None => kills += 1,
                Some(status) if status.success() => {
                    runs += 1;
                    same(&out, output)?;
                    fs::remove_dir_all(folder().join("killed"))?;
                    fs::create_dir_all(folder().join("killed"))?;
                }
                Some(_) => {
                    return Err(
                        format!("{output}: {}", String::from_utf8_lossy(&told.stderr)).into()
                    );
                }
            }
        }
        finish(map(&out, &["--resume"])?, output)?;
        same(&out, output)?;
        fs::remove_dir_all(folder().join("killed"))?;
        println!("{output}: {kills} kills, {} complete outputs, all equal", runs + 1);
    }
    Ok(())
}

/// Compares an output with the reference.
fn same(out: &Path, output: &str) -> Result<()> {
    let reference = reference(output);
    if shell(&format!("diff -r '{}' '{}'", out.display(), reference.display()))? {
        return Ok(());
    }
    Err(format!("{output}: a run that was killed and continued has wrong bytes").into())
}

/// Cuts the power at many moments of a run for each output.
fn power_cuts(outputs: &[&str]) -> Result<()> {
    for output in outputs {
        let reference = reference(output);
        for cut in 0..CUTS {
            let case = format!("{output}, cut {cut}");
            let has_ended = cut_power(output, cut, &case)?;
            check(&folder().join("copy").join(output), &reference, has_ended, &case)?;
            demand("umount copy")?;
            println!(
                "{case}: correct{}",
                if has_ended { ", after the end of the run" } else { "" }
            );
        }
    }
    Ok(())
}

/// Cuts the power of a run. Mounts the content of the disk at the moment of the cut as `copy`, and
/// returns whether the run had ended.
fn cut_power(output: &str, cut: u64, case: &str) -> Result<bool> {
    demand(
        "truncate -s 0 outer/inner.img && truncate -s 512M outer/inner.img \
         && mkfs.ext4 -q -F outer/inner.img && mount -o loop outer/inner.img inner",
    )?;
    let mut run = map(&folder().join("inner").join(output), &[])?;
    // The last cuts of the power come after the end of the run.
    if cut + CUTS_AFTER >= CUTS {
        run.wait()?;
    } else {
        until_written(&mut run, output, cut)?;
    }
    let ended = run.try_wait()?;
    demand("fsfreeze -f outer")?;
    let copied = demand("cp --sparse=always outer/inner.img copy.img");
    demand("fsfreeze -u outer")?;
    copied?;
    // If the run has ended, `kill` does nothing.
    run.kill()?;
    let output = run.wait_with_output()?;
    if ended.is_some_and(|status| !status.success()) {
        return Err(format!("{case}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    demand("umount inner && mount -o loop copy.img copy")?;
    Ok(ended.is_some())
}

/// Waits until the run has written a share of its chunks. The share grows with the number of the
/// cut. After that, lets other threads run a few times.
fn until_written(run: &mut Child, output: &str, cut: u64) -> Result<()> {
    let journal = folder().join("inner").join(format!("{output}.journal"));
    let chunks = IMAGES as u64 * cut / (CUTS - CUTS_AFTER);
    let mut steps = 1 + cut * cut * 20;
    while run.try_wait()?.is_none() && steps > 0 {
        let text = match fs::read_to_string(&journal) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            read => read?,
        };
        if text.matches("\"rows\"").count() as u64 >= chunks {
            steps -= 1;
        }
        yield_now();
    }
    Ok(())
}

/// Unmounts the file systems that are mounted.
fn unmount() -> Result<()> {
    // `fsfreeze -u` fails if the file system is not frozen.
    demand(
        "if mountpoint -q outer; then fsfreeze -u outer || true; fi
         for name in inner copy outer; do
             if mountpoint -q $name; then umount $name || exit 1; fi
         done",
    )
}

/// Starts a run. The input of the run is not on the disk that loses its power.
fn map(output: &Path, more: &[&str]) -> Result<Child> {
    // `debug/trijet` exists: it is built before.
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

/// Checks the output after a loss of power, and checks that another run continues it.
fn check(output: &Path, reference: &Path, has_ended: bool, case: &str) -> Result<()> {
    let is_equal = || -> Result<bool> {
        let compare = format!("diff -r '{}' '{}'", output.display(), reference.display());
        shell(&compare)
    };
    let is_there = fs::symlink_metadata(output).is_ok();
    if is_there && !is_equal()? {
        return Err(format!("{case}: the output with the final name has wrong bytes").into());
    }
    if has_ended && !is_there {
        return Err(format!("{case}: the output of a run that had succeeded is lost").into());
    }
    let ended = map(output, &["--resume"])?.wait_with_output()?;
    if !ended.status.success() {
        return Err(format!("{case}: {}", String::from_utf8_lossy(&ended.stderr)).into());
    }
    if is_equal()? { Ok(()) } else { Err(format!("{case}: --resume wrote wrong bytes").into()) }
}
