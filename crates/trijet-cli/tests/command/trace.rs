//! `trijet trace`: the program's own exit code, and words where nothing can be recorded.

use crate::desk::{Desk, Ran};
use std::fs;
use std::path::PathBuf;

/// A library that cargo built beside the tests.
fn library(name: &str) -> PathBuf {
    let file = std::env::current_exe().unwrap().with_file_name(name);
    assert!(file.exists(), "{} is built with the tests", file.display());
    file
}

/// `trijet trace` with the library that records, on a machine without a driver.
fn trace(desk: &Desk, options: &[&str], program: &[&str]) -> Ran {
    let call = [&["trace"], options, &["--"], program].concat();
    let mut command = desk.command(&call);
    command.env("TRIJET_INJECT", library("libtrijet_inject.so"));
    Ran::from(command.output().unwrap())
}

#[test]
fn the_exit_code_and_the_output_are_the_programs() {
    let desk = Desk::new();
    for code in [0, 1, 7, 255] {
        let ran = trace(&desk, &[], &["sh", "-c", &format!("echo out; echo err >&2; exit {code}")]);
        assert_eq!((ran.code, ran.out.as_str()), (Some(code), "out\n"), "{ran:?}");
        assert!(ran.err.starts_with("err\n"), "{ran:?}");
    }
    let killed = trace(&desk, &[], &["sh", "-c", "kill -TERM $$"]);
    assert_eq!(killed.code, Some(128 + 15), "{killed:?}");
}

#[test]
fn without_a_driver_nothing_is_recorded_and_the_reason_is_said() {
    let desk = Desk::new();
    let ran = trace(&desk, &[], &["true"]);
    assert_eq!(ran.code, Some(0));
    assert!(ran.err.contains("nothing was recorded: there is no CUDA driver"), "{}", ran.err);
    assert!(ran.err.contains("libcuda.so.1"), "{}", ran.err);
    let json = trace(&desk, &["--json"], &["true"]).json();
    assert!(json["missing"].as_str().unwrap().contains("no CUDA driver"), "{json}");
    assert_eq!(json["processes"].as_array().map(Vec::len), Some(0));
}

#[test]
fn a_missing_library_is_named_and_the_program_runs() {
    let desk = Desk::new();
    let mut command = desk.command(&["trace", "--", "sh", "-c", "exit 4"]);
    let ran = Ran::from(command.env("TRIJET_INJECT", "/nonexistent/i.so").output().unwrap());
    assert_eq!(ran.code, Some(4), "{ran:?}");
    for words in ["nothing will be recorded", "/nonexistent/i.so", "TRIJET_INJECT"] {
        assert!(ran.err.contains(words), "{}", ran.err);
    }
}

#[test]
fn a_program_that_cannot_be_started_is_an_error_as_in_a_shell() {
    let desk = Desk::new();
    trace(&desk, &[], &["no-such-program"]).refused(127, &["no-such-program"]);
    desk.file("plain", b"no program");
    trace(&desk, &[], &["./plain"]).refused(126, &["./plain"]);
}

#[test]
fn a_second_tool_is_refused_before_the_program_runs() {
    let desk = Desk::new();
    let mut command = desk.command(&["trace", "--", "touch", "ran"]);
    let ran = Ran::from(command.env("CUDA_INJECTION64_PATH", "other.so").output().unwrap());
    ran.refused(1, &["CUDA_INJECTION64_PATH", "another tool"]);
    assert!(!desk.exists("ran"));
}

#[test]
fn a_program_or_a_recording_is_needed_and_one_only() {
    let desk = Desk::new();
    desk.trijet(&["trace"]).refused(2, &["COMMAND"]);
    desk.trijet(&["trace", "--read", "a", "--", "true"]).refused(2, &["--read"]);
    desk.trijet(&["trace", "--read", "a", "-o", "b"]).refused(2, &["--read", "--output"]);
}

/// The empty driver loads the recorder as a real one does, and stands in for CUPTI as a library
/// that opens and lacks everything.
#[test]
fn a_program_whose_cupti_is_no_cupti_is_recorded_with_the_reason() {
    let desk = Desk::new();
    let empty = library("libempty_cuda.so");
    let program = env!("CARGO_BIN_EXE_trijet");
    for (cupti, words) in
        [("/nonexistent/libcupti.so", "/nonexistent/libcupti.so"), ("libm.so.6", "no `cupti")]
    {
        let mut command = desk.command(&["trace", "-o", "kept.trijet", "--", program, "devices"]);
        command
            .env("TRIJET_INJECT", library("libtrijet_inject.so"))
            .env("TRIJET_LIBCUDA", &empty)
            .env("TRIJET_LIBCUPTI", cupti);
        let ran = Ran::from(command.output().unwrap());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.out.contains("empty driver"), "the program ran: {}", ran.out);
        assert!(ran.err.contains("nothing was recorded") && ran.err.contains(words), "{}", ran.err);
        let kept = desk.trijet(&["trace", "--read", "kept.trijet"]).done();
        assert!(kept.contains("not recorded") && kept.contains(words), "{kept}");
    }
}

#[test]
fn a_recording_that_is_damaged_is_refused_with_its_place() {
    let desk = Desk::new();
    let read = ["trace", "--read", "kept.trijet"];
    desk.trijet(&read).refused(1, &["kept.trijet", "No such file"]);
    desk.file("kept.trijet", b"\x93NUMPY, which is something else");
    desk.trijet(&read).refused(1, &["kept.trijet", "byte 0", "no recording"]);
    let mut file = Vec::new();
    trijet::trace::raw::header(&mut file, 1, 130_001, trijet::Nanos(5));
    file.extend([5, 0, 255, 255, 1]);
    fs::write(desk.path("kept.trijet"), &file).unwrap();
    desk.trijet(&read).refused(1, &["kept.trijet", "byte 36", "cut inside"]);
}
