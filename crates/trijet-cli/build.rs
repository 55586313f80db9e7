//! Builds the tracing library of `trijet trace`, which the command contains, so that `cargo install`
//! installs a command that can trace.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let out = variable("OUT_DIR");
    let sanitizer = out.join("libtrijet_sanitizer.rlib");
    compile(trijet_sanitizer::SOURCES, "trijet_sanitizer", &["--crate-type", "rlib"], &sanitizer);
    let dependency = format!("trijet_sanitizer={}", sanitizer.display());
    let options = ["--crate-type", "cdylib", "--cfg", "injected", "--extern", &dependency];
    compile(trijet_cupti::SOURCES, "trijet_trace", &options, &out.join("libtrijet_trace.so"));
}

/// Compiles the crate with these sources.
fn compile(sources: &str, name: &str, options: &[&str], output: &Path) {
    println!("cargo::rerun-if-changed={sources}");
    let sources = Path::new(sources);
    let mut compiler = Command::new(variable("RUSTC"));
    compiler
        .args(["--crate-name", name, "--edition", "2024"])
        .args(["--check-cfg", "cfg(injected)", "--cap-lints", "allow"])
        .args(["-C", "opt-level=2", "-C", "strip=symbols"])
        .args(options)
        .arg("--target")
        .arg(variable("TARGET"))
        .arg("-o")
        .arg(output)
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
