//! Builds the tracing library of `trijet trace`, which the command contains, so that `cargo install`
//! installs a command that can trace.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

fn main() {
    let sources = Path::new(trijet_cupti::SOURCES);
    println!("cargo::rerun-if-changed={}", sources.display());
    println!("cargo::rerun-if-changed=build.rs");
    let library = variable("OUT_DIR").join("libtrijet_trace.so");
    let mut compiler = Command::new(variable("RUSTC"));
    compiler
        .args(["--crate-name", "trijet_trace", "--crate-type", "cdylib", "--edition", "2024"])
        .args(["--cfg", "injected", "--check-cfg", "cfg(injected)", "--cap-lints", "allow"])
        .args(["-C", "opt-level=2", "-C", "strip=symbols"])
        .arg("--target")
        .arg(variable("TARGET"))
        .arg("-o")
        .arg(&library)
        .arg(sources.join("lib.rs"))
        .env("CARGO_MANIFEST_DIR", sources.with_file_name(""));
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        compiler.arg("-C").arg(format!("linker={}", linker.display()));
    }
    match compiler.status() {
        Ok(status) if status.success() => {}
        outcome => {
            println!("cargo::error=the tracing library was not compiled: {outcome:?}");
            exit(1);
        }
    }
}

/// A variable that cargo sets.
fn variable(name: &str) -> PathBuf {
    match env::var_os(name) {
        Some(value) => value.into(),
        None => {
            println!("cargo::error={name} is not set");
            exit(1);
        }
    }
}
