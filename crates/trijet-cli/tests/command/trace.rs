//! `trijet trace`: the exit status of the traced program, and the reasons why nothing is traced.

use crate::workdir::{Ran, Workdir};
use std::fs;
use std::path::PathBuf;

/// A library that cargo built beside the tests.
pub(crate) fn library(name: &str) -> PathBuf {
    let file = std::env::current_exe().unwrap().with_file_name(name);
    assert!(file.exists(), "{} is built with the tests", file.display());
    file
}

/// Runs `trijet trace` without a driver.
fn trace(workdir: &Workdir, options: &[&str], program: &[&str]) -> Ran {
    let call = [&["trace"], options, &["--"], program].concat();
    workdir.trijet(&call)
}

#[test]
fn exit_status_and_output_are_those_of_the_program() {
    let workdir = Workdir::new();
    for code in [1, 7, 255] {
        let ran =
            trace(&workdir, &[], &["sh", "-c", &format!("echo out; echo err >&2; exit {code}")]);
        assert_eq!((ran.code, ran.out.as_str()), (Some(code), "out\n"), "{ran:?}");
        assert!(ran.err.starts_with("err\n"), "{ran:?}");
    }
    let killed = trace(&workdir, &[], &["sh", "-c", "kill -TERM $$"]);
    assert_eq!(killed.code, Some(128 + 15), "{killed:?}");
}

#[test]
fn without_a_driver_nothing_is_traced_and_the_reason_is_printed() {
    let workdir = Workdir::new();
    let ran = trace(&workdir, &["-o", "kept.trijet"], &["true"]);
    assert_eq!(ran.code, Some(1), "nothing was traced");
    assert!(!workdir.exists("kept.trijet"));
    assert!(ran.err.contains("nothing was traced: there is no CUDA driver"), "{}", ran.err);
    assert!(ran.err.contains("libcuda.so.1"), "{}", ran.err);
    let ran = trace(&workdir, &["--json"], &["true"]);
    let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert!(json["missing"].as_str().unwrap().contains("no CUDA driver"), "{json}");
    assert_eq!(json["processes"].as_array().map(Vec::len), Some(0));
}

#[test]
fn a_program_that_cannot_be_started_is_an_error_as_in_a_shell() {
    let workdir = Workdir::new();
    trace(&workdir, &[], &["no-such-program"]).refused(127, &["no-such-program"]);
    workdir.file("plain", b"no program");
    trace(&workdir, &[], &["./plain"]).refused(126, &["./plain"]);
}

#[test]
fn a_second_tool_is_refused_before_the_program_runs() {
    let workdir = Workdir::new();
    let mut command = workdir.command(&["trace", "--", "touch", "ran"]);
    let ran = Ran::from(command.env("CUDA_INJECTION64_PATH", "other.so").output().unwrap());
    ran.refused(1, &["CUDA_INJECTION64_PATH", "another tool"]);
    assert!(!workdir.exists("ran"));
}

#[test]
fn exactly_one_of_a_program_and_a_trace_file_is_needed() {
    let workdir = Workdir::new();
    workdir.trijet(&["trace"]).refused(2, &["COMMAND"]);
    workdir.trijet(&["trace", "--read", "a", "--", "true"]).refused(2, &["--read"]);
    workdir.trijet(&["trace", "--read", "a", "-o", "b"]).refused(1, &["b: ", ".html"]);
    workdir.trijet(&["trace", "--from", "1s", "--", "true"]).refused(2, &["--output"]);
    workdir.trijet(&["trace", "-o", "b", "--from", "1s", "--", "true"]).refused(1, &["--from"]);
}

/// The empty driver loads the tracing library as a real one does. CUPTI is a missing file, or a
/// library without the symbols of CUPTI.
#[test]
fn without_cupti_the_trace_has_the_reason() {
    let workdir = Workdir::new();
    let empty = library("libempty_cuda.so");
    let program = env!("CARGO_BIN_EXE_trijet");
    for (cupti, words) in
        [("/nonexistent/libcupti.so", "/nonexistent/libcupti.so"), ("libm.so.6", "no `cupti")]
    {
        let mut command = workdir.command(&["trace", "--", program, "devices"]);
        command.env("TRIJET_LIBCUDA", &empty).env("TRIJET_LIBCUPTI", cupti);
        let ran = Ran::from(command.output().unwrap());
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.out.contains("empty driver"), "the program ran: {}", ran.out);
        assert!(ran.err.contains("nothing was traced") && ran.err.contains(words), "{}", ran.err);
    }
}

#[test]
fn a_damaged_trace_is_refused_with_the_position_of_the_damage() {
    let workdir = Workdir::new();
    let read = ["trace", "--read", "kept.trijet"];
    workdir.trijet(&read).refused(1, &["kept.trijet", "No such file"]);
    workdir.file("kept.trijet", b"\x93NUMPY, which is something else");
    workdir.trijet(&read).refused(1, &["kept.trijet", "byte 0", "not a trace"]);
    let mut file = Vec::new();
    trijet::trace::process_file::header(&mut file, 1, 130_001, trijet::Nanos(5));
    file.extend([99, 0, 0, 0]);
    fs::write(workdir.path("kept.trijet"), &file).unwrap();
    workdir.trijet(&read).refused(1, &["kept.trijet", "byte 40", "kind 99"]);
    fs::write(workdir.path("kept.trijet"), b"").unwrap();
    workdir.trijet(&read).refused(1, &["kept.trijet", "empty"]);
}
