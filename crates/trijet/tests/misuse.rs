//! Programs that the compiler must refuse, each with its accepted form.
//!
//! Each folder of `misuse/` is a case: `bad.rs`, the compiler's errors in `bad.stderr`, and
//! `fixed.rs`, which this test program compiles and runs as well, because one program builds faster
//! than one for each case. The two files differ in a few lines, so that the case fails for its own
//! reason. `MISUSE=overwrite cargo test --test misuse` writes the errors of another compiler.
//! Read the difference before you commit it: the error codes must stay.
//!
//! The compiler reads the library that cargo built for this program, so a case takes a tenth of a second.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The most lines by which the two forms may differ, counted in both directions.
const OWN_LINES_MAX: usize = 6;

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/misuse");
    let entries = fs::read_dir(folder).expect("the cases lie beside the tests");
    entries.map(|entry| entry.expect("a readable folder").path()).collect()
}

fn text(case: &Path, name: &str) -> String {
    let path = case.join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

macro_rules! fixed {
    ($($case:ident)*) => {
        /// The fixed forms that are compiled here.
        const FIXED: &[&str] = &[$(stringify!($case)),*];

        $(mod $case {
            include!(concat!("misuse/", stringify!($case), "/fixed.rs"));

            #[test]
            fn in_its_fixed_form_is_accepted_and_runs() {
                main().expect("it does nothing that may fail");
            }
        })*
    };
}

fixed! {
    a_graph_gets_one_buffer_to_read_and_to_write
    weights_of_a_replay_are_dropped
    a_dynamic_launch_reads_and_writes_one_buffer
    a_host_function_borrows_a_local
    a_host_function_keeps_what_one_thread_owns
    a_kernel_declared_without_a_promise
    a_download_target_read_before_the_scope_ends
    a_pipeline_writes_what_is_read
    a_read_argument_where_the_kernel_writes
    a_reduction_names_nccl_larger_elements
    a_scope_escapes_its_closure
    a_scope_downloads_into_memory_that_is_gone
    a_split_buffer_is_used
    a_view_leaves_the_block_of_its_buffer
    a_vector_is_given_as_a_source
    a_view_outlives_its_buffer
    an_integer_where_the_kernel_takes_a_float
    arguments_of_a_user_defined_type
    elements_of_another_type
    elements_that_are_bool
    elements_that_are_not_declared_plain
    elements_that_are_references
    elements_with_padding
    guard_outlives_a_moved_buffer
    one_buffer_read_and_written_by_a_launch
    overlapping_parts_in_one_launch
    read_guard_alive_while_written
    two_mutable_views
    two_write_guards
    write_guard_alive_while_read
}

#[test]
fn the_fixed_form_of_every_case_is_compiled() {
    let folders = cases();
    let name = |case: &PathBuf| case.file_name().map(|name| name.to_string_lossy().into_owned());
    let folders: BTreeSet<String> = folders.iter().filter_map(name).collect();
    assert_eq!(folders, FIXED.iter().map(|name| (*name).to_owned()).collect());
}

/// The compiler, and the libraries that the cases use.
struct Compiler {
    /// The folder in which cargo keeps the libraries of this program.
    libraries: PathBuf,
    trijet: PathBuf,
    bytemuck: PathBuf,
    output: TempDir,
}

impl Compiler {
    /// The compiler with the newest libraries that fit each other. Cargo has just built them, or has found that
    /// they are newer than their sources. Other features and other compilers leave older ones.
    fn new() -> Self {
        let program = std::env::current_exe().expect("this program");
        let libraries = program.parent().expect("it lies in a folder").to_owned();
        let (trijets, bytemucks) = (newest(&libraries, "trijet"), newest(&libraries, "bytemuck"));
        let mut answers = String::new();
        for (trijet, bytemuck) in trijets.iter().flat_map(|t| bytemucks.iter().map(move |b| (t, b)))
        {
            let compiler = Self {
                libraries: libraries.clone(),
                trijet: trijet.clone(),
                bytemuck: bytemuck.clone(),
                output: TempDir::new().expect("a folder"),
            };
            // It uses both libraries.
            match compiler.answer("elements_with_padding/fixed.rs") {
                None => return compiler,
                Some(answer) => answers += &answer,
            }
        }
        panic!("no libraries in {} fit: {answers}", libraries.display());
    }

    /// The answer of the compiler to a file of the cases; `None` if it accepts the file.
    fn answer(&self, file: &str) -> Option<String> {
        let named = |name: &str, library: &Path| format!("{name}={}", library.display());
        let output = Command::new("rustc")
            .args(["--edition=2024", "--crate-name=case", "--emit=metadata", "--out-dir"])
            .arg(self.output.path())
            .args(["--extern", &named("trijet", &self.trijet)])
            .args(["--extern", &named("bytemuck", &self.bytemuck)])
            .args(["-L", &named("dependency", &self.libraries)])
            .arg(format!("{PACKAGE}tests/misuse/{file}"))
            // The library was compiled here, and its lines are shown if they are found.
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
            .output()
            .expect("the compiler starts");
        let answer = String::from_utf8(output.stderr).expect("text");
        (!output.status.success()).then(|| shown(&answer))
    }
}

/// The folder of the package in the repository.
const PACKAGE: &str = "crates/trijet/";

/// The compiled forms of a library, the newest first.
fn newest(folder: &Path, library: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder of this program");
    let mut found = Vec::new();
    for entry in entries.map(|entry| entry.expect("a readable folder")) {
        let name = entry.file_name().into_string().expect("text");
        if name.starts_with(&format!("lib{library}-")) && name.ends_with(".rlib") {
            let changed = entry.metadata().and_then(|file| file.modified()).expect("a time");
            found.push((changed, entry.path()));
        }
    }
    found.sort_unstable();
    found.into_iter().rev().map(|(_, path)| path).collect()
}

/// An answer with the paths of the package, and without its last words and names of temporary files.
fn shown(answer: &str) -> String {
    let others = [
        "error: aborting due to ",
        "For more information about this error",
        "= note: the full name for the type has been written to",
        "= note: consider using `--verbose` to print the full type name",
    ];
    let is_other = |line: &str| others.iter().any(|other| line.trim_start().starts_with(other));
    let lines = answer.lines().filter(|line| !is_other(line));
    let lines: Vec<String> = lines.map(|line| line.replace(PACKAGE, "")).collect();
    lines.join("\n").trim_end().to_owned() + "\n"
}

/// The lines of an answer without what other lines of the library change: their numbers, the indentation
/// for the longest of these numbers, and counts of types.
fn lasting(answer: &str) -> Vec<&str> {
    let mut kept = Vec::new();
    let mut is_elsewhere = false;
    for line in answer.lines().map(str::trim_start).filter(|line| !line.is_empty()) {
        let numbered = line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
        if let Some(place) = line.strip_prefix("--> ") {
            is_elsewhere = !place.starts_with("tests/misuse/");
            kept.push(place.split(':').next().filter(|_| is_elsewhere).unwrap_or(place));
        } else if line.starts_with("and ") && line.ends_with(" others") {
            kept.push("and others");
        } else if is_elsewhere && numbered.starts_with('|') {
            kept.push(numbered);
        } else {
            is_elsewhere &= line == "...";
            kept.push(line);
        }
    }
    kept
}

#[test]
fn the_compiler_refuses_each_misuse() {
    let compiler = Compiler::new();
    let overwrites = std::env::var("MISUSE").is_ok_and(|what| what == "overwrite");
    let mut wrong = String::new();
    for case in cases() {
        let name = case.file_name().and_then(|name| name.to_str()).expect("text");
        let answer = compiler.answer(&format!("{name}/bad.rs"));
        let answer = answer.unwrap_or_else(|| panic!("{name}: the compiler accepts it"));
        if overwrites {
            fs::write(case.join("bad.stderr"), &answer).expect("it is written");
        } else if lasting(&answer) != lasting(&text(&case, "bad.stderr")) {
            wrong += &format!("{name}: the compiler answers\n{answer}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn other_lines_of_the_library_do_not_change_an_answer() {
    let text = "error: no\n --> tests/misuse/a/bad.rs:9:1\n  |\n9 | f();\n";
    let library = |file: &str, line: &str, count: usize| {
        let place =
            format!("{text}note: a bound\n  --> src/{file}.rs:{line}:4\n  |\n{line} | fn f\n");
        format!("{place}and {count} others\n")
    };
    assert_eq!(lasting(&library("a", "12", 3)), lasting(&library("a", "1234", 30)));
    assert_ne!(lasting(&library("a", "12", 3)), lasting(&library("b", "12", 3)));
    // The lines of the case itself stay.
    assert_ne!(lasting(text), lasting(&text.replace("9 |", "8 |")));
    assert_ne!(lasting(text), lasting(&text.replace("9:1", "9:2")));
}

#[test]
fn a_case_differs_from_its_fixed_form_in_a_few_lines() {
    for case in cases() {
        let (bad, fixed) = (text(&case, "bad.rs"), text(&case, "fixed.rs"));
        let missing = |from: &str, other: &str| {
            from.lines().filter(|line| !other.lines().any(|o| o.trim() == line.trim())).count()
        };
        assert_ne!(bad, fixed, "{}", case.display());
        let own = missing(&bad, &fixed) + missing(&fixed, &bad);
        assert!(own <= OWN_LINES_MAX, "{}: {own} lines of their own", case.display());
    }
}

/// A case must not fail because of a missing import.
#[test]
fn each_misuse_is_one_error_of_the_checks_it_is_about() {
    for case in cases() {
        let answer = text(&case, "bad.stderr");
        let errors: Vec<&str> = answer.lines().filter(|line| line.starts_with("error")).collect();
        assert_eq!(errors.len(), 1, "{}: {errors:?}", case.display());
        for unresolved in ["E0425", "E0432", "E0433", "E0412"] {
            assert!(!errors[0].contains(unresolved), "{}: {errors:?}", case.display());
        }
    }
}
