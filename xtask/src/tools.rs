//! NVIDIA's compilers from their wheels on PyPI, unpacked under `target/tools`.
//!
//! The wheels need no CUDA toolkit, driver or GPU. Their versions are pinned, so that every machine
//! generates the same text. Each version is downloaded once.
#![forbid(unsafe_code)]

use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The result of a task.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A pinned wheel.
struct Wheel {
    package: &'static str,
    version: &'static str,
}

/// The last version of NVRTC that writes PTX 8.0. All drivers of version 525 and later accept PTX
/// 8.0.
const NVRTC: Wheel = Wheel { package: "nvidia-cuda-nvrtc-cu12", version: "12.0.140" };

/// A version of the assembler that knows every architecture up to Blackwell.
const PTXAS: Wheel = Wheel { package: "nvidia-cuda-nvcc", version: "13.0.88" };

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The folder with `libnvrtc` and its built-ins.
pub(crate) fn nvrtc_folder() -> Result<PathBuf> {
    Ok(unpacked(&NVRTC)?.join("nvidia/cuda_nvrtc/lib"))
}

/// The path of the assembler.
pub(crate) fn ptxas() -> Result<PathBuf> {
    of_compiler("ptxas")
}

/// The path of the program that makes fat binaries.
pub(crate) fn fatbinary() -> Result<PathBuf> {
    of_compiler("fatbinary")
}

fn of_compiler(program: &str) -> Result<PathBuf> {
    let path = unpacked(&PTXAS)?.join("nvidia/cu13/bin").join(program);
    // Python's zipfile does not keep the mode bits, so the file is made executable here.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

/// The target folder of cargo.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// A folder for temporary outputs.
pub(crate) fn scratch() -> Result<PathBuf> {
    let folder = root().join("target/tools/scratch");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// The folder of an unpacked wheel. A missing wheel is downloaded and unpacked first.
fn unpacked(wheel: &Wheel) -> Result<PathBuf> {
    let tools = root().join("target/tools");
    let name = format!("{}-{}", wheel.package, wheel.version);
    let folder = tools.join(&name);
    if folder.is_dir() {
        return Ok(folder);
    }
    let download = tools.join(format!("{name}.wheel"));
    fs::create_dir_all(&download)?;
    let requirement = format!("{}=={}", wheel.package, wheel.version);
    let pip = ["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest"];
    python(pip.map(OsStr::new).into_iter().chain([download.as_os_str(), requirement.as_ref()]))?;
    let file = wheel_in(&download)?;
    // The folder gets its name when it is complete. So an interrupted run leaves no incomplete
    // folder with that name.
    let partial = tools.join(format!("{name}.partial"));
    let unzip = ["-m", "zipfile", "-e"].map(OsStr::new);
    python(unzip.into_iter().chain([file.as_os_str(), partial.as_os_str()]))?;
    fs::rename(&partial, &folder)?;
    fs::remove_dir_all(&download)?;
    Ok(folder)
}

/// The path of the wheel file in `folder`.
fn wheel_in(folder: &Path) -> Result<PathBuf> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension() == Some(OsStr::new("whl")) {
            return Ok(path);
        }
    }
    Err(format!("pip downloaded no wheel to {}", folder.display()).into())
}

fn python<'a>(arguments: impl Iterator<Item = &'a OsStr>) -> Result<()> {
    let arguments: Vec<&OsStr> = arguments.collect();
    let status = Command::new("python3")
        .args(&arguments)
        .status()
        .map_err(|error| format!("cannot run python3: {error}"))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("python3 {arguments:?} failed: {status}").into())
}
