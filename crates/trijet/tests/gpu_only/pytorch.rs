//! A PyTorch tensor is a buffer, without a copy, in a stream of PyTorch.

use std::path::PathBuf;
use std::process::Command;

const SCRIPT: &str = include_str!("../../examples/python/tensor.py");

/// The library of `examples/python/tensor.rs`: next to the tests of a bundle, or of cargo.
fn library() -> PathBuf {
    let program = std::env::current_exe().expect("the test program has a path");
    let folders = program.ancestors().skip(1).take(3);
    let places = folders.flat_map(|folder| [folder.to_owned(), folder.join("examples")]);
    let found = places.map(|folder| folder.join("libpython_tensor.so")).find(|path| path.exists());
    found.expect("`cargo build --example python_tensor` built the library")
}

#[test]
fn a_pytorch_tensor_is_a_buffer_without_a_copy() {
    let mut python = Command::new("python3");
    let output = python.arg("-c").arg(SCRIPT).arg(library()).output().expect("python3 runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let failed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{failed}");
    println!("{}", said.trim());
}
