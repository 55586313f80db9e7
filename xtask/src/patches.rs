//! The fat binary of the patches of `trijet-sanitizer`, which `ptx` generates and `ptx --check`
//! compares.
//!
//! The Compute Sanitizer API takes machine code that was assembled as a patch for tools, and refuses
//! PTX. Machine code of an architecture also runs on the later ones with the same first number.
#![forbid(unsafe_code)]

use crate::nvrtc::Nvrtc;
use crate::tools::{self, Result};
use std::ffi::CStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The architectures of the machine code: Ampere and Ada, Hopper, and the two of Blackwell.
const ARCHITECTURES: [u32; 4] = [80, 90, 100, 120];

/// The options of the compiler. The patches are functions that no kernel calls.
const OPTIONS: [&CStr; 3] =
    [c"--std=c++17", c"--gpu-architecture=compute_80", c"--relocatable-device-code=true"];

fn source() -> PathBuf {
    tools::root().join("crates/trijet-sanitizer/src/accesses.cu")
}

/// Writes the fat binary beside its source.
pub(crate) fn generate(nvrtc: &Nvrtc) -> Result<()> {
    let path = source().with_extension("fatbin");
    fs::write(&path, compiled(nvrtc)?)?;
    println!("wrote accesses.fatbin");
    Ok(())
}

/// Whether the fat binary of the repository is the one of its source.
pub(crate) fn is_new(nvrtc: &Nvrtc) -> Result<bool> {
    Ok(fs::read(source().with_extension("fatbin"))? == compiled(nvrtc)?)
}

fn compiled(nvrtc: &Nvrtc) -> Result<Vec<u8>> {
    let scratch = tools::scratch()?;
    let ptx = scratch.join("accesses.ptx");
    fs::write(&ptx, nvrtc.compile("accesses.cu", &fs::read_to_string(source())?, &OPTIONS)?)?;
    let ptxas = tools::ptxas()?;
    let output = scratch.join("accesses.fatbin");
    let mut fatbinary = Command::new(tools::fatbinary()?);
    fatbinary.arg(format!("--create={}", output.display())).args(["-64", "--compress-all"]);
    for number in ARCHITECTURES {
        let code = scratch.join(format!("accesses-{number}.cubin"));
        succeed(
            Command::new(&ptxas)
                .args(["--compile-as-tools-patch", &format!("-arch=sm_{number}")])
                .arg(&ptx)
                .arg("-o")
                .arg(&code),
            &ptxas,
        )?;
        fatbinary.arg(format!("--image3=kind=elf,sm={number},file={}", code.display()));
    }
    succeed(&mut fatbinary, Path::new("fatbinary"))?;
    Ok(fs::read(output)?)
}

fn succeed(command: &mut Command, name: &Path) -> Result<()> {
    let output = command.output().map_err(|error| format!("{}: {error}", name.display()))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(format!("accesses.cu: {}: {text}", name.display()).into())
}
