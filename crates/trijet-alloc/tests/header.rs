//! Tests of the header and the library. The header is compiled as C and as C++, and C code calls
//! the functions of the shared library.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

// Cargo builds the shared library before this test program, because the program depends on the
// crate.
use trijet_alloc as _;

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Runs a command that must succeed, and returns its output. `None` if the program is not
/// installed.
fn succeed(command: &mut Command) -> Option<Output> {
    let output = match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        output => output.expect("the program starts"),
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    Some(output)
}

#[test]
fn a_c_program_allocates_frees_and_gets_an_error_for_each_mistake() {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("header");
    let built = std::env::current_exe().expect("this program has a path");
    let library = built.with_file_name("libtrijet_alloc.so");
    assert!(library.exists(), "{} is built with the tests", library.display());
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-I"]).arg(here("include"));
    cc.arg(here("tests/header.c")).arg(&library).arg("-o").arg(&program);
    if succeed(&mut cc).is_none() {
        println!("SKIPPED 1 C program: cc is not installed");
        return;
    }
    let folder = library.parent().expect("the library lies in a folder");
    let output = succeed(Command::new(&program).env("LD_LIBRARY_PATH", folder));
    let output = output.expect("the program was compiled");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "all calls of the header\n");
}

#[test]
fn the_header_is_c_plus_plus_as_well() {
    let mut cpp = Command::new("c++");
    cpp.args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++"]);
    if succeed(cpp.arg(here("include/trijet_alloc.h"))).is_none() {
        println!("SKIPPED 1 header as C++: c++ is not installed");
    }
}
